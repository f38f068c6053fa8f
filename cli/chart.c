/* SPDX-License-Identifier: Apache-2.0 */
/* chart.c - see chart.h. The x axis is logarithmic, with a tick at each number. */
#include "chart.h"

#include <math.h>

#include "text.h"

enum { WIDTH = 480, HEIGHT = 280, LEFT = 84, RIGHT = 16, TOP = 12, BOTTOM = 46 };

const char mr_chart_style[] =
    "body{--ink:#1b1f24;--paper:#fff;--soft:#57606a;--grid:#d8dde3;--c0:#4c78a8;--c1:#d9480f;"
    "--c2:#2f9e44;--c3:#9c36b5;--c4:#b8860b;--c5:#66707a;color:var(--ink);background:var(--paper);"
    "font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1480px;padding:0 1rem}"
    "@media(prefers-color-scheme:dark){body{--ink:#d6dbe1;--paper:#16191d;--soft:#9aa4af;"
    "--grid:#333a42;--c0:#79a6d8;--c1:#ff8c5a;--c2:#69c97b;--c3:#c98ae0;--c4:#e0b84c;--c5:#a7b0b9}}"
    "h1{font-size:1.3rem}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}"
    ".charts{display:grid;gap:1.2rem;grid-template-columns:repeat(auto-fill,minmax(min(400px,100%),"
    "1fr))}.small{grid-template-columns:repeat(auto-fill,minmax(min(310px,100%),1fr))}.small "
    ".axis{font-size:14px}"
    "figure{margin:0;display:flex;flex-direction:column}figure>svg{margin-top:auto}figcaption{font-"
    "weight:600}"
    "figure ul{list-style:none;display:flex;flex-wrap:wrap;gap:0 1rem;margin:.2rem 0;padding:0;"
    "font-size:13px;color:var(--soft)}figure li svg{width:26px;height:10px;margin-right:.35rem}"
    "figure>svg{width:100%;height:auto}.grid{stroke:var(--grid)}.axis{fill:var(--soft);"
    "font-size:12px}.line{fill:none;stroke-width:2}.bold{stroke-width:3.5}"
    ".dashed{stroke-dasharray:6 4}"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}"
    ".s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.f0{fill:var(--c0)}.f1{fill:var(--c1)}"
    ".f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--grid);"
    "white-space:nowrap}pre{overflow-x:auto;font-size:13px}";

/* ---- The axes ---- */
typedef struct scale {
    double low, high; /* of the y axis: numbers, or their logarithms */
    bool logarithmic;
    double x_low, x_high; /* logarithms */
    double inset;         /* pixels at both ends of the x axis */
} scale;

static double across(const scale *s, double x) {
    double share = s->x_high > s->x_low ? (log(x) - s->x_low) / (s->x_high - s->x_low) : 0.5;
    return LEFT + s->inset + share * (WIDTH - LEFT - RIGHT - 2 * s->inset);
}

static double up(const scale *s, double y) {
    double share = ((s->logarithmic ? log10(y) : y) - s->low) / (s->high - s->low);
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
}

/* A round number at or above. */
static double round_up(double value) {
    double ten = pow(10, floor(log10(value))), of_ten = value / ten;
    return ten * (of_ten <= 1 ? 1 : of_ten <= 2 ? 2 : of_ten <= 5 ? 5 : 10);
}

/* The height of the bar, or of the highest line. */
static double highest_at(const mr_chart *c, int32_t i) {
    double highest = 0;
    for (int32_t k = 0; k < c->n_lines; k++) {
        double y = c->lines[k].y[i];
        highest = c->stacked ? highest + y : fmax(highest, y);
    }
    return highest;
}

static double lowest_at(const mr_chart *c, int32_t i) {
    double lowest = INFINITY;
    for (int32_t k = 0; k < c->n_lines; k++) {
        double y = c->lines[k].y[i];
        lowest = y > 0 ? fmin(lowest, y) : lowest;
    }
    return lowest;
}

static scale measure(const mr_chart *c) {
    double high = c->high, low = c->low > 0 ? c->low : INFINITY;
    for (int32_t i = 0; i < c->n; i++) {
        high = fmax(high, highest_at(c, i));
        low = fmin(low, lowest_at(c, i));
    }
    high = high > 0 ? high : 1;
    low = fmin(low, high);
    scale s = {.high = round_up(high), .logarithmic = c->logarithmic, .inset = c->stacked ? 24 : 8};
    if (c->logarithmic) {
        s.low = floor(log10(low) + 1e-9);
        s.high = fmax(ceil(log10(high) - 1e-9), s.low + 1);
    }
    s.x_low = log(c->x[0]);
    s.x_high = log(c->x[c->n - 1]);
    return s;
}

static void write_number(char *text, size_t size, double y) {
    if (y >= 1e6) {
        snprintf(text, size, "%.4g M", y / 1e6);
    } else if (y >= 1000) {
        mr_text_count(text, size, (int64_t)(y + 0.5));
    } else {
        snprintf(text, size, "%.3g", y);
    }
}

static void draw_tick(FILE *out, const scale *s, double y) {
    char text[32];
    double at = up(s, y);
    write_number(text, sizeof text, y);
    fprintf(out,
            "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"axis\" text-anchor=\"end\" "
            "x=\"%d\" y=\"%.1f\">%s</text>",
            LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 4, text);
}

/* Powers of ten; between few of them also 2 and 5 of each. */
static void draw_powers(FILE *out, const scale *s) {
    static const double between[] = {1, 2, 5};
    int many = s->high - s->low > 2 ? 1 : 3;
    int every = (int)ceil((s->high - s->low) / 8);
    for (int p = (int)s->low; p < (int)s->high; p += every) {
        for (int i = 0; i < many; i++) {
            draw_tick(out, s, between[i] * pow(10, p));
        }
    }
    draw_tick(out, s, pow(10, s->high));
}

/* Four of 20, else five. */
static void draw_parts(FILE *out, const scale *s) {
    double leading = s->high / pow(10, floor(log10(s->high) + 1e-9));
    int parts = leading > 1.5 && leading < 3 ? 4 : 5;
    for (int i = 0; i <= parts; i++) {
        draw_tick(out, s, s->high * i / parts);
    }
}

static void draw_frame(FILE *out, const mr_chart *c, const scale *s) {
    double last = -INFINITY;
    if (c->logarithmic) {
        draw_powers(out, s);
    }
    if (!c->logarithmic) {
        draw_parts(out, s);
    }
    for (int32_t i = 0; i < c->n; i++) {
        double x = across(s, c->x[i]);
        if (x - last >= 26) { /* else they would overlap */
            fprintf(out,
                    "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g</text>", x,
                    HEIGHT - BOTTOM + 17, c->x[i]);
            last = x;
        }
    }
    fprintf(out, "<text class=\"axis\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    mr_text_html(out, c->x_title);
    fprintf(out,
            "</text><text class=\"axis\" text-anchor=\"middle\" transform=\"translate(13 %d) "
            "rotate(-90)\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    mr_text_html(out, c->y_title);
    fputs("</text>", out);
}

/* ---- What stands in them ---- */
static bool is_shown(const mr_chart *c, double y) {
    return c->logarithmic ? y > 0 : isfinite(y);
}

static void draw_line(FILE *out, const mr_chart *c, const mr_chart_line *l, const scale *s) {
    bool goes_on = false;
    fprintf(out, "<path class=\"line s%d%s%s\" d=\"", (int)l->colour, l->dashed ? " dashed" : "",
            l->bold ? " bold" : "");
    for (int32_t i = 0; i < c->n; i++) {
        if (is_shown(c, l->y[i])) {
            fprintf(out, "%c%.1f %.1f", goes_on ? 'L' : 'M', across(s, c->x[i]), up(s, l->y[i]));
        }
        goes_on = is_shown(c, l->y[i]);
    }
    fputs("\"/>", out);
    for (int32_t i = 0; i < c->n; i++) {
        char text[32];
        if (is_shown(c, l->y[i]) && !l->dashed) {
            write_number(text, sizeof text, l->y[i]);
            fprintf(out, "<circle class=\"f%d\" r=\"%s\" cx=\"%.1f\" cy=\"%.1f\"><title>%g: %s, ",
                    (int)l->colour, l->bold ? "4.5" : "3.5", across(s, c->x[i]), up(s, l->y[i]),
                    c->x[i], text);
            mr_text_html(out, l->name);
            fputs("</title></circle>", out);
        }
    }
}

static void draw_bars(FILE *out, const mr_chart *c, const scale *s) {
    double room = (WIDTH - LEFT - RIGHT) / (double)c->n, width = fmin(0.7 * room, 36);
    for (int32_t i = 0; i < c->n; i++) {
        double below = 0;
        for (int32_t k = 0; k < c->n_lines; k++) {
            char text[32];
            double y = c->lines[k].y[i], bottom = up(s, below), top = up(s, below + y);
            write_number(text, sizeof text, y);
            fprintf(out,
                    "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
                    "<title>%g: %s, ",
                    (int)c->lines[k].colour, across(s, c->x[i]) - width / 2, top, width,
                    bottom - top, c->x[i], text);
            mr_text_html(out, c->lines[k].name);
            fputs("</title></rect>", out);
            below += y;
        }
    }
}

static bool has_any(const mr_chart *c, const mr_chart_line *l) {
    bool any = false;
    for (int32_t i = 0; i < c->n; i++) {
        any = any || l->y[i] > 0;
    }
    return any;
}

static void draw_legend(FILE *out, const mr_chart *c) {
    fputs("<ul>", out);
    for (int32_t k = 0; k < c->n_lines; k++) {
        const mr_chart_line *l = &c->lines[k];
        if (!has_any(c, l) || l->name[0] == '\0') {
            continue;
        }
        if (c->stacked) {
            fprintf(out,
                    "<li><svg viewBox=\"0 0 26 10\"><rect class=\"f%d\" width=\"26\" "
                    "height=\"10\"/></svg>",
                    (int)l->colour);
        } else {
            fprintf(out,
                    "<li><svg viewBox=\"0 0 26 10\"><path class=\"line s%d%s%s\" "
                    "d=\"M0 5H26\"/></svg>",
                    (int)l->colour, l->dashed ? " dashed" : "", l->bold ? " bold" : "");
        }
        mr_text_html(out, l->name);
        fputs("</li>", out);
    }
    fputs("</ul>", out);
}

void mr_chart_draw(FILE *out, const mr_chart *c) {
    scale s = measure(c);
    fputs("<figure><figcaption>", out);
    mr_text_html(out, c->title);
    fputs("</figcaption>", out);
    draw_legend(out, c);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    mr_text_html(out, c->title);
    fputs("\">", out);
    draw_frame(out, c, &s);
    if (c->stacked) {
        draw_bars(out, c, &s);
    }
    for (int32_t k = 0; !c->stacked && k < c->n_lines; k++) {
        if (has_any(c, &c->lines[k])) {
            draw_line(out, c, &c->lines[k], &s);
        }
    }
    fputs("</svg></figure>\n", out);
}
