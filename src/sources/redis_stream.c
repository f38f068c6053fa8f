/* SPDX-License-Identifier: Apache-2.0 */
/* redis_stream.c - samples are the entries of Redis streams as they grow; each key is a partition.
 * MR_REQUIRES(hiredis)
 *
 * Every question is XREAD from an id that was seen, and XINFO STREAM: what was added and what is
 * there give entries their numbers (redis_reply.h), so that nothing can be lost unseen. (Not as a
 * transaction, which a server without memory refuses.) There are no consumer groups: the server
 * keeps nothing of a reader, who may be killed at any moment and begin again from any number.
 *
 * One connection is for what comes next; the next part is asked for while the last one is taken.
 * Others are for what is asked for once more, one for each thread that does. */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <millrace/source.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "fabric/redis_line.h"
#include "plan/merge.h"
#include "sources/entry_fields.h"
#include "sources/redis_marks.h"

enum { PART_BYTES = 1 << 20, MOST_ENTRIES = 4096, FIRST_ENTRIES = 16, BAD = 64, IDLE = 16 };
enum { GLANCE = 20, FIRST_PAUSE = 50, LAST_PAUSE = 1000, WORTH_SAYING = 3000 }; /* milliseconds */
static const int64_t MAX_REPLY = (int64_t)2 << 30;

typedef struct params {
    const char *url;
    mr_strings keys;
    int64_t quantum, from, until;
    mr_redis_names names;
    double patience;
    mr_entry_format format;
} params;

static const mr_param rows[] = {
    {.name = "url",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, url),
     .doc = "The server: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss:// with TLS, or "
            "redis+unix://[[USER]:PASSWORD@]/PATH[?db=DB]."},
    {.name = "keys",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, keys),
     .doc = "The streams' keys: partition 0, partition 1 and so on."},
    {.name = "quantum",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, quantum),
     .fallback = "1",
     .min = 1,
     .max = 1 << 20,
     .doc = "How many entries are taken of a partition before it is the next one's turn."},
    {.name = "from",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, from),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "The number of the first entry, in each partition. Entries are numbered from 0 as they "
            "were added, also where the oldest are gone."},
    {.name = "until",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, until),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "The run ends before this entry of each partition; 0: never."},
    {.name = "value",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, names.value),
     .fallback = "\"value\"",
     .doc = "The field of an entry that is the sample."},
    {.name = "label",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, names.label),
     .fallback = "\"label\"",
     .doc = "The field with the label, a whole number; where it is missing the label is 0."},
    {.name = "key",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, names.key),
     .fallback = "\"key\"",
     .doc = "The field with the key; where it is missing the key is empty."},
    {.name = "time",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, names.time),
     .fallback = "\"time\"",
     .doc = "The field with the time, in nanoseconds since 1970; where it is missing, the time is "
            "that of the entry's id."},
    {.name = "patience",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(params, patience),
     .fallback = "60",
     .min = 0,
     .max = 1e6,
     .doc = "Seconds that the server may be away or silent before the run ends with an error; it "
            "is tried again all the time."},
    MR_ENTRY_FORMAT_ROW(params),
    {.name = NULL},
};

typedef struct bad_entry {
    int32_t partition;
    int64_t number;
    mr_redis_id id;
    const char *why;
} bad_entry;

typedef struct partition {
    const char *key;
    mr_redis_cursor cursor; /* behind what was taken out of replies */
    bool is_placed, has_given;
    bool said_empty;
    int64_t empty_since;    /* milliseconds; 0: it is not known to be empty */
    redisReply *replies[2]; /* some of which was not given yet; NULL: none */
    mr_redis_part part;
    int64_t given;         /* of the part's entries */
    redisReply *coming[2]; /* the part behind it, not looked at */
    int64_t asked;         /* of it: how many, */
    bool checks;           /* from the entry before on */
    int64_t wanted;        /* of the next part */
    int64_t connection;    /* on which the stream was found to be the one that was read */
    mr_redis_marks marks;
} partition;

typedef struct stream {
    const params *own;
    mr_merge merge;
    partition *partitions;
    mr_redis_line *line;
    int32_t asker;        /* whose answer is missing on the line */
    int64_t silent_since; /* milliseconds; -1: it answered */
    mr_log log;           /* for what lasts */
    bool said_silent;     /* since it answered last */
    int64_t asked_at, not_before, pause;
    int64_t connection; /* counts them */

    atomic_flag busy; /* guards what follows, and marks; never held while something is waited for */
    mr_redis_line *idle[IDLE]; /* connections for what is asked for once more */
    int n_idle;
    bad_entry bad[BAD];
    int64_t n_bad;
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
    if (own->keys.n < 1 || own->keys.n > MR_PARTITIONS_MAX) {
        return mr_fail(err, MR_E_PARAM, "keys are the names of 1 to %d streams", MR_PARTITIONS_MAX);
    }
    return mr_entry_format_check(&own->format, err);
}

/* ---- Opening, closing ---- */
static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    const params *own = p;
    stream *s = mr_zalloc(1, sizeof *s);
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    *state = s;
    s->own = own;
    s->log = *wanted->log;
    s->merge = (mr_merge){own->keys.n, own->quantum, own->from};
    s->silent_since = -1;
    atomic_flag_clear(&s->busy);
    s->partitions = mr_zalloc((size_t)own->keys.n, sizeof *s->partitions);
    if (!s->partitions) {
        return mr_fail_memory(err, (size_t)own->keys.n * sizeof *s->partitions);
    }
    for (int32_t i = 0; i < own->keys.n; i++) {
        s->partitions[i].key = own->keys.v[i];
        s->partitions[i].cursor.next = -1;
        s->partitions[i].wanted = FIRST_ENTRIES;
    }
    MR_TRY(mr_redis_line_open(&s->line, own->url, MAX_REPLY, err));
    mr_redis_line_reuse(s->line); /* its replies are the one reader's, and freed before it */
    return MR_OK;
}

static void forget(redisReply *replies[2]) {
    for (int i = 0; i < 2; i++) {
        if (replies[i]) {
            mr_redis_reply_free(replies[i]);
        }
        replies[i] = NULL;
    }
}

static void close_(void *state) {
    stream *s = state;
    if (s) {
        for (int32_t i = 0; s->partitions && i < s->own->keys.n; i++) {
            forget(s->partitions[i].replies);
            forget(s->partitions[i].coming);
            mr_redis_marks_free(&s->partitions[i].marks);
        }
        mr_free(s->partitions);
        mr_redis_line_close(s->line);
        while (s->n_idle > 0) {
            mr_redis_line_close(s->idle[--s->n_idle]);
        }
        mr_free(s);
    }
}

/* Names, not the place: a server may move. */
static void shape(const void *state, mr_shape *out) {
    const params *own = ((const stream *)state)->own;
    uint64_t words[5] = {mr_entry_format_hash(&own->format), (uint64_t)own->keys.n,
                         (uint64_t)own->quantum, (uint64_t)own->from, (uint64_t)own->until};
    for (int32_t i = 0; i < own->keys.n; i++) {
        words[0] = mr_hash64(own->keys.v[i], strlen(own->keys.v[i]) + 1, words[0]);
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out->partitions = own->keys.n;
    out->quantum = own->quantum;
    out->from = own->from;
    out->samples = own->until > 0 ? (own->until - own->from) * own->keys.n : -1;
    out->fingerprint[0] = hash.low;
    out->fingerprint[1] = hash.high;
    out->mapped = true;
}

static bool find_bad(const stream *s, const mr_merge_place *place, bad_entry *out) {
    for (int64_t i = 0; i < BAD && i < s->n_bad; i++) {
        if (s->bad[i].partition == place->partition && s->bad[i].number == place->number) {
            *out = s->bad[i];
            return true;
        }
    }
    return false;
}

/* Of the last ones that are bad, the id and what is wrong. */
static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    stream *s = (stream *)(uintptr_t)state;
    const mr_merge_place place = mr_merge_at(&s->merge, sample);
    const char *key = s->partitions[place.partition].key;
    char id[MR_REDIS_ID_TEXT];
    bad_entry bad;
    lock(s);
    bool is_bad = find_bad(s, &place, &bad);
    unlock(s);
    if (is_bad) {
        mr_redis_id_write(bad.id, id);
        snprintf(buffer, size, "%s (partition %" PRId32 ", entry %" PRId64 ", id %s: %s)", key,
                 place.partition, place.number, id, bad.why);
    } else {
        snprintf(buffer, size, "%s (partition %" PRId32 ", entry %" PRId64 ")", key,
                 place.partition, place.number);
    }
}

/* ---- Asking ---- */
static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void ask(mr_redis_line *line, const char *key, mr_redis_id last, int64_t count) {
    char id[MR_REDIS_ID_TEXT], number[24];
    mr_redis_id_write(last, id);
    snprintf(number, sizeof number, "%" PRId64, count);
    const char *const entries[] = {"XREAD", "COUNT", number, "STREAMS", key, id};
    mr_redis_line_say(line, entries, 6);
    mr_redis_line_say(line, (const char *[]){"XINFO", "STREAM", key}, 3);
}

/* The id behind which the partition's next part begins. */
static mr_redis_id last_of(const partition *p) {
    mr_redis_id last = p->cursor.last;
    const redisReply *entry =
        p->replies[0] && p->part.n > p->given ? p->part.entries[p->part.n - 1] : NULL;
    if (entry && entry->type == REDIS_REPLY_ARRAY && entry->elements > 0 &&
        entry->element[0]->type == REDIS_REPLY_STRING) {
        mr_redis_id_read(entry->element[0]->str, (size_t)entry->element[0]->len, &last);
    }
    return last;
}

/* On a new connection the server may be another one, or may have lost something: the last entry
 * that was read is asked for once more. */
static void ask_next(stream *s, int32_t number) {
    partition *p = &s->partitions[number];
    mr_redis_id last = last_of(p);
    s->asker = number;
    s->asked_at = now_ms();
    p->checks = p->connection != s->connection && p->cursor.next > 0 && (last.time || last.serial);
    p->asked = p->wanted + p->checks;
    ask(s->line, p->key, p->checks ? mr_redis_id_earlier(last) : last, p->asked);
}

/* ---- What lasts is said, once ---- */
static bool is_worth_saying(const stream *s, int64_t since) {
    double half = 500 * s->own->patience; /* before patience is over, in any case */
    return s->log.write &&
           (double)(now_ms() - since) >= (half < WORTH_SAYING ? half : WORTH_SAYING);
}

static void say_silent(stream *s, const mr_error *failure) {
    char text[sizeof failure->text + 100];
    if (!s->said_silent && is_worth_saying(s, s->silent_since)) {
        snprintf(text, sizeof text, "waiting: %s; it is tried again for %g s in all (patience)",
                 failure->text, s->own->patience);
        s->said_silent = true;
        s->log.write(s->log.user, text);
    }
}

/* A key that is spelled wrong looks like one that nobody has written to yet. */
static void say_empty(stream *s, partition *p) {
    char text[400];
    if (p->said_empty || p->has_given || p->part.facts.added > 0) {
        return;
    }
    p->empty_since = p->empty_since ? p->empty_since : now_ms();
    if (is_worth_saying(s, p->empty_since)) {
        snprintf(text, sizeof text,
                 "waiting: the key %.100s has no entries yet on the Redis server %.150s", p->key,
                 mr_redis_line_name(s->line));
        p->said_empty = true;
        s->log.write(s->log.user, text);
    }
}

/* A server that is away is asked again after a while, for as long as patience lasts. */
static mr_status bear(stream *s, const mr_error *failure, mr_error *err) {
    int64_t now = now_ms(), *wanted = &s->partitions[s->asker].wanted;
    *wanted = *wanted > 4 ? *wanted / 4 : 1; /* a connection that does not last gives little */
    s->connection++;
    s->silent_since = s->silent_since < 0 ? now : s->silent_since;
    s->pause = s->pause == 0 ? FIRST_PAUSE : 2 * s->pause < LAST_PAUSE ? 2 * s->pause : LAST_PAUSE;
    s->not_before = now + s->pause;
    if ((double)(now - s->silent_since) < 1000 * s->own->patience) {
        say_silent(s, failure);
        return MR_LATER;
    }
    if (err) {
        *err = *failure;
        mr_hint(err, "it was tried again for %g s (patience)", s->own->patience);
    }
    return MR_E_IO;
}

/* Sockets that nobody answers on may be of a machine that is no more: a new one is tried. */
static mr_status hear_nothing(stream *s, mr_error *err) {
    enum { SILENCE = 5000 };
    mr_error failure = MR_ERROR_INIT;
    double silence = s->own->patience * 1000 < SILENCE ? s->own->patience * 1000 : SILENCE;
    if ((double)(now_ms() - s->asked_at) < silence) {
        return MR_LATER;
    }
    s->silent_since = s->silent_since < 0 ? s->asked_at : s->silent_since;
    mr_redis_line_hang_up(s->line);
    mr_fail(&failure, MR_E_IO, "the Redis server %s does not answer", mr_redis_line_name(s->line));
    return bear(s, &failure, err);
}

static void hear(stream *s) {
    s->silent_since = -1;
    s->said_silent = false;
    s->pause = 0;
}

/* An error that will pass is as if there were no server. */
static mr_status look_for_trouble(stream *s, redisReply *replies[2], mr_error *err) {
    for (int i = 0; i < 2; i++) {
        if (replies[i]->type == REDIS_REPLY_ERROR && mr_redis_is_for_now(replies[i]->str)) {
            mr_fail(err, MR_E_IO, "the Redis server %s: %.200s", mr_redis_line_name(s->line),
                    replies[i]->str);
            forget(replies);
            return MR_E_IO;
        }
    }
    return MR_OK;
}

/* Waits a moment for the answer on the line. MR_LATER: not yet. */
static mr_status listen_(stream *s, mr_error *err) {
    mr_error failure = MR_ERROR_INIT;
    redisReply *replies[MR_REDIS_ANSWERS] = {NULL};
    mr_status status = mr_redis_line_answer(s->line, GLANCE, replies, &failure);
    if (status == MR_LATER) {
        return hear_nothing(s, err);
    }
    if (status == MR_OK) {
        status = look_for_trouble(s, replies, &failure);
    }
    if (status == MR_E_IO) {
        return bear(s, &failure, err);
    }
    if (status < 0) {
        if (err) {
            *err = failure;
        }
        return status;
    }
    hear(s);
    memcpy(s->partitions[s->asker].coming, replies, sizeof s->partitions[0].coming);
    return MR_OK;
}

/* ---- Connections for one question ---- */
static mr_status take_line(stream *s, mr_redis_line **out, mr_error *err) {
    lock(s);
    *out = s->n_idle > 0 ? s->idle[--s->n_idle] : NULL;
    unlock(s);
    mr_status status = *out ? MR_OK : mr_redis_line_open(out, s->own->url, MAX_REPLY, err);
    if (status < 0) {
        mr_redis_line_close(*out);
        *out = NULL;
    }
    return status;
}

static void give_line_back(stream *s, mr_redis_line *line) {
    lock(s);
    if (line && s->n_idle < IDLE) {
        s->idle[s->n_idle++] = line;
        line = NULL;
    }
    unlock(s);
    mr_redis_line_close(line);
}

static mr_status call(const stream *s, mr_redis_line *line, double seconds, redisReply **replies,
                      mr_error *err) {
    double most = s->own->patience < seconds ? s->own->patience : seconds;
    mr_status status = mr_redis_line_answer(line, (int)(1000 * most), replies, err);
    if (status == MR_LATER) {
        mr_redis_line_hang_up(line);
        status =
            mr_fail(err, MR_E_IO, "the Redis server %s does not answer", mr_redis_line_name(line));
    }
    return status;
}

/* A connection that was idle may have ended meanwhile: then another one is tried, once. */
static mr_status ask_facts(stream *s, mr_redis_line *line, const char *key, double seconds,
                           redisReply **replies, mr_error *err) {
    mr_status status = MR_E_IO;
    for (int attempt = 0; attempt < 2 && status == MR_E_IO; attempt++) {
        mr_redis_line_say(line, (const char *[]){"XINFO", "STREAM", key}, 3);
        status = call(s, line, seconds, replies, err);
    }
    return status;
}

/* ---- Finding a number ---- */
/* A run that goes on mostly wants something near the end: counting back from there is shorter.
 * Where it does not work out, the cursor stays unknown, and counting begins at the other end. */
static mr_status look_back(stream *s, mr_redis_line *line, const partition *p, int64_t wanted,
                           mr_redis_cursor *cursor) {
    enum { STEP = 257 };
    char id[MR_REDIS_ID_TEXT], count[24];
    redisReply *replies[MR_REDIS_ANSWERS] = {NULL};
    int64_t number = cursor->next - 1; /* of the entry that the cursor stands behind */
    int64_t far = number - wanted + 2;
    snprintf(count, sizeof count, "%" PRId64, far < STEP ? far : STEP);
    mr_redis_id_write(cursor->last, id);
    mr_redis_line_say(line, (const char *[]){"XREVRANGE", p->key, id, "-", "COUNT", count}, 6);
    mr_status status = call(s, line, 10, replies, NULL);
    if (status == MR_OK) {
        status = mr_redis_go_back(replies[0], number, wanted, cursor);
    }
    if (status == MR_LATER && cursor->next - 1 == number) {
        status = MR_E_NOT_FOUND; /* it is the first of all */
    }
    forget(replies);
    return status;
}

static void count_from_the_end(stream *s, const partition *p, int64_t wanted,
                               mr_redis_cursor *out) {
    redisReply *replies[MR_REDIS_ANSWERS] = {NULL};
    mr_redis_line *line = NULL;
    mr_redis_facts facts = {.added = 0};
    mr_status status = take_line(s, &line, NULL);
    if (status == MR_OK) {
        status = ask_facts(s, line, p->key, 10, replies, NULL);
    }
    if (status == MR_OK) {
        status = mr_redis_facts_read(replies[0], p->key, &facts, NULL);
    }
    forget(replies);
    bool nearer = facts.added - wanted < wanted - (facts.added - facts.length);
    if (status == MR_OK && facts.length > 0 && wanted <= facts.added && nearer) {
        mr_redis_cursor cursor = {facts.last, facts.added};
        status = cursor.next <= wanted ? MR_OK : MR_LATER;
        while (status == MR_LATER) {
            status = look_back(s, line, p, wanted, &cursor);
        }
        *out = status == MR_OK ? cursor : *out;
    }
    give_line_back(s, line);
}

/* Where to begin for an entry: a mark, or near the end; else the first entry that is there. */
static mr_redis_cursor find_place(stream *s, partition *p, int64_t wanted) {
    mr_redis_cursor cursor = {.next = -1};
    lock(s);
    mr_redis_marks_find(&p->marks, wanted, &cursor);
    unlock(s);
    if (cursor.next < 0) {
        count_from_the_end(s, p, wanted, &cursor);
    }
    return cursor;
}

/* ---- What comes next ---- */
static mr_status fail_trimmed(const partition *p, int64_t number, mr_error *err) {
    mr_fail(err, MR_E_STATE,
            "the stream %.100s keeps no entry before %" PRId64 "; entry %" PRId64 " is wanted",
            p->key, p->part.facts.added - p->part.facts.length, number);
    mr_hint(err, "let Redis keep more (MAXLEN, MINID), or begin anew with \"from\": %" PRId64,
            p->part.facts.added - p->part.facts.length);
    return MR_E_STATE;
}

/* A run that begins must find its first entry; one that was overtaken counts what it missed. */
static mr_status look_at_reply(stream *s, partition *p, int64_t number, mr_error *err) {
    bool checks = p->checks;
    memcpy(p->replies, p->coming, sizeof p->replies);
    memset(p->coming, 0, sizeof p->coming);
    p->given = 0;
    MR_TRY(mr_redis_part_read(p->replies, p->key, p->asked, checks, &p->cursor, &p->part, err));
    p->connection = s->connection;
    say_empty(s, p);
    return !p->has_given && p->part.facts.added - p->part.facts.length > number
               ? fail_trimmed(p, number, err)
               : MR_OK;
}

static void remember_bad(stream *s, int32_t number, const partition *p, const char *why) {
    lock(s);
    s->bad[s->n_bad++ % BAD] = (bad_entry){number, p->cursor.next - 1, p->cursor.last, why};
    unlock(s);
}

static void remember_place(stream *s, partition *p) {
    lock(s);
    mr_redis_marks_add(&p->marks, &p->cursor);
    unlock(s);
}

/* MR_END: the sink takes no more. */
static mr_status give(stream *s, int32_t number, int64_t first, const mr_entry_sink *sink,
                      int64_t *bytes, mr_error *err) {
    partition *p = &s->partitions[number];
    mr_redis_cursor cursor = p->cursor;
    const char *why = NULL;
    mr_entry entry;
    if (!mr_redis_entry_read(p->part.entries[p->given], &s->own->names, &cursor, &entry, &why)) {
        return mr_fail(err, MR_E_UNSUPPORTED, "entry %" PRId64 " of %.100s makes no sense",
                       p->cursor.next, p->key);
    }
    if (entry.number >= first && !sink->take(sink->user, &entry)) {
        return MR_END;
    }
    *bytes += (int64_t)(entry.size + entry.key_size);
    remember_place(s, p);
    p->cursor = cursor;
    p->given++;
    p->has_given |= entry.number >= first;
    if (why) {
        remember_bad(s, number, p, why);
    }
    return MR_OK;
}

/* About as many entries as a reply of PART_BYTES has; not few, since XINFO repeats two of them. */
static void choose_wanted(partition *p, int64_t bytes, int64_t n) {
    if (n > 0 && !p->part.is_end) {
        int64_t fit = PART_BYTES / (bytes / n + 64);
        int64_t most = 4 * p->wanted < MOST_ENTRIES ? 4 * p->wanted : MOST_ENTRIES;
        p->wanted = most < FIRST_ENTRIES || fit > most ? most
                    : fit > FIRST_ENTRIES              ? fit
                                                       : FIRST_ENTRIES;
    }
}

static mr_status give_part(stream *s, int32_t number, int64_t first, const mr_entry_sink *sink,
                           mr_error *err) {
    partition *p = &s->partitions[number];
    int64_t bytes = 0, before = p->given;
    mr_status status = MR_OK;
    while (status == MR_OK && p->given < p->part.n) {
        status = give(s, number, first, sink, &bytes, err);
    }
    choose_wanted(p, bytes, p->given - before);
    if (status != MR_END) {
        forget(p->replies);
    }
    return status;
}

/* Until the partition's next answer is there; MR_LATER: not yet. */
static mr_status obtain(stream *s, int32_t number, mr_error *err) {
    mr_status status = MR_OK;
    while (status == MR_OK && !s->partitions[number].coming[0]) {
        if (!mr_redis_line_is_asked(s->line)) {
            if (now_ms() < s->not_before && s->silent_since >= 0) {
                return MR_LATER;
            }
            ask_next(s, number);
        }
        status = listen_(s, err);
    }
    return status;
}

/* Where there is more, it is asked for before this part is given. */
static mr_status advance_once(stream *s, int32_t number, int64_t first, const mr_entry_sink *sink,
                              mr_error *err) {
    partition *p = &s->partitions[number];
    if (!p->replies[0]) {
        mr_status status = obtain(s, number, err);
        if (status != MR_OK) {
            return status;
        }
        MR_TRY(look_at_reply(s, p, first, err));
    }
    bool is_end = p->part.is_end;
    if (!is_end && !p->coming[0] && !mr_redis_line_is_asked(s->line)) {
        ask_next(s, number);
    }
    mr_status status = give_part(s, number, first, sink, err);
    return status == MR_OK && is_end ? MR_LATER : status;
}

/* Entries that lost their value on the way are bad by the schema: the cursor stands before them. */
typedef struct watching {
    stream *s;
    int32_t number;
    const mr_entry_sink *to;
} watching;

static bool watch(void *user, const mr_entry *entry) {
    const watching *w = user;
    bool taken = w->to->take(w->to->user, entry);
    if (taken && !entry->value && w->s->own->format.json) {
        partition *p = &w->s->partitions[w->number];
        mr_redis_cursor cursor = p->cursor;
        mr_entry again;
        const char *why = NULL;
        if (mr_redis_entry_read(p->part.entries[p->given], &w->s->own->names, &cursor, &again,
                                &why) &&
            !why) {
            lock(w->s);
            w->s->bad[w->s->n_bad++ % BAD] =
                (bad_entry){w->number, entry->number, cursor.last, "not as the schema says"};
            unlock(w->s);
        }
    }
    return taken;
}

static mr_status advance(void *state, int32_t number, int64_t first, const mr_entry_sink *sink,
                         mr_error *err) {
    stream *s = state;
    partition *p = &s->partitions[number];
    mr_status status = MR_OK;
    if (!p->is_placed) {
        p->cursor = find_place(s, p, first);
        p->is_placed = true;
    }
    const watching watched = {s, number, sink};
    const mr_entry_sink seen = {watch, (void *)(uintptr_t)&watched};
    mr_json_packer packer = {.size = 0};
    const mr_entry_sink through = mr_entry_through(&s->own->format, &packer, &seen);
    while (status == MR_OK) {
        status = advance_once(s, number, first, &through, err);
    }
    mr_json_packer_free(&packer);
    return status < 0 ? status : MR_OK;
}

/* ---- Once more ---- */
static mr_status facts_of(const void *state, int32_t number, double seconds, mr_redis_facts *out,
                          mr_error *err) {
    stream *s = (stream *)(uintptr_t)state;
    const char *key = s->partitions[number].key;
    redisReply *replies[MR_REDIS_ANSWERS] = {NULL};
    mr_redis_line *line = NULL;
    mr_status status = take_line(s, &line, err);
    if (status == MR_OK) {
        status = ask_facts(s, line, key, seconds, replies, err);
    }
    give_line_back(s, line);
    if (status == MR_OK) {
        status = mr_redis_facts_read(replies[0], key, out, err);
    }
    forget(replies);
    return status;
}

static mr_status oldest(const void *state, int32_t number, int64_t *out, mr_error *err) {
    mr_redis_facts facts = {.added = 0};
    MR_TRY(facts_of(state, number, 10, &facts, err));
    *out = facts.added - facts.length;
    return MR_OK;
}

static mr_status newest(const void *state, int32_t number, int64_t *out, mr_error *err) {
    mr_redis_facts facts = {.added = 0};
    MR_TRY(facts_of(state, number, 0.5, &facts, err)); /* nobody waits long for a figure */
    *out = facts.added;
    return MR_OK;
}

/* Takes the wanted entry out of a part, or moves the cursor behind the part. MR_LATER: further. */
static mr_status search_part(stream *s, partition *p, const mr_redis_part *part,
                             mr_redis_cursor *cursor, int64_t wanted, const mr_entry_sink *sink) {
    const char *why;
    mr_entry entry;
    for (int64_t i = 0; i < part->n; i++) {
        lock(s);
        mr_redis_marks_add(&p->marks, cursor);
        unlock(s);
        if (!mr_redis_entry_read(part->entries[i], &s->own->names, cursor, &entry, &why) ||
            entry.number > wanted) {
            return MR_E_NOT_FOUND;
        }
        if (entry.number == wanted) {
            return !entry.value                     ? MR_E_NOT_FOUND
                   : sink->take(sink->user, &entry) ? MR_OK
                                                    : MR_E_MEMORY;
        }
    }
    return part->is_end ? MR_E_NOT_FOUND : MR_LATER;
}

static mr_status search_once(stream *s, mr_redis_line *line, partition *p, mr_redis_cursor *cursor,
                             int64_t wanted, const mr_entry_sink *sink, mr_error *err) {
    enum { STEP = 256 };
    int64_t far = cursor->next < 0 ? STEP : wanted - cursor->next + 1;
    int64_t asked = far < STEP ? far : STEP;
    redisReply *replies[MR_REDIS_ANSWERS] = {NULL};
    mr_redis_part part;
    mr_status status = MR_E_IO;
    for (int attempt = 0; attempt < 2 && status == MR_E_IO; attempt++) {
        ask(line, p->key, cursor->last, asked);
        status = call(s, line, 10, replies, err);
    }
    if (status == MR_OK) {
        status = mr_redis_part_read(replies, p->key, asked, false, cursor, &part, err);
    }
    if (status == MR_OK) {
        status = search_part(s, p, &part, cursor, wanted, sink);
    }
    forget(replies);
    return status;
}

static mr_status recall(const void *state, int32_t number, int64_t wanted,
                        const mr_entry_sink *sink, mr_error *err) {
    stream *s = (stream *)(uintptr_t)state;
    partition *p = &s->partitions[number];
    mr_redis_cursor cursor = find_place(s, p, wanted);
    mr_redis_line *line = NULL;
    mr_status status = take_line(s, &line, err);
    status = status == MR_OK ? MR_LATER : status;
    mr_json_packer packer = {.size = 0};
    const mr_entry_sink through = mr_entry_through(&s->own->format, &packer, sink);
    while (status == MR_LATER) {
        status = search_once(s, line, p, &cursor, wanted, &through, err);
    }
    mr_json_packer_free(&packer);
    give_line_back(s, line);
    return status == MR_E_NOT_FOUND
               ? mr_fail(err, MR_E_NOT_FOUND, "the stream %.100s has no entry %" PRId64 " any more",
                         p->key, wanted)
               : status;
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

extern const mr_source_class mr_source_redis_stream;
const mr_source_class mr_source_redis_stream = {
    MR_SOURCE_HEADER,
    .name = "redis_stream",
    .summary = "The entries of Redis streams, as they grow.",
    .doc = MR_ENTRY_FIELDS_DOC
    "Needs Redis 7. Each key is a partition; `quantum` entries of each are taken in turn, whatever "
    "comes first (docs/streams.md). Entries are numbered from 0 in the order in which they were "
    "added. There are no consumer groups, and nothing is written to the server. An entry without "
    "the field `value`, or whose label or time is no whole number, is a bad sample. Entries may be "
    "trimmed, but not deleted one by one. A server that is away is tried again.",
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
