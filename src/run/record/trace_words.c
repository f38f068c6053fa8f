/* SPDX-License-Identifier: Apache-2.0 */
/* trace_words.c - see trace_words.h. */
#include "run/record/trace_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "run/record/functions.h"

/* ---- The first word ---- */
json_t *mr_trace_tracks(const mr_tracks *tracks, bool *lost) {
    static const char *const kinds[] = {"consumer", "worker", "reader"};
    int32_t numbers[3] = {0, 0, 0};
    json_t *array = json_array();
    for (int32_t i = 0; i < tracks->n; i++) {
        mr_track_kind kind = tracks->list[i]->kind;
        mr_json_append(
            array, json_pack("{s:s, s:i}", "kind", kinds[kind], "number", numbers[kind]++), lost);
    }
    return array;
}

/* ---- What threads dropped and used ---- */
static json_t *dropped_json(const mr_tracks *tracks) {
    json_t *array = json_array();
    for (int32_t i = 0; i < tracks->n; i++) {
        json_array_append_new(array,
                              json_integer((json_int_t)atomic_load(&tracks->list[i]->dropped)));
    }
    return array;
}

static json_t *counts_json(const mr_counts *counts, bool cpus_own) {
    json_t *object = json_object();
    for (int i = 0; i < (cpus_own ? MR_COUNTERS : MR_COUNT_CYCLES); i++) {
        json_object_set_new(object, mr_counter_names[i], json_integer((json_int_t)counts->v[i]));
    }
    return object;
}

static json_t *usage_json(const mr_tracks *tracks) {
    json_t *array = json_array();
    for (int32_t i = 0; i < tracks->n; i++) {
        mr_counts usage;
        mr_track_usage(tracks->list[i], &usage);
        json_array_append_new(array, counts_json(&usage, false));
    }
    return array;
}

/* Of each op, or of the fused ones that begin with it, over all workers. */
static json_t *counters_of_ops(const mr_tracks *tracks, const int32_t *fused, bool cpus_own) {
    json_t *array = json_array();
    for (int32_t op = 0; op < tracks->n_ops; op++) {
        mr_line_counts sum = {0};
        for (int32_t t = 0; t < tracks->n; t++) {
            const mr_line_counts *counts = &tracks->list[t]->counts[mr_line_of_op(op)];
            sum.n += counts->n;
            for (int i = 0; i < MR_COUNTERS; i++) {
                sum.sum.v[i] += counts->sum.v[i];
            }
        }
        if (sum.n > 0) {
            int32_t length = fused ? fused[op] : 1;
            json_array_append_new(array, json_pack("{s:i, s:i, s:I, s:o?}", "op", (int)op, "n_ops",
                                                   length > 1 ? (int)length : 1, "calls",
                                                   (json_int_t)sum.n, "counts",
                                                   counts_json(&sum.sum, cpus_own)));
        }
    }
    return array;
}

static json_t *counters_json(const mr_tracks *tracks, const int32_t *fused) {
    int refused = 0;
    for (int32_t i = 0; i < tracks->n; i++) {
        const mr_track *track = tracks->list[i];
        bool worker = track->kind == MR_TRACK_WORKER;
        refused = worker && track->counters.refused ? track->counters.refused : refused;
    }
    char note[160] = "";
    if (refused) {
        snprintf(
            note, sizeof note,
            "the CPU's own counters are not to be had here (%s): cycles, instructions and cache "
            "misses are missing",
            strerrordesc_np(refused));
    }
    return json_pack("{s:s, s:o?}", "note", note, "ops", counters_of_ops(tracks, fused, !refused));
}

/* ---- Probes ---- */
typedef struct probed {
    int32_t workers, refused;
    uint64_t lost;
    const mr_probes *why; /* of one that was refused, or NULL */
    int64_t unnamed;
} probed;

static probed count_probed(const mr_tracks *tracks) {
    probed all = {0};
    for (int32_t i = 0; i < tracks->n; i++) {
        const mr_probes *probes = &tracks->list[i]->probes;
        all.workers += tracks->list[i]->kind == MR_TRACK_WORKER;
        all.refused += probes->refused != 0;
        all.lost += probes->lost;
        all.why = probes->refused ? probes : all.why;
    }
    return all;
}

static const char *usual_reason(const mr_probes *why) {
    if (why->no_memory) {
        return "; kernel.perf_event_mlock_kb and ulimit -l leave no memory for it";
    }
    return why->refused == EACCES || why->refused == EPERM
               ? "; kernel.perf_event_paranoid above 2 or the rules of a container forbid it"
               : "";
}

static void note_probed(const probed *all, char *note, size_t size) {
    if (all->refused > 0 && all->refused == all->workers) {
        snprintf(note, size,
                 "which functions the ops spend their time in is not to be seen here: the kernel "
                 "lets no thread be probed (%s)%s",
                 strerrordesc_np(all->why->refused), usual_reason(all->why));
    } else if (all->refused > 0) {
        snprintf(note, size,
                 "%d of %d workers could be probed, the kernel refused the others (%s)%s",
                 all->workers - all->refused, all->workers, strerrordesc_np(all->why->refused),
                 usual_reason(all->why));
    } else if (all->unnamed > 0) {
        snprintf(note, size,
                 "%lld probes came after room for their addresses was used up: their "
                 "functions are not named",
                 (long long)all->unnamed);
    }
}

/* What the probes need besides themselves: whether there could be any, and names. */
static json_t *probes_json(const mr_tracks *tracks, mr_drain *drain) {
    const uint64_t *addresses;
    probed all = count_probed(tracks);
    size_t n = mr_drain_addresses(drain, &addresses, &all.unnamed);
    char note[256] = "";
    note_probed(&all, note, sizeof note);
    return json_pack("{s:s, s:I, s:I, s:o?}", "note", note, "period_ns",
                     (json_int_t)MR_PROBE_PERIOD, "lost", (json_int_t)all.lost, "functions",
                     mr_functions_json(addresses, n));
}

/* ---- The last word ---- */
void mr_trace_end(json_t *end, const mr_tracks *tracks, mr_drain *drain, const int32_t *fused) {
    json_object_set_new(end, "ns", json_integer(mr_monotonic_ns() - tracks->clock.start_ns));
    json_object_set_new(end, "dropped", dropped_json(tracks));
    json_object_set_new(end, "usage", usage_json(tracks));
    json_object_set_new(end, "counters", counters_json(tracks, fused));
    json_object_set_new(end, "probes", probes_json(tracks, drain));
}
