/* SPDX-License-Identifier: Apache-2.0 */
/* news.c - see news.h. */
#include "run/read/news.h"

#include <stdio.h>

void mr_news_note(void *user, const char *text) {
    mr_news *news = user;
    if (news->n < MR_NEWS_MOST) {
        snprintf(news->texts[news->n++], MR_NEWS_TEXT, "%s", text);
    }
}

void mr_news_move(mr_news *from, mr_news *to) {
    for (int32_t i = 0; i < from->n; i++) {
        mr_news_note(to, from->texts[i]);
    }
    from->n = 0;
}

void mr_news_tell(mr_news *news, const mr_log *log) {
    for (int32_t i = 0; log && log->write && i < news->n; i++) {
        log->write(log->user, news->texts[i]);
    }
    news->n = 0;
}
