/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - millrace fabric check: tries the links between ranks, or to servers. */
#include <jansson.h>
#include <millrace/fabric.h>
#include <stdio.h>

#include "command.h"
#include "errors.h"
#include "options.h"
#include "ranks.h"
#include "text.h"

typedef struct fabric_values {
    int32_t action;
    const char *url;
    int64_t bytes;
    bool json;
} fabric_values;

static void print_link(const fabric_values *v, const mr_fabric_figures *f) {
    char rate[32], ends[64] = "servers";
    if (f->from >= 0) {
        snprintf(ends, sizeof ends, "rank %d - rank %d", (int)f->from, (int)f->to);
    }
    mr_text_bytes(rate, sizeof rate, (int64_t)f->bandwidth);
    if (!v->json) {
        printf("%-20s %8.1f us  %s/s\n", ends, 1e6 * f->latency, rate);
        return;
    }
    json_t *object = json_object();
    json_object_set_new(object, "from", json_integer(f->from));
    json_object_set_new(object, "to", json_integer(f->to));
    json_object_set_new(object, "latency_seconds", json_real(f->latency));
    json_object_set_new(object, "bytes_per_second", json_real(f->bandwidth));
    mr_json_print(object, MR_DIGITS_SHORT);
}

static void take_link(void *context, const mr_fabric_figures *figures) {
    print_link(context, figures);
}

static int run_fabric(const void *values) {
    fabric_values own = *(const fabric_values *)values;
    mr_error err = MR_ERROR_INIT;
    int64_t world = 0, rank = -1;
    mr_ranks_find(&world, &rank);
    mr_status status =
        mr_fabric_check(own.url, rank < 0 ? 0 : (uint32_t)rank, world < 1 ? 1 : (uint32_t)world,
                        own.bytes, take_link, &own, &err);
    return status < 0 ? mr_error_print(&err) : MR_EXIT_OK;
}

static const char *const actions[] = {"check", NULL};

static const mr_option_row operands[] = {
    {.name = "ACTION",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(fabric_values, action),
     .choices = actions,
     .doc = "check: send short and long messages, and print how long they take."},
    {.name = "URL",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(fabric_values, url),
     .doc = "mpi, where mpirun started several of this command, or redis://HOST[:PORT]."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "bytes",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(fabric_values, bytes),
     .fallback = "1000000",
     .min = 1,
     .max = 1 << 30,
     .doc = "Size of the long messages, of which 16 go at once."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(fabric_values, json),
     .doc = "Print a line of JSON for each link instead of text."},
    {.name = NULL},
};

const mr_command mr_command_fabric = {
    .name = "fabric",
    .summary = "Try the links between ranks, or to servers; print latency and bandwidth.",
    .doc = "For each pair of ranks: half of the shortest round trip of a short message, and the "
           "rate at which long ones go one way. For servers: the shortest time to get a value of "
           "one byte, and the rate of getting long ones, one after the other.\n\n"
           "mpirun -n 4 millrace fabric check mpi",
    .operands = operands,
    .options = options,
    .values_size = sizeof(fabric_values),
    .run = run_fabric,
};
