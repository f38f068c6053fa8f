/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines that follow a stream: the law over entries that arrive while they are read, with and
 * without rehearsal. */
#include <fcntl.h>
#include <millrace/stream.h>
#include <pthread.h>

#include "fixture.h"
#include "io/partition.h"
#include "test.h"

enum { PARTITIONS = 4, EACH = 600, BATCH = 48, MOST = 5000 };

/* What a run delivered, row by row and batch by batch. */
typedef struct course {
    int n, n_batches, batch_end[MOST], wrong;
    int64_t samples[MOST];
    bool is_replay[MOST];
    char digests[MOST / 8][33];
    char *state;
    int64_t skipped;
    mr_status status;
    mr_error err;
} course;

static char folder[64];

static size_t value_of(int64_t number, uint32_t partition, unsigned char *out) {
    size_t size = 16 + (size_t)((uint64_t)number * 2654435761u % 300);
    for (size_t i = 0; i < size; i++) {
        out[i] = (unsigned char)((uint64_t)number + i * 7 + (uint64_t)31 * partition);
    }
    return size;
}

static void append(uint32_t partition, int64_t from, int64_t end, int pause_us) {
    unsigned char value[400];
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.partition = partition;
    options.segment_bytes = 30000;
    options.id = 7;
    CHECK_INT(mr_stream_writer_open(&writer, folder, &options, NULL), ==, MR_OK);
    for (int64_t i = from; writer && i < end; i++) {
        const mr_entry entry = {
            .label = i / 100, .time = i, .value = value, .size = value_of(i, partition, value)};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
        if (pause_us && i % 16 == 0) {
            CHECK_INT(mr_stream_flush(writer, NULL), ==, MR_OK);
            usleep((useconds_t)pause_us);
        }
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

static int64_t quantum = 1; /* entries of each partition in turn */

static bool is_right(const mr_batch *batch, int64_t i) {
    unsigned char expected[400];
    const mr_array *v = mr_batch_array(batch, 0), *l = mr_batch_array(batch, 1);
    int64_t sample = mr_batch_samples(batch)[i];
    int64_t number = sample / (PARTITIONS * quantum) * quantum + sample % quantum;
    size_t size = value_of(number, (uint32_t)(sample / quantum % PARTITIONS), expected);
    return (size_t)(v->offsets[i + 1] - v->offsets[i]) == size &&
           memcmp((const char *)v->data + v->offsets[i], expected, size) == 0 &&
           ((const int64_t *)l->data)[i] == number / 100;
}

static void note(course *out, const mr_batch *batch, bool rehearses) {
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
        out->wrong += !is_right(batch, i);
        out->is_replay[out->n] =
            rehearses && ((const uint8_t *)mr_batch_array(batch, 2)->data)[i] != 0;
        out->samples[out->n++] = mr_batch_samples(batch)[i];
    }
    snprintf(out->digests[out->n_batches], 33, "%s", mr_batch_digest(batch));
    out->batch_end[out->n_batches++] = out->n;
}

typedef struct request {
    const char *source, *rest; /* of the document */
    uint32_t threads, world, rank;
    const char *state;
    int steps; /* 0: to the end */
} request;

static mr_loader *open_run(const request *r, mr_pipeline **pipeline, mr_error *err) {
    char json[700];
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.threads = r->threads ? r->threads : 2;
    options.world = r->world ? r->world : 1;
    options.rank = r->rank;
    options.digest = true;
    options.state = r->state;
    options.state_size = r->state ? strlen(r->state) : 0;
    snprintf(
        json, sizeof json,
        "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": %d%s}}, "
        "\"batch\": %d, \"seed\": 3%s}",
        folder, PARTITIONS, r->source ? r->source : "", BATCH, r->rest ? r->rest : "");
    *pipeline = fixture_pipeline(json);
    mr_loader_open(&loader, *pipeline, &options, err);
    return loader;
}

/* A state in two parts says what it says in one. */
static void check_parts(const mr_loader *loader, const char *whole) {
    static const char mark[] = ", \"rehearsal\": \"";
    const char *letters = NULL;
    int64_t n = -1;
    char *text = malloc(mr_loader_state_bytes(loader));
    CHECK_INT(mr_loader_save_apart(loader, text, &letters, &n, NULL), ==, MR_OK);
    size_t head = (size_t)(strstr(text, ", \"check\"") - text);
    CHECK(strncmp(whole, text, head) == 0);
    whole += head;
    CHECK(strncmp(whole, mark, sizeof mark - 1) == 0);
    whole += sizeof mark - 1;
    CHECK(n >= 0 && strncmp(whole, letters, (size_t)n) == 0);
    CHECK_INT(whole[n], ==, '"');
    CHECK_TEXT(text + head, whole + n + 1);
    free(text);
}

static void run(course *out, const request *r) {
    mr_batch *batch = NULL;
    mr_pipeline *pipeline = NULL;
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    mr_loader *loader = open_run(r, &pipeline, &out->err);
    out->status = out->err.code;
    while (loader && (r->steps == 0 || out->n_batches < r->steps) &&
           (out->status = mr_loader_next(loader, &batch, &out->err)) == MR_OK) {
        note(out, batch, r->rest && strstr(r->rest, "rehearse"));
        mr_batch_unref(batch);
    }
    if (loader) {
        mr_stats stats = {.size = sizeof stats};
        mr_loader_stats(loader, &stats);
        out->skipped = stats.skipped;
        size_t room = mr_loader_state_bytes(loader);
        out->state = malloc(room);
        CHECK_INT(mr_loader_save(loader, out->state, room, NULL), ==, MR_OK);
        check_parts(loader, out->state);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(out->wrong, ==, 0);
}

static course whole, part, other;
static const char until[] = ", \"until\": 600";
static const char rehearse[] = ", \"rehearse\": {\"size\": 200, \"share\": 0.5}";

static void *write_slowly(void *partition) {
    append((uint32_t)(uintptr_t)partition, 0, EACH, 300 * (1 + (int)(uintptr_t)partition));
    return NULL;
}

/* ---- Without rehearsal ---- */
TEST(every_entry_once_in_the_merged_order_while_it_arrives) {
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    append(0, 0, 0, 0);
    pthread_t writers[PARTITIONS];
    for (uintptr_t i = 0; i < PARTITIONS; i++) {
        pthread_create(&writers[i], NULL, write_slowly, (void *)i);
    }
    run(&whole, &(request){.source = until});
    for (int i = 0; i < PARTITIONS; i++) {
        pthread_join(writers[i], NULL);
    }
    CHECK_INT(whole.status, ==, MR_END);
    CHECK_INT(whole.n, ==, PARTITIONS * EACH);
    CHECK_INT(whole.n_batches, ==, PARTITIONS * EACH / BATCH);
    for (int i = 0; i < whole.n; i++) {
        CHECK_INT(whole.samples[i], ==, i);
    }
}

static void check_same_from(const course *a, int first, const course *b) {
    CHECK_INT(a->n_batches - first, ==, b->n_batches);
    for (int i = 0; i < b->n_batches && first + i < a->n_batches; i++) {
        CHECK_TEXT(b->digests[i], a->digests[first + i]);
    }
}

TEST(what_was_there_before_gives_the_same_bytes_whatever_the_threads) {
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        run(&part, &(request){.source = until, .threads = threads});
        check_same_from(&whole, 0, &part);
    }
}

TEST(a_run_goes_on_from_its_state) {
    for (int steps = 1; steps < 50; steps += 12) {
        run(&part, &(request){.source = until, .steps = steps});
        run(&other, &(request){.source = until, .state = part.state});
        check_same_from(&whole, steps, &other);
    }
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Batch by batch, what all ranks together made is what one would have made. */
static void check_ranks(const char *rest, uint32_t world, const course *one) {
    static int64_t all[MOST / 8][2 * BATCH];
    int n[MOST / 8] = {0};
    for (uint32_t rank = 0; rank < world; rank++) {
        run(&part, &(request){.source = until, .rest = rest, .world = world, .rank = rank});
        CHECK_INT(part.n_batches, ==, one->n_batches);
        for (int b = 0, at = 0; b < part.n_batches; b++) {
            for (; at < part.batch_end[b]; at++) {
                all[b][n[b]++] = 2 * part.samples[at] + part.is_replay[at];
            }
        }
    }
    for (int b = 0, at = 0; b < one->n_batches; b++) {
        int64_t expected[2 * BATCH];
        int count = 0;
        for (; at < one->batch_end[b]; at++) {
            expected[count++] = 2 * one->samples[at] + one->is_replay[at];
        }
        qsort(expected, (size_t)count, sizeof *expected, by_number);
        qsort(all[b], (size_t)n[b], sizeof *all[b], by_number);
        CHECK_INT(n[b], ==, count);
        CHECK(memcmp(expected, all[b], (size_t)count * sizeof *expected) == 0);
    }
}

TEST(ranks_together_make_the_same_batches) {
    for (uint32_t world = 2; world <= 6; world++) {
        if (BATCH % world == 0) {
            check_ranks(NULL, world, &whole);
        }
    }
}

TEST(a_quantum_takes_several_of_each_partition) {
    quantum = 6;
    run(&part, &(request){.source = ", \"until\": 600, \"quantum\": 6"});
    CHECK_INT(part.n, ==, PARTITIONS * EACH);
    quantum = 1;
}

TEST(a_consumer_waits_and_can_be_told_to_stop) {
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    mr_loader *loader = open_run(&(request){.source = NULL}, &pipeline, &err);
    for (int i = 0; i < PARTITIONS * EACH / BATCH; i++) {
        CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
        mr_batch_unref(batch);
    }
    CHECK_INT(mr_loader_n_steps(loader), ==, -1);
    CHECK_INT(mr_loader_next_within(loader, 30000000, &batch, &err), ==, MR_LATER);
    mr_stream_stats stream = {.size = sizeof stream};
    CHECK_INT(mr_loader_stream(loader, &stream), ==, MR_OK);
    CHECK_INT(stream.entries, ==, PARTITIONS * EACH);
    CHECK_INT(stream.waiting, ==, 0);
    CHECK_INT(stream.behind, ==, 0);
    mr_loader_cancel(loader);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_E_CANCELLED);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* Less than a step is there, of which nothing is delivered. */
TEST(what_is_of_no_step_yet_is_behind) {
    char before[64];
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    mr_stream_stats stream = {.size = sizeof stream};
    snprintf(before, sizeof before, "%s", folder);
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    append(0, 0, BATCH / 2, 0);
    append(1, 0, BATCH / 4, 0);
    mr_loader *loader = open_run(&(request){.source = NULL}, &pipeline, &err);
    CHECK_INT(mr_loader_next_within(loader, 1000000, &batch, &err), ==, MR_LATER);
    CHECK_INT(mr_loader_stream(loader, &stream), ==, MR_OK);
    CHECK_INT(stream.behind, ==, BATCH / 2 + BATCH / 4);
    CHECK_INT(stream.waiting, <=, stream.behind);
    CHECK_INT(stream.left_out, ==, 0);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
    snprintf(folder, sizeof folder, "%s", before);
}

/* Once the consumer waits, if it does so soon. */
static void *write_the_rest(void *unused) {
    usleep(50000);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        append(i, 8, 10, 0);
    }
    return unused;
}

/* What is left at the end of a stream is less than a step, and comes while somebody waits. */
TEST(a_last_step_that_is_short_and_late_is_delivered) {
    char before[64];
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    snprintf(before, sizeof before, "%s", folder);
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        append(i, 0, 8, 0);
    }
    mr_loader *loader = open_run(&(request){.source = ", \"until\": 10"}, &pipeline, &err);
    pthread_t writer;
    pthread_create(&writer, NULL, write_the_rest, NULL);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
    pthread_join(writer, NULL);
    CHECK_INT(mr_batch_size(batch), ==, PARTITIONS * 10);
    mr_batch_unref(batch);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_END);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
    snprintf(folder, sizeof folder, "%s", before);
}

/* ---- With rehearsal ---- */
TEST(half_of_each_batch_was_seen_before) {
    run(&whole, &(request){.source = until, .rest = rehearse});
    CHECK_INT(whole.status, ==, MR_END);
    int64_t next = 0;
    for (int i = 0; i < whole.n; i++) {
        int64_t sample = whole.samples[i];
        CHECK(whole.is_replay[i] ? sample < next : sample == next);
        next += !whole.is_replay[i];
    }
    CHECK_INT(next, ==, PARTITIONS * EACH);
    CHECK_INT(whole.n, ==, 2 * PARTITIONS * EACH - BATCH / 2);
}

TEST(rehearsal_is_the_same_whatever_the_threads_and_the_memory) {
    run(&part, &(request){.source = until, .rest = rehearse, .threads = 1});
    check_same_from(&whole, 0, &part);
    run(&part,
        &(request){.source = until, .rest = ", \"rehearse\": {\"size\": 200, \"memory\": 9000}"});
    check_same_from(&whole, 0, &part);
}

TEST(a_rehearsing_run_goes_on_from_its_state) {
    for (int steps = 1; steps < 100; steps += 24) {
        run(&part, &(request){.source = until, .rest = rehearse, .steps = steps});
        run(&other, &(request){.source = until, .rest = rehearse, .state = part.state});
        check_same_from(&whole, steps, &other);
    }
}

TEST(ranks_that_rehearse_make_the_same_batches) {
    check_ranks(rehearse, 2, &whole);
    check_ranks(rehearse, 3, &whole);
}

TEST(a_size_in_bytes_is_a_number_of_samples) {
    static const char *const wrong[] = {"\"bytes\": 1000", "\"sample_bytes\": 10",
                                        "\"size\": 7, \"bytes\": 1000, \"sample_bytes\": 10",
                                        "\"bytes\": 10, \"sample_bytes\": 1000", "\"share\": 0.5"};
    run(&part, &(request){.source = until,
                          .rest = ", \"rehearse\": {\"bytes\": \"40KB\", \"sample_bytes\": 200}"});
    run(&other, &(request){.source = until, .rest = ", \"rehearse\": {\"size\": 200}"});
    CHECK_INT(part.status, ==, MR_END);
    check_same_from(&other, 0, &part);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char json[300];
        mr_error err = MR_ERROR_INIT;
        mr_pipeline *pipeline = NULL;
        snprintf(
            json, sizeof json,
            "{\"source\": {\"segments\": {\"path\": \"x\", \"follow\": true}}, \"rehearse\": {%s}}",
            wrong[i]);
        CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err), ==, MR_E_PARAM);
        CHECK_HAS(err.hint, "sample_bytes");
    }
}

TEST(every_policy_runs) {
    static const char *const policies[] = {"class_balanced", "cbrs",   "gdumb",
                                           "fixed_rate",     "recent", "priority"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        char rest[200];
        snprintf(rest, sizeof rest,
                 ", \"rehearse\": {\"size\": 60, \"share\": 0.25, \"policy\": \"%s\", \"lag\": 2, "
                 "\"classes\": 6}",
                 policies[i]);
        run(&part, &(request){.source = until, .rest = rest, .steps = 20});
        run(&other, &(request){.source = until, .rest = rest, .state = part.state});
        CHECK_INT(part.status, ==, MR_OK);
        CHECK_INT(other.status, ==, MR_END);
    }
}

/* ---- What is wrong with a stream ---- */
static void damage(uint32_t partition, int64_t offset) {
    char path[128], byte = 0;
    snprintf(path, sizeof path, "%s/%05u-%019d.seg", folder, partition, 0);
    int fd = open(path, O_RDWR);
    CHECK_INT(pread(fd, &byte, 1, offset), ==, 1);
    byte = (char)~byte;
    CHECK_INT(pwrite(fd, &byte, 1, offset), ==, 1);
    close(fd);
}

TEST(a_damaged_entry_ends_the_run_or_is_replaced_and_listed) {
    damage(2, 64 + 64 + 5); /* in the first value */
    run(&part, &(request){.source = until});
    CHECK_INT(part.status, ==, MR_E_CORRUPT);
    CHECK_HAS(part.err.source, "partition 2, entry 0");
    run(&other, &(request){.source = until, .rest = ", \"on_error\": \"skip\""});
    CHECK_INT(other.status, ==, MR_END);
    CHECK_INT(other.skipped, ==, 1);
    CHECK_INT(other.samples[2] % PARTITIONS, ==, 2);
    check_ranks(", \"on_error\": \"skip\"", 2, &other);
    damage(2, 64 + 64 + 5);
}

TEST(a_stream_that_was_trimmed_is_an_error_not_a_gap) {
    run(&part, &(request){.source = until, .steps = 30});
    run(&other, &(request){.source = until, .rest = rehearse, .steps = 30});
    char *state = strdup(part.state), *rehearsing = strdup(other.state);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        CHECK_INT(mr_stream_trim(folder, i, 200, NULL, NULL), ==, MR_OK);
    }
    run(&part, &(request){.source = until});
    CHECK_INT(part.status, ==, MR_E_STATE);
    run(&part, &(request){.source = until, .state = state});
    CHECK_INT(part.status, ==, MR_END);
    run(&part, &(request){.source = until, .rest = rehearse, .state = rehearsing});
    CHECK_INT(part.status, ==, MR_E_STATE);
    CHECK_HAS(part.err.text, "keeps no more");
    free(state);
    free(rehearsing);
}

TEST(documents_that_make_no_sense_are_refused) {
    static const char *const rests[] = {", \"shuffle\": true",           ", \"epochs\": 2",
                                        ", \"view\": [{\"take\": 3}]",   ", \"remainder\": \"pad\"",
                                        ", \"rehearse\": {\"size\": 0}", ", \"rehearse\": true"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        char json[400];
        mr_pipeline *pipeline = NULL;
        mr_error err = MR_ERROR_INIT;
        snprintf(json, sizeof json,
                 "{\"source\": {\"segments\": {\"path\": \"x\", \"follow\": true}}%s}", rests[i]);
        CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err), <, 0);
        CHECK(err.text[0] != '\0');
        mr_pipeline_free(pipeline);
    }
}

TEST(clean_up) {
    free(whole.state);
    free(part.state);
    free(other.state);
    fixture_remove(folder);
}

TEST_MAIN()
