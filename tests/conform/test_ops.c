/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.c - what every op must keep, whatever it computes. Walks the registry: a new op is under
 * test as soon as its file is there, by its own examples. */
#include "test.h"

#include <jansson.h>
#include <millrace/millrace.h>

#include "core/cpu.h"
#include "core/memory.h"
#include "core/params.h"
#include "kernels/kernels.h"
#include "run/chain/chain.h"

/* One op with one example's parameters, and one worker's state. */
typedef struct worker {
    const mr_op_class *op;
    void *params;
    void *state;
    mr_arena arena;
} worker;

/* ---- Help ---- */
static void complain(const mr_op_class *op, const char *what, const char *detail) {
    test_failures++;
    fprintf(stderr, "op %s: %s: %s\n", op->name, what, detail);
}

static mr_status worker_open(worker *w, const mr_op_class *op, const char *params, mr_error *err) {
    json_t *object = json_loads(params, 0, NULL);
    *w = (worker){.op = op, .params = mr_zalloc(1, op->param_size)};
    mr_status status = mr_params_fill(op->params, object, "$", op->name, NULL, w->params, err);
    json_decref(object);
    if (status == MR_OK && op->check) {
        status = op->check(w->params, err);
    }
    if (status == MR_OK && op->open) {
        status = op->open(w->params, &w->state, err);
    }
    return status;
}

static void worker_close(worker *w) {
    if (w->op->close) {
        w->op->close(w->state);
    }
    mr_params_free(w->op->params, w->params);
    mr_free(w->params);
    mr_arena_free(&w->arena);
}

/* Runs the op; the output's memory, of exactly its size, is filled with `poison` beforehand. */
static mr_status worker_run(worker *w, uint64_t sample, uint32_t cpu, const mr_view *in,
                            uint8_t poison, mr_view *out, mr_error *err) {
    mr_call call = {.key = {.seed = 3, .epoch = 1, .op = 7, .sample = sample},
                    .state = w->state,
                    .kernels = mr_kernels_for(cpu),
                    .arena = &w->arena};
    *out = (mr_view){0};
    mr_status status = mr_op_output_type(w->op, w->params, &call, in, &out->type, err);
    if (status == MR_OK) {
        out->size = (size_t)mr_type_bytes(&out->type);
        out->data = malloc(out->size);
        memset(out->data, poison, out->size);
        status = w->op->run(w->params, &call, in, out, err);
    }
    mr_arena_reset(&w->arena);
    return status;
}

static bool same(const mr_view *a, const mr_view *b) {
    return a->size == b->size && a->type.dtype == b->type.dtype &&
           a->type.layout == b->type.layout && a->type.n_dims == b->type.n_dims &&
           memcmp(a->type.dims, b->type.dims, sizeof(int64_t) * (size_t)a->type.n_dims) == 0 &&
           a->data && b->data && memcmp(a->data, b->data, a->size) == 0;
}

/* The input an example names, exactly as large as it is. */
static mr_view example_input(const mr_example *example) {
    mr_view in = {0};
    mr_error err = MR_ERROR_INIT;
    if (mr_example_input(example->input, &in, &err) != MR_OK) {
        test_failures++;
        fprintf(stderr, "%s: %s\n", example->input, err.text);
    }
    return in;
}

static uint32_t all_features(void) {
    uint32_t features = 0;
    CHECK(mr_cpu_features(NULL, &features, NULL) == MR_OK);
    return features;
}

/* An op without examples is complained about once, by every_table_is_complete. */
static const mr_example *examples_of(const mr_op_class *op) {
    static const mr_example none = {NULL, NULL, NULL};
    return op->examples ? op->examples : &none;
}

/* A build without an optional codec cannot run the examples that need it: said aloud. */
static bool is_left_out(const mr_op_class *op, const mr_example *example) {
    char digest[33];
    mr_error err = MR_ERROR_INIT;
    bool out =
        mr_n_missing() > 0 && mr_op_example_digest(op, example, digest, &err) == MR_E_UNSUPPORTED;
    if (out) {
        printf("skipped: an example of %s: %s\n", op->name, err.text);
    }
    return out;
}

static bool on_fields(const mr_op_class *op) {
    return op->arrange || op->run_sample || (op->flags & MR_OP_BATCH);
}

/* Calls `check` with each op on one field, each of its examples and that example's input. */
static void for_each_example(void (*check)(const mr_op_class *, const mr_example *,
                                           const mr_view *)) {
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        for (const mr_example *example = examples_of(op); example->params; example++) {
            if (on_fields(op) || is_left_out(op, example)) {
                continue;
            }
            mr_view in = example_input(example);
            check(op, example, &in);
            free(in.data);
        }
    }
}

/* ---- Tables ---- */
static bool is_sentence(const char *text) {
    return text && strlen(text) > 10 && text[strlen(text) - 1] == '.';
}

static void check_params(const mr_op_class *op) {
    for (const mr_param *row = op->params; row && row->name; row++) {
        if (!is_sentence(row->doc)) {
            complain(op, "a parameter has no sentence of documentation", row->name);
        }
        if ((row->kind == MR_PARAM_CHOICE) != (row->choices != NULL)) {
            complain(op, "choices and kind do not fit", row->name);
        }
        if (row->offset >= op->param_size) {
            complain(op, "a parameter lies outside of its struct", row->name);
        }
    }
}

/* A name and a number, cut to any room. */
static void check_libraries(const mr_op_class *op) {
    char text[512] = "", cut[512];
    op->libraries(text, sizeof text);
    if (!strpbrk(text, "0123456789") && mr_n_missing() == 0) {
        complain(op, "names a library without a version", text);
    }
    for (size_t size = 1; size <= strlen(text) + 1; size++) {
        memset(cut, '#', sizeof cut);
        op->libraries(cut, size);
        if (!memchr(cut, 0, size) || cut[size] != '#') {
            complain(op, "does not keep within the room for its libraries", text);
        }
    }
}

TEST(every_table_is_complete) {
    CHECK_INT(mr_n_ops(), >, 0);
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        CHECK(mr_op_find(op->name) == op);
        CHECK(i == 0 || strcmp(mr_op_at(i - 1)->name, op->name) < 0);
        CHECK_INT(op->abi, ==, MR_OP_ABI);
        CHECK_INT(op->size, ==, sizeof *op);
        CHECK_INT(op->version, >=, 1);
        if (!is_sentence(op->summary) || !is_sentence(op->doc)) {
            complain(op, "summary and doc must be sentences", op->summary ? op->summary : "(none)");
        }
        bool works = op->arrange || (op->plan_sample && op->run_sample) || (op->plan && op->run) ||
                     (op->check_batch && op->run_batch) ||
                     (op->plan_collate && op->measure && op->collate);
        if (!works || !op->examples || !op->examples->params) {
            complain(op, "lacks", "plan, run or an example");
        }
        check_params(op);
        if (op->libraries) {
            check_libraries(op);
        }
    }
}

/* ---- Examples ---- */
static void digest_fits(const mr_op_class *op, const mr_example *example, const mr_view *in) {
    char digest[33] = "";
    mr_error err = MR_ERROR_INIT;
    (void)in;
    if (mr_op_example_digest(op, example, digest, &err) != MR_OK) {
        complain(op, example->params, err.text);
    } else if (strcmp(digest, example->digest) != 0) {
        complain(op, example->params, digest);
    }
}

TEST(examples_give_their_digests) {
    for_each_example(digest_fits);
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        for (const mr_example *x = examples_of(op); on_fields(op) && x->params; x++) {
            digest_fits(op, x, NULL);
        }
    }
}

/* All ways to run an example that must not matter: garbage in the output, a second run, a second
 * worker, an input elsewhere in memory, CPU features. */
typedef struct variation {
    const char *name;
    uint8_t poison;
    bool second_worker, moved;
    uint32_t cpu;
} variation;

static mr_view moved_copy(const mr_view *in, uint8_t **memory) {
    mr_view copy = *in;
    *memory = malloc(in->size + 1); /* ends where the input ends: reading past it is seen */
    copy.data = *memory + 1;
    memcpy(copy.data, in->data, in->size);
    return copy;
}

static void run_variation(const variation *v, worker w[2], const mr_example *example,
                          const mr_view *in, const mr_view *want) {
    mr_error err = MR_ERROR_INIT;
    mr_view out;
    uint8_t *memory = NULL;
    mr_view copy = moved_copy(in, &memory);
    mr_status status =
        worker_run(&w[v->second_worker], 5, v->cpu, v->moved ? &copy : in, v->poison, &out, &err);
    if (status != MR_OK || !same(&out, want)) {
        complain(w->op, v->name, status == MR_OK ? example->params : err.text);
    }
    if (memcmp(copy.data, in->data, in->size) != 0) {
        complain(w->op, "the input was written to", example->params);
    }
    free(out.data);
    free(memory);
}

static void nothing_else_matters(const mr_op_class *op, const mr_example *example,
                                 const mr_view *in) {
    uint32_t cpu = all_features();
    const variation variations[] = {
        {"a second run differs", 0x00, false, false, cpu},
        {"not all of the output is written", 0xFF, false, false, cpu},
        {"another worker differs", 0x00, true, false, cpu},
        {"an unaligned input differs", 0x00, false, true, cpu},
        {"without CPU features it differs", 0x00, true, true, 0},
    };
    mr_error err = MR_ERROR_INIT;
    mr_view want;
    worker w[2];
    mr_status status = worker_open(&w[0], op, example->params, &err);
    status = worker_open(&w[1], op, example->params, &err) == MR_OK ? status : MR_E_INTERNAL;
    if (status != MR_OK || worker_run(&w[0], 5, cpu, in, 0x55, &want, &err) != MR_OK) {
        complain(op, example->params, err.text);
    } else {
        for (size_t i = 0; i < sizeof variations / sizeof *variations; i++) {
            run_variation(&variations[i], w, example, in, &want);
        }
        free(want.data);
    }
    worker_close(&w[0]);
    worker_close(&w[1]);
}

TEST(output_depends_on_nothing_else) {
    for_each_example(nothing_else_matters);
}

/* ---- Runs of rows ---- */
enum { RUN = 5, GAP_IN = 3, GAP_OUT = 16 };

typedef struct rows_rig {
    mr_view in[RUN], want[RUN]; /* what run makes of each */
    mr_column from, to;
    mr_piece in_pieces[RUN], out_pieces[RUN];
} rows_rig;

/* Five inputs that differ in every byte. */
static bool make_rows(rows_rig *rig, worker *w, const mr_view *in, mr_error *err) {
    bool made = true;
    for (int r = 0; r < RUN; r++) {
        uint8_t *bytes = malloc(in->size);
        for (size_t i = 0; i < in->size; i++) {
            bytes[i] = (uint8_t)(((const uint8_t *)in->data)[i] ^ (r * 29));
        }
        rig->in[r] = (mr_view){in->type, bytes, in->size};
        bool taken = worker_run(w, 5, 0, &rig->in[r], 0, &rig->want[r], err) == MR_OK;
        if (!taken) { /* such a value does not exist: the example's own, then */
            free(rig->want[r].data);
            memcpy(bytes, in->data, in->size);
            taken = worker_run(w, 5, 0, &rig->in[r], 0, &rig->want[r], err) == MR_OK;
        }
        made = made && taken;
    }
    return made;
}

/* In columns with gaps between values, which leaves the inputs unaligned. */
static void lay_out_rows(rows_rig *rig, size_t gap_in, size_t gap_out, bool ragged) {
    size_t in = rig->in[0].size + gap_in, out = rig->want[0].size + gap_out;
    uint8_t *from = malloc(in * RUN), *to = malloc(out * RUN);
    memset(to, 0xEE, out * RUN);
    for (size_t r = 0; r < RUN; r++) {
        memcpy(from + r * in, rig->in[r].data, rig->in[r].size);
        rig->in_pieces[r] = (mr_piece){from + r * in, rig->in[r].size};
        rig->out_pieces[r] = (mr_piece){to + r * out, rig->want[r].size};
    }
    rig->from = (mr_column){rig->in[0].type, from, in, ragged ? rig->in_pieces : NULL};
    rig->to = (mr_column){rig->want[0].type, to, out, ragged ? rig->out_pieces : NULL};
}

static void check_rows(const rows_rig *rig, worker *w, int64_t n, const char *params) {
    mr_error err = MR_ERROR_INIT;
    mr_call call = {
        .state = w->state, .kernels = mr_kernels_for(all_features()), .arena = &w->arena};
    mr_status status = w->op->run_rows(w->params, &call, n, &rig->from, &rig->to, &err);
    bool refused = status == MR_E_UNSUPPORTED && rig->from.pieces;
    for (size_t r = 0; r < RUN && !refused; r++) {
        const uint8_t *out = rig->out_pieces[r].data;
        bool right = (int64_t)r < n ? memcmp(out, rig->want[r].data, rig->want[r].size) == 0
                                    : out[0] == 0xEE; /* nobody asked for it */
        if (status != MR_OK || !right) {
            complain(w->op, "run_rows differs from run", params);
        }
    }
    mr_arena_reset(&w->arena);
}

static void rows_are_as_one_by_one(const mr_op_class *op, const mr_example *example,
                                   const mr_view *in) {
    mr_error err = MR_ERROR_INIT;
    rows_rig rig;
    worker w;
    if (!op->run_rows) {
        return;
    }
    CHECK(!(op->flags & MR_OP_RANDOM));
    CHECK(worker_open(&w, op, example->params, &err) == MR_OK);
    CHECK(make_rows(&rig, &w, in, &err));
    for (int i = 0; i < 4; i++) {
        lay_out_rows(&rig, i % 2 ? GAP_IN : 0, i % 2 ? GAP_OUT : 0, i >= 2);
        check_rows(&rig, &w, 0, example->params);
        check_rows(&rig, &w, RUN - 1, example->params);
        check_rows(&rig, &w, RUN, example->params);
        free(rig.from.data);
        free(rig.to.data);
    }
    for (int r = 0; r < RUN; r++) {
        free(rig.in[r].data);
        free(rig.want[r].data);
    }
    worker_close(&w);
}

TEST(runs_of_rows_are_as_one_by_one) {
    for_each_example(rows_are_as_one_by_one);
}

/* ---- Randomness ---- */
/* Whether any of 64 samples comes out different from the first. */
static bool varies(const mr_op_class *op, const mr_example *example, const mr_view *in) {
    mr_error err = MR_ERROR_INIT;
    mr_view first, out;
    worker w;
    bool differs = false;
    CHECK(worker_open(&w, op, example->params, &err) == MR_OK);
    CHECK(worker_run(&w, 0, 0, in, 0, &first, &err) == MR_OK);
    for (uint64_t sample = 1; sample < 64 && !differs; sample++) {
        CHECK(worker_run(&w, sample, 0, in, 0, &out, &err) == MR_OK);
        differs = !same(&first, &out);
        free(out.data);
    }
    free(first.data);
    worker_close(&w);
    return differs;
}

TEST(random_ops_say_so) {
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        bool any = false;
        for (const mr_example *example = examples_of(op); example->params; example++) {
            if (on_fields(op) || is_left_out(op, example)) {
                continue;
            }
            mr_view in = example_input(example);
            any = varies(op, example, &in) || any;
            free(in.data);
        }
        /* Of ops on batches tests/python/test_py_mixing.py tells. */
        if (!(op->flags & MR_OP_BATCH) && any != ((op->flags & MR_OP_RANDOM) != 0)) {
            complain(op, "MR_OP_RANDOM", any ? "is missing" : "is set but no example varies");
        }
    }
}

/* ---- Types ---- */
/* With unknown sizes plan must promise nothing that it breaks once they are known. */
static void promises_hold(const mr_op_class *op, const mr_example *example, const mr_view *in) {
    mr_type general = in->type, early, late;
    mr_error err = MR_ERROR_INIT;
    worker w;
    general.dims[0] = -1;
    general.dims[1] = general.n_dims > 1 ? -1 : general.dims[1];
    if (worker_open(&w, op, example->params, &err) != MR_OK ||
        op->plan(w.params, &general, &early, &err) != MR_OK ||
        op->plan(w.params, &in->type, &late, &err) != MR_OK) {
        complain(op, example->params, err.text);
    } else {
        CHECK_INT(early.dtype, ==, late.dtype);
        CHECK_INT(early.layout, ==, late.layout);
        CHECK_INT(early.n_dims, ==, late.n_dims);
        for (int32_t i = 0; i < early.n_dims; i++) {
            CHECK(early.dims[i] == -1 || early.dims[i] == late.dims[i]);
        }
    }
    worker_close(&w);
}

TEST(plan_keeps_its_promises) {
    for_each_example(promises_hold);
}

TEST(wrong_types_are_refused) {
    static const mr_type strange[] = {
        {MR_I64, MR_PLAIN, 1, {4}},     {MR_I32, MR_HWC, 3, {4, 4, 3}},
        {MR_F32, MR_CHW, 3, {3, 4, 4}}, {MR_U8, MR_HWC, 3, {4, 4, 2}},
        {MR_U8, MR_PLAIN, 1, {-1}},     {MR_U8, MR_PLAIN, 2, {3, 3}},
        {MR_F16, MR_PLAIN, 0, {0}},     {MR_U8, MR_PLAIN, 6, {1, 1, 1, 1, 1, 1}},
    };
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        mr_error err = MR_ERROR_INIT;
        worker w;
        int refused = 0;
        if (!examples_of(op)->params || on_fields(op)) {
            continue;
        }
        CHECK(worker_open(&w, op, op->examples->params, &err) == MR_OK);
        for (size_t k = 0; k < sizeof strange / sizeof *strange; k++) {
            mr_type out;
            mr_status status = op->plan(w.params, &strange[k], &out, &err);
            if (status != MR_OK && (status != MR_E_TYPE || err.code != status || !err.text[0])) {
                complain(op, "refuses a type with the wrong status", err.text);
            }
            refused += status == MR_E_TYPE;
        }
        bool takes_all = (op->flags & MR_OP_STORES) != 0;
        if (refused == 0 && !takes_all) {
            complain(op, "accepts", "every type");
        }
        CHECK(op->plan(w.params, &strange[0], &(mr_type){0}, NULL) <= MR_OK); /* no error struct */
        worker_close(&w);
    }
}

/* ---- Parameters ---- */
static void check_misspelling(const mr_op_class *op, const mr_param *row) {
    char params[128], both[1024];
    mr_error err = MR_ERROR_INIT;
    mr_view in = example_input(op->examples), out = {0};
    snprintf(params, sizeof params, "{\"%s%c\": 1}", row->name, row->name[strlen(row->name) - 1]);
    mr_status status = mr_op_apply(op, params, &(mr_key){0}, &in, NULL, &out, &err);
    snprintf(both, sizeof both, "%s %s", err.text, err.hint);
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", row->name);
    if (status != MR_E_PARAM || !strstr(both, quoted)) {
        complain(op, params, both);
    }
    CHECK_TEXT(err.op, op->name);
    CHECK(out.data == NULL);
    free(in.data);
}

TEST(misspelt_parameters_get_a_suggestion) {
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        for (const mr_param *row = op->params; row && row->name; row++) {
            if (examples_of(op)->params && !on_fields(op) &&
                strlen(row->name) > 2) { /* nothing is near to a name of one letter */
                check_misspelling(op, row);
            }
        }
    }
}

/* ---- Damage ---- */
/* Every beginning of a file, and the file with each byte turned over: error or result, no crash. */
static void damage_is_survived(const mr_op_class *op, const mr_example *example,
                               const mr_view *in) {
    if (in->type.n_dims != 1 || in->type.dtype != MR_U8) {
        return;
    }
    for (size_t i = 0; i < 2 * in->size; i++) {
        mr_error err = MR_ERROR_INIT;
        mr_view out = {0}, damaged = *in;
        damaged.size = i < in->size ? i : in->size;
        damaged.type.dims[0] = (int64_t)damaged.size;
        uint8_t *bytes = damaged.data = malloc(damaged.size ? damaged.size : 1);
        memcpy(bytes, in->data, damaged.size);
        if (i >= in->size) {
            bytes[i - in->size] ^= 0xFF;
        }
        mr_status status =
            mr_op_apply(op, example->params, &(mr_key){0}, &damaged, NULL, &out, &err);
        if (status < 0 && (err.code != status || !err.text[0])) {
            complain(op, "an error without a message for damaged bytes", example->params);
        }
        mr_free(out.data);
        free(bytes);
    }
}

TEST(damaged_bytes_are_survived) {
    for_each_example(damage_is_survived);
}

TEST_MAIN()
