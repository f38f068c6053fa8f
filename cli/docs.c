/* SPDX-License-Identifier: Apache-2.0 */
/* docs.c - millrace docs: the reference of documents, sources and ops in Markdown, made from the
 * tables. docs/ops.md is its output. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "rows.h"

static const char introduction[] =
    "# Reference: documents, sources and ops\n"
    "\n"
    "This page is made by `millrace docs` from the tables in the code; do not edit it.\n"
    "\n"
    "## The pipeline document\n"
    "\n"
    "A pipeline is a JSON object: one source, a list of ops, and settings.\n"
    "\n"
    "```json\n"
    "{\n"
    "  \"source\": {\"files\": {\"path\": \"photos\"}},\n"
    "  \"ops\": [\n"
    "    {\"decode_image\": {}},\n"
    "    {\"random_resized_crop\": {\"size\": 224}},\n"
    "    {\"random_flip\": {}},\n"
    "    {\"normalize\": {\"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}}\n"
    "  ],\n"
    "  \"batch\": 128,\n"
    "  \"shuffle\": true,\n"
    "  \"seed\": 1\n"
    "}\n"
    "```\n"
    "\n"
    "`source` and each entry of `ops` is an object with one key, the name, whose value is an\n"
    "object of parameters; a name alone stands for a name with an empty object. Ops run in order\n"
    "on the source's first field; `\"field\": NAME` among an op's parameters makes it work on\n"
    "another. `millrace check` shows what each stage makes of a sample.\n"
    "\n"
    "`\"cache\": \"auto\"`, or `\"cache\": {\"size\": \"100GB\"}` with parameters of the op "
    "`cache`, puts a\n"
    "`cache` before the first op whose result cannot be kept, or at the end. The other keys:\n"
    "\n";

/* A table's cell: a bar would end it. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|') {
            putchar('\\');
        }
        putchar(*text == '\n' ? ' ' : *text);
    }
}

static void print_row(const mr_param *row) {
    char kind[160], range[64];
    printf("| `%s` | ", row->name);
    print_cell(mr_row_kind(row, kind, sizeof kind));
    if (*mr_row_range(row, range, sizeof range)) {
        printf(", %s", range);
    }
    printf(" | ");
    if (row->fallback) {
        putchar('`');
        print_cell(row->fallback);
        putchar('`');
    } else {
        printf("required");
    }
    printf(" | ");
    print_cell(row->doc);
    printf(" |\n");
}

static void print_rows(const mr_param *rows) {
    if (!rows || !rows->name) {
        printf("No parameters.\n\n");
        return;
    }
    printf("| parameter | kind | default | meaning |\n|---|---|---|---|\n");
    for (; rows->name; rows++) {
        print_row(rows);
    }
    printf("\n");
}

static void print_head(const char *name, const char *summary, const char *doc) {
    printf("### `%s`\n\n%s\n\n", name, summary);
    if (doc) {
        printf("%s\n\n", doc);
    }
}

static void print_example(const mr_op_class *op, const mr_example *example) {
    bool long_input = strlen(example->input) > 60;
    printf("- `{\"%s\": %s}` on `%.60s%s` gives `%s`\n", op->name, example->params, example->input,
           long_input ? "..." : "", example->digest);
}

static void print_op(const mr_op_class *op) {
    print_head(op->name, op->summary, op->doc);
    if (op->flags & MR_OP_RANDOM) {
        printf("Random: draws depend on seed, epoch, sample and op alone.\n\n");
    }
    if (mr_beside_text(op)) {
        printf("%s\n\n", mr_beside_text(op));
    }
    print_rows(op->params);
    printf("Examples, with the digest of the output:\n\n");
    for (const mr_example *x = op->examples; x && x->params; x++) {
        print_example(op, x);
    }
}

static int run_docs(const void *values) {
    (void)values;
    fputs(introduction, stdout);
    print_rows(mr_settings_params());
    printf(
        "`\"rehearse\": {...}` shows samples of a stream that is followed again (docs/streams.md):"
        "\n\n");
    print_rows(mr_rehearse_params());
    printf("`\"pace\": {...}` says what becomes of a stream that is slower or faster than "
           "training:\n\n");
    print_rows(mr_pace_params());
    printf("`\"share\": \"MODE\"` or `\"share\": {...}` says who makes and who keeps what "
           "(docs/fabric.md):\n\n");
    print_rows(mr_share_params());
    printf("`\"bucket\": \"FIELD\"` or `\"bucket\": {...}` makes batches of samples of like length "
           "(docs/shuffle.md):\n\n");
    print_rows(mr_bucket_params());
    printf(
        "`\"servers\": {...}` says how long objects on servers are asked for, and where they are "
        "kept (docs/far.md):\n\n");
    print_rows(mr_servers_params());
    printf("## Sources\n\n");
    for (int32_t i = 0; i < mr_n_sources(); i++) {
        const mr_source_class *source = mr_source_at(i);
        print_head(source->name, source->summary, source->doc);
        print_rows(source->params);
    }
    printf("## Ops\n");
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        printf("\n");
        print_op(mr_op_at(i));
    }
    return MR_EXIT_OK;
}

const mr_command mr_command_docs = {
    .name = "docs",
    .summary = "Print the reference page of documents, sources and ops, in Markdown.",
    .run = run_docs,
};
