/* SPDX-License-Identifier: Apache-2.0 */
/* power.c - the op power: what a meter shows, of voltage and current as they were sampled. For each
 * period of the mains: active and reactive power and root mean squares. */
#include "ops/numbers.h"

#include "core/error.h"
#include "core/memory.h"

#include <math.h>

#include <millrace/millrace.h>

typedef struct power_params {
    int64_t period;
    mr_strings outputs;
} power_params;

/* One period's figures, in the order of their names. */
enum { ACTIVE, REACTIVE, APPARENT, RMS_VOLTAGE, RMS_CURRENT, N_FIGURES };
static const char *const names[N_FIGURES] = {"active", "reactive", "apparent", "rms_voltage",
                                             "rms_current"};

static int figure_of(const char *name) {
    for (int i = 0; i < N_FIGURES; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static mr_status check(void *params, mr_error *err) {
    const power_params *p = params;
    for (int32_t i = 0; i < p->outputs.n; i++) {
        if (figure_of(p->outputs.v[i]) < 0) {
            mr_fail(err, MR_E_PARAM, "there is no output \"%s\"", p->outputs.v[i]);
            mr_hint(err, "outputs are: active, reactive, apparent, rms_voltage, rms_current");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const power_params *p = params;
    MR_TRY(mr_plan_floats(params, in, out, err));
    if (in->n_dims != 2 || (in->dims[0] >= 0 && in->dims[0] != 2)) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs voltage and current in two rows, [2, ?], not %s",
                       mr_type_text(in, text, sizeof text));
    }
    out->layout = MR_PLAIN;
    out->dims[0] = p->outputs.n;
    out->dims[1] = in->dims[1] < 0 ? -1 : in->dims[1] / p->period;
    return MR_OK;
}

static double mean_product(const double *a, const double *b, size_t n, double *memory) {
    for (size_t i = 0; i < n; i++) {
        memory[i] = a[i] * b[i];
    }
    return mr_pairwise_sum(memory, n) / (double)n;
}

/* The figures of one period of n samples; memory for n numbers. */
static void figures_of(const double *voltage, const double *current, size_t n, double *memory,
                       double out[N_FIGURES]) {
    out[ACTIVE] = mean_product(voltage, current, n, memory);
    out[RMS_VOLTAGE] = sqrt(mean_product(voltage, voltage, n, memory));
    out[RMS_CURRENT] = sqrt(mean_product(current, current, n, memory));
    out[APPARENT] = out[RMS_VOLTAGE] * out[RMS_CURRENT];
    double square = out[APPARENT] * out[APPARENT] - out[ACTIVE] * out[ACTIVE];
    out[REACTIVE] = sqrt(square > 0.0 ? square : 0.0); /* rounding may leave less than nothing */
}

static void store(mr_view *out, size_t at, double value) {
    if (out->type.dtype == MR_F64) {
        ((double *)out->data)[at] = value;
    } else {
        ((float *)out->data)[at] = (float)value;
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const power_params *p = params;
    size_t n = (size_t)p->period, side = (size_t)in->type.dims[1];
    size_t periods = (size_t)out->type.dims[1];
    double *memory = mr_scratch(call, 3 * n * sizeof *memory), figures[N_FIGURES];
    if (!memory) {
        return mr_fail_memory(err, 3 * n * sizeof *memory);
    }
    for (size_t k = 0; k < periods; k++) {
        for (size_t i = 0; i < n; i++) {
            memory[i] = mr_load_number(in->type.dtype, in->data, k * n + i);
            memory[n + i] = mr_load_number(in->type.dtype, in->data, side + k * n + i);
        }
        figures_of(memory, memory + n, n, memory + 2 * n, figures);
        for (int32_t row = 0; row < p->outputs.n; row++) {
            store(out, (size_t)row * periods + k, figures[figure_of(p->outputs.v[row])]);
        }
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "period",
     .kind = MR_PARAM_INT,
     .offset = offsetof(power_params, period),
     .fallback = "128",
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples in one period; what is left behind the last whole one is dropped."},
    {.name = "outputs",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(power_params, outputs),
     .fallback = "[\"active\", \"reactive\", \"rms_current\"]",
     .min_len = 1,
     .max_len = 8,
     .doc = "Rows of the output, of active, reactive, apparent, rms_voltage and rms_current."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"period\": 16}", "float64:2x100", "545684c37d678096fbdf5fd0ee169de4"},
    {"{\"period\": 5, \"outputs\": [\"apparent\", \"rms_voltage\"]}", "float32:2x21",
     "54ca20fad941c4b28c10054733e499ed"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_power = {
    MR_OP_HEADER,
    .name = "power",
    .summary = "Turns voltage and current into power and root mean squares of each period.",
    .doc =
        "Row 0 is voltage u, row 1 current i. active = mean(u i), rms = sqrt(mean(x x)), apparent "
        "= rms(u) rms(i), reactive = sqrt(apparent^2 - active^2), 0 where rounding makes that "
        "negative. Computed in float64; for float64 equal to numpy's, bit for bit.",
    .version = 1,
    .param_size = sizeof(power_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .examples = examples,
};
