/* SPDX-License-Identifier: Apache-2.0 */
/* tune_page.c - see tune_page.h. A picture in SVG and a table, without a script: both axes are
 * logarithmic, since strategies are a hundred times apart. */
#include "tune_page.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum { WIDTH = 900, HEIGHT = 460, LEFT = 80, RIGHT = 40, TOP = 20, BOTTOM = 60 };

typedef struct axis {
    double low, high; /* powers of ten */
    double from, to;  /* pixels */
} axis;

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:980px;padding:0 1rem;"
    "color:#1b1f24;background:#fff}h1{font-size:1.3rem}svg{width:100%;height:auto}"
    ".grid{stroke:#d8dde3}.axis{fill:#57606a;font-size:13px}.dot{fill:#4c78a8;fill-opacity:.75}"
    ".over{fill:#b0b7bf}.best{fill:#d9480f;stroke:#7a2a09;stroke-width:2}.name{font-size:13px;"
    "fill:#7a2a09;font-weight:600}table{border-collapse:collapse;width:100%;font-size:13px}"
    "td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid #e3e7eb;"
    "white-space:nowrap}td:nth-child(-n+2),th:nth-child(-n+2),td:last-child,th:last-child{"
    "text-align:left}td:last-child{white-space:normal}tr.chosen{background:#fff1e8}"
    ".left{color:#8a929b}"
    "@media(prefers-color-scheme:dark){body{color:#d6dbe1;background:#16191d}.grid{stroke:#333a42}"
    ".axis{fill:#9aa4af}.dot{fill:#79a6d8}.name{fill:#ffa271}tr.chosen{background:#3a2518}"
    "td,th{border-color:#2b3138}}";

/* ---- Text ---- */
static double number(json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static const char *text_of(json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static bool is(json_t *row, const char *key) {
    return json_is_true(json_object_get(row, key));
}

static double kept_bytes(json_t *row) {
    return number(row, "disk_bytes") + number(row, "memory_bytes");
}

static void put_name(FILE *out, json_t *row) {
    bool keeps = strcmp(text_of(row, "keeps"), "nothing") != 0;
    mr_text_html(out, text_of(row, "keeps"));
    fputs(keeps ? " behind " : "", out);
    mr_text_html(out, keeps ? text_of(row, "behind") : "");
}

/* ---- The picture ---- */
static double place(const axis *a, double value) {
    double share = (log10(value) - a->low) / (a->high - a->low);
    return a->from + share * (a->to - a->from);
}

static void widen(axis *a, double value) {
    if (value > 0) {
        a->low = fmin(a->low, floor(log10(value)));
        a->high = fmax(a->high, ceil(log10(value)));
    }
}

/* What keeps nothing stands at the left edge, before all bytes. */
static double least_bytes(const axis *x) {
    return pow(10, x->low);
}

static void measure(json_t *rows, axis *x, axis *y) {
    size_t i;
    json_t *row;
    *x = (axis){INFINITY, -INFINITY, LEFT, WIDTH - RIGHT};
    *y = (axis){INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP};
    json_array_foreach(rows, i, row) {
        if (is(row, "measured")) {
            widen(x, kept_bytes(row));
            widen(y, number(row, "samples_per_second"));
        }
    }
    *x = isinf(x->low) ? (axis){3, 6, x->from, x->to} : *x;
    *y = isinf(y->low) ? (axis){0, 3, y->from, y->to} : *y;
    x->low -= 1;
    x->high += x->high <= x->low;
    y->high += y->high <= y->low;
}

static void draw_grid(FILE *out, const axis *x, const axis *y) {
    char text[32];
    for (int p = (int)x->low + 1; p <= (int)x->high; p++) {
        double at = place(x, pow(10, p));
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", at, TOP, HEIGHT - BOTTOM);
        fprintf(out, "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%s</text>",
                at, HEIGHT - BOTTOM + 20, mr_text_bytes(text, sizeof text, (int64_t)pow(10, p)));
    }
    for (int p = (int)y->low; p <= (int)y->high; p++) {
        double at = place(y, pow(10, p));
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, WIDTH - RIGHT);
        fprintf(out, "<text class=\"axis\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%s</text>",
                LEFT - 8, at + 4, mr_text_rate(text, sizeof text, pow(10, p)));
    }
    fprintf(out,
            "<text class=\"axis\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">nothing</text>"
            "<text class=\"axis\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">kept, disk and memory, "
            "for the whole dataset</text>"
            "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(18 %d) "
            "rotate(-90)\">samples/s</text>",
            LEFT, HEIGHT - BOTTOM + 20, (WIDTH + LEFT) / 2, HEIGHT - 12, (HEIGHT - BOTTOM) / 2);
}

static void draw_dot(FILE *out, json_t *row, const axis *x, const axis *y) {
    char rate[32], bytes[32];
    double kept = kept_bytes(row), speed = number(row, "samples_per_second");
    double across = place(x, kept > 0 ? kept : least_bytes(x)), up = place(y, speed);
    bool chosen = is(row, "chosen"), right = across > (LEFT + WIDTH) * 0.5;
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>",
            chosen                ? "best"
            : is(row, "over_cap") ? "over"
                                  : "dot",
            across, up, chosen ? 8 : 5);
    put_name(out, row);
    fprintf(out, ", %.0f threads, %.0f reads: %s samples/s, %s</title></circle>",
            number(row, "threads"), number(row, "reads"), mr_text_rate(rate, sizeof rate, speed),
            mr_text_bytes(bytes, sizeof bytes, (int64_t)kept));
    if (chosen) {
        fprintf(out, "<text class=\"name\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">chosen: ",
                right ? "end" : "start", across + (right ? -14 : 14), up + 4);
        put_name(out, row);
        fputs("</text>", out);
    }
}

static void draw(FILE *out, json_t *rows) {
    size_t i;
    json_t *row;
    axis x, y;
    measure(rows, &x, &y);
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Throughput against "
            "storage\">",
            WIDTH, HEIGHT);
    draw_grid(out, &x, &y);
    for (int last = 0; last < 2; last++) { /* the chosen one lies on top */
        json_array_foreach(rows, i, row) {
            if (is(row, "measured") && is(row, "chosen") == (last == 1)) {
                draw_dot(out, row, &x, &y);
            }
        }
    }
    fputs("</svg>\n", out);
}

/* ---- The table ---- */
static void put_cold(FILE *out, json_t *row) {
    char rate[32];
    double cold = number(row, "cold_samples_per_second");
    fprintf(out, "<td>%s</td>", cold > 0 ? mr_text_rate(rate, sizeof rate, cold) : "-");
}

static void put_measured(FILE *out, json_t *row) {
    char prepare[32], disk[32], memory[32], rate[32], total[32], even[32] = "never";
    if (number(row, "break_even") >= 0) {
        snprintf(even, sizeof even, "%.0f", number(row, "break_even"));
    }
    fprintf(out, "<td>%.0f</td><td>%.0f</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>",
            number(row, "threads"), number(row, "reads"),
            mr_text_time(prepare, sizeof prepare, number(row, "prepare_seconds")),
            mr_text_bytes(disk, sizeof disk, (int64_t)number(row, "disk_bytes")),
            mr_text_bytes(memory, sizeof memory, (int64_t)number(row, "memory_bytes")),
            mr_text_rate(rate, sizeof rate, number(row, "samples_per_second")));
    put_cold(out, row);
    fprintf(out, "<td>%.3f</td><td>%s</td><td>%s</td><td>", number(row, "first_batch_seconds"),
            mr_text_time(total, sizeof total, number(row, "total_seconds")), even);
    mr_text_html(out, text_of(row, "bound"));
    fputs(is(row, "over_cap") ? ", over a cap</td>" : "</td>", out);
}

static void put_row(FILE *out, json_t *row) {
    bool keeps = strcmp(text_of(row, "keeps"), "nothing") != 0;
    fprintf(out, "<tr class=\"%s\"><td>",
            is(row, "chosen")     ? "chosen"
            : is(row, "measured") ? ""
                                  : "left");
    mr_text_html(out, keeps ? text_of(row, "behind") : "-");
    fputs("</td><td>", out);
    mr_text_html(out, text_of(row, "keeps"));
    fputs("</td>", out);
    if (is(row, "measured")) {
        put_measured(out, row);
    } else {
        fputs("<td colspan=\"11\">", out);
        mr_text_html(out, text_of(row, "why"));
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void put_table(FILE *out, json_t *rows) {
    size_t i;
    json_t *row;
    fputs("<table><tr><th>cut behind</th><th>keeps</th><th>threads</th><th>reads</th>"
          "<th>prepare</th><th>disk</th><th>memory</th><th>samples/s</th><th>cold</th>"
          "<th>first</th><th>total</th><th>even</th><th>bound by</th></tr>\n",
          out);
    json_array_foreach(rows, i, row) {
        put_row(out, row);
    }
    fputs("</table>\n", out);
}

static void put_page(FILE *out, json_t *result, const char *title) {
    char samples[32], subset[32], safe[512];
    json_t *rows = json_object_get(result, "strategies");
    fprintf(out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                 "content=\"width=device-width\"><title>");
    mr_text_html(out, mr_text_safe(safe, sizeof safe, title));
    fprintf(out, "</title><style>%s</style>\n<h1>Which steps once: ", style);
    mr_text_html(out, safe);
    fprintf(out,
            "</h1>\n<p>%s samples, %.0f epochs. Measured on %s of them, %g s each; times and sizes "
            "are reckoned for all in proportion.</p>\n",
            mr_text_count(samples, sizeof samples, (int64_t)number(result, "samples")),
            number(result, "epochs"),
            mr_text_count(subset, sizeof subset, (int64_t)number(result, "subset")),
            number(result, "seconds"));
    draw(out, rows);
    put_table(out, rows);
    fputs("</html>\n", out);
}

char *mr_tune_page(json_t *result, const char *title, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) {
        return NULL;
    }
    put_page(out, result, title);
    return fclose(out) == 0 ? text : NULL;
}
