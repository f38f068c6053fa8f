/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c - millrace simulate: steps on nodes that are not there. */
#include <errno.h>
#include <millrace/simulate.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"

typedef struct simulate_values {
    const char *file, *csv;
} simulate_values;

/* Means of the steps of one configuration; its baseline is that of the "storage" before it. */
typedef struct table {
    FILE *csv;
    mr_simulated_step sum;
    int64_t steps, most_messages;
    double storage_rate;
} table;

static const char *bound_by(const mr_simulated_step *s) {
    return s->seconds <= s->train_seconds     ? "training"
           : s->seconds <= s->prepare_seconds ? "preparing"
           : s->seconds <= s->storage_seconds ? "storage"
                                              : "network";
}

static void print_heading(void) {
    puts("                           % of bytes from      imbalance     most   samples a    times "
         "            time against\n"
         "nodes  ranks  batch  share    store    own   peers       %  messages      second  "
         "storage  bound by   model  paper");
}

static void print_row(table *t) {
    const mr_simulated_step *s = &t->sum;
    double bytes = (double)s->bytes, rate = (double)s->samples / s->seconds;
    if (t->steps == 0) {
        return;
    }
    t->storage_rate = strcmp(s->share, "storage") == 0 ? rate : t->storage_rate;
    printf("%5d %6d %6d  %-8s %6.1f %6.1f %6.1f %9.2f %8d %11.0f %8.2f  %-9s %6.3f %6.3f\n",
           (int)s->nodes, (int)s->ranks, (int)s->local_batch, s->share,
           100 * (double)s->from_storage / bytes, 100 * (double)s->from_own / bytes,
           100 * (double)s->from_peers / bytes, 100 * s->imbalance / (double)t->steps,
           (int)t->most_messages, rate, rate / t->storage_rate, bound_by(s), s->seconds / s->model,
           s->seconds / s->paper);
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

static void take_step(void *context, const mr_simulated_step *step) {
    table *t = context;
    if (t->csv) {
        write_csv(t->csv, step);
    }
    if (t->steps > 0 && is_same(&t->sum, step)) {
        add(&t->sum, step);
        t->most_messages = step->messages > t->most_messages ? step->messages : t->most_messages;
        t->steps++;
        return;
    }
    if (t->steps == 0) {
        print_heading();
    }
    print_row(t);
    t->sum = *step;
    t->steps = 1;
    t->most_messages = step->messages;
}

static int fail_csv(const char *path) {
    mr_error err = MR_ERROR_INIT;
    mr_fail(&err, MR_E_IO, "cannot write %s: %s", path, strerror(errno));
    return mr_error_print(&err);
}

static int run_simulate(const void *values) {
    const simulate_values *v = values;
    table t = {.csv = v->csv ? fopen(v->csv, "w") : NULL};
    mr_error err = MR_ERROR_INIT;
    if (v->csv && !t.csv) {
        return fail_csv(v->csv);
    }
    if (t.csv) {
        fputs("nodes,ranks,local_batch,share,epoch,step,samples,storage_bytes,own_bytes,peer_bytes,"
              "imbalance,messages,storage_seconds,network_seconds,prepare_seconds,train_seconds,"
              "seconds,model_seconds,paper_seconds\n",
              t.csv);
    }
    mr_status status = mr_simulate_file(v->file, take_step, &t, &err);
    print_row(&t);
    if (t.csv && (ferror(t.csv) | fclose(t.csv)) != 0) {
        return fail_csv(v->csv);
    }
    return status < 0 ? mr_error_print_document(&err, v->file) : MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, file),
     .doc = "A document with the nodes and their rates: docs/fabric.md."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "csv",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(simulate_values, csv),
     .doc = "Write every step to this file."},
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
