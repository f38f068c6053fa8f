/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_page.c - a sweep as a page for a browser, complete in one file and without a script: the
 * curves of the Lotus paper's figure 1 (end-to-end time, CPU seconds, CPU time of each op), what
 * follows from them, and every figure in a table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "trace/sweep.h"

enum { WIDTH = 460, HEIGHT = 300, LEFT = 64, RIGHT = 130, TOP = 16, BOTTOM = 46, MOST_LINES = 12 };
enum { LABEL_HEIGHT = 13 };

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1480px;padding:0 1rem;"
    "color:#1b1f24;background:#fff}h1{font-size:1.3rem}h2{font-size:1rem;margin:0}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(440px,100%),1fr));"
    "gap:1rem}figure{margin:0;max-width:720px}"
    "svg{width:100%;height:auto}.grid{stroke:#d8dde3}.axis{fill:#57606a;font-size:12px}"
    "path.line{fill:none;stroke-width:2}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e3e7eb;"
    "white-space:nowrap}td:last-child,th:last-child{text-align:left;white-space:normal}"
    "tr.best{background:#fff1e8}p{white-space:pre-line}"
    "@media(prefers-color-scheme:dark){body{color:#d6dbe1;background:#16191d}"
    ".grid{stroke:#333a42}.axis{fill:#9aa4af}tr.best{background:#3a2518}td,th{border-color:#2b3138}"
    "}";

static const char *const colours[MOST_LINES] = {"#4c78a8", "#d9480f", "#2f9e44", "#9c36b5",
                                                "#e8a317", "#1098ad", "#e64980", "#66707a",
                                                "#74b816", "#5f3dc4", "#a0522d", "#0b7285"};

/* What a curve shows of a run. `op` NULL: of the whole run. */
typedef double figure_of(const mr_sweep_run *run, const char *op);

static double seconds_of(const mr_sweep_run *run, const char *op) {
    (void)op;
    return run->seconds;
}

static double cpu_of(const mr_sweep_run *run, const char *op) {
    (void)op;
    return run->cpu;
}

/* CPU time where it was counted, else time that passed. */
static double op_of(const mr_sweep_run *run, const char *op) {
    double cpu = mr_sweep_op_figure(run, op, "cpu");
    return 1e3 * (cpu > 0 ? cpu : mr_sweep_op_figure(run, op, "seconds"));
}

/* What stands behind a line's end. */
typedef struct label {
    double y; /* of that end */
    const char *colour;
    char text[128];
} label;

typedef struct chart {
    FILE *out;
    const mr_sweep *sweep;
    const char *title, *unit;
    figure_of *figure;
    double low, high, most; /* of the setting; of the figure */
    int32_t n_lines;
    label labels[MOST_LINES]; /* the lowest on the page first */
} chart;

static void put_character(FILE *out, char c) {
    switch (c) {
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '&':
        fputs("&amp;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    default:
        fputc(c, out);
    }
}

static void put_text(FILE *out, const char *text) {
    char safe[512];
    for (const char *c = mr_text_escape(safe, sizeof safe, text); *c; c++) {
        put_character(out, *c);
    }
}

static void put_conclusion(FILE *out, const mr_sweep *s) {
    char *words = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&words, &size);
    if (!memory) {
        return;
    }
    mr_sweep_conclude(memory, s);
    fclose(memory);
    for (const char *c = words; c && *c; c++) {
        put_character(out, *c);
    }
    free(words);
}

static double setting_of(const mr_sweep *s, const mr_sweep_run *run) {
    return json_number_value(json_object_get(run->set, s->axis));
}

static double x_of(const chart *c, double value) {
    double share = c->high > c->low ? (value - c->low) / (c->high - c->low) : 0.5;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const chart *c, double value) {
    return HEIGHT - BOTTOM - value / c->most * (HEIGHT - BOTTOM - TOP);
}

/* A round number at or above. */
static double round_up(double value) {
    if (!(value > 0)) {
        return 1;
    }
    double ten = pow(10, floor(log10(value)));
    double of_ten = value / ten;
    return ten * (of_ten <= 1 ? 1 : of_ten <= 2 ? 2 : of_ten <= 5 ? 5 : 10);
}

static void draw_frame(const chart *c) {
    fprintf(c->out, "<figure><h2>");
    put_text(c->out, c->title);
    fprintf(c->out, "</h2><svg viewBox=\"0 0 %d %d\" role=\"img\">", WIDTH, HEIGHT);
    for (int i = 0; i <= 4; i++) {
        double y = y_of(c, c->most * i / 4);
        fprintf(c->out,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"axis\" "
                "text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%g</text>",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, c->most * i / 4);
    }
    const json_t *values = json_object_get(c->sweep->axes, c->sweep->axis);
    for (size_t i = 0; i < json_array_size(values); i++) {
        double value = json_number_value(json_array_get(values, i));
        fprintf(c->out, "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g</text>",
                x_of(c, value), HEIGHT - BOTTOM + 16, value);
    }
    fprintf(c->out, "<text class=\"axis\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    put_text(c->out, c->sweep->axis);
    fprintf(c->out, "</text><text class=\"axis\" x=\"4\" y=\"12\">%s</text>", c->unit);
}

static void add_label(chart *c, double y, const char *colour, const char *text) {
    int32_t at = c->n_lines++;
    for (; at > 0 && c->labels[at - 1].y < y; at--) {
        c->labels[at] = c->labels[at - 1];
    }
    c->labels[at] = (label){.y = y, .colour = colour};
    snprintf(c->labels[at].text, sizeof c->labels[at].text, "%s", text);
}

/* Lines that end close together have their labels above each other, in the lines' order. */
static void end_chart(const chart *c) {
    double above = HEIGHT;
    for (int32_t i = 0; i < c->n_lines; i++) {
        double y = fmin(c->labels[i].y + 4, above);
        fprintf(c->out, "<text fill=\"%s\" font-size=\"11\" x=\"%d\" y=\"%.1f\">",
                c->labels[i].colour, WIDTH - RIGHT + 6, y);
        put_text(c->out, c->labels[i].text);
        fprintf(c->out, "</text>");
        above = y - LABEL_HEIGHT;
    }
    fprintf(c->out, "</svg></figure>\n");
}

/* `curve` has the runs of the line, at least one; there is room for its label. */
static void draw_line(chart *c, const int32_t *curve, int32_t n, const char *op, const char *name) {
    const char *colour = colours[c->n_lines];
    const mr_sweep_run *last = &c->sweep->runs[curve[n - 1]];
    fprintf(c->out, "<path class=\"line\" stroke=\"%s\" d=\"", colour);
    for (int32_t i = 0; i < n; i++) {
        const mr_sweep_run *run = &c->sweep->runs[curve[i]];
        fprintf(c->out, "%c%.1f %.1f", i ? 'L' : 'M', x_of(c, setting_of(c->sweep, run)),
                y_of(c, c->figure(run, op)));
    }
    fprintf(c->out, "\"/>");
    for (int32_t i = 0; i < n; i++) {
        const mr_sweep_run *run = &c->sweep->runs[curve[i]];
        fprintf(c->out, "<circle fill=\"%s\" r=\"3.5\" cx=\"%.1f\" cy=\"%.1f\"><title>", colour,
                x_of(c, setting_of(c->sweep, run)), y_of(c, c->figure(run, op)));
        fprintf(c->out, "%g</title></circle>", c->figure(run, op));
    }
    add_label(c, y_of(c, c->figure(last, op)), colour, name);
}

/* ---- One line for each combination of the other settings ---- */
static void name_line(const mr_sweep *s, const mr_sweep_run *run, char *out, size_t size) {
    size_t used = 0;
    char value[64];
    out[0] = '\0';
    for (void *at = json_object_iter((json_t *)s->axes); at;
         at = json_object_iter_next((json_t *)s->axes, at)) {
        const char *axis = json_object_iter_key(at);
        if (strcmp(axis, s->axis) != 0 && used < size) {
            int n = snprintf(out + used, size - used, "%s%s %s", used ? ", " : "", axis,
                             mr_sweep_value(run, axis, value, sizeof value));
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* Runs beside run `first`, in the order in which they stand; those before it are another line's. */
static int32_t line_of(const mr_sweep *s, int32_t first, int32_t *out) {
    int32_t n = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if (!s->runs[i].error && mr_sweep_is_beside(s, first, i, s->axis)) {
            if (i < first) {
                return 0;
            }
            out[n++] = i;
        }
    }
    return n;
}

static void draw_runs(FILE *out, const mr_sweep *s, const char *title, figure_of *figure,
                      int32_t *curve) {
    chart c = {
        .out = out, .sweep = s, .title = title, .unit = "s", .figure = figure, .low = INFINITY};
    for (int32_t i = 0; i < s->n; i++) {
        if (!s->runs[i].error) {
            c.most = fmax(c.most, figure(&s->runs[i], NULL));
            c.low = fmin(c.low, setting_of(s, &s->runs[i]));
            c.high = fmax(c.high, setting_of(s, &s->runs[i]));
        }
    }
    c.most = round_up(c.most);
    draw_frame(&c);
    for (int32_t i = 0; i < s->n && c.n_lines < MOST_LINES; i++) {
        char name[128];
        int32_t n = s->runs[i].error ? 0 : line_of(s, i, curve);
        if (n > 0) {
            name_line(s, &s->runs[i], name, sizeof name);
            draw_line(&c, curve, n, NULL, name);
        }
    }
    end_chart(&c);
}

/* ---- One line for each op, of the runs beside the best one ---- */
static void draw_ops(FILE *out, const mr_sweep *s, int32_t *curve) {
    chart c = {.out = out,
               .sweep = s,
               .title = "CPU time of a sample by op",
               .unit = "ms",
               .figure = op_of,
               .low = INFINITY};
    int32_t n = mr_sweep_curve(s, curve);
    const json_t *ops = s->runs[s->best].ops;
    if (json_array_size(ops) == 0 || n == 0) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const mr_sweep_run *run = &s->runs[curve[i]];
        c.low = fmin(c.low, setting_of(s, run));
        c.high = fmax(c.high, setting_of(s, run));
        for (size_t k = 0; k < json_array_size(run->ops); k++) {
            const char *op =
                json_string_value(json_object_get(json_array_get(run->ops, k), "name"));
            c.most = fmax(c.most, op ? op_of(run, op) : 0);
        }
    }
    c.most = round_up(c.most);
    draw_frame(&c);
    for (size_t i = 0; i < json_array_size(ops) && c.n_lines < MOST_LINES; i++) {
        const char *op = json_string_value(json_object_get(json_array_get(ops, i), "name"));
        if (op) {
            draw_line(&c, curve, n, op, op);
        }
    }
    end_chart(&c);
}

/* ---- The table ---- */
static void put_head(FILE *out, const mr_sweep *s) {
    static const char *const columns[] = {"seconds",       "spread",    "samples/s", "CPU s",
                                          "CPU ms/sample", "memory MB", "held up"};
    fprintf(out, "<table><tr>");
    for (void *at = json_object_iter((json_t *)s->axes); at;
         at = json_object_iter_next((json_t *)s->axes, at)) {
        fprintf(out, "<th>");
        put_text(out, json_object_iter_key(at));
        fprintf(out, "</th>");
    }
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        fprintf(out, "<th>%s</th>", columns[i]);
    }
    fprintf(out, "</tr>\n");
}

static void put_run(FILE *out, const mr_sweep *s, int32_t i) {
    const mr_sweep_run *run = &s->runs[i];
    char value[64];
    fprintf(out, i == s->best ? "<tr class=\"best\">" : "<tr>");
    for (void *at = json_object_iter((json_t *)s->axes); at;
         at = json_object_iter_next((json_t *)s->axes, at)) {
        fprintf(out, "<td>");
        put_text(out, mr_sweep_value(run, json_object_iter_key(at), value, sizeof value));
        fprintf(out, "</td>");
    }
    if (run->error) {
        fprintf(out, "<td></td><td></td><td></td><td></td><td></td><td></td><td>");
    } else {
        fprintf(out,
                "<td>%.3f</td><td>%.1f %%</td><td>%.1f</td><td>%.2f</td><td>%.3f</td>"
                "<td>%.0f</td><td>",
                run->seconds, 100 * run->spread, run->rate, run->cpu, 1e3 * run->cpu / run->samples,
                run->memory / 1e6);
    }
    put_text(out, run->error ? run->error : run->title);
    fprintf(out, "</td></tr>\n");
}

void mr_sweep_page(FILE *out, const mr_sweep *s) {
    int32_t *curve = mr_zalloc((size_t)s->n, sizeof *curve);
    fprintf(out,
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width\"><title>millrace sweep</title><style>%s</style>"
            "<h1>millrace sweep: ",
            style);
    put_text(out, s->what);
    fprintf(out, "</h1>\n<p>");
    put_conclusion(out, s);
    fprintf(out, "</p>\n");
    if (curve && s->axis && s->best >= 0) {
        fprintf(out, "<div class=\"charts\">");
        draw_runs(out, s, "End-to-end time", seconds_of, curve);
        draw_runs(out, s, "CPU seconds of the job", cpu_of, curve);
        draw_ops(out, s, curve);
        fprintf(out, "</div>\n");
    }
    put_head(out, s);
    for (int32_t i = 0; i < s->n; i++) {
        put_run(out, s, i);
    }
    fprintf(out, "</table></html>\n");
    mr_free(curve);
}
