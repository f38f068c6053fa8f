/* SPDX-License-Identifier: Apache-2.0 */
/* kafka.c - samples are the messages of a Kafka topic as it grows. MR_REQUIRES(rdkafka)
 *
 * A message's number is its offset. Partitions are read from offsets that the run asks for, without
 * a consumer group: brokers decide nothing and keep nothing of a reader, so that the order is the
 * plan's alone. librdkafka has threads and connections of its own, and tries brokers that are away
 * again; what it has read ahead is bounded for each partition.
 *
 * One client is for what comes next, one more for each thread that asks for something once more. */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <millrace/millrace.h>
#include <millrace/source.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "plan/merge.h"
#include "sources/entry_fields.h"

enum { PART = 256, IDLE = 16 }; /* messages; clients */

typedef struct params {
    const char *brokers, *topic, *label;
    int64_t partitions, quantum, from, until;
    double patience;
    mr_strings options;
    mr_entry_format format;
} params;

static const mr_param rows[] = {
    {.name = "brokers",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, brokers),
     .doc = "HOST:PORT of some brokers, parted by commas."},
    {.name = "topic",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, topic),
     .doc = "The topic's name."},
    {.name = "partitions",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, partitions),
     .fallback = "1",
     .min = 1,
     .max = MR_PARTITIONS_MAX,
     .doc = "How many partitions take part, from 0 on."},
    {.name = "quantum",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, quantum),
     .fallback = "1",
     .min = 1,
     .max = 1 << 20,
     .doc = "How many messages are taken of a partition before it is the next one's turn."},
    {.name = "from",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, from),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "The offset of the first message, in each partition."},
    {.name = "until",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, until),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "The run ends before this offset of each partition; 0: never."},
    {.name = "label",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, label),
     .fallback = "\"label\"",
     .doc = "The header of a message with its label, a whole number as text; where it is missing "
            "the label is 0."},
    {.name = "patience",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(params, patience),
     .fallback = "60",
     .min = 0,
     .max = 1e6,
     .doc = "Seconds that all brokers may be away before the run ends with an error."},
    {.name = "options",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, options),
     .fallback = "[]",
     .doc = "More settings of librdkafka, each as \"name=value\": security.protocol and the like."},
    MR_ENTRY_FORMAT_ROW(params),
    {.name = NULL},
};

typedef struct client {
    rd_kafka_t *kafka;
    rd_kafka_topic_t *topic;
} client;

typedef struct partition {
    bool is_started, has_given;
    int64_t next; /* offset that was asked for, or that comes after the last that was given */
    rd_kafka_message_t *messages[PART];
    ssize_t n, given;
} partition;

typedef struct stream {
    const params *own;
    mr_merge merge;
    client main;
    partition *partitions;
    int64_t heard_at;   /* milliseconds: brokers answered */
    int64_t away_since; /* likewise; -1: brokers answer */
    atomic_flag busy;   /* guards what follows; never held while something is waited for */
    client idle[IDLE];
    int n_idle;
} stream;

static void lock(stream *s) {
    while (atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire)) {
    }
}

static void unlock(stream *s) {
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
}

static mr_status check(void *p, mr_error *err) {
    params *own = p;
    bool whole = (own->until - own->from) % own->quantum == 0;
    if (own->until > 0 && (own->until <= own->from || !whole)) {
        mr_fail(err, MR_E_PARAM, "until comes after from, by a multiple of quantum");
        mr_hint(err, "use \"until\": %" PRId64, own->from + own->quantum);
        return MR_E_PARAM;
    }
    for (int32_t i = 0; i < own->options.n; i++) {
        if (!strchr(own->options.v[i], '=')) {
            return mr_fail(err, MR_E_PARAM, "an option is \"name=value\", not \"%.100s\"",
                           own->options.v[i]);
        }
    }
    return mr_entry_format_check(&own->format, err);
}

/* ---- Clients ---- */
static void say_nothing(const rd_kafka_t *kafka, int level, const char *facility,
                        const char *text) {
    (void)kafka;
    (void)level;
    (void)facility;
    (void)text;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static mr_status set(rd_kafka_conf_t *conf, const char *name, const char *value, mr_error *err) {
    char why[256] = "";
    return rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK
               ? MR_OK
               : mr_fail(err, MR_E_PARAM, "librdkafka: %s", why);
}

static mr_status set_option(rd_kafka_conf_t *conf, const char *option, mr_error *err) {
    char name[128];
    const char *value = strchr(option, '=');
    snprintf(name, sizeof name, "%.*s", (int)(value - option), option);
    return set(conf, name, value + 1, err);
}

/* Where an offset is no longer there, an error is wanted and not another offset. */
static mr_status set_all(rd_kafka_conf_t *conf, const params *own, mr_error *err) {
    static const char *const usual[][2] = {
        {"enable.auto.commit", "false"},         {"auto.offset.reset", "error"},
        {"socket.timeout.ms", "10000"},          {"fetch.wait.max.ms", "20"},
        {"fetch.error.backoff.ms", "20"},        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "1000"},    {"queued.min.messages", "1000"},
        {"queued.max.messages.kbytes", "16384"}, {"check.crcs", "true"}};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        MR_TRY(set(conf, usual[i][0], usual[i][1], err));
    }
    MR_TRY(set(conf, "bootstrap.servers", own->brokers, err));
    for (int32_t i = 0; i < own->options.n; i++) {
        MR_TRY(set_option(conf, own->options.v[i], err));
    }
    return MR_OK;
}

static mr_status open_client(const stream *s, client *out, mr_error *err) {
    const params *own = s->own;
    char why[256] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, say_nothing);
    mr_status status = set_all(conf, own, err);
    if (status == MR_OK) {
        out->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    }
    if (!out->kafka) { /* else it owns conf */
        rd_kafka_conf_destroy(conf);
        return status < 0 ? status : mr_fail(err, MR_E_PARAM, "librdkafka: %s", why);
    }
    out->topic = rd_kafka_topic_new(out->kafka, own->topic, NULL);
    return out->topic ? MR_OK : mr_fail(err, MR_E_PARAM, "no such topic can be: %s", own->topic);
}

static void close_client(client *c) {
    if (c->topic) {
        rd_kafka_topic_destroy(c->topic);
    }
    if (c->kafka) {
        rd_kafka_destroy(c->kafka);
    }
    *c = (client){NULL, NULL};
}

/* ---- Opening, closing ---- */
static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    const params *own = p;
    stream *s = mr_zalloc(1, sizeof *s);
    (void)wanted;
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    *state = s;
    s->own = own;
    s->merge = (mr_merge){(int32_t)own->partitions, own->quantum, own->from};
    s->away_since = -1;
    atomic_flag_clear(&s->busy);
    s->partitions = mr_zalloc((size_t)own->partitions, sizeof *s->partitions);
    return s->partitions ? open_client(s, &s->main, err)
                         : mr_fail_memory(err, (size_t)own->partitions * sizeof *s->partitions);
}

static void forget_messages(partition *p) {
    while (p->given < p->n) {
        rd_kafka_message_destroy(p->messages[p->given++]);
    }
    p->n = p->given = 0;
}

static void close_(void *state) {
    stream *s = state;
    if (s) {
        for (int64_t i = 0; s->partitions && i < s->own->partitions; i++) {
            forget_messages(&s->partitions[i]);
            if (s->partitions[i].is_started) {
                rd_kafka_consume_stop(s->main.topic, (int32_t)i);
            }
        }
        while (s->n_idle > 0) {
            close_client(&s->idle[--s->n_idle]);
        }
        close_client(&s->main);
        mr_free(s->partitions);
        mr_free(s);
    }
}

/* The topic's name, not the brokers': they may move. */
static void shape(const void *state, mr_shape *out) {
    const params *own = ((const stream *)state)->own;
    uint64_t format = mr_entry_format_hash(&own->format);
    const uint64_t words[5] = {mr_hash64(own->topic, strlen(own->topic), format),
                               (uint64_t)own->partitions, (uint64_t)own->quantum,
                               (uint64_t)own->from, (uint64_t)own->until};
    mr_hash128 hash = mr_hash(words, sizeof words);
    out->partitions = (int32_t)own->partitions;
    out->quantum = own->quantum;
    out->from = own->from;
    out->samples = own->until > 0 ? (own->until - own->from) * own->partitions : -1;
    out->fingerprint[0] = hash.low;
    out->fingerprint[1] = hash.high;
    out->mapped = true;
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const stream *s = state;
    mr_merge_place place = mr_merge_at(&s->merge, sample);
    snprintf(buffer, size, "%s (partition %" PRId32 ", offset %" PRId64 ")", s->own->topic,
             place.partition, place.number);
}

/* ---- Messages as entries ---- */
static bool read_label(const void *text, size_t size, int64_t *out) {
    const char *digits = text;
    bool negative = size > 0 && digits[0] == '-';
    int64_t value = 0;
    if (size - negative < 1 || size - negative > 18) {
        return false;
    }
    for (size_t i = negative; i < size; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return false;
        }
        value = 10 * value + (digits[i] - '0');
    }
    *out = negative ? -value : value;
    return true;
}

static bool find_label(const rd_kafka_message_t *message, const char *name, int64_t *out) {
    rd_kafka_headers_t *headers = NULL;
    const void *text = NULL;
    size_t size = 0;
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get_last(headers, name, &text, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return true;
    }
    return read_label(text, size, out);
}

/* A message without a value, or with a label that is none, is a bad sample. */
static mr_entry entry_of(const stream *s, const rd_kafka_message_t *message) {
    rd_kafka_timestamp_type_t kind;
    int64_t time = rd_kafka_message_timestamp(message, &kind);
    mr_entry entry = {.number = message->offset,
                      .time = time > 0 && time < INT64_MAX / 1000000 ? 1000000 * time : 0};
    if (message->payload && message->key_len <= MR_ENTRY_KEY_MAX &&
        find_label(message, s->own->label, &entry.label)) {
        entry.value = message->payload;
        entry.size = message->len;
        entry.key = message->key;
        entry.key_size = message->key_len;
    }
    return entry;
}

/* ---- What comes next ---- */
static mr_status fail_kafka(const stream *s, rd_kafka_resp_err_t code, mr_error *err) {
    return mr_fail(err, MR_E_IO, "the topic %.100s of %.100s: %s", s->own->topic, s->own->brokers,
                   rd_kafka_err2str(code));
}

static void hear(stream *s) {
    s->heard_at = now_ms();
    s->away_since = -1;
}

/* MR_LATER: it is tried again. */
static mr_status bear(stream *s, rd_kafka_resp_err_t code, mr_error *err) {
    int64_t now = now_ms();
    s->away_since = s->away_since < 0 ? now : s->away_since;
    if ((double)(now - s->away_since) < 1000 * s->own->patience) {
        return MR_LATER;
    }
    fail_kafka(s, code, err);
    mr_hint(err, "it was tried again for %g s (patience)", s->own->patience);
    return MR_E_IO;
}

static bool is_for_now(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__RESOLVE ||
           code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
           code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION ||
           code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

/* Whether a broker answers within some time. */
static rd_kafka_resp_err_t call_brokers(const client *c, int milliseconds) {
    const struct rd_kafka_metadata *facts = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(c->kafka, 0, c->topic, &facts, milliseconds);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_metadata_destroy(facts);
    }
    return code;
}

/* MR_LATER: *code says why. Asking for offsets may take as long as a socket's timeout whatever it
 * is told, so nobody is asked who does not answer. */
static mr_status query(const client *c, const stream *s, int32_t number, int milliseconds,
                       int64_t *low, int64_t *high, rd_kafka_resp_err_t *code) {
    *code = call_brokers(c, milliseconds);
    if (*code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        *code = rd_kafka_query_watermark_offsets(c->kafka, s->own->topic, number, low, high,
                                                 milliseconds);
    }
    return *code == RD_KAFKA_RESP_ERR_NO_ERROR ? MR_OK : MR_LATER;
}

/* What a run begins with must still be there. MR_LATER: the brokers do not say yet. */
static mr_status start(stream *s, int32_t number, int64_t first, mr_error *err) {
    partition *p = &s->partitions[number];
    rd_kafka_resp_err_t code;
    int64_t low = 0, high = 0;
    if (query(&s->main, s, number, 200, &low, &high, &code) != MR_OK) {
        return is_for_now(code) ? bear(s, code, err) : fail_kafka(s, code, err);
    }
    if (first < low || (first > high && p->has_given)) {
        mr_fail(err, MR_E_STATE,
                "partition %" PRId32 " of %.100s has offsets %" PRId64 " to %" PRId64 "; %" PRId64
                " is wanted",
                number, s->own->topic, low, high, first);
        mr_hint(err, "let brokers keep more, or begin anew with \"from\": %" PRId64, low);
        return MR_E_STATE;
    }
    if (first > high) {
        return MR_LATER; /* it may be written yet */
    }
    if (rd_kafka_consume_start(s->main.topic, number, first) != 0) {
        return fail_kafka(s, rd_kafka_last_error(), err);
    }
    hear(s);
    p->is_started = true;
    p->next = first;
    return MR_OK;
}

/* A run that was overtaken goes on with what is left; what it missed is counted. Offsets that are
 * not there any more at the new end are another topic's. */
static mr_status skip_what_is_gone(stream *s, int32_t number, mr_error *err) {
    partition *p = &s->partitions[number];
    rd_kafka_resp_err_t code;
    int64_t low = 0, high = 0;
    if (query(&s->main, s, number, 200, &low, &high, &code) != MR_OK) {
        return bear(s, code, err);
    }
    if (!p->has_given || high < p->next) {
        mr_fail(err, MR_E_STATE,
                "partition %" PRId32 " of %.100s has offsets %" PRId64 " to %" PRId64 "; %" PRId64
                " is wanted",
                number, s->own->topic, low, high, p->next);
        mr_hint(err, "let brokers keep more, or begin anew");
        return MR_E_STATE;
    }
    forget_messages(p);
    rd_kafka_consume_stop(s->main.topic, number);
    p->is_started = false;
    return start(s, number, low > p->next ? low : p->next, err);
}

static mr_status heed(stream *s, int32_t number, rd_kafka_resp_err_t code, mr_error *err) {
    if (code == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        return MR_LATER;
    }
    if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
        return skip_what_is_gone(s, number, err);
    }
    return is_for_now(code) ? bear(s, code, err) : fail_kafka(s, code, err);
}

/* MR_END: the sink takes no more. */
static mr_status give(stream *s, int32_t number, const mr_entry_sink *sink, mr_error *err) {
    partition *p = &s->partitions[number];
    rd_kafka_message_t *message = p->messages[p->given];
    mr_status status = MR_OK;
    if (message->err) {
        rd_kafka_resp_err_t code = message->err;
        p->given++;
        rd_kafka_message_destroy(message);
        status = heed(s, number, code, err);
        return status == MR_LATER ? MR_OK : status;
    }
    const mr_entry entry = entry_of(s, message);
    if (entry.number >= p->next && !sink->take(sink->user, &entry)) {
        return MR_END;
    }
    p->next = entry.number >= p->next ? entry.number + 1 : p->next;
    p->has_given = true;
    p->given++;
    hear(s);
    rd_kafka_message_destroy(message);
    return MR_OK;
}

/* librdkafka does not say when brokers come and go: after some silence they are asked. */
static mr_status look_for_brokers(stream *s, mr_error *err) {
    enum { SILENCE = 2000 };
    double patience = 1000 * s->own->patience;
    double silence = patience < 2 * SILENCE ? patience / 2 : SILENCE;
    if ((double)(now_ms() - s->heard_at) < silence) {
        return MR_LATER;
    }
    rd_kafka_resp_err_t code = call_brokers(&s->main, 200);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return bear(s, code, err);
    }
    hear(s);
    return MR_LATER;
}

static mr_status advance(void *state, int32_t number, int64_t first, const mr_entry_sink *sink,
                         mr_error *err) {
    stream *s = state;
    partition *p = &s->partitions[number];
    mr_status status = p->is_started ? MR_OK : start(s, number, first, err);
    mr_json_packer packer = {.size = 0};
    const mr_entry_sink through = mr_entry_through(&s->own->format, &packer, sink);
    while (status == MR_OK) {
        while (status == MR_OK && p->given < p->n) {
            status = give(s, number, &through, err);
        }
        if (status == MR_OK && p->is_started) {
            p->given = 0;
            p->n = rd_kafka_consume_batch(s->main.topic, number, 0, p->messages, PART);
            p->n = p->n > 0 ? p->n : 0;
        }
        status = status == MR_OK && p->n == 0 ? MR_LATER : status;
    }
    mr_json_packer_free(&packer);
    if (status == MR_LATER && p->is_started) {
        status = look_for_brokers(s, err);
    }
    return status < 0 ? status : MR_OK;
}

/* ---- Once more ---- */
static mr_status take_client(stream *s, client *out, mr_error *err) {
    *out = (client){NULL, NULL};
    lock(s);
    if (s->n_idle > 0) {
        *out = s->idle[--s->n_idle];
    }
    unlock(s);
    return out->kafka ? MR_OK : open_client(s, out, err);
}

static void give_client_back(stream *s, client *c) {
    lock(s);
    if (s->n_idle < IDLE) {
        s->idle[s->n_idle++] = *c;
        *c = (client){NULL, NULL};
    }
    unlock(s);
    close_client(c);
}

static int patience_of(const stream *s) {
    return (int)(1000 * (s->own->patience < 10 ? s->own->patience : 10));
}

/* The first message at or behind an offset. */
static mr_status read_one(const stream *s, const client *c, int32_t number, int64_t wanted,
                          const mr_entry_sink *sink, mr_error *err) {
    rd_kafka_message_t *message = rd_kafka_consume(c->topic, number, patience_of(s));
    if (!message) {
        return fail_kafka(s, RD_KAFKA_RESP_ERR__TIMED_OUT, err);
    }
    mr_status status = MR_E_NOT_FOUND;
    if (!message->err && message->offset == wanted) {
        const mr_entry entry = entry_of(s, message);
        status = !entry.value                     ? MR_E_NOT_FOUND
                 : sink->take(sink->user, &entry) ? MR_OK
                                                  : mr_fail_memory(err, entry.size);
    }
    rd_kafka_message_destroy(message);
    return status == MR_E_NOT_FOUND
               ? mr_fail(err, MR_E_NOT_FOUND,
                         "partition %" PRId32 " of %.100s has no offset %" PRId64 " any more",
                         number, s->own->topic, wanted)
               : status;
}

static mr_status recall(const void *state, int32_t number, int64_t wanted,
                        const mr_entry_sink *sink, mr_error *err) {
    stream *s = (stream *)(uintptr_t)state;
    client c;
    mr_status status = take_client(s, &c, err);
    if (status == MR_OK && rd_kafka_consume_start(c.topic, number, wanted) != 0) {
        status = fail_kafka(s, rd_kafka_last_error(), err);
    } else if (status == MR_OK) {
        mr_json_packer packer = {.size = 0};
        const mr_entry_sink through = mr_entry_through(&s->own->format, &packer, sink);
        status = read_one(s, &c, number, wanted, &through, err);
        mr_json_packer_free(&packer);
        rd_kafka_consume_stop(c.topic, number);
    }
    give_client_back(s, &c);
    return status;
}

static mr_status bounds(const void *state, int32_t number, int milliseconds, int64_t *low,
                        int64_t *high, mr_error *err) {
    const stream *s = state;
    rd_kafka_resp_err_t code;
    return query(&s->main, s, number, milliseconds, low, high, &code) == MR_OK
               ? MR_OK
               : fail_kafka(s, code, err);
}

static mr_status oldest(const void *state, int32_t number, int64_t *out, mr_error *err) {
    int64_t high;
    return bounds(state, number, patience_of(state), out, &high, err);
}

static mr_status newest(const void *state, int32_t number, int64_t *out, mr_error *err) {
    int64_t low;
    return bounds(state, number, 500, &low, out, err);
}

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    (void)err;
    return mr_entry_describe(&((const params *)p)->format, fields, capacity, n_fields);
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    return mr_entry_fill(&((const stream *)state)->own->format, block, sample, fields, err);
}

static void forget_params(void *p) {
    mr_entry_format_free(&((params *)p)->format);
}

static bool is_stream(const void *p) {
    (void)p;
    return true;
}

extern const mr_source_class mr_source_kafka;
const mr_source_class mr_source_kafka = {
    MR_SOURCE_HEADER,
    .name = "kafka",
    .summary = "The messages of a Kafka topic, as it grows.",
    .doc = MR_ENTRY_FIELDS_DOC
    "`quantum` messages of each partition are taken in turn, whatever comes first "
    "(docs/streams.md). Partitions are assigned, not subscribed to: there is no consumer group, "
    "and "
    "brokers keep nothing of a reader. A message's number is its offset, so offsets that are left "
    "out, by transactions or by compaction, are bad samples, as are messages without a value. The "
    "label is a header; time is the message's.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget_params,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .fill = fill,
    .is_stream = is_stream,
    .advance = advance,
    .recall = recall,
    .oldest = oldest,
    .newest = newest,
};
