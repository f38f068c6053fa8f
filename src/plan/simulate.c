/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c - drives the plan over virtual nodes. See millrace/simulate.h. */
#include <math.h>
#include <millrace/millrace.h>
#include <millrace/simulate.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "plan/placement.h"
#include "plan/share.h"

enum { SHARE_STORAGE, SHARE_STRICT, SHARE_LOCAL, N_SHARES };
static const char *const share_names[] = {"storage", "strict", "local"};

/* ---- The document ---- */

typedef struct scenario {
    int64_t samples, sample_bytes, ranks_per_node, memory, storage, network, steps, epoch, seed;
    double prepare, train;
    mr_ints nodes, local_batch;
} scenario;

#define ROW(field, of_kind, default_value, least, most, words)                                     \
    {                                                                                              \
        .name = #field, .kind = of_kind, .offset = offsetof(scenario, field),                      \
        .fallback = default_value, .min = least, .max = most, .doc = words                         \
    }

static const mr_param rows[] = {
    ROW(samples, MR_PARAM_INT, NULL, 1, 0x1p40, "Samples of the dataset."),
    ROW(sample_bytes, MR_PARAM_BYTES, NULL, 1, 0x1p40, "Bytes of a sample."),
    ROW(nodes, MR_PARAM_INTS, NULL, 1, MR_MAX_HOLDERS, "Numbers of nodes to simulate."),
    ROW(ranks_per_node, MR_PARAM_INT, "1", 1, 1024, "Ranks that share a node's memory."),
    ROW(local_batch, MR_PARAM_INTS, "64", 1, 1 << 20, "Samples of a rank's batch."),
    ROW(memory, MR_PARAM_BYTES, NULL, 0, 0x1p60, "Bytes that a node keeps at most."),
    ROW(storage, MR_PARAM_BYTES, NULL, 1, 0x1p60, "Bytes a second, of all nodes together."),
    ROW(network, MR_PARAM_BYTES, NULL, 1, 0x1p60, "Bytes a second of a node, in each direction."),
    ROW(prepare, MR_PARAM_FLOAT, NULL, 1e-6, 1e15, "Samples a second that a node prepares."),
    ROW(train, MR_PARAM_FLOAT, "0", 0, 1e15,
        "Samples a second that a node trains on; 0: loading alone."),
    ROW(steps, MR_PARAM_INT, "16", 1, 1 << 20, "Steps to simulate, at most an epoch's."),
    ROW(epoch, MR_PARAM_INT, "1", 0, 1 << 30, "Which epoch; in epoch 0 nothing is kept yet."),
    ROW(seed, MR_PARAM_INT, "1", 0, 0x1p53, "Of order and placement."),
    {.name = NULL},
};

static mr_status read_scenario(scenario *out, const char *text, size_t size, mr_error *err) {
    json_t *document = NULL;
    json_error_t error;
    mr_status status = mr_json_load(&document, text, size, JSON_REJECT_DUPLICATES, &error);
    if (status == MR_E_MEMORY) {
        return mr_fail_memory(err, size);
    }
    if (status < 0) {
        return mr_fail(err, MR_E_PARAM, "not JSON: line %d, column %d: %s", error.line,
                       error.column, error.text);
    }
    status = json_is_object(document)
                 ? mr_params_fill(rows, document, "$", "simulation", NULL, out, err)
                 : mr_fail(err, MR_E_PARAM, "a simulation is a JSON object");
    json_decref(document);
    return status;
}

/* ---- One configuration ---- */

/* So many nodes, and all that their steps need. */
typedef struct cluster {
    const scenario *given;
    int32_t nodes;
    int64_t local_batch;
    mr_share share;
    mr_course *course;
    mr_course_cursor *cursor;
    mr_placement *placement;
    mr_balance *balance;
    mr_pick *picks;
    int32_t *holder, *maker; /* nodes, of each slot */
    int64_t *quota, *sent, *received;
} cluster;

static void close_cluster(cluster *c) {
    mr_balance_free(c->balance);
    mr_placement_free(c->placement);
    mr_course_cursor_free(c->cursor);
    mr_course_free(c->course);
    mr_free(c->picks);
    mr_free(c->holder);
    mr_free(c->maker);
    mr_free(c->quota);
    mr_free(c->sent);
    mr_free(c->received);
}

static mr_status open_tables(cluster *c, mr_error *err) {
    size_t slots = (size_t)c->share.schedule.batch, nodes = (size_t)c->nodes;
    c->picks = mr_zalloc(slots, sizeof *c->picks);
    c->holder = mr_zalloc(slots, sizeof *c->holder);
    c->maker = mr_zalloc(slots, sizeof *c->maker);
    c->quota = mr_zalloc(nodes, sizeof *c->quota);
    c->sent = mr_zalloc(nodes, sizeof *c->sent);
    c->received = mr_zalloc(nodes, sizeof *c->received);
    bool whole = c->picks && c->holder && c->maker && c->quota && c->sent && c->received;
    return whole ? MR_OK : mr_fail_memory(err, slots * sizeof *c->picks);
}

static mr_status open_placement(cluster *c, mr_error *err) {
    const scenario *g = c->given;
    int64_t *capacity = mr_zalloc((size_t)c->nodes, sizeof *capacity);
    if (!capacity) {
        return mr_fail_memory(err, (size_t)c->nodes * sizeof *capacity);
    }
    for (int32_t n = 0; n < c->nodes; n++) {
        capacity[n] = g->memory;
    }
    mr_placement_config config = {.holders = c->nodes,
                                  .capacity = capacity,
                                  .items = g->samples,
                                  .item_bytes = g->sample_bytes,
                                  .replicas = 1,
                                  .seed = (uint64_t)g->seed};
    mr_status status = mr_placement_open(&c->placement, &config, err);
    mr_free(capacity);
    return status;
}

static mr_status open_cluster(cluster *c, mr_error *err) {
    const scenario *g = c->given;
    int64_t ranks = c->nodes * g->ranks_per_node;
    mr_course_config config = {
        .samples = g->samples, .shuffle = true, .lanes = 1, .seed = (uint64_t)g->seed};
    c->share = (mr_share){.schedule = {.n = g->samples,
                                       .batch = ranks * c->local_batch,
                                       .world = ranks,
                                       .remainder = MR_KEEP,
                                       .first_epoch = g->epoch,
                                       .epochs = g->epoch + 1},
                          .lanes = 1};
    MR_TRY(mr_schedule_check(&c->share.schedule, err));
    MR_TRY(mr_course_open(&c->course, &config, err));
    MR_TRY(mr_course_cursor_open(&c->cursor, c->course, err));
    MR_TRY(open_placement(c, err));
    MR_TRY(mr_balance_open(&c->balance, c->share.schedule.batch, c->nodes, err));
    return open_tables(c, err);
}

/* ---- Closed forms ---- */

/* Of the samples of a batch, the part that local shares move: surpluses of a normal distribution
 * with b samples a node, of which the part a is kept. With a = 1: sqrt(1 - 1/p) / sqrt(2 pi b). */
static double moved_part(double b, double p, double a) {
    double sigma = sqrt(a * b * (1 - a / p)), k = sigma > 0 ? (1 - a) * b / sigma : 0;
    double density = exp(-k * k / 2) / sqrt(2 * acos(-1)), tail = erfc(k / sqrt(2)) / 2;
    return sigma / b * (density - k * tail);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void predict(const cluster *c, int32_t share, mr_simulated_step *out) {
    const scenario *g = c->given;
    double p = c->nodes, d = (double)out->samples, size = (double)g->sample_bytes;
    double fits = p * (double)g->memory / ((double)g->samples * size);
    double a = share == SHARE_STORAGE ? 0 : fits < 1 ? fits : 1;
    double part = share == SHARE_LOCAL ? moved_part(d / p, p, a) : a * (p - 1) / p;
    double read = (g->epoch == 0 ? 1 : 1 - a) * d * size / (double)g->storage;
    double move = part * d * size / (p * (double)g->network);
    double prepare = d / (p * g->prepare), train = g->train > 0 ? d / (p * g->train) : 0;
    out->model = larger(larger(read, move), larger(prepare, train));
    out->paper = larger(read + move + prepare, train);
}

/* ---- Steps ---- */

static void find_makers(cluster *c, int32_t share, const mr_slice *step) {
    mr_share_quotas(&c->share, step, c->given->ranks_per_node, c->quota);
    if (share == SHARE_LOCAL) {
        mr_balance_step(c->balance, c->holder, step->count, c->quota);
        memcpy(c->maker, mr_balance_makers(c->balance), (size_t)step->count * sizeof *c->maker);
        return;
    }
    int64_t k = 0; /* contiguous ranks, so contiguous nodes */
    for (int32_t n = 0; n < c->nodes; n++) {
        for (int64_t i = 0; i < c->quota[n]; i++) {
            c->maker[k++] = n;
        }
    }
}

static void count_bytes(cluster *c, const mr_slice *step, mr_simulated_step *out) {
    int64_t size = c->given->sample_bytes, moved = 0;
    memset(c->sent, 0, (size_t)c->nodes * sizeof *c->sent);
    memset(c->received, 0, (size_t)c->nodes * sizeof *c->received);
    for (int64_t k = 0; k < step->count; k++) {
        int32_t from = c->holder[k], to = c->maker[k];
        bool cold = from >= 0 && c->given->epoch == 0; /* its holder reads it first */
        out->from_storage += from < 0 || cold ? size : 0;
        out->from_own += from == to && !cold ? size : 0;
        if (from >= 0 && from != to) {
            out->from_peers += size;
            c->sent[from] += size;
            c->received[to] += size;
            moved++;
        }
    }
    out->imbalance = (double)moved / (double)step->count;
}

/* Strict makers take runs of slots: a pair is new where the giver was not met in this run. */
static int64_t count_pairs(cluster *c, const mr_slice *step) {
    int64_t pairs = 0, *met = c->quota; /* of each giver the last receiver; quotas are used up */
    memset(met, -1, (size_t)c->nodes * sizeof *met);
    for (int64_t k = 0; k < step->count; k++) {
        int32_t from = c->holder[k], to = c->maker[k];
        if (from >= 0 && from != to && met[from] != to) {
            met[from] = to;
            pairs++;
        }
    }
    return pairs;
}

static int64_t most(const int64_t *v, int32_t n) {
    int64_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        best = v[i] > best ? v[i] : best;
    }
    return best;
}

static void time_step(cluster *c, int64_t most_made, mr_simulated_step *out) {
    const scenario *g = c->given;
    int64_t sent = most(c->sent, c->nodes), received = most(c->received, c->nodes);
    out->storage_seconds = (double)out->from_storage / (double)g->storage;
    out->network_seconds = (double)(sent > received ? sent : received) / (double)g->network;
    out->prepare_seconds = (double)most_made / g->prepare;
    out->train_seconds = g->train > 0 ? (double)most_made / g->train : 0;
    out->seconds = larger(larger(out->storage_seconds, out->network_seconds),
                          larger(out->prepare_seconds, out->train_seconds));
}

static mr_status simulate_step(cluster *c, int32_t share, int64_t i, mr_simulated_fn *each,
                               void *context, mr_error *err) {
    mr_slice step = mr_share_step(&c->share, i);
    mr_positions all = {step.first, step.count, 1, 1};
    int32_t messages = 0;
    MR_TRY(mr_course_list(c->cursor, (uint32_t)step.epoch, &all, c->picks, err));
    if (share == SHARE_STORAGE) {
        memset(c->holder, -1, (size_t)step.count * sizeof *c->holder);
    } else {
        mr_placement_list(c->placement, c->picks, step.count, c->holder);
    }
    find_makers(c, share, &step);
    mr_simulated_step out = {.nodes = c->nodes,
                             .ranks = c->share.schedule.world,
                             .local_batch = c->local_batch,
                             .share = share_names[share],
                             .epoch = step.epoch,
                             .step = step.step,
                             .samples = step.count,
                             .bytes = step.count * c->given->sample_bytes};
    count_bytes(c, &step, &out);
    time_step(c, most(c->quota, c->nodes), &out);
    predict(c, share, &out);
    if (share == SHARE_LOCAL) {
        mr_balance_moves(c->balance, &messages);
    }
    out.messages = share == SHARE_LOCAL ? messages : count_pairs(c, &step);
    each(context, &out);
    return MR_OK;
}

static mr_status simulate_shares(cluster *c, mr_simulated_fn *each, void *context, mr_error *err) {
    int64_t steps = mr_share_steps(&c->share);
    steps = steps < c->given->steps ? steps : c->given->steps;
    for (int32_t share = 0; share < N_SHARES; share++) {
        for (int64_t i = 0; i < steps; i++) {
            MR_TRY(simulate_step(c, share, i, each, context, err));
        }
    }
    return MR_OK;
}

mr_status mr_simulate(const char *document, size_t size, mr_simulated_fn *each, void *context,
                      mr_error *err) {
    scenario given = {0};
    MR_TRY(read_scenario(&given, document, size, err));
    for (int32_t b = 0; b < given.local_batch.n; b++) {
        for (int32_t n = 0; n < given.nodes.n; n++) {
            cluster c = {.given = &given,
                         .nodes = (int32_t)given.nodes.v[n],
                         .local_batch = given.local_batch.v[b]};
            mr_status status = open_cluster(&c, err);
            if (status == MR_OK) {
                status = simulate_shares(&c, each, context, err);
            }
            close_cluster(&c);
            MR_TRY(status);
        }
    }
    return MR_OK;
}
