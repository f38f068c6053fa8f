/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_variables.c - variables: one for each field that a source or an op on whole samples
 * gives. There may be thousands, so what is kept of each lies in arrays that grow. */
#include "plan/compiler.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

static bool grow(void *array, int32_t n, size_t size) {
    void **memory = array, *larger = realloc(*memory, (size_t)n * size);
    *memory = larger ? larger : *memory;
    return larger != NULL;
}

mr_status mr_make_room(mr_compiler *c, int32_t n_variables) {
    mr_pipeline *p = c->pipeline;
    if (n_variables <= c->room) {
        return MR_OK;
    }
    int32_t room = n_variables > 2 * c->room ? n_variables : 2 * c->room;
    if (!grow(&p->variables, room, sizeof *p->variables) ||
        !grow(&c->types, room, sizeof *c->types) || !grow(&c->touched, room, sizeof *c->touched) ||
        !grow(&c->now, room, sizeof *c->now) || !grow(&c->names, room, sizeof *c->names) ||
        !grow(&c->kinds, room, sizeof *c->kinds)) {
        return mr_fail_memory(c->err, (size_t)room * sizeof *p->variables);
    }
    c->room = room;
    return MR_OK;
}

void mr_compiler_free(mr_compiler *c) {
    mr_free(c->types);
    mr_free(c->touched);
    mr_free(c->now);
    mr_free(c->names);
    mr_free(c->kinds);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

mr_status mr_find_twice(const mr_field *fields, int32_t n, const char **twice, mr_error *err) {
    const char **names = mr_zalloc((size_t)n, sizeof *names);
    if (!names) {
        return mr_fail_memory(err, (size_t)n * sizeof *names);
    }
    *twice = NULL;
    for (int32_t i = 0; i < n; i++) {
        names[i] = fields[i].name;
    }
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int32_t i = 1; i < n && !*twice; i++) {
        *twice = strcmp(names[i - 1], names[i]) == 0 ? names[i] : NULL;
    }
    mr_free(names);
    return MR_OK;
}

/* What a table's author may get wrong. */
static mr_status check_fields(const mr_compiler *c, const mr_field *fields, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (!fields[i].name || fields[i].type.n_dims < 0 || fields[i].type.n_dims > MR_MAX_DIMS) {
            return mr_fail(c->err, MR_E_INTERNAL, "field %d has no name or too many dimensions", i);
        }
    }
    const char *twice = NULL;
    MR_TRY(mr_find_twice(fields, n, &twice, c->err));
    return twice ? mr_fail(c->err, MR_E_INTERNAL, "two fields are called \"%s\"", twice) : MR_OK;
}

mr_status mr_add_variables(mr_compiler *c, const mr_field_maker *maker, int32_t *n) {
    mr_pipeline *p = c->pipeline;
    mr_status status = MR_OK;
    int32_t room;
    do {
        room = c->room - p->n_variables;
        status = maker->make(maker->user, p->variables + p->n_variables, room, n, c->err);
        if (status == MR_OK && (*n < 1 || *n > MR_FIELDS_LIMIT)) {
            return mr_fail(c->err, MR_E_INTERNAL, "a sample of %d fields: 1 to %d are possible", *n,
                           MR_FIELDS_LIMIT);
        }
        MR_TRY(status);
        MR_TRY(mr_make_room(c, p->n_variables + *n));
    } while (*n > room);
    MR_TRY(check_fields(c, p->variables + p->n_variables, *n));
    for (int32_t i = p->n_variables; i < p->n_variables + *n; i++) {
        c->types[i] = p->variables[i].type;
        c->touched[i] = maker->touched;
        c->names[i] = p->variables[i].name;
        c->kinds[i] = mr_kind_of_name(c, p->variables[i].name);
    }
    p->n_variables += *n;
    return MR_OK;
}
