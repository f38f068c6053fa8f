/* SPDX-License-Identifier: Apache-2.0 */
/* redis_line.h - questions to one Redis server and whole answers, one at a time.
 *
 * A fabric (redis_server.h) asks many servers for values and may always do without; who reads a
 * log has one server and needs every answer. Nothing here waits longer than it is told to: an
 * answer that is not there yet can be waited for again. */
#ifndef MR_FABRIC_REDIS_LINE_H
#define MR_FABRIC_REDIS_LINE_H

#include <millrace/types.h>

#include "fabric/redis_memory.h"

typedef struct mr_redis_line mr_redis_line;

/* Finds the address; the server need not be there. mr_redis_line_close is due even if this failed.
 * `url` names one server, as redis_url.h has it. */
mr_status mr_redis_line_open(mr_redis_line **out, const char *url, int64_t max_reply,
                             mr_error *err);
void mr_redis_line_close(mr_redis_line *line);             /* NULL allowed */
const char *mr_redis_line_name(const mr_redis_line *line); /* without a password */

enum { MR_REDIS_ANSWERS = 4 };

/* Adds a command to the question, at most MR_REDIS_ANSWERS before it is answered; connects where
 * there is no connection. Failures show when the answers are waited for. */
void mr_redis_line_say(mr_redis_line *line, const char *const *words, int n);

bool mr_redis_line_is_asked(const mr_redis_line *line); /* an answer is missing */

/* All answers, replies[0] to the first command; each is freed by mr_redis_reply_free. MR_LATER: not
 * within so many milliseconds. MR_E_IO: the connection is gone, or the server is not ready: ask
 * again. Everything else is for good: the server refused. */
mr_status mr_redis_line_answer(mr_redis_line *line, int milliseconds, redisReply **replies,
                               mr_error *err);

void mr_redis_line_hang_up(mr_redis_line *line); /* forgets what was asked */

/* From now on memory of replies is used again: one thread alone frees them, before the line is
 * closed. */
void mr_redis_line_reuse(mr_redis_line *line);

/* A server that will be ready soon says so with an error. */
bool mr_redis_is_for_now(const char *error);

/* For tests: parses like a line does, from bytes. NULL: there is no whole reply, or none at all. */
redisReply *mr_redis_parse(const void *bytes, size_t size);

#endif
