/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - draws at most ten times a second, each time in one write, as wide as the terminal
 * is at that moment. What does not fit is left out, the least important first. */
#include "progress.h"

#include <langinfo.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "errors.h"
#include "text.h"

#define ERASE "\r\033[K"

enum { WIDEST_BAR = 40, NARROWEST_BAR = 8 };

static const double draw_interval = 0.1;
static const double line_interval = 10; /* where lines cannot be drawn over: in logs */
static const double rate_memory = 2;    /* seconds over which the rate forgets */

void mr_progress_begin(mr_progress *progress, bool on) {
    memset(progress, 0, sizeof *progress);
    pthread_mutex_init(&progress->lock, NULL);
    progress->on = on;
    progress->terminal = mr_terminal(stderr);
    progress->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    progress->drawn_at = mr_clock();
}

static void erase(mr_progress *progress) {
    if (progress->drawn) {
        fputs(ERASE, stderr);
        progress->drawn = false;
    }
}

static void learn_rate(double *rate, double passed, int64_t since) {
    double recent = (double)since / passed;
    double weight = *rate > 0 ? passed / (passed + rate_memory) : 1;
    *rate += (recent - *rate) * weight;
}

static double seconds_left(const mr_progress *progress, const mr_progress_point *point) {
    double per_step = (double)point->samples / (double)point->steps;
    double left = (double)(progress->run_steps - point->steps) * per_step;
    return progress->rate > 0 ? left / progress->rate : 0;
}

/* Blocks in eighths where the terminal has them, else number signs. */
static void bar_text(const mr_progress *progress, double share, int width, char *out, size_t size) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int units = (int)(share * width * 8 + 0.5);
    size_t used = 0;
    for (int i = 0; i < width && used + 4 < size; i++) {
        int here = units - i * 8;
        const char *cell = here >= 8 ? "█" : here > 0 ? eighths[here] : " ";
        if (!progress->utf8) {
            cell = here >= 8 ? "#" : "-";
        }
        used += (size_t)snprintf(out + used, size - used, "%s", cell);
    }
    out[used] = '\0';
}

static void rate_text(const mr_progress *progress, char *out, size_t size) {
    char number[32];
    if (progress->in_bytes) {
        snprintf(out, size, "%s/s", mr_text_bytes(number, sizeof number, (int64_t)progress->rate));
    } else {
        snprintf(out, size, "%s samples/s", mr_text_rate(number, sizeof number, progress->rate));
    }
}

static void hits_text(const mr_progress_point *point, char *out, size_t size) {
    out[0] = '\0';
    if (point->asked > 0) {
        snprintf(out, size, "  %d%% hits", (int)(100 * (double)point->hits / (double)point->asked));
    }
}

/* The origin that asks servers; false: there is none. */
static bool find_servers(const mr_progress *progress, mr_origin_stats *out) {
    *out = (mr_origin_stats){.size = (uint32_t)sizeof *out};
    for (int32_t i = 0; progress->loader && mr_loader_origin(progress->loader, i, out) == MR_OK;
         i++) {
        if (out->requests > 0) {
            return true;
        }
    }
    return false;
}

static void servers_text(const mr_progress *progress, char *out, size_t size) {
    mr_origin_stats servers;
    char bytes[32], retries[48] = "";
    out[0] = '\0';
    if (!find_servers(progress, &servers)) {
        return;
    }
    if (servers.retries > 0) {
        snprintf(retries, sizeof retries, ", %lld %s", (long long)servers.retries,
                 mr_text_plural(servers.retries, "retry", "retries"));
    }
    snprintf(out, size, "  %s/s by %d %s%s",
             mr_text_bytes(bytes, sizeof bytes, (int64_t)progress->byte_rate), servers.in_flight,
             mr_text_plural(servers.in_flight, "request", "requests"), retries);
}

/* The line without its newline, at most `width` - 1 columns: the last column makes some terminals
 * wrap. */
/* A stream has no end that anybody knows. */
static void stream_text(const mr_progress *progress, const mr_progress_point *point, char *out,
                        size_t size) {
    char rate[48];
    rate_text(progress, rate, sizeof rate);
    snprintf(out, size, "step %lld  %lld samples  %s", (long long)point->step + 1,
             (long long)point->samples, rate);
}

static void line_text(const mr_progress *progress, const mr_progress_point *point, int width,
                      char *out, size_t size) {
    char head[48] = "", rate[48], left[32], hits[160], tail[320];
    if (progress->epoch_steps < 0) {
        stream_text(progress, point, out, size);
        return;
    }
    double share = (double)(point->step + 1) / (double)progress->epoch_steps;
    share = share > 1 ? 1 : share;
    out[0] = '\0';
    int percent = (int)(share * 100);
    if (progress->epochs > 1) {
        snprintf(head, sizeof head, "epoch %lld/%lld ", (long long)point->epoch + 1,
                 (long long)progress->epochs);
    }
    rate_text(progress, rate, sizeof rate);
    mr_text_time(left, sizeof left, seconds_left(progress, point));
    hits_text(point, hits, sizeof hits);
    servers_text(progress, hits + strlen(hits), sizeof hits - strlen(hits));
    int tail_width = snprintf(tail, sizeof tail, "%3d%%  %s  %s left", percent, rate, left);
    int room = width - 1 - (int)strlen(head) - tail_width - 3;
    if (room - (int)strlen(hits) >= NARROWEST_BAR) {
        snprintf(tail + tail_width, sizeof tail - (size_t)tail_width, "%s", hits);
        room -= (int)strlen(hits);
    }
    if (room >= NARROWEST_BAR) {
        char bar[WIDEST_BAR * 4 + 1];
        bar_text(progress, share, room < WIDEST_BAR ? room : WIDEST_BAR, bar, sizeof bar);
        snprintf(out, size, "%s[%s] %s", head, bar, tail);
    } else if (tail_width < width) {
        snprintf(out, size, "%s", tail);
    } else if (width > 4) {
        snprintf(out, size, "%3d%%", percent);
    }
}

/* Logs have no width, and no bar. */
static void write_line(const mr_progress *progress, const mr_progress_point *point) {
    char line[512];
    line_text(progress, point, 132, line, sizeof line);
    const char *text = strchr(line, ']');
    fprintf(stderr, "epoch %lld  %s\n", (long long)point->epoch + 1, text ? text + 2 : line);
}

static void draw(mr_progress *progress, const mr_progress_point *point) {
    char line[512];
    if (!progress->terminal) {
        write_line(progress, point);
        return;
    }
    line_text(progress, point, mr_terminal_size_now().columns, line, sizeof line);
    fprintf(stderr, ERASE "%s", line);
    fflush(stderr);
    progress->drawn = true;
}

void mr_progress_update(mr_progress *progress, const mr_progress_point *point) {
    double now = mr_clock();
    if (!progress->on ||
        now - progress->drawn_at < (progress->terminal ? draw_interval : line_interval)) {
        return;
    }
    pthread_mutex_lock(&progress->lock);
    mr_origin_stats servers;
    bool any = find_servers(progress, &servers);
    learn_rate(&progress->rate, now - progress->drawn_at, point->samples - progress->drawn_samples);
    if (any) {
        learn_rate(&progress->byte_rate, now - progress->drawn_at,
                   servers.received - progress->drawn_bytes);
        progress->drawn_bytes = servers.received;
    }
    progress->drawn_at = now;
    progress->drawn_samples = point->samples;
    draw(progress, point);
    pthread_mutex_unlock(&progress->lock);
}

void mr_progress_warn(mr_progress *progress, const char *text) {
    pthread_mutex_lock(&progress->lock);
    erase(progress);
    mr_warning_print(text);
    pthread_mutex_unlock(&progress->lock);
}

void mr_progress_end(mr_progress *progress) {
    pthread_mutex_lock(&progress->lock);
    erase(progress);
    progress->on = false;
    pthread_mutex_unlock(&progress->lock);
}
