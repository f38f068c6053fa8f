/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the tables that the build found, in order of their names. The lists are generated
 * from the folders; adding an op, a source or a codec edits nothing here. */
#include "core/registry.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"

#define X(stem) extern const mr_op_class mr_op_##stem;
#include "op_list.inc"
#undef X
#define X(stem) extern const mr_source_class mr_source_##stem;
#include "source_list.inc"
#undef X
#define X(stem) extern const struct mr_codec mr_codec_##stem;
#include "codec_list.inc"
#undef X

/* The NULL at the end keeps the arrays valid C when a list is empty. */
static const mr_op_class *const ops[] = {
#define X(stem) &mr_op_##stem,
#include "op_list.inc"
#undef X
    NULL};

static const mr_source_class *const sources[] = {
#define X(stem) &mr_source_##stem,
#include "source_list.inc"
#undef X
    NULL};

static const struct mr_codec *const codecs[] = {
#define X(stem) &mr_codec_##stem,
#include "codec_list.inc"
#undef X
    NULL};

static const mr_missing missing[] = {
#include "missing_list.inc"
    {NULL, NULL, NULL}};

#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof *(array)) - 1)

int32_t mr_n_ops(void) {
    return COUNT_OF(ops);
}

const mr_op_class *mr_op_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(ops) ? ops[i] : NULL;
}

const mr_op_class *mr_op_find(const char *name) {
    for (int32_t i = 0; i < COUNT_OF(ops); i++) {
        if (strcmp(ops[i]->name, name) == 0) {
            return ops[i];
        }
    }
    return NULL;
}

int32_t mr_n_sources(void) {
    return COUNT_OF(sources);
}

const mr_source_class *mr_source_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(sources) ? sources[i] : NULL;
}

const mr_source_class *mr_source_find(const char *name) {
    for (int32_t i = 0; i < COUNT_OF(sources); i++) {
        if (strcmp(sources[i]->name, name) == 0) {
            return sources[i];
        }
    }
    return NULL;
}

int32_t mr_n_codecs(void) {
    return COUNT_OF(codecs);
}

const struct mr_codec *mr_codec_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(codecs) ? codecs[i] : NULL;
}

int32_t mr_n_missing(void) {
    return COUNT_OF(missing);
}

const mr_missing *mr_missing_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(missing) ? &missing[i] : NULL;
}

/* ---- Tables from elsewhere ---- */
static mr_status refuse_abi(const char *what, const char *name, uint32_t abi, uint32_t size,
                            mr_error *err) {
    mr_fail(err, MR_E_UNSUPPORTED,
            "%s \"%s\" was built for another interface (version %u, %u bytes) than this library's",
            what, name, abi, size);
    mr_hint(err, "build it again with the headers of millrace %s", mr_version());
    return MR_E_UNSUPPORTED;
}

static size_t count(const void *const *list) {
    size_t n = 0;
    while (list && list[n]) {
        n++;
    }
    return n;
}

/* NULL: there is no memory. */
static void *copy_of(mr_own_tables *own, const void *table, size_t size, size_t full) {
    void *copy = mr_zalloc(1, full);
    if (copy) {
        memcpy(copy, table, size);
        own->copies[own->n_copies++] = copy;
    }
    return copy;
}

/* Up to the members that every version had. */
enum {
    LEAST_OP = offsetof(mr_op_class, produce),
    LEAST_SOURCE = offsetof(mr_source_class, gather)
};

static mr_status own_op(mr_own_tables *own, const mr_op_class *op, const mr_op_class **out,
                        mr_error *err) {
    bool fits = op->abi == MR_OP_ABI && op->size >= LEAST_OP && op->size <= sizeof *op;
    if (!fits) {
        return refuse_abi("op", op->name, op->abi, op->size, err);
    }
    *out = op->size == sizeof *op ? op : copy_of(own, op, op->size, sizeof *op);
    return *out ? MR_OK : mr_fail_memory(err, sizeof *op);
}

static mr_status own_source(mr_own_tables *own, const mr_source_class *source,
                            const mr_source_class **out, mr_error *err) {
    bool fits = source->abi == MR_SOURCE_ABI && source->size >= LEAST_SOURCE &&
                source->size <= sizeof *source;
    if (!fits) {
        return refuse_abi("source", source->name, source->abi, source->size, err);
    }
    *out = source->size == sizeof *source ? source
                                          : copy_of(own, source, source->size, sizeof *source);
    return *out ? MR_OK : mr_fail_memory(err, sizeof *source);
}

mr_status mr_tables_own(mr_own_tables *own, const mr_op_class *const *given_ops,
                        const mr_source_class *const *given_sources, mr_error *err) {
    size_t n_ops = count((const void *const *)given_ops);
    size_t n_sources = count((const void *const *)given_sources);
    *own = (mr_own_tables){.ops = mr_zalloc(n_ops + 1, sizeof *own->ops),
                           .sources = mr_zalloc(n_sources + 1, sizeof *own->sources),
                           .copies = mr_zalloc(n_ops + n_sources + 1, sizeof *own->copies)};
    if (!own->ops || !own->sources || !own->copies) {
        return mr_fail_memory(err, (n_ops + n_sources + 1) * sizeof *own->copies);
    }
    for (size_t i = 0; i < n_ops; i++) {
        MR_TRY(own_op(own, given_ops[i], &own->ops[i], err));
    }
    for (size_t i = 0; i < n_sources; i++) {
        MR_TRY(own_source(own, given_sources[i], &own->sources[i], err));
    }
    return MR_OK;
}

void mr_tables_free(mr_own_tables *own) {
    for (size_t i = 0; i < own->n_copies; i++) {
        mr_free(own->copies[i]);
    }
    mr_free(own->ops);
    mr_free(own->sources);
    mr_free(own->copies);
    *own = (mr_own_tables){0};
}
