/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c - the figures of a run, for people and as JSON. */
#include "outcome.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "errors.h"
#include "text.h"

enum { SKIPS_SHOWN = 10 };

static mr_stats stats_of(const mr_loader *loader) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    return stats;
}

static double rate_of(const mr_outcome *report, const mr_stats *stats) {
    return report->seconds > 0 ? (double)stats->samples / report->seconds : 0;
}

static int64_t epochs_of(const mr_outcome *report) {
    return report->first_epoch < 0 ? 0 : report->last_epoch - report->first_epoch + 1;
}

static void print_counts(const mr_outcome *report, const mr_stats *stats) {
    char samples[32], batches[32];
    int64_t epochs = epochs_of(report);
    printf("%s %s in %s %s", mr_text_count(samples, sizeof samples, stats->samples),
           mr_text_plural(stats->samples, "sample", "samples"),
           mr_text_count(batches, sizeof batches, stats->batches),
           mr_text_plural(stats->batches, "batch", "batches"));
    if (epochs > 1) {
        printf(" of %lld epochs", (long long)epochs);
    }
    printf("%s\n", report->signal ? ", then stopped" : report->error ? ", then failed" : "");
}

/* ---- Caches ---- */
static bool cache_at(const mr_outcome *report, int32_t i, mr_cache_stats *out) {
    *out = (mr_cache_stats){.size = (uint32_t)sizeof *out};
    return mr_loader_cache(report->loader, i, out) == MR_OK;
}

/* The stage whose samples the cache keeps. */
static const char *kept_stage(const mr_outcome *report, const mr_cache_stats *cache) {
    return mr_pipeline_stage(report->pipeline, cache->op)->name;
}

/* What happens rarely is told only where it happened. */
static void print_if_any(int64_t n, const char *what) {
    char number[32];
    if (n > 0) {
        printf(", %s %s", mr_text_count(number, sizeof number, n), what);
    }
}

static void print_cache(const mr_outcome *report, const mr_cache_stats *cache) {
    const char *kept = cache->kept ? cache->kept : "";
    char hits[32], all[32];
    int64_t asked = cache->hits + cache->misses;
    printf("  cache        after %s: ", kept_stage(report, cache));
    if (strcmp(kept, "nothing") == 0) {
        printf("not used, another one pays more\n");
    } else if (!cache->path) {
        printf("no store\n");
    } else if (asked == 0) {
        printf("not asked\n");
    } else {
        printf("%s%.1f%% hits, %s of %s", strcmp(kept, "index") == 0 ? "index, " : "",
               100 * (double)cache->hits / (double)asked,
               mr_text_count(hits, sizeof hits, cache->hits),
               mr_text_count(all, sizeof all, asked));
        print_if_any(cache->waits, mr_text_plural(cache->waits, "wait", "waits"));
        printf("\n");
    }
}

/* What the process did to a store, whichever cache it was for. */
static void print_store(const mr_cache_stats *store) {
    char stored[32], bytes[32];
    printf("  store        %s stored (%s)", mr_text_count(stored, sizeof stored, store->stored),
           mr_text_bytes(bytes, sizeof bytes, store->bytes_stored));
    print_if_any(store->evicted, "evicted");
    print_if_any(store->refused, "refused");
    print_if_any(store->damaged, "damaged");
    printf("\n");
}

/* Caches may share a store. */
static bool is_told(const mr_outcome *report, int32_t i, const char *path) {
    mr_cache_stats earlier;
    while (i-- > 0 && cache_at(report, i, &earlier)) {
        if (earlier.path && strcmp(earlier.path, path) == 0) {
            return true;
        }
    }
    return false;
}

static int32_t open_stores(const mr_outcome *report) {
    mr_cache_stats cache;
    int32_t n = 0;
    for (int32_t i = 0; cache_at(report, i, &cache); i++) {
        n += cache.path && !is_told(report, i, cache.path);
    }
    return n;
}

void mr_outcome_caches(const mr_outcome *report) {
    mr_cache_stats cache;
    for (int32_t i = 0; cache_at(report, i, &cache); i++) {
        print_cache(report, &cache);
    }
    for (int32_t i = 0; cache_at(report, i, &cache); i++) {
        bool any = cache.stored + cache.evicted + cache.refused + cache.damaged > 0;
        if (any && cache.path && !is_told(report, i, cache.path)) {
            print_store(&cache);
        }
    }
}

static json_t *cache_json(const mr_outcome *report, const mr_cache_stats *cache) {
    json_t *object = json_object();
    json_object_set_new(object, "after", mr_json_text(kept_stage(report, cache)));
    json_object_set_new(object, "stage", json_integer(cache->op + 1));
    json_object_set_new(object, "path", mr_json_text(cache->path));
    json_object_set_new(object, "kept", mr_json_text(cache->kept));
    json_object_set_new(object, "hits", json_integer(cache->hits));
    json_object_set_new(object, "misses", json_integer(cache->misses));
    json_object_set_new(object, "waits", json_integer(cache->waits));
    json_object_set_new(object, "bytes_read", json_integer(cache->bytes_read));
    json_object_set_new(object, "stored", json_integer(cache->stored));
    json_object_set_new(object, "bytes_stored", json_integer(cache->bytes_stored));
    json_object_set_new(object, "evicted", json_integer(cache->evicted));
    json_object_set_new(object, "refused", json_integer(cache->refused));
    json_object_set_new(object, "damaged", json_integer(cache->damaged));
    return object;
}

json_t *mr_outcome_caches_json(const mr_outcome *report) {
    json_t *array = json_array();
    mr_cache_stats cache;
    for (int32_t i = 0; cache_at(report, i, &cache); i++) {
        json_array_append_new(array, cache_json(report, &cache));
    }
    return array;
}

/* ---- Origins and the fabric ---- */
static bool origin_at(const mr_outcome *report, int32_t i, mr_origin_stats *out) {
    *out = (mr_origin_stats){.size = (uint32_t)sizeof *out};
    return mr_loader_origin(report->loader, i, out) == MR_OK;
}

static bool is_among_peers(const mr_outcome *report) {
    mr_origin_stats origin;
    for (int32_t i = 0; origin_at(report, i, &origin); i++) {
        if (strcmp(origin.name, "peers") == 0) {
            return true;
        }
    }
    return false;
}

static void print_traffic(const mr_outcome *report) {
    mr_traffic t = {.size = (uint32_t)sizeof t};
    char in[32], out[32], files[32];
    if (mr_loader_traffic(report->loader, &t) != MR_OK) {
        return;
    }
    mr_stats stats = stats_of(report->loader);
    printf("  fabric       %s in, %s out, %s from files; %lld of %lld values found, %lld kept",
           mr_text_bytes(in, sizeof in, t.bytes_in), mr_text_bytes(out, sizeof out, t.bytes_out),
           mr_text_bytes(files, sizeof files, stats.bytes_read), (long long)t.found,
           (long long)t.asked, (long long)t.kept);
    const struct {
        int64_t n;
        const char *what;
    } troubles[] = {{t.damaged, "damaged"},
                    {t.full, "refused: full"},
                    {t.dropped, "not offered"},
                    {t.failures, "failures"}};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        if (troubles[i].n > 0) {
            printf(", %lld %s", (long long)troubles[i].n, troubles[i].what);
        }
    }
    printf(" (%d of %d %s up)\n", t.up, t.servers,
           is_among_peers(report) ? "ranks" : mr_text_plural(t.servers, "server", "servers"));
}

static void print_requests(const mr_outcome *report) {
    mr_origin_stats origin;
    char bytes[32];
    for (int32_t i = 0; origin_at(report, i, &origin); i++) {
        if (origin.requests > 0) {
            printf("  servers      %s by %lld requests, %lld after a failure, %lld beside one that "
                   "hung; %.1f ms to the first byte\n",
                   mr_text_bytes(bytes, sizeof bytes, origin.bytes), (long long)origin.requests,
                   (long long)origin.retries, (long long)origin.hedges, 1e3 * origin.first_byte);
        }
    }
}

static json_t *origins_json(const mr_outcome *report) {
    json_t *array = json_array();
    mr_origin_stats origin;
    for (int32_t i = 0; origin_at(report, i, &origin); i++) {
        json_t *object = json_object();
        json_object_set_new(object, "name", mr_json_text(origin.name));
        json_object_set_new(object, "asked", json_integer(origin.asked));
        json_object_set_new(object, "found", json_integer(origin.found));
        json_object_set_new(object, "bytes", json_integer(origin.bytes));
        if (origin.requests > 0) {
            json_object_set_new(object, "requests", json_integer(origin.requests));
            json_object_set_new(object, "retries", json_integer(origin.retries));
            json_object_set_new(object, "hedges", json_integer(origin.hedges));
            json_object_set_new(object, "first_byte_seconds", json_real(origin.first_byte));
            json_object_set_new(object, "received_bytes", json_integer(origin.received));
            json_object_set_new(object, "busy", json_integer(origin.busy));
        }
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *traffic_json(const mr_outcome *report) {
    mr_traffic t = {.size = (uint32_t)sizeof t};
    if (mr_loader_traffic(report->loader, &t) != MR_OK) {
        return json_null();
    }
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {{"asked", t.asked},     {"found", t.found},         {"bytes_in", t.bytes_in},
                   {"samples", t.samples}, {"damaged", t.damaged},     {"offered", t.offered},
                   {"kept", t.kept},       {"bytes_out", t.bytes_out}, {"full", t.full},
                   {"dropped", t.dropped}, {"failures", t.failures},   {"servers", t.servers},
                   {"servers_up", t.up},   {"messages", t.messages},   {"pushed", t.pushed}};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        json_object_set_new(object, figures[i].name, json_integer(figures[i].value));
    }
    return object;
}

/* ---- The whole ---- */
/* How the run stands to the stream that it follows, if it does. */
static void print_stream(const mr_loader *loader) {
    mr_stream_stats stream = {.size = (uint32_t)sizeof stream};
    char entries[32], behind[32], old[32];
    if (mr_loader_stream(loader, &stream) != MR_OK) {
        return;
    }
    printf("  stream       %s entries read",
           mr_text_count(entries, sizeof entries, stream.entries));
    if (stream.behind >= 0) {
        printf(", behind by %s", mr_text_count(behind, sizeof behind, stream.behind));
    }
    if (stream.replayed > 0) {
        printf(", %s shown again", mr_text_count(old, sizeof old, stream.replayed));
    }
    if (stream.received > 0 || stream.sent > 0) {
        printf(", %lld had from other ranks and %lld sent", (long long)stream.received,
               (long long)stream.sent);
    }
    if (stream.left_out > 0) {
        printf(", %lld left out", (long long)stream.left_out);
    }
    if (stream.spilled > 0) {
        printf(", %lld spilled", (long long)stream.spilled);
    }
    if (stream.filled > 0) {
        printf(", %lld steps filled up", (long long)stream.filled);
    }
    printf("\n");
}

/* Pages of mapped files count as the process's memory, though the system has them for all and takes
 * them back at need. Of the peak nobody knows how much they were: what is said is how much they are
 * now. The program and its libraries are files, too, and are less than FEW. */
static void print_mapped(void) {
    enum { FEW = 48 << 20 };
    char text[32];
    int64_t bytes = mr_memory_of_files();
    if (bytes > FEW) {
        printf("; mapped files come on top, %s now", mr_text_bytes(text, sizeof text, bytes));
    }
}

static void print_pace(const mr_outcome *report, const mr_stats *stats) {
    char rate[32];
    printf("  throughput   %s samples/s, %.3f s, %u %s, %s, %s\n",
           mr_text_rate(rate, sizeof rate, rate_of(report, stats)), report->seconds, stats->threads,
           mr_text_plural(stats->threads, "thread", "threads"), stats->io, stats->cpu);
    if (stats->adapts) {
        printf("  adapted      to %u %s, %u reads in flight, %u batches ahead, in %lld changes\n",
               stats->threads_working, mr_text_plural(stats->threads_working, "thread", "threads"),
               stats->reads_in_flight, stats->batches_ahead, (long long)stats->changes);
    }
    if (report->first_batch_seconds >= 0) {
        printf("  first batch  %.3f s after the start (%.3f s after that of the process)\n",
               report->first_batch_seconds - report->before_seconds, report->first_batch_seconds);
    }
}

static void print_memory(const mr_outcome *report, const mr_stats *stats) {
    char peak[32], bound[32];
    int64_t bytes = mr_memory_peak();
    int32_t stores = open_stores(report);
    printf("  peak memory  %s (dense batches and reading: at most %s",
           bytes < 0 ? "unknown" : mr_text_bytes(peak, sizeof peak, bytes),
           mr_text_bytes(bound, sizeof bound, stats->memory_bound));
    if (stores > 0) {
        printf("; waiting to be stored: %s",
               mr_text_bytes(bound, sizeof bound, stores * (int64_t)MR_STORE_QUEUE_BYTES));
    }
    print_mapped();
    printf(")\n");
    if (stats->blocks_bound > 0) {
        printf("  blocks       at most %lld alive at once, of %lld allowed\n",
               (long long)stats->blocks_most, (long long)stats->blocks_bound);
    }
}

/* What is left of the run. */
static void print_results(const mr_outcome *report, const mr_stats *stats) {
    char digest[33], path[1024];
    if (stats->skipped > 0) {
        printf("  skipped      %lld bad %s\n", (long long)stats->skipped,
               mr_text_plural(stats->skipped, "sample", "samples"));
    }
    if (!report->no_digest) {
        mr_loader_digest(report->loader, digest);
        printf("  digest       %s\n", digest);
    }
    if (report->state) {
        printf("  state        %s\n", mr_text_safe(path, sizeof path, report->state));
    }
}

void mr_outcome_text(const mr_outcome *report) {
    mr_stats stats = stats_of(report->loader);
    print_counts(report, &stats);
    print_pace(report, &stats);
    print_memory(report, &stats);
    mr_outcome_caches(report);
    print_stream(report->loader);
    print_traffic(report);
    print_requests(report);
    print_results(report, &stats);
}

void mr_outcome_digest(const mr_outcome *report) {
    char digest[33];
    if (!report->no_digest) {
        mr_loader_digest(report->loader, digest);
        printf("%s\n", digest);
    }
}

static json_t *skip_json(const mr_skip *skip) {
    json_t *object = json_object();
    json_object_set_new(object, "epoch", json_integer(skip->epoch));
    json_object_set_new(object, "step", json_integer(skip->step));
    json_object_set_new(object, "sample", json_integer(skip->sample));
    json_object_set_new(object, "replacement", json_integer(skip->replacement));
    json_object_set_new(object, "error", mr_error_json(skip->error));
    return object;
}

static json_t *skips_json(const mr_loader *loader) {
    json_t *array = json_array();
    mr_skip skip = {.size = sizeof skip};
    for (int64_t i = 0; i < mr_loader_n_skips(loader); i++) {
        if (mr_loader_skip(loader, i, &skip) == MR_OK) {
            json_array_append_new(array, skip_json(&skip));
        }
    }
    return array;
}

static void add_figures(json_t *object, const mr_outcome *report, const mr_stats *stats) {
    bool any = report->first_batch_seconds >= 0;
    int64_t peak = mr_memory_peak();
    json_object_set_new(object, "samples", json_integer(stats->samples));
    json_object_set_new(object, "batches", json_integer(stats->batches));
    json_object_set_new(object, "epochs", json_integer(epochs_of(report)));
    json_object_set_new(object, "seconds", json_real(report->seconds));
    json_object_set_new(object, "samples_per_second", json_real(rate_of(report, stats)));
    json_object_set_new(object, "first_batch_seconds",
                        any ? json_real(report->first_batch_seconds) : json_null());
    json_object_set_new(object, "wait_seconds", json_real((double)stats->wait_ns * 1e-9));
    json_object_set_new(object, "peak_rss_bytes", peak < 0 ? json_null() : json_integer(peak));
    json_object_set_new(object, "memory_bound", json_integer(stats->memory_bound));
    json_object_set_new(object, "blocks_bound", json_integer(stats->blocks_bound));
    json_object_set_new(object, "blocks_most", json_integer(stats->blocks_most));
    json_object_set_new(object, "batch_bytes", json_integer(stats->batch_bytes));
    json_object_set_new(object, "bytes_read", json_integer(stats->bytes_read));
    json_object_set_new(object, "skipped", json_integer(stats->skipped));
    json_object_set_new(object, "skips", skips_json(report->loader));
    json_object_set_new(object, "caches", mr_outcome_caches_json(report));
    json_object_set_new(object, "origins", origins_json(report));
    json_object_set_new(object, "fabric", traffic_json(report));
}

static json_t *classes_json(const mr_loader *loader) {
    json_t *list = json_array();
    const char *name = NULL;
    for (int64_t i = 0; (name = mr_loader_class(loader, "", i)) != NULL; i++) {
        json_array_append_new(list, mr_json_text(name));
    }
    return list;
}

static void add_setup(json_t *object, const mr_outcome *report, const mr_stats *stats) {
    json_object_set_new(object, "pipeline", mr_json_text(report->path));
    json_object_set_new(object, "pipeline_fingerprint",
                        mr_json_text(mr_pipeline_fingerprint(report->pipeline)));
    json_object_set_new(object, "dataset_fingerprint",
                        mr_json_text(mr_loader_fingerprint(report->loader)));
    json_object_set_new(object, "dataset_samples",
                        json_integer(mr_loader_n_samples(report->loader)));
    json_object_set_new(object, "classes", classes_json(report->loader));
    json_object_set_new(object, "threads", json_integer(stats->threads));
    if (stats->adapts) {
        json_object_set_new(object, "threads_working", json_integer(stats->threads_working));
        json_object_set_new(object, "changes", json_integer(stats->changes));
    }
    json_object_set_new(object, "io", mr_json_text(stats->io));
    json_object_set_new(object, "cpu", mr_json_text(stats->cpu));
    json_object_set_new(object, "batches_ahead", json_integer(stats->batches_ahead));
    json_object_set_new(object, "reads_in_flight", json_integer(stats->reads_in_flight));
    json_object_set_new(object, "morsel", json_integer(stats->morsel));
}

/* A run that failed before the loader was open has an error and nothing else to tell. */
void mr_outcome_json(const mr_outcome *report) {
    json_t *object = json_object();
    if (report->loader) {
        char digest[33];
        mr_stats stats = stats_of(report->loader);
        mr_loader_digest(report->loader, digest);
        json_object_set_new(object, "digest",
                            report->no_digest ? json_null() : json_string(digest));
        add_figures(object, report, &stats);
        add_setup(object, report, &stats);
    }
    json_object_set_new(object, "state", mr_json_text(report->state));
    json_object_set_new(object, "signal", json_integer(report->signal));
    json_object_set_new(object, "error",
                        report->error ? mr_error_json(report->error) : json_null());
    mr_json_print(object, MR_DIGITS_SHORT);
}

void mr_outcome_skips(const mr_loader *loader) {
    int64_t kept = mr_loader_n_skips(loader), all = stats_of(loader).skipped;
    int64_t shown = kept < SKIPS_SHOWN ? kept : SKIPS_SHOWN;
    mr_skip skip = {.size = sizeof skip};
    for (int64_t i = 0; i < shown && mr_loader_skip(loader, i, &skip) == MR_OK; i++) {
        fprintf(stderr, "skipped: %s (sample %lld, epoch %lld, step %lld; sample %lld instead)\n",
                skip.error->source, (long long)skip.sample, (long long)skip.epoch,
                (long long)skip.step, (long long)skip.replacement);
        fprintf(stderr, "  %s%s%s\n", skip.error->op, skip.error->op[0] ? ": " : "",
                skip.error->text);
    }
    if (all > shown) {
        fprintf(stderr, "skipped: %lld more\n", (long long)(all - shown));
    }
}
