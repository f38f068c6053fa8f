/* SPDX-License-Identifier: Apache-2.0 */
/* A Kafka topic as a source, with librdkafka's mock brokers: they are processes' sockets on this
 * machine, and they can be told to fail. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "fixture.h"
#include "test.h"

enum { PARTITIONS = 2, EACH = 300, BATCH = 20, MOST = 3000, BROKERS = 2 };

static rd_kafka_t *producer;
static rd_kafka_mock_cluster_t *cluster;
static const char *topic = "clicks";

static size_t value_of(int partition, int64_t number, char *out) {
    size_t size = 20 + (size_t)((uint64_t)number * 2654435761u % 500);
    for (size_t i = 0; i < size; i++) {
        out[i] = (char)(number + (int64_t)i * 7 + 31 * partition);
    }
    return size;
}

static void add(int partition, int64_t from, int64_t end) {
    char value[600], label[24];
    for (int64_t i = from; i < end; i++) {
        size_t size = value_of(partition, i, value);
        snprintf(label, sizeof label, "%d", (int)(i / 50));
        rd_kafka_resp_err_t code =
            rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                              RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_VALUE(value, size), RD_KAFKA_V_HEADER("label", label, -1),
                              RD_KAFKA_V_KEY(label, strlen(label)), RD_KAFKA_V_END);
        CHECK_INT(code, ==, RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    CHECK_INT(rd_kafka_flush(producer, 30000), ==, 0);
}

typedef struct course {
    int n, n_batches, wrong;
    int64_t samples[MOST];
    char digests[MOST / 4][33];
    char *state;
    mr_status status;
    mr_error err;
} course;

typedef struct request {
    const char *source, *rest; /* of the document */
    const char *state;
    int steps;   /* 0: to the end */
    int further; /* messages of each partition that never come */
    void (*after)(int step);
} request;

static void put_json(const request *r, char *json, size_t size) {
    snprintf(json, size,
             "{\"source\": {\"kafka\": {\"brokers\": \"%s\", \"topic\": \"%s\", "
             "\"partitions\": %d, \"until\": %d%s}}, \"batch\": %d, \"seed\": 3%s}",
             rd_kafka_mock_cluster_bootstraps(cluster), topic, PARTITIONS, EACH + r->further,
             r->source ? r->source : "", BATCH, r->rest ? r->rest : "");
}

static bool is_right(const mr_batch *batch, int64_t i) {
    char expected[600];
    const mr_array *v = mr_batch_array(batch, 0), *l = mr_batch_array(batch, 1);
    int64_t sample = mr_batch_samples(batch)[i];
    size_t size = value_of((int)(sample % PARTITIONS), sample / PARTITIONS, expected);
    return (size_t)(v->offsets[i + 1] - v->offsets[i]) == size &&
           memcmp((const char *)v->data + v->offsets[i], expected, size) == 0 &&
           ((const int64_t *)l->data)[i] == sample / PARTITIONS / 50;
}

static void note(course *out, const mr_batch *batch) {
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
        out->wrong += !is_right(batch, i);
        out->samples[out->n++] = mr_batch_samples(batch)[i];
    }
    snprintf(out->digests[out->n_batches++], 33, "%s", mr_batch_digest(batch));
}

static void run(course *out, const request *r) {
    char json[900];
    mr_batch *batch = NULL;
    mr_loader *loader = NULL;
    mr_options options = MR_OPTIONS_INIT;
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    options.threads = 2;
    options.digest = true;
    options.state = r->state;
    options.state_size = r->state ? strlen(r->state) : 0;
    put_json(r, json, sizeof json);
    mr_pipeline *pipeline = fixture_pipeline(json);
    out->status = mr_loader_open(&loader, pipeline, &options, &out->err);
    while (loader && (r->steps == 0 || out->n_batches < r->steps) &&
           (out->status = mr_loader_next(loader, &batch, &out->err)) == MR_OK) {
        note(out, batch);
        mr_batch_unref(batch);
        if (r->after) {
            r->after(out->n_batches);
        }
    }
    if (loader) {
        size_t room = mr_loader_state_bytes(loader);
        out->state = malloc(room);
        CHECK_INT(mr_loader_save(loader, out->state, room, NULL), ==, MR_OK);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static course whole, part, other;

static void check_whole(const course *c) {
    CHECK_INT(c->status, ==, MR_END);
    CHECK_TEXT(c->err.text, "");
    CHECK_INT(c->wrong, ==, 0);
    CHECK_INT(c->n, ==, PARTITIONS * EACH);
    for (int i = 0; i < c->n; i++) {
        CHECK_INT(c->samples[i], ==, i);
    }
}

static void check_same_from(const course *a, int first, const course *b) {
    CHECK_INT(a->n_batches - first, ==, b->n_batches);
    for (int i = 0; i < b->n_batches && first + i < a->n_batches; i++) {
        CHECK_TEXT(b->digests[i], a->digests[first + i]);
    }
}

static void say_nothing(const rd_kafka_t *kafka, int level, const char *facility,
                        const char *text) {
    (void)kafka;
    (void)level;
    (void)facility;
    (void)text;
}

TEST(begin) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[256], brokers[256];
    rd_kafka_conf_set_log_cb(conf, say_nothing);
    producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    CHECK(producer != NULL);
    cluster = rd_kafka_mock_cluster_new(producer, BROKERS);
    CHECK(cluster != NULL);
    CHECK_INT(rd_kafka_mock_topic_create(cluster, "clicks", PARTITIONS, 1), ==, 0);
    snprintf(brokers, sizeof brokers, "%s", rd_kafka_mock_cluster_bootstraps(cluster));
    rd_kafka_brokers_add(producer, brokers);
}

static void add_more(int step) {
    if (step == 2) {
        for (int p = 0; p < PARTITIONS; p++) {
            add(p, 100, EACH);
        }
    }
}

TEST(every_message_once_in_the_merged_order_while_it_arrives) {
    for (int p = 0; p < PARTITIONS; p++) {
        add(p, 0, 100);
    }
    run(&whole, &(request){.after = add_more});
    check_whole(&whole);
}

TEST(a_run_goes_on_from_its_state) {
    for (int steps = 1; steps < 30; steps += 14) {
        run(&part, &(request){.steps = steps});
        run(&other, &(request){.state = part.state});
        check_same_from(&whole, steps, &other);
    }
}

/* What is not in memory after a restart is read from the brokers by its offset. */
TEST(what_is_shown_again_is_read_again_where_it_must_be) {
    static const char rehearse[] = ", \"rehearse\": {\"size\": 40, \"share\": 0.5}";
    run(&whole, &(request){.rest = rehearse});
    CHECK_INT(whole.status, ==, MR_END);
    CHECK_INT(whole.wrong, ==, 0);
    run(&part, &(request){.rest = rehearse, .steps = 50});
    run(&other, &(request){.rest = rehearse, .state = part.state});
    CHECK_INT(other.wrong, ==, 0);
    check_same_from(&whole, 50, &other);
}

static void turn_brokers(bool on) {
    for (int32_t i = 1; i <= BROKERS; i++) {
        if (on) {
            rd_kafka_mock_broker_set_up(cluster, i);
        } else {
            rd_kafka_mock_broker_set_down(cluster, i);
        }
    }
}

TEST(brokers_that_are_away_end_the_run_once_patience_is_over) {
    turn_brokers(false);
    run(&part, &(request){.source = ", \"patience\": 0.5"});
    turn_brokers(true);
    CHECK_INT(part.status, ==, MR_E_IO);
    CHECK_INT(part.n, ==, 0);
}

static void turn_off_and_on(int step) {
    if (step == 3) {
        turn_brokers(false);
        usleep(100000);
        turn_brokers(true);
    }
}

TEST(brokers_that_come_back_go_on) {
    run(&part, &(request){.after = turn_off_and_on});
    check_whole(&part);
}

static void turn_off(int step) {
    if (step == 5) {
        turn_brokers(false);
    }
}

TEST(brokers_that_go_while_a_run_waits_end_it_once_patience_is_over) {
    run(&part, &(request){.after = turn_off, .further = 10, .source = ", \"patience\": 0.4"});
    turn_brokers(true);
    CHECK_INT(part.status, ==, MR_E_IO);
    CHECK_INT(part.wrong, ==, 0);
}

TEST(a_setting_that_librdkafka_does_not_know_is_an_error) {
    run(&part, &(request){.source = ", \"options\": [\"no.such.thing=1\"]"});
    CHECK_INT(part.status, ==, MR_E_PARAM);
    CHECK_HAS(part.err.text, "no.such.thing");
}

/* A mock broker keeps 5 MB of a partition. */
static int64_t fill_until_trimmed(void) {
    int64_t low = 0, high = EACH;
    while (low < EACH && high < 40 * EACH * 10) {
        add(0, high, high + 10 * EACH);
        CHECK_INT(rd_kafka_query_watermark_offsets(producer, topic, 0, &low, &high, 30000), ==,
                  RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    return low;
}

TEST(what_was_trimmed_is_an_error_when_a_state_needs_it) {
    char low[24];
    topic = "short";
    CHECK_INT(rd_kafka_mock_topic_create(cluster, topic, PARTITIONS, 1), ==, 0);
    for (int p = 0; p < PARTITIONS; p++) {
        add(p, 0, EACH);
    }
    run(&whole, &(request){.steps = 0});
    check_whole(&whole);
    run(&part, &(request){.steps = 5});
    run(&other, &(request){.state = part.state});
    check_same_from(&whole, 5, &other);

    snprintf(low, sizeof low, "%lld", (long long)fill_until_trimmed());
    run(&other, &(request){.state = part.state});
    CHECK_INT(other.status, ==, MR_E_STATE);
    CHECK_INT(other.n, ==, 0);
    CHECK_HAS(other.err.text, "partition 0 of short has offsets");
    CHECK_HAS(other.err.text, "50 is wanted");
    CHECK_HAS(other.err.hint, low);
    topic = "clicks";
}

/* ---- JSON ---- */
enum { EVENTS = 120, BAD = 33 };

static void add_events(void) {
    char value[200];
    for (int i = 0; i < EVENTS; i++) {
        int size = i == BAD
                       ? snprintf(value, sizeof value, "{\"price\": \"cheap\"}")
                       : snprintf(value, sizeof value,
                                  "{\"price\": %d.5, \"pixels\": [[%d, 1], [2, 3]], \"tokens\": "
                                  "[%d%s], \"title\": \"event %d\", \"label\": %d, \"more\": {}}",
                                  i, i, -i, i % 2 ? ", 7" : "", i, i % 5);
        CHECK_INT(rd_kafka_producev(producer, RD_KAFKA_V_TOPIC("events"),
                                    RD_KAFKA_V_PARTITION(i % 2),
                                    RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                    RD_KAFKA_V_VALUE(value, (size_t)size), RD_KAFKA_V_END),
                  ==, RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    CHECK_INT(rd_kafka_flush(producer, 30000), ==, 0);
}

static mr_pipeline *events_pipeline(const char *rest) {
    char json[900];
    snprintf(
        json, sizeof json,
        "{\"source\": {\"kafka\": {\"brokers\": \"%s\", \"topic\": \"events\", \"partitions\": 2, "
        "\"until\": %d, \"schema\": [\"price: float32\", \"pixels: uint8[2,2]\", \"tokens: "
        "int32[]\", "
        "\"title: string\", \"label: int64\"]}}, \"batch\": %d, \"seed\": 3%s}",
        rd_kafka_mock_cluster_bootstraps(cluster), EVENTS / 2, BATCH, rest);
    return fixture_pipeline(json);
}

static bool is_event(const mr_batch *batch, int64_t row) {
    const mr_array *tokens = mr_batch_array(batch, 2), *title = mr_batch_array(batch, 3);
    int64_t i = mr_batch_samples(batch)[row], first = tokens->offsets[row];
    const uint8_t *pixels = (const uint8_t *)mr_batch_array(batch, 1)->data + 4 * row;
    char name[32];
    size_t length = (size_t)snprintf(name, sizeof name, "event %d", (int)i);
    return ((const float *)mr_batch_array(batch, 0)->data)[row] == (float)i + 0.5F &&
           pixels[0] == i && pixels[1] == 1 && pixels[2] == 2 && pixels[3] == 3 &&
           tokens->offsets[row + 1] - first == 1 + i % 2 &&
           ((const int32_t *)tokens->data)[first] == -i &&
           (size_t)(title->offsets[row + 1] - title->offsets[row]) == length &&
           memcmp((const char *)title->data + title->offsets[row], name, length) == 0 &&
           ((const int64_t *)mr_batch_array(batch, 4)->data)[row] == i % 5;
}

/* How many were right; the bad one is not among them. */
static int take_events(mr_loader *loader, int *replayed, mr_status *status, mr_error *err) {
    mr_batch *batch = NULL;
    int right = 0;
    while ((*status = mr_loader_next(loader, &batch, err)) == MR_OK) {
        for (int64_t i = 0; i < mr_batch_size(batch); i++) {
            CHECK_INT(mr_batch_samples(batch)[i], !=, BAD);
            right += is_event(batch, i);
            *replayed += ((const uint8_t *)mr_batch_array(batch, 5)->data)[i];
        }
        mr_batch_unref(batch);
    }
    return right;
}

TEST(members_of_messages_are_fields_and_bad_ones_are_listed) {
    mr_options options = MR_OPTIONS_INIT;
    mr_error err = MR_ERROR_INIT;
    mr_loader *loader = NULL;
    mr_status status = MR_OK;
    int replayed = 0;
    options.threads = 2;
    CHECK_INT(rd_kafka_mock_topic_create(cluster, "events", 2, 1), ==, 0);
    add_events();
    mr_pipeline *strict = events_pipeline(", \"rehearse\": {\"size\": 40}");
    CHECK_INT(mr_loader_open(&loader, strict, &options, &err), ==, MR_OK);
    (void)take_events(loader, &replayed, &status, &err);
    CHECK_INT(status, ==, MR_E_CORRUPT);
    CHECK_HAS(err.source, "partition 1, offset 16");
    CHECK_HAS(err.text, "price");
    mr_loader_close(loader);
    mr_pipeline_free(strict);

    /* Half of each batch is read again: nothing stays in memory. */
    mr_pipeline *lenient =
        events_pipeline(", \"on_error\": \"skip\", \"rehearse\": {\"size\": 40, \"memory\": 0}");
    mr_stats stats = {.size = sizeof stats};
    replayed = 0;
    CHECK_INT(mr_loader_open(&loader, lenient, &options, &err), ==, MR_OK);
    int right = take_events(loader, &replayed, &status, &err);
    CHECK_INT(status, ==, MR_END);
    CHECK_INT(right, ==, EVENTS + replayed);
    CHECK_INT(replayed, ==, EVENTS - BATCH / 2);
    mr_loader_stats(loader, &stats);
    CHECK_INT(stats.skipped, ==, 1);
    mr_loader_close(loader);
    mr_pipeline_free(lenient);
}

TEST(end) {
    free(whole.state);
    free(part.state);
    free(other.state);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(producer);
}

TEST_MAIN()
