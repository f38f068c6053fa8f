/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - one HTML file that holds its style, its script and its figures, and needs nothing else.
 */
#include "trace/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "io/whole.h"
#include "trace/ranks.h"

/* ---- Figures ---- */
static json_t *run_json(const mr_summary *s) {
    json_t *run = mr_summary_json(s);
    bool lost = false;
    if (run) {
        mr_json_set(run, "timeline", mr_timeline_json(s), &lost);
    }
    return mr_json_whole(run, lost);
}

/* photos: where to look for pictures of the samples; NULL: nowhere. */
static mr_status add_run(json_t *page, const mr_trace *trace, const char *photos, mr_error *err) {
    mr_summary *s = mr_zalloc(1, sizeof *s);
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    mr_status status = mr_summary_make(s, trace, err);
    if (status == MR_OK) {
        json_t *run = run_json(s);
        if (run && photos) {
            status = mr_pictures_add(photos, page, json_object_get(run, "slowest"), err);
        }
        if (!run || json_array_append_new(json_object_get(page, "runs"), run) != 0) {
            status = mr_fail_memory(err, 4096);
        }
        mr_summary_free(s);
    }
    mr_free(s);
    return status;
}

static mr_status add_ranks(json_t *page, const mr_ranks *ranks, mr_error *err) {
    return json_object_set_new(page, "ranks", mr_ranks_json(ranks)) == 0
               ? MR_OK
               : mr_fail_memory(err, 4096);
}

/* ---- The file ---- */
/* Inside a script element "</script" would end it, and "<!--<script" would keep its end from being
 * seen. In JSON "<" stands in strings alone, and any character of those may be a number. */
static void put_json(FILE *out, const char *json) {
    for (const char *end; (end = strchr(json, '<')) != NULL; json = end + 1) {
        fwrite(json, 1, (size_t)(end - json), out);
        fputs("\\u003c", out);
    }
    fputs(json, out);
}

/* The page with each @PART@ in its place. */
static void put_page(FILE *out, const char *json) {
    const char *at = mr_page_html;
    for (const char *mark; (mark = strchr(at, '@')) != NULL; at = strchr(mark + 1, '@') + 1) {
        fwrite(at, 1, (size_t)(mark - at), out);
        if (mark[1] == 'D') {
            put_json(out, json);
        } else {
            fputs(mark[2] == 'T' ? mr_page_css : mr_page_js, out);
        }
    }
    fputs(at, out);
}

/* 0, or an errno. */
static int write_page(int fd, const char *json) {
    int copy = dup(fd);
    FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (!out) {
        int failed = errno;
        if (copy >= 0) {
            close(copy);
        }
        return failed;
    }
    put_page(out, json);
    int failed = ferror(out) ? EIO : 0;
    errno = 0;
    return fclose(out) != 0 ? errno : failed;
}

/* Takes the page. */
static mr_status finish_page(json_t *page, const char *path, mr_error *err) {
    char *json = json_dumps(page, JSON_COMPACT | JSON_REAL_PRECISION(9));
    mr_whole_file file;
    json_decref(page);
    if (!json) {
        return mr_fail_memory(err, 1 << 20);
    }
    int failed = mr_whole_open(&file, path);
    if (!failed) {
        failed = mr_whole_close(&file, write_page(file.fd, json));
    }
    free(json);
    return failed ? mr_export_failed(path, "the page", failed, err) : MR_OK;
}

mr_status mr_trace_page(const mr_trace *trace, const mr_trace *other, const char *photos,
                        const char *path, mr_error *err) {
    MR_TRY(mr_export_apart(trace, path, err));
    if (other) {
        MR_TRY(mr_export_apart(other, path, err));
    }
    json_t *page = json_pack("{s:[]}", "runs");
    mr_status status = page ? add_run(page, trace, photos, err) : mr_fail_memory(err, 4096);
    if (status == MR_OK && other) {
        status = add_run(page, other, NULL, err);
    }
    if (status < 0) {
        json_decref(page);
        return status;
    }
    return finish_page(page, path, err);
}

mr_status mr_trace_ranks_page(mr_trace *const *traces, int32_t n, const char *photos,
                              const char *path, mr_error *err) {
    mr_ranks ranks;
    for (int32_t i = 0; i < n; i++) {
        MR_TRY(mr_export_apart(traces[i], path, err));
    }
    MR_TRY(mr_ranks_make(&ranks, traces, n, err));
    json_t *page = json_pack("{s:[]}", "runs");
    mr_status status = page ? add_ranks(page, &ranks, err) : mr_fail_memory(err, 4096);
    if (status == MR_OK) {
        status = add_run(page, ranks.list[ranks.slowest].summary.trace, photos, err);
    }
    mr_ranks_free(&ranks);
    if (status < 0) {
        json_decref(page);
        return status;
    }
    return finish_page(page, path, err);
}
