/* SPDX-License-Identifier: Apache-2.0 */
/* news.h - what a stream's source says while it is read, until the consumer's thread tells it: a
 * log is the host's, and need not bear other threads. */
#ifndef MR_RUN_NEWS_H
#define MR_RUN_NEWS_H

#include <millrace/source.h>

enum { MR_NEWS_MOST = 8, MR_NEWS_TEXT = 400 };

/* One thread at a time; what is beyond MR_NEWS_MOST is not told. */
typedef struct mr_news {
    int32_t n;
    char texts[MR_NEWS_MOST][MR_NEWS_TEXT];
} mr_news;

void mr_news_note(void *news, const char *text); /* as mr_log.write */

/* Moves all that there is behind what `to` has. */
void mr_news_move(mr_news *from, mr_news *to);
void mr_news_tell(mr_news *news, const mr_log *log); /* once; log may be NULL */

#endif
