/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - millrace digest: compares what two runs delivered, batch by batch. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "options.h"
#include "text.h"

typedef struct digest_values {
    const char *a, *b;
    bool common, set, json;
} digest_values;

typedef struct line {
    int64_t epoch, step, samples;
    char digest[33];
} line;

/* A file that is read a line at a time: runs may be long. */
typedef struct part {
    const char *path;
    FILE *file;
    long number; /* of the line last read */
    bool ended;
    line now;
} part;

/* A run's digests: one file, or those of all its ranks, whose lines of a step are added up. */
typedef struct reader {
    const char *path;
    char *paths; /* a copy, cut at the commas */
    part *parts;
    int32_t n;
    long number;
    bool ended;
    line now;
} reader;

typedef struct comparison {
    reader a, b;
    int64_t equal;          /* batches that both have and that are the same */
    const char *difference; /* NULL: none so far */
} comparison;

static mr_status bad_line(const part *r, mr_error *err) {
    mr_fail(err, MR_E_PARAM, "%s, line %ld: not a line of digests", r->path, r->number);
    mr_hint(err, "such files are written by millrace run --digests FILE");
    return MR_E_PARAM;
}

static bool parse_line(const char *text, line *out) {
    char epoch[20], step[20], samples[20];
    int end = 0;
    int n = sscanf(text, "%19[0-9] %19[0-9] %19[0-9] %32[0-9a-f]%n", epoch, step, samples,
                   out->digest, &end);
    return n == 4 && strlen(out->digest) == 32 && (text[end] == '\n' || text[end] == '\0') &&
           mr_number_read(epoch, &out->epoch) && mr_number_read(step, &out->step) &&
           mr_number_read(samples, &out->samples);
}

static mr_status read_part(part *r, mr_error *err) {
    char text[160];
    if (r->ended) {
        return MR_OK;
    }
    errno = 0;
    if (!fgets(text, sizeof text, r->file)) {
        r->ended = true;
        return ferror(r->file)
                   ? mr_fail(err, MR_E_IO, "cannot read %s: %s", r->path, strerrordesc_np(errno))
                   : MR_OK;
    }
    r->number++;
    return parse_line(text, &r->now) ? MR_OK : bad_line(r, err);
}

static mr_status open_part(part *r, const char *path, mr_error *err) {
    r->path = path;
    r->file = fopen(path, "re");
    if (!r->file) {
        return mr_fail(err, errno == ENOENT ? MR_E_NOT_FOUND : MR_E_IO, "cannot open %s: %s", path,
                       strerrordesc_np(errno));
    }
    return read_part(r, err);
}

/* Whether a comes before b in a run. */
static bool before(const line *a, const line *b) {
    return a->epoch != b->epoch ? a->epoch < b->epoch : a->step < b->step;
}

/* ---- The ranks of a run ---- */
static void add_digests(char sum[33], const char digest[33]) {
    unsigned long long high, low, more_high, more_low;
    char text[33];
    sscanf(sum, "%16llx%16llx", &high, &low);
    sscanf(digest, "%16llx%16llx", &more_high, &more_low);
    snprintf(text, sizeof text, "%016llx%016llx", high + more_high, low + more_low);
    memcpy(sum, text, sizeof text);
}

/* Some ranks may have nothing of a short last batch. */
static mr_status read_line(reader *r, mr_error *err) {
    const line *first = NULL;
    mr_status status = MR_OK;
    for (int32_t i = 0; i < r->n; i++) {
        const part *p = &r->parts[i];
        first = !p->ended && (!first || before(&p->now, first)) ? &p->now : first;
    }
    r->ended = !first;
    if (r->ended) {
        return MR_OK;
    }
    r->now = (line){first->epoch, first->step, 0, "00000000000000000000000000000000"};
    for (int32_t i = 0; i < r->n && status == MR_OK; i++) {
        part *p = &r->parts[i];
        if (!p->ended && !before(&r->now, &p->now)) {
            r->number = p->number;
            r->now.samples += p->now.samples;
            add_digests(r->now.digest, p->now.digest);
            status = read_part(p, err);
        }
    }
    return status;
}

static mr_status open_parts(reader *r, bool several, mr_error *err) {
    int32_t n = 1;
    for (const char *at = r->path; several && *at; at++) {
        n += *at == ',';
    }
    r->paths = strdup(r->path);
    r->parts = calloc((size_t)n, sizeof *r->parts);
    if (!r->paths || !r->parts) {
        return mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    char *rest = r->paths;
    for (mr_status status = MR_OK; r->n < n; r->n++) {
        const char *path = several ? strsep(&rest, ",") : r->paths;
        status = open_part(&r->parts[r->n], path, err);
        if (status != MR_OK) {
            return status;
        }
    }
    return MR_OK;
}

static mr_status open_reader(reader *r, const char *path, bool several, mr_error *err) {
    r->path = path;
    mr_status status = open_parts(r, several, err);
    return status == MR_OK ? read_line(r, err) : status;
}

static void close_reader(reader *r) {
    for (int32_t i = 0; i < r->n; i++) {
        if (r->parts[i].file) {
            fclose(r->parts[i].file);
        }
    }
    free(r->parts);
    free(r->paths);
}

/* With --common: passes over steps that only one of them has. */
static mr_status skip_uncommon(comparison *c, mr_error *err) {
    mr_status status = MR_OK;
    while (status == MR_OK && !c->a.ended && !c->b.ended) {
        if (before(&c->a.now, &c->b.now)) {
            status = read_line(&c->a, err);
        } else if (before(&c->b.now, &c->a.now)) {
            status = read_line(&c->b, err);
        } else {
            return MR_OK;
        }
    }
    return status;
}

static const char *difference_of(const line *a, const line *b) {
    if (a->epoch != b->epoch || a->step != b->step) {
        return "step";
    }
    if (a->samples != b->samples) {
        return "samples";
    }
    return strcmp(a->digest, b->digest) != 0 ? "digest" : NULL;
}

static mr_status compare(comparison *c, bool common, mr_error *err) {
    mr_status status = MR_OK;
    while (status == MR_OK) {
        status = common ? skip_uncommon(c, err) : MR_OK;
        if (status != MR_OK || c->a.ended || c->b.ended) {
            break;
        }
        c->difference = difference_of(&c->a.now, &c->b.now);
        if (c->difference) {
            return MR_OK;
        }
        c->equal++;
        status = read_line(&c->a, err);
        status = status == MR_OK ? read_line(&c->b, err) : status;
    }
    if (status == MR_OK && !common && c->a.ended != c->b.ended) {
        c->difference = "length";
    }
    return status;
}

static void print_side(const reader *r) {
    char safe[300];
    mr_text_safe(safe, sizeof safe, r->path);
    if (r->ended) {
        printf("  %s: ends before it\n", safe);
        return;
    }
    printf("  %s, line %ld: epoch %lld, step %lld, %lld samples, digest %s\n", safe, r->number,
           (long long)r->now.epoch, (long long)r->now.step, (long long)r->now.samples,
           r->now.digest);
}

static void print_text(const comparison *c) {
    const line *first = c->a.ended ? &c->b.now : &c->a.now;
    if (!c->difference) {
        printf("equal: %lld %s\n", (long long)c->equal,
               mr_text_plural(c->equal, "batch", "batches"));
        return;
    }
    printf("different from epoch %lld, step %lld on, after %lld equal %s\n",
           (long long)first->epoch, (long long)first->step, (long long)c->equal,
           mr_text_plural(c->equal, "batch", "batches"));
    print_side(&c->a);
    print_side(&c->b);
}

static json_t *side_json(const reader *r) {
    if (r->ended) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "line", json_integer(r->number));
    json_object_set_new(object, "epoch", json_integer(r->now.epoch));
    json_object_set_new(object, "step", json_integer(r->now.step));
    json_object_set_new(object, "samples", json_integer(r->now.samples));
    json_object_set_new(object, "digest", json_string(r->now.digest));
    return object;
}

static void print_json(const comparison *c) {
    json_t *object = json_object();
    json_object_set_new(object, "equal", json_boolean(!c->difference));
    json_object_set_new(object, "equal_batches", json_integer(c->equal));
    if (c->difference) {
        json_object_set_new(object, "difference", json_string(c->difference));
        json_object_set_new(object, "a", side_json(&c->a));
        json_object_set_new(object, "b", side_json(&c->b));
    }
    mr_json_print(object, MR_DIGITS_SHORT);
}

/* Nothing compared is no proof of equality. */
static mr_status refuse_nothing(const comparison *c, mr_error *err) {
    if (c->difference || c->equal > 0) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "the files have no batches in common");
    mr_hint(err, "did both runs deliver anything?");
    return MR_E_PARAM;
}

static mr_status compare_files(comparison *c, const digest_values *v, mr_error *err) {
    mr_status status = open_reader(&c->a, v->a, v->set, err);
    if (status == MR_OK) {
        status = open_reader(&c->b, v->b, v->set, err);
    }
    if (status == MR_OK) {
        status = compare(c, v->common, err);
    }
    return status == MR_OK ? refuse_nothing(c, err) : status;
}

static int run_digest(const void *values) {
    const digest_values *v = values;
    mr_error err = MR_ERROR_INIT;
    comparison c = {0};
    int code;
    if (compare_files(&c, v, &err) != MR_OK) {
        code = mr_error_print(&err);
    } else {
        (v->json ? print_json : print_text)(&c);
        code = c.difference ? MR_EXIT_DIFFERENT : MR_EXIT_OK;
    }
    close_reader(&c.a);
    close_reader(&c.b);
    return code;
}

static const mr_option_row operands[] = {
    {.name = "A",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(digest_values, a),
     .doc = "Digests of one run, written by millrace run --digests."},
    {.name = "B",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(digest_values, b),
     .doc = "Digests of the other."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "common",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(digest_values, common),
     .doc = "Compare only the steps that both have: a run that went on from a saved state has "
            "the later steps alone."},
    {.name = "set",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(digest_values, set),
     .doc = "A and B are files of millrace run --set-digests, each a list parted by commas: one "
            "of every rank. Steps are equal where all ranks together delivered the same samples "
            "with the same bytes, whoever delivered which."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(digest_values, json),
     .doc = "Print one line of JSON instead of text."},
    {.name = NULL},
};

const mr_command mr_command_digest = {
    .name = "digest",
    .summary = "Compare what two runs delivered; name the first step that differs.",
    .doc = "Compares two files of digests, batch by batch, and names the first step that "
           "differs. Exit code 0 says that all batches are equal, 1 that some are not.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(digest_values),
    .run = run_digest,
};
