/* SPDX-License-Identifier: Apache-2.0 */
/* simulate_page.c - see simulate_page.h. */
#include "simulate_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "text.h"

enum { MOST_BATCHES = 6, SHARES = 3, MOST_LINES = 2 * MOST_BATCHES };
static const char *const share_titles[SHARES] = {"from storage alone", "strict shares",
                                                 "local shares"};

/* Rows of one batch: of each number of nodes those of all shares, one after the other. */
typedef struct part {
    const mr_simulated_row *rows;
    int32_t nodes; /* how many numbers of nodes there are */
    const double *x;
    double *y; /* room for MOST_LINES curves */
} part;

double mr_simulated_rate(const mr_simulated_row *row) {
    return (double)row->sum.samples / row->sum.seconds;
}

const char *mr_simulated_bound(const mr_simulated_row *row) {
    const mr_simulated_step *s = &row->sum;
    return s->seconds <= s->train_seconds     ? "training"
           : s->seconds <= s->prepare_seconds ? "preparing"
           : s->seconds <= s->storage_seconds ? "storage"
                                              : "network";
}

static const mr_simulated_row *row_at(const part *p, int32_t node, int32_t share) {
    return &p->rows[node * SHARES + share];
}

/* ---- What a curve shows ---- */
typedef double figure_of(const part *p, int32_t node, int32_t share);

#define PER_STEP(name, member)                                                                     \
    static double name(const part *p, int32_t node, int32_t share) {                               \
        const mr_simulated_row *r = row_at(p, node, share);                                        \
        return 1e3 * r->sum.member / (double)r->steps;                                             \
    }
PER_STEP(storage_ms, storage_seconds)
PER_STEP(network_ms, network_seconds)
PER_STEP(prepare_ms, prepare_seconds)
PER_STEP(train_ms, train_seconds)
PER_STEP(step_ms, seconds)
PER_STEP(paper_ms, paper)

#define PERCENT(name, member)                                                                      \
    static double name(const part *p, int32_t node, int32_t share) {                               \
        const mr_simulated_step *s = &row_at(p, node, share)->sum;                                 \
        return 100 * (double)s->member / (double)s->bytes;                                         \
    }
PERCENT(storage_percent, from_storage)
PERCENT(own_percent, from_own)
PERCENT(peers_percent, from_peers)

static double imbalance_percent(const part *p, int32_t node, int32_t share) {
    const mr_simulated_row *r = row_at(p, node, share);
    return 100 * r->sum.imbalance / (double)r->steps;
}

/* Where all is kept: of b samples a node those that move. */
static double closed_imbalance(const part *p, int32_t node, int32_t share) {
    const mr_simulated_step *s = &row_at(p, node, share)->sum;
    double nodes = (double)s->nodes, b = (double)(s->local_batch * s->ranks) / nodes;
    return 100 * sqrt(1 - 1 / nodes) / sqrt(2 * acos(-1) * b);
}

static double most_messages(const part *p, int32_t node, int32_t share) {
    return (double)row_at(p, node, share)->most_messages;
}

static double fewer_than_nodes(const part *p, int32_t node, int32_t share) {
    return (double)row_at(p, node, share)->sum.nodes - 1;
}

static double rate(const part *p, int32_t node, int32_t share) {
    return mr_simulated_rate(row_at(p, node, share));
}

static double paper_rate(const part *p, int32_t node, int32_t share) {
    const mr_simulated_step *s = &row_at(p, node, share)->sum;
    return (double)s->samples / s->paper;
}

static double speed_up(const part *p, int32_t node, int32_t share) {
    return rate(p, node, share) / rate(p, node, 0);
}

static double paper_speed_up(const part *p, int32_t node, int32_t share) {
    return paper_rate(p, node, share) / paper_rate(p, node, 0);
}

/* ---- Charts ---- */
static void add_line(const part *p, mr_chart *c, mr_chart_line *lines, mr_chart_line line,
                     figure_of *figure, int32_t share) {
    double *y = p->y + (ptrdiff_t)c->n_lines * p->nodes;
    for (int32_t i = 0; i < p->nodes; i++) {
        y[i] = figure(p, i, share);
    }
    line.y = y;
    lines[c->n_lines++] = line;
}

static mr_chart chart_of(const part *p, const char *title, const char *y_title,
                         const mr_chart_line *lines) {
    return (mr_chart){.title = title,
                      .x_title = "nodes",
                      .y_title = y_title,
                      .x = p->x,
                      .n = p->nodes,
                      .lines = lines,
                      .logarithmic = true};
}

/* All shares have one scale. */
static void find_range(const part *p, mr_chart *c) {
    static figure_of *const parts[] = {storage_ms, network_ms, prepare_ms,
                                       train_ms,   step_ms,    paper_ms};
    c->low = INFINITY;
    for (int32_t i = 0; i < p->nodes * SHARES * 6; i++) {
        double y = parts[i % 6](p, i / 6 % p->nodes, i / 6 / p->nodes);
        c->low = y > 0 ? fmin(c->low, y) : c->low;
        c->high = fmax(c->high, y);
    }
}

static void draw_times(FILE *out, const part *p) {
    for (int32_t share = 0; share < SHARES; share++) {
        char title[96];
        mr_chart_line lines[MOST_LINES];
        snprintf(title, sizeof title, "Time of a step: %s", share_titles[share]);
        mr_chart c = chart_of(p, title, "ms a step", lines);
        find_range(p, &c);
        add_line(p, &c, lines,
                 (mr_chart_line){
                     .name = "the step: the longest of its parts", .colour = 5, .bold = true},
                 step_ms, share);
        add_line(p, &c, lines, (mr_chart_line){.name = "reading from storage", .colour = 1},
                 storage_ms, share);
        add_line(p, &c, lines, (mr_chart_line){.name = "network", .colour = 0}, network_ms, share);
        add_line(p, &c, lines, (mr_chart_line){.name = "preparing", .colour = 2}, prepare_ms,
                 share);
        add_line(p, &c, lines, (mr_chart_line){.name = "training", .colour = 3}, train_ms, share);
        add_line(p, &c, lines,
                 (mr_chart_line){.name = "the paper's equations", .colour = 4, .dashed = true},
                 paper_ms, share);
        mr_chart_draw(out, &c);
    }
}

static void draw_bytes(FILE *out, const part *p) {
    for (int32_t share = 0; share < SHARES; share++) {
        char title[96];
        mr_chart_line lines[MOST_LINES];
        snprintf(title, sizeof title, "Where bytes come from: %s", share_titles[share]);
        mr_chart c = chart_of(p, title, "% of a step's bytes", lines);
        c.logarithmic = false;
        c.stacked = true;
        c.high = 100;
        add_line(p, &c, lines, (mr_chart_line){.name = "the node's own memory", .colour = 2},
                 own_percent, share);
        add_line(p, &c, lines, (mr_chart_line){.name = "other nodes", .colour = 0}, peers_percent,
                 share);
        add_line(p, &c, lines, (mr_chart_line){.name = "storage", .colour = 1}, storage_percent,
                 share);
        mr_chart_draw(out, &c);
    }
}

static void draw_speeds(FILE *out, const part *p) {
    static const char *const names[SHARES] = {"from storage", "strict", "local"};
    static const int32_t colours[SHARES] = {1, 0, 2};
    mr_chart_line lines[MOST_LINES];
    mr_chart c = chart_of(p, "Speed", "samples a second", lines);
    for (int32_t share = 0; share < SHARES; share++) {
        add_line(
            p, &c, lines,
            (mr_chart_line){.name = names[share], .colour = colours[share], .bold = share == 1},
            rate, share);
    }
    add_line(
        p, &c, lines,
        (mr_chart_line){.name = "from storage, the paper's equations", .colour = 1, .dashed = true},
        paper_rate, 0);
    add_line(p, &c, lines,
             (mr_chart_line){.name = "local, the paper's equations", .colour = 2, .dashed = true},
             paper_rate, 2);
    mr_chart_draw(out, &c);

    c = chart_of(p, "Times as fast as from storage", "times", lines);
    add_line(p, &c, lines, (mr_chart_line){.name = "strict", .colour = 0, .bold = true}, speed_up,
             1);
    add_line(p, &c, lines, (mr_chart_line){.name = "local", .colour = 2}, speed_up, 2);
    add_line(p, &c, lines,
             (mr_chart_line){.name = "strict, the paper's equations", .colour = 0, .dashed = true},
             paper_speed_up, 1);
    add_line(p, &c, lines,
             (mr_chart_line){.name = "local, the paper's equations", .colour = 2, .dashed = true},
             paper_speed_up, 2);
    mr_chart_draw(out, &c);
}

static void draw_messages(FILE *out, const part *p) {
    mr_chart_line lines[MOST_LINES];
    mr_chart c = chart_of(p, "Messages of a step, at most", "pairs of nodes", lines);
    add_line(p, &c, lines, (mr_chart_line){.name = "strict", .colour = 0}, most_messages, 1);
    add_line(p, &c, lines, (mr_chart_line){.name = "local", .colour = 2}, most_messages, 2);
    add_line(
        p, &c, lines,
        (mr_chart_line){.name = "nodes - 1: the bound for local ones", .colour = 2, .dashed = true},
        fewer_than_nodes, 2);
    mr_chart_draw(out, &c);
}

/* One curve for each batch. */
static void draw_imbalance(FILE *out, const part *parts, int32_t n) {
    mr_chart_line lines[MOST_LINES];
    char names[MOST_BATCHES][48];
    mr_chart c =
        chart_of(&parts[0], "Imbalance: what local shares move", "% of a step's samples", lines);
    c.logarithmic = false;
    for (int32_t b = 0; b < n && b < MOST_BATCHES; b++) {
        part p = parts[b];
        p.y = parts[0].y; /* the curves of one chart stand one after the other */
        snprintf(names[b], sizeof names[b], "%lld a rank",
                 (long long)row_at(&p, 0, 0)->sum.local_batch);
        add_line(&p, &c, lines, (mr_chart_line){.name = names[b], .colour = b % 6},
                 imbalance_percent, 2);
        add_line(
            &p, &c, lines,
            (mr_chart_line){.name = b == 0 ? "where all is kept: sqrt(1 - 1/p) / sqrt(2 pi b)" : "",
                            .colour = b % 6,
                            .dashed = true},
            closed_imbalance, 2);
    }
    mr_chart_draw(out, &c);
}

/* ---- Words ---- */
static void put_summary(FILE *out, const part *p) {
    char words[32];
    int32_t last = p->nodes - 1, full = -1;
    for (int32_t i = last; i >= 0; i--) {
        full = strcmp(mr_simulated_bound(row_at(p, i, 0)), "storage") == 0 ? i : full;
    }
    fprintf(out, "<p>Batches of %lld samples a rank. ",
            (long long)row_at(p, 0, 0)->sum.local_batch);
    if (full >= 0) {
        fprintf(out, "Where nothing is kept, storage is the limit from %lld %s on. ",
                (long long)row_at(p, full, 0)->sum.nodes,
                mr_text_plural(row_at(p, full, 0)->sum.nodes, "node", "nodes"));
    } else {
        fputs("Storage is never the limit. ", out);
    }
    fprintf(out,
            "On %lld nodes local shares are <b>%.1f</b> times as fast as storage (%s samples a "
            "second, bound by %s) and strict ones %.1f times.</p>\n",
            (long long)row_at(p, last, 0)->sum.nodes, speed_up(p, last, 2),
            mr_text_rate(words, sizeof words, rate(p, last, 2)),
            mr_simulated_bound(row_at(p, last, 2)), speed_up(p, last, 1));
}

static const char equations[] =
    "<h2>The equations</h2>\n"
    "<p>Of a step with <i>D</i> samples on <i>p</i> nodes: <i>R</i> samples a second come from "
    "storage for all nodes together, <i>N</i> over the network of a node, <i>U</i> are prepared "
    "and <i>V</i> trained on by a node; <i>a</i> is the part of the dataset that is kept, "
    "<i>b</i> = <i>D</i>/<i>p</i>.</p>\n"
    "<div class=\"wide\"><table class=\"equations\">"
    "<tr><th></th><th>simulated: parts overlap</th><th>Yang &amp; Cong (HiPC 2019): one after the "
    "other</th></tr>"
    "<tr><td>time</td>"
    "<td>max( read, move, <i>D</i>/<i>pU</i>, <i>D</i>/<i>pV</i> )</td>"
    "<td>max( <i>D</i>/<i>pV</i>, T<sub>io</sub> + <i>D</i>/<i>pU</i> )</td></tr>"
    "<tr><td>from storage</td><td>read = <i>D</i>/<i>R</i></td>"
    "<td>T<sub>io</sub> = <i>D</i>/<i>R</i></td></tr>"
    "<tr><td>strict</td><td>read = (1 - <i>a</i>) <i>D</i>/<i>R</i>, move = the busiest node's "
    "samples / <i>N</i></td>"
    "<td>T<sub>io</sub> = (1 - <i>a</i>) <i>D</i>/<i>R</i> + <i>a</i> (<i>p</i> - 1)/<i>p</i> "
    "&#183; <i>D</i>/<i>pN</i> &#8195;(7)</td></tr>"
    "<tr><td>local</td><td>likewise, of what the balance moves</td>"
    "<td>T<sub>io</sub> = (1 - <i>a</i>) <i>D</i>/<i>R</i> + <i>a</i> &#946; &#183; "
    "<i>D</i>/<i>pN</i> &#8195;(8)</td></tr>"
    "<tr><td>imbalance</td><td>counted</td><td>&#946; = &#8730;(1 - 1/<i>p</i>) / "
    "&#8730;(2&#960;<i>b</i>) where all is kept</td></tr></table></div>\n";

static void put_given(FILE *out, const char *given) {
    fputs("<h2>Given</h2>\n<pre>", out);
    mr_text_html(out, given);
    fputs("</pre>\n", out);
}

/* ---- The table ---- */
static void put_row(FILE *out, const part *p, int32_t node, int32_t share) {
    const mr_simulated_row *r = row_at(p, node, share);
    const mr_simulated_step *s = &r->sum;
    char speed[32];
    fprintf(out, "<tr><td>%lld</td><td>%lld</td><td>%lld</td><td>%s</td>", (long long)s->nodes,
            (long long)s->ranks, (long long)s->local_batch, s->share);
    fprintf(out, "<td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.2f</td><td>%lld</td>",
            storage_percent(p, node, share), own_percent(p, node, share),
            peers_percent(p, node, share), imbalance_percent(p, node, share),
            (long long)r->most_messages);
    fprintf(out, "<td>%.4g</td><td>%.4g</td><td>%.4g</td><td>%.4g</td><td>%.4g</td>",
            storage_ms(p, node, share), network_ms(p, node, share), prepare_ms(p, node, share),
            train_ms(p, node, share), step_ms(p, node, share));
    fprintf(out, "<td>%.4g</td><td>%.4g</td><td>%s</td><td>%.2f</td><td>%s</td></tr>\n",
            1e3 * s->model / (double)r->steps, paper_ms(p, node, share),
            mr_text_rate(speed, sizeof speed, rate(p, node, share)), speed_up(p, node, share),
            mr_simulated_bound(r));
}

static void put_table(FILE *out, const part *parts, int32_t n) {
    fputs("<h2>Figures</h2>\n<div class=\"wide\"><table><tr><th>nodes</th><th>ranks</th>"
          "<th>batch</th><th>share</th><th>storage %</th><th>own %</th><th>others %</th>"
          "<th>imbalance %</th><th>messages</th><th>reading ms</th><th>network ms</th>"
          "<th>preparing ms</th><th>training ms</th><th>step ms</th><th>closed form ms</th>"
          "<th>paper ms</th><th>samples/s</th><th>times storage</th><th>bound by</th></tr>\n",
          out);
    for (int32_t b = 0; b < n; b++) {
        for (int32_t i = 0; i < parts[b].nodes * SHARES; i++) {
            put_row(out, &parts[b], i / SHARES, i % SHARES);
        }
    }
    fputs("</table></div>\n", out);
}

/* ---- The page ---- */
static void put_page(FILE *out, const part *parts, int32_t n, const char *title,
                     const char *given) {
    char safe[512];
    fputs("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>",
          out);
    mr_text_html(out, mr_text_safe(safe, sizeof safe, title));
    fprintf(out,
            "</title><style>%s.equations td,.equations th{text-align:left}.charts{margin:1rem "
            "0}</style>\n"
            "<h1>Loading on nodes that are simulated: ",
            mr_chart_style);
    mr_text_html(out, safe);
    fputs("</h1>\n", out);
    for (int32_t b = 0; b < n; b++) {
        put_summary(out, &parts[b]);
        fputs("<div class=\"charts small\">\n", out);
        draw_speeds(out, &parts[b]);
        draw_messages(out, &parts[b]);
        if (b == 0) {
            draw_imbalance(out, parts, n);
        }
        fputs("</div>\n<div class=\"charts\">\n", out);
        draw_times(out, &parts[b]);
        draw_bytes(out, &parts[b]);
        fputs("</div>\n", out);
    }
    fputs(equations, out);
    put_given(out, given);
    put_table(out, parts, n);
    fputs("</html>\n", out);
}

static int by_nodes(const void *a, const void *b) {
    const mr_simulated_row *one = a, *other = b;
    return (one->sum.nodes > other->sum.nodes) - (one->sum.nodes < other->sum.nodes);
}

/* Returns how many batches there are. */
static int32_t divide(mr_simulated_row *rows, int32_t n, part *parts) {
    int32_t nodes = 0, batches = 0;
    while (nodes < n && rows[nodes].sum.local_batch == rows[0].sum.local_batch) {
        nodes++;
    }
    for (int32_t i = 0; nodes > 0 && i + nodes <= n; i += nodes) {
        qsort(rows + i, (size_t)(nodes / SHARES), SHARES * sizeof *rows, by_nodes);
        parts[batches++] = (part){.rows = rows + i, .nodes = nodes / SHARES};
    }
    return batches;
}

char *mr_simulate_page(mr_simulated_row *rows, int32_t n, const char *title, const char *given,
                       size_t *size) {
    part *parts = calloc((size_t)n + 1, sizeof *parts);
    double *numbers = calloc((size_t)n + 1, (MOST_LINES + 1) * sizeof *numbers);
    char *text = NULL;
    FILE *out = parts && numbers ? open_memstream(&text, size) : NULL;
    if (out) {
        int32_t batches = divide(rows, n, parts);
        for (int32_t i = 0; batches > 0 && i < parts[0].nodes; i++) {
            numbers[i] = (double)row_at(&parts[0], i, 0)->sum.nodes;
        }
        for (int32_t b = 0; b < batches; b++) {
            parts[b].x = numbers;
            parts[b].y = numbers + parts[0].nodes;
        }
        put_page(out, parts, batches, title, given);
    }
    free(parts);
    bool whole = out && fclose(out) == 0;
    free(numbers);
    return whole ? text : NULL;
}
