/* SPDX-License-Identifier: Apache-2.0 */
/* far_reply.h - what a server says before the bytes: the lines of a response, one by one, and
 * whether the response is what was asked for. Pure: the bytes are a stranger's, and nothing else
 * is looked at. */
#ifndef MR_IO_FAR_REPLY_H
#define MR_IO_FAR_REPLY_H

#include "io/far_name.h"

typedef struct mr_far_reply {
    int status;              /* 0: none yet */
    int64_t length;          /* Content-Length; -1: not said */
    int64_t first, last;     /* of Content-Range; -1: none */
    int64_t total;           /* likewise; -1: not said */
    int64_t retry_after;     /* seconds; -1: not said */
    bool is_coded;           /* Content-Encoding other than identity */
    bool is_whole;           /* the empty line came */
    bool is_malformed;       /* a line that matters cannot be read, or comes twice and differs */
    char tag[160], time[64]; /* ETag, Last-Modified; "": none */
    char id[80];             /* of the request, for the server's people */
    char region[32];         /* x-amz-bucket-region */
    size_t header_bytes;
} mr_far_reply;

/* What was asked for. */
typedef struct mr_far_range {
    int64_t offset, length; /* length -1: all */
    mr_far_pin pin;         /* size -1: any version */
} mr_far_range;

typedef enum mr_far_verdict {
    MR_FAR_TAKE,    /* bytes follow: the object's from *skip on are those that were asked for */
    MR_FAR_EMPTY,   /* there are none, and rightly so */
    MR_FAR_AGAIN,   /* for now: to be asked again */
    MR_FAR_CHANGED, /* another version */
    MR_FAR_WRONG,   /* not what was asked for, and will not be */
    MR_FAR_REFUSED, /* the status says why */
} mr_far_verdict;

void mr_far_reply_begin(mr_far_reply *reply);

/* A line as it came, with or without its end; a status line begins a new reply. */
void mr_far_reply_line(mr_far_reply *reply, const char *line, size_t length);

/* At the end of the lines. *skip: bytes to leave out first; *why: words for WRONG; *version: what
 * the server has. */
mr_far_verdict mr_far_reply_judge(const mr_far_reply *reply, const mr_far_range *range,
                                  int64_t *skip, mr_far_pin *version, const char **why);

#endif
