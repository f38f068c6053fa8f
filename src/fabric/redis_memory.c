/* SPDX-License-Identifier: Apache-2.0 */
/* redis_memory.c - see redis_memory.h. MR_REQUIRES(hiredis) */
#include "fabric/redis_memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 << 10, MOST_UNUSED = 16, MOST_ELEMENTS = 1 << 20 };

struct mr_redis_chunk {
    mr_redis_chunk *next;
    size_t room, used;
    max_align_t bytes[];
};

/* The first object of a reply, which knows where its memory is. */
typedef struct root {
    mr_redis_memory *memory;
    mr_redis_chunk *chunks;
    redisReply reply;
} root;

/* ---- Pieces ---- */
static mr_redis_chunk *new_chunk(mr_redis_memory *m, size_t size) {
    mr_redis_chunk *chunk = m->unused;
    if (chunk && size <= CHUNK) {
        m->unused = chunk->next;
        m->n_unused--;
    } else {
        size_t room = size > CHUNK ? size : CHUNK;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk) {
            return NULL;
        }
        chunk->room = room;
    }
    chunk->used = 0;
    chunk->next = m->open;
    m->open = chunk;
    return chunk;
}

static void *take(mr_redis_memory *m, size_t size) {
    mr_redis_chunk *chunk = m->open;
    size = (size + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    if (!chunk || chunk->room - chunk->used < size) {
        chunk = new_chunk(m, size);
    }
    if (!chunk) {
        return NULL;
    }
    void *piece = (char *)chunk->bytes + chunk->used;
    chunk->used += size;
    return piece;
}

static void give_back(mr_redis_memory *m, mr_redis_chunk *chunk) {
    while (chunk) {
        mr_redis_chunk *next = chunk->next;
        if (m && m->n_unused < MOST_UNUSED && chunk->room == CHUNK) {
            chunk->next = m->unused;
            m->unused = chunk;
            m->n_unused++;
        } else {
            free(chunk);
        }
        chunk = next;
    }
}

/* ---- Objects ---- */
/* The chunks of a reply that is being read are the memory's own until its root has them all: they
 * are written back whenever an object is made. */
static redisReply *make(const redisReadTask *task, int type) {
    mr_redis_memory *m = task->privdata;
    root *first = NULL;
    redisReply *reply = NULL;
    if (!task->parent) {
        m->open = NULL;
        first = take(m, sizeof *first);
        reply = first ? &first->reply : NULL;
    } else {
        reply = take(m, sizeof *reply);
    }
    if (reply) {
        memset(reply, 0, sizeof *reply);
        reply->type = type;
    }
    if (first) {
        first->memory = m->reuses ? m : NULL;
    }
    return reply;
}

static root *root_of(redisReply *reply) {
    return (root *)(void *)((char *)reply - offsetof(root, reply));
}

/* Into its parent; the root learns of new chunks. */
static void *done(const redisReadTask *task, redisReply *reply) {
    mr_redis_memory *m = task->privdata;
    const redisReadTask *top = task;
    while (top->parent) {
        top = top->parent;
    }
    if (task->parent || reply) {
        root_of(task->parent ? top->obj : reply)->chunks = m->open;
    } else {
        give_back(NULL, m->open); /* there was no memory for the root */
        m->open = NULL;
    }
    if (task->parent && reply) {
        ((redisReply *)task->parent->obj)->element[task->idx] = reply;
    }
    return reply;
}

static void *make_string(const redisReadTask *task, char *text, size_t size) {
    redisReply *reply = make(task, task->type);
    char *copy = reply ? take(task->privdata, size + 1) : NULL;
    if (!copy) {
        return done(task, NULL);
    }
    memcpy(copy, text, size);
    copy[size] = 0;
    reply->str = copy;
    reply->len = size;
    return done(task, reply);
}

/* Memory is taken when the head of an array is seen: how many there are is not believed. */
static void *make_array(const redisReadTask *task, int elements) {
    if (elements < 0 || elements > MOST_ELEMENTS) {
        return NULL;
    }
    redisReply *reply = make(task, task->type);
    if (reply && elements > 0) {
        reply->element = take(task->privdata, (size_t)elements * sizeof(redisReply *));
        if (!reply->element) {
            return done(task, NULL);
        }
        memset(reply->element, 0, (size_t)elements * sizeof(redisReply *));
    }
    if (reply) {
        reply->elements = (size_t)elements;
    }
    return done(task, reply);
}

static void *make_integer(const redisReadTask *task, long long value) {
    redisReply *reply = make(task, REDIS_REPLY_INTEGER);
    if (reply) {
        reply->integer = value;
    }
    return done(task, reply);
}

static void *make_nil(const redisReadTask *task) {
    return done(task, make(task, REDIS_REPLY_NIL));
}

static void free_object(void *reply) {
    mr_redis_reply_free(reply);
}

const redisReplyObjectFunctions mr_redis_memory_functions = {
    .createString = make_string,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = free_object,
};

/* ---- Freeing ---- */
void mr_redis_reply_free(redisReply *reply) {
    if (reply) {
        const root *own = root_of(reply);
        give_back(own->memory, own->chunks);
    }
}

void mr_redis_memory_free(mr_redis_memory *m) {
    while (m->unused) {
        mr_redis_chunk *next = m->unused->next;
        free(m->unused);
        m->unused = next;
    }
    m->n_unused = 0;
}
