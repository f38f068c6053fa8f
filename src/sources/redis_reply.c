/* SPDX-License-Identifier: Apache-2.0 */
/* redis_reply.c - see redis_reply.h. MR_REQUIRES(hiredis) */
#include "sources/redis_reply.h"

#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "fabric/redis_line.h"

/* ---- Ids and numbers ---- */
void mr_redis_id_write(mr_redis_id id, char out[MR_REDIS_ID_TEXT]) {
    snprintf(out, MR_REDIS_ID_TEXT, "%" PRIu64 "-%" PRIu64, id.time, id.serial);
}

/* Digits alone, as many as there are; *used: how many. */
static bool read_digits(const char *text, size_t size, uint64_t *out, size_t *used) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *out = value;
    *used = i;
    return i > 0;
}

bool mr_redis_id_read(const char *text, size_t size, mr_redis_id *out) {
    size_t n = 0, m = 0;
    return read_digits(text, size, &out->time, &n) && n < size && text[n] == '-' &&
           read_digits(text + n + 1, size - n - 1, &out->serial, &m) && n + 1 + m == size;
}

bool mr_redis_id_before(mr_redis_id a, mr_redis_id b) {
    return a.time < b.time || (a.time == b.time && a.serial < b.serial);
}

mr_redis_id mr_redis_id_earlier(mr_redis_id id) {
    return id.serial > 0 ? (mr_redis_id){id.time, id.serial - 1}
           : id.time > 0 ? (mr_redis_id){id.time - 1, UINT64_MAX}
                         : id;
}

static bool read_number(const redisReply *text, int64_t *out) {
    uint64_t value = 0;
    size_t used = 0;
    bool negative = text->len > 0 && text->str[0] == '-';
    size_t size = (size_t)text->len - negative;
    if (!read_digits(text->str + negative, size, &value, &used) || used != size ||
        value > (uint64_t)INT64_MAX) {
        return false;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* ---- What there is ---- */
static bool is_text(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_STRING && reply->str;
}

static bool is_list(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ARRAY;
}

static mr_status fail_sense(const char *key, mr_error *err) {
    return mr_fail(err, MR_E_UNSUPPORTED, "what Redis says about the stream %.100s makes no sense",
                   key);
}

/* Strings are also how numbers and names stand in a map. */
static const redisReply *find_fact(const redisReply *map, const char *name) {
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        const redisReply *found = map->element[i];
        bool is_name = found && found->str &&
                       (found->type == REDIS_REPLY_STRING || found->type == REDIS_REPLY_STATUS);
        if (is_name && strcmp(found->str, name) == 0) {
            return map->element[i + 1];
        }
    }
    return NULL;
}

static bool read_count(const redisReply *map, const char *name, int64_t *out) {
    const redisReply *found = find_fact(map, name);
    *out = found && found->type == REDIS_REPLY_INTEGER ? (int64_t)found->integer : -1;
    return *out >= 0;
}

static bool read_fact_id(const redisReply *text, mr_redis_id *out) {
    return is_text(text) && mr_redis_id_read(text->str, (size_t)text->len, out);
}

static mr_status fail_facts(const redisReply *reply, const char *key, mr_error *err) {
    bool for_now = reply->type == REDIS_REPLY_ERROR && mr_redis_is_for_now(reply->str);
    return reply->type == REDIS_REPLY_ERROR ? mr_fail(err, for_now ? MR_E_IO : MR_E_PARAM,
                                                      "the stream %.100s: %.200s", key, reply->str)
                                            : fail_sense(key, err);
}

mr_status mr_redis_facts_read(const redisReply *reply, const char *key, mr_redis_facts *out,
                              mr_error *err) {
    *out = (mr_redis_facts){.added = 0};
    if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "no such key")) {
        return MR_OK;
    }
    if (!is_list(reply)) {
        return fail_facts(reply, key, err);
    }
    const redisReply *first = find_fact(reply, "first-entry");
    if (!read_count(reply, "entries-added", &out->added) ||
        !read_fact_id(find_fact(reply, "max-deleted-entry-id"), &out->deleted) ||
        !read_fact_id(find_fact(reply, "last-generated-id"), &out->last)) {
        mr_fail(err, MR_E_UNSUPPORTED, "this Redis does not count what is added to a stream");
        mr_hint(err, "use Redis 7 or newer");
        return MR_E_UNSUPPORTED;
    }
    bool has_first = is_list(first) && first->elements == 2;
    if (!read_count(reply, "length", &out->length) || out->length > out->added ||
        (out->length > 0 && (!has_first || !read_fact_id(first->element[0], &out->first)))) {
        return fail_sense(key, err);
    }
    if (out->length > 0 && !mr_redis_id_before(out->deleted, out->first)) {
        mr_fail(err, MR_E_STATE,
                "entries were deleted (XDEL) in the middle of the stream %.100s: those behind them "
                "have no certain number",
                key);
        mr_hint(err, "forget old entries with XTRIM alone; trim beyond those that were deleted");
        return MR_E_STATE;
    }
    return MR_OK;
}

/* ---- Entries ---- */
/* [[key, [entry, ...]]], or nil. */
static bool find_entries(const redisReply *reply, mr_redis_part *out) {
    if (reply->type == REDIS_REPLY_NIL) {
        return true;
    }
    const redisReply *one = is_list(reply) && reply->elements == 1 ? reply->element[0] : NULL;
    const redisReply *list = is_list(one) && one->elements == 2 ? one->element[1] : NULL;
    if (!is_list(list)) {
        return false;
    }
    out->entries = list->element;
    out->n = (int64_t)list->elements;
    return true;
}

static mr_status fail_lost(const char *key, int64_t next, int64_t added, mr_error *err) {
    mr_fail(err, MR_E_STATE,
            "the stream %.100s is not the one that was read: %" PRId64
            " entries were added to it, and %" PRId64 " were seen",
            key, added, next);
    mr_hint(err, "the server has lost its newest entries, or the key was deleted and made again");
    return MR_E_STATE;
}

static bool id_of(const redisReply *entry, mr_redis_id *out) {
    return is_list(entry) && entry->elements == 2 && read_fact_id(entry->element[0], out);
}

/* The cursor's own entry, which is there as it was, or was trimmed. */
static mr_status check_own(const char *key, const mr_redis_cursor *cursor, mr_redis_part *part,
                           mr_error *err) {
    mr_redis_id first;
    bool is_there = part->n > 0 && id_of(part->entries[0], &first) &&
                    first.time == cursor->last.time && first.serial == cursor->last.serial;
    if (is_there) {
        part->entries++;
        part->n--;
        return MR_OK;
    }
    return part->facts.added - part->facts.length >= cursor->next
               ? MR_OK
               : fail_lost(key, cursor->next, part->facts.added, err);
}

/* How many entries come before the first that is still there. */
static int64_t count_gone(const mr_redis_part *part) {
    int64_t gone = 0;
    mr_redis_id id;
    while (gone < part->n && id_of(part->entries[gone], &id) &&
           (part->facts.length == 0 || mr_redis_id_before(id, part->facts.first))) {
        gone++;
    }
    return gone;
}

/* The cursor's number is unknown, or what it stands for is gone: numbers are counted from the first
 * entry that is there. Where these entries do not reach it, they are left out. */
static void count_anew(mr_redis_cursor *cursor, mr_redis_part *part) {
    int64_t first = part->facts.added - part->facts.length, gone = count_gone(part);
    if (gone < part->n) {
        cursor->next = first - gone;
        return;
    }
    if (part->n > 0) {
        id_of(part->entries[part->n - 1], &cursor->last);
    }
    cursor->next = part->facts.length == 0 ? part->facts.added : cursor->next;
    part->is_end = part->n == 0 && part->facts.length == 0;
    part->n = 0;
}

static mr_status settle(const char *key, mr_redis_cursor *cursor, mr_redis_part *part,
                        mr_error *err) {
    int64_t before = cursor->next;
    if (cursor->next < part->facts.added - part->facts.length || cursor->next < 0) {
        count_anew(cursor, part);
    }
    bool is_nonsense = part->n > 0 && cursor->next < 0;
    return is_nonsense || cursor->next < before || cursor->next + part->n > part->facts.added
               ? fail_lost(key, cursor->next + part->n, part->facts.added, err)
               : MR_OK;
}

mr_status mr_redis_go_back(const redisReply *reply, int64_t number, int64_t wanted,
                           mr_redis_cursor *cursor) {
    for (size_t i = 0; is_list(reply) && i < reply->elements; i++, number--) {
        if (!id_of(reply->element[i], &cursor->last)) {
            return MR_E_NOT_FOUND;
        }
        cursor->next = number + 1;
        if (cursor->next <= wanted) {
            return MR_OK;
        }
    }
    return is_list(reply) && reply->elements > 0 ? MR_LATER : MR_E_NOT_FOUND;
}

mr_status mr_redis_part_read(redisReply *const replies[2], const char *key, int64_t asked,
                             bool checks, mr_redis_cursor *cursor, mr_redis_part *out,
                             mr_error *err) {
    *out = (mr_redis_part){.n = 0};
    if (replies[0]->type == REDIS_REPLY_ERROR) {
        return fail_facts(replies[0], key, err);
    }
    MR_TRY(mr_redis_facts_read(replies[1], key, &out->facts, err));
    if (!find_entries(replies[0], out) || out->n > asked) {
        return fail_sense(key, err);
    }
    out->is_end = out->n < asked;
    if (checks) {
        MR_TRY(check_own(key, cursor, out, err));
    }
    return settle(key, cursor, out, err);
}

static bool is_named(const redisReply *name, const char *wanted) {
    return (size_t)name->len == strlen(wanted) && memcmp(name->str, wanted, (size_t)name->len) == 0;
}

/* NULL, or what is wrong with it. */
static const char *read_field(const redisReply *name, const redisReply *value,
                              const mr_redis_names *names, mr_entry *out) {
    if (is_named(name, names->value)) {
        out->value = value->str;
        out->size = (size_t)value->len;
    } else if (is_named(name, names->label)) {
        return read_number(value, &out->label) ? NULL : "its label is no whole number";
    } else if (is_named(name, names->key)) {
        out->key = value->str;
        out->key_size = (size_t)value->len;
        return value->len <= MR_ENTRY_KEY_MAX ? NULL : "its key is too long";
    } else if (is_named(name, names->time)) {
        return read_number(value, &out->time) ? NULL : "its time is no whole number";
    }
    return NULL;
}

static int64_t time_of(mr_redis_id id) {
    return id.time < (uint64_t)INT64_MAX / 1000000 ? (int64_t)id.time * 1000000 : INT64_MAX;
}

bool mr_redis_entry_read(const redisReply *reply, const mr_redis_names *names,
                         mr_redis_cursor *cursor, mr_entry *out, const char **why) {
    mr_redis_id id;
    bool is_entry = is_list(reply) && reply->elements == 2 && is_text(reply->element[0]);
    if (!is_entry || !read_fact_id(reply->element[0], &id) ||
        !mr_redis_id_before(cursor->last, id) || !is_list(reply->element[1])) {
        return false;
    }
    const redisReply *fields = reply->element[1];
    *why = NULL;
    *out = (mr_entry){.number = cursor->next, .time = time_of(id)};
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        if (!is_text(fields->element[i]) || !is_text(fields->element[i + 1])) {
            return false;
        }
        const char *wrong = read_field(fields->element[i], fields->element[i + 1], names, out);
        *why = *why ? *why : wrong;
    }
    *why = *why ? *why : out->value ? NULL : "it has no field for the value";
    if (*why) {
        *out = (mr_entry){.number = cursor->next, .time = time_of(id)};
    }
    *cursor = (mr_redis_cursor){id, cursor->next + 1};
    return true;
}
