/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - see top.h. Where standard error is no terminal the table comes once, at the end. */
#include "top.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "text.h"

static const double interval = 1;

static void put_time(char *out, size_t size, double seconds) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int unit = 0;
    while (unit < 3 && seconds < 0.9995) {
        seconds *= 1000;
        unit++;
    }
    snprintf(out, size, "%.3g %s", seconds, units[unit]);
}

/* ---- What the workers' time is made of; the rest happens beside them ---- */
static bool is_one_of(const mr_line *line, const char *const *names) {
    while (*names && strcmp(*names, line->name) != 0) {
        names++;
    }
    return *names != NULL;
}

static bool is_part_of_sample(const mr_line *line) {
    static const char *const names[] = {"fill",        "wait_host",  "store_read",
                                        "store_write", "store_wait", NULL};
    return line->kind == MR_LINE_OP || is_one_of(line, names);
}

static bool is_whole(const mr_line *line) {
    static const char *const names[] = {"sample", "unpack", "seal", "wait_read", "wait_work", NULL};
    return line->kind != MR_LINE_OP && is_one_of(line, names);
}

static double time_of_workers(const mr_loader *loader) {
    double seconds = 0;
    for (int32_t i = 0; i < mr_loader_n_lines(loader); i++) {
        mr_line line = {.size = (uint32_t)sizeof line};
        mr_loader_line(loader, i, &line);
        seconds += is_whole(&line) ? line.seconds : 0;
    }
    return seconds;
}

/* ---- The table ---- */
enum { WIDTH = 96 }; /* of a line */

/* One line, cut where the terminal ends: one that wrapped could not be drawn over. */
static void put_line(const mr_top *top, const char *text) {
    int columns = top->in_place ? mr_terminal_size_now().columns - 1 : INT_MAX;
    fprintf(stderr, "%.*s\n", columns > 1 ? columns : 1, text);
}

static void draw_line(const mr_top *top, const mr_line *line, double whole) {
    char mean[16], p50[16], p99[16], count[32], share[16] = "", text[128];
    put_time(mean, sizeof mean, line->mean);
    put_time(p50, sizeof p50, line->p50);
    put_time(p99, sizeof p99, line->p99);
    if ((is_part_of_sample(line) || is_whole(line)) && whole > 0) {
        snprintf(share, sizeof share, "%.1f %%", 100 * line->seconds / whole);
    }
    snprintf(text, sizeof text, "%-20.20s %12s %9s %9s %9s %8s", line->name,
             mr_text_count(count, sizeof count, line->count), mean, p50, p99, share);
    put_line(top, text);
}

/* What was drawn when the terminal was wider has wrapped since. */
static void erase(mr_top *top) {
    int columns = mr_terminal_size_now().columns;
    int length = top->columns - 1 < WIDTH ? top->columns - 1 : WIDTH;
    int each = (length + columns - 1) / columns;
    if (top->drawn > 0) {
        fprintf(stderr, "\r\033[%dA\033[J", top->drawn * each);
    }
    top->columns = columns;
    top->drawn = 0;
}

/* Seconds since the newest entry, where its time is one of the clock; below 0: it is not. */
static double age_of(int64_t newest) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return newest > 0 ? (double)now.tv_sec + 1e-9 * (double)(now.tv_nsec - newest) : -1;
}

/* What came in and went out since the last look, and what became of the rest. */
static void draw_rates(mr_top *top, const mr_stream_stats *s) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    char in[32], out[32], text[160];
    double now = mr_clock(), passed = now - top->stream_at;
    mr_loader_stats(top->loader, &stats);
    int n = snprintf(
        text, sizeof text, "%-20s %10s/s  %s/s out", "stream, in",
        mr_text_rate(in, sizeof in, passed > 0 ? (double)(s->entries - top->entries) / passed : 0),
        mr_text_rate(out, sizeof out,
                     passed > 0 ? (double)(stats.samples - top->samples) / passed : 0));
    if (s->left_out > 0) {
        n += snprintf(text + n, sizeof text - (size_t)n, ", %.1f %% left out",
                      100 * (double)s->left_out / (double)(s->entries > 0 ? s->entries : 1));
    }
    if (s->spilled > 0) {
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld spilled", (long long)s->spilled);
    }
    if (age_of(s->newest) >= 0) {
        snprintf(text + n, sizeof text - (size_t)n, ", newest %.3g s old", age_of(s->newest));
    }
    put_line(top, text);
    top->drawn++;
    top->stream_at = now;
    top->entries = s->entries;
    top->samples = stats.samples;
}

/* How the run stands to the stream that it follows, if it does. */
static void draw_stream(mr_top *top, int room) {
    mr_stream_stats s = {.size = (uint32_t)sizeof s};
    char entries[32], waiting[32], behind[32], text[160];
    if (top->drawn >= room || mr_loader_stream(top->loader, &s) != MR_OK) {
        return;
    }
    int n = snprintf(text, sizeof text, "%-20s %12s  %s wait", "stream",
                     mr_text_count(entries, sizeof entries, s.entries),
                     mr_text_count(waiting, sizeof waiting, s.waiting));
    if (s.behind >= 0) {
        n += snprintf(text + n, sizeof text - (size_t)n, ", behind by %s",
                      mr_text_count(behind, sizeof behind, s.behind));
    }
    snprintf(text + n, sizeof text - (size_t)n, ", starved %.1f s", (double)s.starved_ns * 1e-9);
    put_line(top, text);
    top->drawn++;
    if (top->drawn < room) {
        draw_rates(top, &s);
    }
}

/* Requests to servers: bytes a second since the last look, how many are under way. */
static void draw_servers(mr_top *top, int room) {
    mr_origin_stats s = {.size = (uint32_t)sizeof s};
    char count[32], rate[32], text[160];
    for (int32_t i = 0; mr_loader_origin(top->loader, i, &s) == MR_OK && top->drawn < room; i++) {
        if (s.requests > 0) {
            double now = mr_clock(), passed = now - top->looked_at;
            double recent = passed > 0 ? (double)(s.received - top->received) / passed : 0;
            snprintf(text, sizeof text,
                     "%-20s %12s  %s/s, %d of %d at once, %lld retries, %lld twice", "requests",
                     mr_text_count(count, sizeof count, s.requests),
                     mr_text_bytes(rate, sizeof rate, (int64_t)recent), s.in_flight, s.width,
                     (long long)s.retries, (long long)s.hedges);
            put_line(top, text);
            top->looked_at = now;
            top->received = s.received;
            top->drawn++;
        }
    }
}

/* As many lines as there is room for; the last table has them all. */
static void draw_table(mr_top *top, bool last) {
    static const mr_line_kind order[] = {MR_LINE_OP, MR_LINE_WORK, MR_LINE_WAIT};
    double whole = time_of_workers(top->loader);
    char text[128];
    int room = top->in_place && !last ? mr_terminal_size_now().rows - 1 : INT_MAX;
    erase(top);
    snprintf(text, sizeof text, "%-20s %12s %9s %9s %9s %8s", "", "count", "mean", "p50", "p99",
             "workers");
    put_line(top, text);
    top->drawn = 1;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (int32_t i = 0; i < mr_loader_n_lines(top->loader); i++) {
            mr_line line = {.size = (uint32_t)sizeof line};
            mr_loader_line(top->loader, i, &line);
            if (line.kind == order[k] && line.count > 0 && top->drawn < room) {
                draw_line(top, &line, whole);
                top->drawn++;
            }
        }
    }
    draw_stream(top, room);
    draw_servers(top, room);
    fflush(stderr);
}

static void warn_of_failure(mr_top *top, const mr_error *err) {
    char text[sizeof err->text + 64], safe[4 * sizeof text];
    if (top->warn && !top->warned) {
        snprintf(text, sizeof text, "%s; the run goes on, and this is tried again", err->text);
        mr_progress_warn(top->warn, mr_text_safe(safe, sizeof safe, text));
        top->drawn = 0; /* the table is above the warning now */
    }
    top->warned = true;
}

static void write_metrics(mr_top *top) {
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    mr_status status = mr_loader_metrics(top->loader, &text, &err);
    if (status == MR_OK) {
        status = mr_file_replace(top->metrics, text, strlen(text), &err);
    }
    mr_free(text);
    if (status != MR_OK) {
        warn_of_failure(top, &err);
    }
}

void mr_top_begin(mr_top *top, const mr_loader *loader, bool table, const char *metrics,
                  mr_progress *warn) {
    *top = (mr_top){.loader = loader, .table = table, .metrics = metrics, .warn = warn};
    top->in_place = mr_terminal(stderr);
    top->next = top->looked_at = top->stream_at = mr_clock();
}

void mr_top_update(mr_top *top) {
    if ((!top->table && !top->metrics) || mr_clock() < top->next) {
        return;
    }
    top->next = mr_clock() + interval;
    if (top->table && top->in_place) {
        draw_table(top, false);
    }
    if (top->metrics) {
        write_metrics(top);
    }
}

void mr_top_end(mr_top *top) {
    if (top->table) {
        draw_table(top, true);
    }
    if (top->metrics) {
        write_metrics(top);
    }
}
