/* SPDX-License-Identifier: Apache-2.0 */
/* cache_verify.c - millrace cache verify: every value of a store is read and checked. */
/* MR_REQUIRES(lmdb) */
#include <stdio.h>

#include "cache_parts.h"
#include "errors.h"
#include "progress.h"
#include "stop.h"
#include "text.h"

typedef struct verify {
    mr_progress progress;
    mr_stop stop;
    mr_store_info info;
    int64_t checked, damaged;
    char note[1300]; /* what was made again when the store was opened, or "" */
} verify;

static bool advance(void *user, int64_t done, int64_t damaged) {
    verify *run = user;
    const mr_progress_point point = {.step = done - 1, .steps = done, .samples = done};
    (void)damaged;
    mr_progress_update(&run->progress, &point);
    return atomic_load(&run->stop.signal) == 0;
}

static void take_note(void *user, const char *text) {
    verify *run = user;
    snprintf(run->note, sizeof run->note, "%s", text);
}

static bool is_sound(const verify *run) {
    return run->damaged == 0 && run->note[0] == '\0';
}

/* An index that was made again has what could be read; nobody knows what it had before. */
static void print_finding(const verify *run) {
    bool remade = run->note[0] != '\0';
    if (run->damaged > 0) {
        printf("%lld damaged or missing: made again when next asked for", (long long)run->damaged);
    } else {
        printf("none %sdamaged", remade ? "of them " : "");
    }
    printf("%s", remade ? "; what else the store had is not known any more" : "");
}

static void print_result(const verify *run, int signal) {
    char path[4096], checked[32];
    printf("%s: %s %s checked, ", mr_text_safe(path, sizeof path, run->info.path),
           mr_text_count(checked, sizeof checked, run->checked),
           mr_text_plural(run->checked, "entry", "entries"));
    print_finding(run);
    printf("%s\n", signal ? ", then stopped" : "");
    if (run->note[0]) {
        mr_warning_print(run->note);
    }
}

static json_t *result_json(const verify *run) {
    json_t *object = json_object();
    json_object_set_new(object, "path", mr_json_text(run->info.path));
    json_object_set_new(object, "checked", json_integer(run->checked));
    json_object_set_new(object, "damaged", json_integer(run->damaged));
    json_object_set_new(object, "note", run->note[0] ? mr_json_text(run->note) : json_null());
    return object;
}

/* The total is asked for first, for the bar. */
static mr_status verify_store(verify *run, const char *params, int *signal, mr_error *err) {
    const mr_store_visitor visitor = {
        .size = sizeof visitor, .progress = advance, .user = run, .note = take_note};
    run->note[0] = '\0';
    run->info = (mr_store_info){.size = (uint32_t)sizeof run->info};
    mr_status status = mr_store_stat(params, &visitor, &run->info, err);
    if (status == MR_OK) {
        status = mr_stop_begin(&run->stop, NULL, err);
    }
    if (status != MR_OK) {
        return status;
    }
    mr_progress_begin(&run->progress, true);
    run->progress.in_bytes = true;
    run->progress.epoch_steps = run->progress.run_steps = run->info.bytes;
    status = mr_store_verify(params, &visitor, &run->checked, &run->damaged, err);
    mr_progress_end(&run->progress);
    *signal = mr_stop_end(&run->stop);
    return status;
}

int mr_cache_verify(const mr_cache_values *v, const mr_cache_targets *t) {
    mr_error err = MR_ERROR_INIT;
    verify run = {.checked = 0};
    json_t *stores = json_array();
    bool damaged = false;
    int signal = 0, code = MR_EXIT_OK;
    for (int32_t i = 0; code == MR_EXIT_OK && signal == 0 && i < t->n; i++) {
        if (t->list[i].again) {
            continue;
        }
        if (verify_store(&run, t->list[i].params, &signal, &err) != MR_OK) {
            code = mr_error_print(&err);
        } else if (v->json) {
            json_array_append_new(stores, result_json(&run));
        } else {
            print_result(&run, signal);
        }
        damaged = damaged || !is_sound(&run);
    }
    if (v->json && code == MR_EXIT_OK) {
        mr_json_print(json_pack("{s:O, s:i}", "stores", stores, "signal", signal), MR_DIGITS_SHORT);
    }
    json_decref(stores);
    return code ? code : signal ? 128 + signal : damaged ? MR_EXIT_DIFFERENT : MR_EXIT_OK;
}
