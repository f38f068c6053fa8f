/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - see columns.h. */
#include "ops/columns.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/pattern.h"

static bool fits(const char *name, const mr_field *field) {
    return strcmp(name, field->name) == 0 ||
           (!field->optional && mr_pattern_fits(name, field->name));
}

bool mr_names_column(const mr_strings *names, const mr_field *field) {
    for (int32_t i = 0; i < names->n; i++) {
        if (fits(names->v[i], field)) {
            return true;
        }
    }
    return false;
}

const char *mr_unknown_column(const mr_strings *names, const mr_field *in, int32_t n_in) {
    for (int32_t i = 0; i < names->n; i++) {
        bool known = false;
        for (int32_t k = 0; k < n_in && !known; k++) {
            known = fits(names->v[i], &in[k]);
        }
        if (!known) {
            return names->v[i];
        }
    }
    return NULL;
}

mr_status mr_no_such_column(const char *name, const mr_field *in, int32_t n_in, mr_error *err) {
    char list[160] = "", shown[64];
    for (int32_t i = 0; i < n_in; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", in[i].name);
    }
    mr_text_escape(shown, sizeof shown, name);
    mr_fail(err, MR_E_PARAM, "there is no field \"%s\"", shown);
    mr_hint(err, "the sample has: %s", list);
    return MR_E_PARAM;
}

mr_status mr_check_columns(const mr_field *in, int32_t n_in, mr_error *err) {
    for (int32_t i = 0; i < n_in; i++) {
        if (mr_type_bytes(&in[i].type) < 0) {
            return mr_fail(err, MR_E_TYPE, "the size of field %s varies", in[i].name);
        }
        if (in[i].type.dtype != in[0].type.dtype) {
            mr_fail(err, MR_E_TYPE, "field %s is of %s and field %s of %s", in[0].name,
                    mr_dtype_name(in[0].type.dtype), in[i].name, mr_dtype_name(in[i].type.dtype));
            mr_hint(err, "put cast before it");
            return MR_E_TYPE;
        }
    }
    return MR_OK;
}

mr_status mr_join_columns(const void *params, mr_call *call, const mr_view *in, int32_t n_in,
                          mr_view *out, int32_t n_out, mr_error *err) {
    unsigned char *to = out[0].data;
    (void)params;
    (void)call;
    (void)n_out;
    (void)err;
    for (int32_t i = 0; i < n_in; i++) {
        memcpy(to, in[i].data, in[i].size);
        to += in[i].size;
    }
    return MR_OK;
}
