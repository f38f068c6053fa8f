/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c - millrace simulate: steps on nodes that are not there. */
#include <errno.h>
#include <millrace/simulate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "outputs.h"
#include "simulate_page.h"
#include "simulate_trace.h"

typedef struct simulate_values {
    const char *file, *csv, *page, *trace;
} simulate_values;

/* The last row is being filled; its baseline is that of the "storage" before it. */
typedef struct table {
    FILE *csv;
    mr_simulated_row *rows;
    int32_t n, room;
    bool no_memory;
    double storage_rate;
} table;

static void print_heading(void) {
    puts("                           % of bytes from      imbalance     most   samples a    times "
         "            time against\n"
         "nodes  ranks  batch  share    store    own   peers       %  messages      second  "
         "storage  bound by   model  paper");
}

static void print_row(table *t, const mr_simulated_row *r) {
    const mr_simulated_step *s = &r->sum;
    double bytes = (double)s->bytes, rate = mr_simulated_rate(r);
    t->storage_rate = strcmp(s->share, "storage") == 0 ? rate : t->storage_rate;
    printf("%5d %6d %6d  %-8s %6.1f %6.1f %6.1f %9.2f %8d %11.0f %8.2f  %-9s %6.3f %6.3f\n",
           (int)s->nodes, (int)s->ranks, (int)s->local_batch, s->share,
           100 * (double)s->from_storage / bytes, 100 * (double)s->from_own / bytes,
           100 * (double)s->from_peers / bytes, 100 * s->imbalance / (double)r->steps,
           (int)r->most_messages, rate, rate / t->storage_rate, mr_simulated_bound(r),
           s->seconds / s->model, s->seconds / s->paper);
}

static bool is_same(const mr_simulated_step *a, const mr_simulated_step *b) {
    return a->nodes == b->nodes && a->local_batch == b->local_batch && a->share == b->share;
}

static void add(mr_simulated_step *sum, const mr_simulated_step *s) {
    sum->samples += s->samples;
    sum->bytes += s->bytes;
    sum->from_storage += s->from_storage;
    sum->from_own += s->from_own;
    sum->from_peers += s->from_peers;
    sum->imbalance += s->imbalance;
    sum->storage_seconds += s->storage_seconds;
    sum->network_seconds += s->network_seconds;
    sum->prepare_seconds += s->prepare_seconds;
    sum->train_seconds += s->train_seconds;
    sum->seconds += s->seconds;
    sum->model += s->model;
    sum->paper += s->paper;
}

static void write_csv(FILE *csv, const mr_simulated_step *s) {
    fprintf(csv, "%lld,%lld,%lld,%s,%lld,%lld,%lld,%lld,%lld,%lld,%.6f,%lld,%.9g,%.9g,%.9g,%.9g,",
            (long long)s->nodes, (long long)s->ranks, (long long)s->local_batch, s->share,
            (long long)s->epoch, (long long)s->step, (long long)s->samples,
            (long long)s->from_storage, (long long)s->from_own, (long long)s->from_peers,
            s->imbalance, (long long)s->messages, s->storage_seconds, s->network_seconds,
            s->prepare_seconds, s->train_seconds);
    fprintf(csv, "%.9g,%.9g,%.9g\n", s->seconds, s->model, s->paper);
}

static mr_simulated_row *add_row(table *t) {
    if (t->n == t->room) {
        int32_t room = 2 * t->room + 8;
        mr_simulated_row *rows = realloc(t->rows, (size_t)room * sizeof *rows);
        t->no_memory = t->no_memory || !rows;
        t->rows = rows ? rows : t->rows;
        t->room = rows ? room : t->room;
    }
    return t->n < t->room ? &t->rows[t->n++] : NULL;
}

static void end_row(table *t) {
    if (t->n == 1) {
        print_heading();
    }
    if (t->rows && t->n > 0) {
        print_row(t, &t->rows[t->n - 1]);
    }
}

static void take_step(void *context, const mr_simulated_step *step) {
    table *t = context;
    mr_simulated_row *r = t->n > 0 ? &t->rows[t->n - 1] : NULL;
    if (t->csv) {
        write_csv(t->csv, step);
    }
    if (r && is_same(&r->sum, step)) {
        add(&r->sum, step);
        r->most_messages = step->messages > r->most_messages ? step->messages : r->most_messages;
        r->steps++;
        return;
    }
    end_row(t);
    r = add_row(t);
    if (r) {
        *r = (mr_simulated_row){*step, 1, step->messages};
    }
}

/* ---- Files ---- */
static mr_status fail_file(const char *path, mr_error *err) {
    return mr_fail(err, MR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* The document as it was written, or as much of it as anybody writes. */
static void read_given(const char *path, char *given, size_t size) {
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(given, 1, size - 1, file) : 0;
    given[n] = '\0';
    if (file) {
        fclose(file);
    }
}

/* given: the document; NULL: as it stands in the file. */
static mr_status write_page(const simulate_values *v, table *t, const char *given, mr_error *err) {
    size_t size = 0;
    char own[16 << 10];
    if (!given) {
        read_given(v->file, own, sizeof own);
    }
    char *text = mr_simulate_page(t->rows, t->n, v->file, given ? given : own, &size);
    mr_status status = text ? mr_file_replace(v->page, text, size, err)
                            : mr_fail(err, MR_E_MEMORY, "out of memory");
    free(text);
    return status;
}

static mr_status check_files(const simulate_values *v, mr_error *err) {
    const mr_named_file files[] = {{"FILE", v->file, true},
                                   {"--trace", v->trace, true},
                                   {"--out", v->page, false},
                                   {"--csv", v->csv, false}};
    return mr_outputs_check(files, 4, err);
}

static mr_status open_csv(const simulate_values *v, table *t, mr_error *err) {
    t->csv = v->csv ? fopen(v->csv, "w") : NULL;
    if (v->csv && !t->csv) {
        return fail_file(v->csv, err);
    }
    if (t->csv) {
        fputs("nodes,ranks,local_batch,share,epoch,step,samples,storage_bytes,own_bytes,peer_bytes,"
              "imbalance,messages,storage_seconds,network_seconds,prepare_seconds,train_seconds,"
              "seconds,model_seconds,paper_seconds\n",
              t->csv);
    }
    return MR_OK;
}

/* ---- The command ---- */
static mr_status simulate(const simulate_values *v, const char *given, table *t, mr_error *err) {
    mr_status status = given ? mr_simulate(given, strlen(given), take_step, t, err)
                             : mr_simulate_file(v->file, take_step, t, err);
    end_row(t);
    return status;
}

static mr_status write_files(const simulate_values *v, const char *given, table *t, mr_error *err) {
    mr_status status = t->no_memory ? mr_fail(err, MR_E_MEMORY, "out of memory") : MR_OK;
    if (t->csv && (ferror(t->csv) | fclose(t->csv)) != 0) {
        status = fail_file(v->csv, err);
    }
    t->csv = NULL;
    return status == MR_OK && v->page ? write_page(v, t, given, err) : status;
}

static int run_simulate(const void *values) {
    const simulate_values *v = values;
    table t = {0};
    char *given = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_status status = check_files(v, &err);
    if (status == MR_OK && v->trace) {
        status = mr_simulate_measured(v->file, v->trace, &given, &err);
    }
    status = status == MR_OK ? open_csv(v, &t, &err) : status;
    if (status < 0) {
        free(given);
        return mr_error_print(&err);
    }
    status = simulate(v, given, &t, &err);
    int code = status < 0 ? mr_error_print_document(&err, v->file) : MR_EXIT_OK;
    if (status == MR_OK) {
        status = write_files(v, given, &t, &err);
        code = status < 0 ? mr_error_print(&err) : MR_EXIT_OK;
    }
    if (t.csv) {
        fclose(t.csv);
    }
    free(t.rows);
    free(given);
    return code;
}

static const mr_option_row operands[] = {
    {.name = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, file),
     .doc = "A document with the nodes and their rates: docs/fabric.md."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "out",
     .argument = "FILE",
     .letter = 'o',
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, page),
     .doc = "Write a page for a browser, with curves over the nodes, complete in one file."},
    {.name = "csv",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, csv),
     .doc = "Write every step to this file."},
    {.name = "trace",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, trace),
     .doc = "Take from this trace of a run what the document does not say: sample_bytes, storage "
            "(what that rank had of it), prepare and train."},
    {.name = NULL},
};

const mr_command mr_command_simulate = {
    .name = "simulate",
    .summary = "Reckon what loading costs on many nodes.",
    .doc =
        "Runs the plan itself (order, shares, placement and balance of steps) over any number of "
        "virtual nodes, with rates for storage, network, preparing and training from the file. "
        "Shows for each number of nodes, where nothing is kept and for strict and local shares, "
        "where bytes come from, what moves and what bounds the speed; and the simulated time "
        "as a multiple of a model's in closed form and of Yang and Cong's equations.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(simulate_values),
    .run = run_simulate,
};
