/* SPDX-License-Identifier: Apache-2.0 */
/* _host.c - Python functions as the op "map", and a Python object as the source "dataset".
 *
 * A host belongs to one pipeline and one loader. Its tables point back at it through `user`, which
 * the engine puts at the start of every parameter struct. Inputs are copied for the function, since
 * it may keep them; outputs are written straight to where the engine wants them. */
#include "_binding.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Entering Python from a worker ---- */
/* Memory for values whose size varies. */
typedef struct values_memory {
    int32_t n;
    void **memory;
    size_t *capacity;
} values_memory;

static bool make_values(values_memory *values, int32_t n) {
    values->memory = calloc((size_t)n, sizeof *values->memory);
    values->capacity = calloc((size_t)n, sizeof *values->capacity);
    values->n = values->memory && values->capacity ? n : 0;
    return values->n > 0;
}

static void free_values(values_memory *values) {
    for (int32_t i = 0; i < values->n; i++) {
        free(values->memory[i]);
    }
    free(values->memory);
    free(values->capacity);
}

/* What a worker thread keeps between samples. Its Python state is made the first time: making one
 * per sample costs more than a small sample does. The thread itself frees all of it as it ends. */
typedef struct worker_thread {
    const host *host; /* a thread works for one loader */
    PyThreadState *python;
    values_memory fill; /* what a dataset gave, until its next sample */
} worker_thread;

/* The key is one for the process, and is made once: threads are the process's. */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static bool has_thread_key;

static void end_thread(void *context) {
    worker_thread *thread = context;
    if (Py_IsInitialized()) {
        PyEval_RestoreThread(thread->python);
        enter_end_state(thread->python);
    }
    free_values(&thread->fill);
    free(thread);
}

static void make_thread_key(void) {
    has_thread_key = pthread_key_create(&thread_key, end_thread) == 0;
}

static worker_thread *this_thread(void) {
    pthread_once(&thread_once, make_thread_key);
    return has_thread_key ? pthread_getspecific(thread_key) : NULL;
}

/* For threads of the loader; NULL: no memory, and nothing was entered. */
static worker_thread *enter(host *self, PyGILState_STATE *gil) {
    worker_thread *thread = this_thread();
    if (thread) {
        *gil = PyGILState_Ensure();
        return thread;
    }
    thread = has_thread_key ? calloc(1, sizeof *thread) : NULL;
    if (!thread || pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        return NULL;
    }
    thread->host = self;
    thread->python = enter_make_state();
    *gil = PyGILState_Ensure();
    return thread;
}

static mr_status no_thread(mr_error *err) {
    return mr_fail(err, MR_E_MEMORY, "cannot allocate a thread's memory");
}

bool host_is_inside(const host *self) {
    const worker_thread *thread = this_thread();
    return thread && thread->host == self;
}

void host_stop(host *self) {
    if (self->processes) {
        processes_stop(self->processes);
    }
}

/* ---- Exceptions ---- */
static void remember(host *self, int64_t sample, PyObject *exception) {
    enum { MOST = 1000 };
    PyObject *key = PyLong_FromLongLong(sample);
    if (key && PyDict_Size(self->exceptions) < MOST) {
        PyDict_SetItem(self->exceptions, key, exception);
    }
    Py_XDECREF(key);
    PyErr_Clear();
}

static void describe_exception(PyObject *exception, mr_error *err) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(exception), "__name__");
    PyObject *text = PyObject_Str(exception);
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    const char *shown_name = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *shown = bytes ? PyBytes_AsString(bytes) : NULL;
    PyErr_Clear();
    mr_fail(err, MR_E_HOST, "%s%s%s", shown_name ? shown_name : "exception",
            shown && *shown ? ": " : "", shown ? shown : "");
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
}

/* Turns the exception that is set into an error, and keeps it for whoever raises that. */
static mr_status fail_with_exception(host *self, int64_t sample, mr_error *err) {
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback) {
        PyException_SetTraceback(value, traceback);
    }
    if (value) {
        describe_exception(value, err);
        remember(self, sample, value);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return MR_E_HOST;
}

/* ---- Values ---- */
static void *reserve(void **memory, size_t *capacity, size_t size) {
    size = size ? size : 1;
    if (*capacity < size) {
        free(*memory);
        *memory = malloc(size);
        *capacity = *memory ? size : 0;
    }
    return *memory;
}

static mr_status wrong_type(const mr_field *field, const mr_type *found, mr_error *err) {
    char wanted[128], got[128];
    mr_fail(err, MR_E_TYPE, "field %s is %s, expected %s", field->name,
            mr_type_text(found, got, sizeof got),
            mr_type_text(&field->type, wanted, sizeof wanted));
    mr_hint(err, "types are those of the first two samples; declare what varies with fields=");
    return MR_E_TYPE;
}

static bool fits(const mr_type *wanted, const mr_type *found) {
    bool same = found->n_dims == wanted->n_dims && found->dtype == wanted->dtype;
    for (int32_t i = 0; same && i < wanted->n_dims; i++) {
        same = wanted->dims[i] < 0 || wanted->dims[i] == found->dims[i];
    }
    return same;
}

/* The type of a buffer; false: it is none that the engine has. */
static bool type_of_buffer(const Py_buffer *buffer, const mr_field *field, mr_type *out) {
    int dtype = dtype_of_format(buffer->format, buffer->itemsize);
    if (dtype < 0 || buffer->ndim > MR_MAX_DIMS) {
        return false;
    }
    bool is_bf16 = dtype == MR_U16 && field->type.dtype == MR_BF16;
    *out = (mr_type){.dtype = is_bf16 ? MR_BF16 : (mr_dtype)dtype,
                     .layout = field->type.layout,
                     .n_dims = buffer->ndim};
    for (int i = 0; i < buffer->ndim; i++) {
        out->dims[i] = buffer->shape[i];
    }
    return true;
}

static mr_status store_buffer(const Py_buffer *buffer, const mr_field *field, mr_view *view,
                              void **memory, size_t *capacity, mr_error *err) {
    mr_type found;
    if (!type_of_buffer(buffer, field, &found)) {
        return mr_fail(err, MR_E_TYPE, "field %s has elements of type \"%s\"", field->name,
                       buffer->format ? buffer->format : "?");
    }
    if (!fits(&field->type, &found)) {
        return wrong_type(field, &found, err);
    }
    if (!view->data) {
        view->type = found;
        view->size = (size_t)buffer->len;
        view->data = reserve(memory, capacity, view->size);
    }
    if (!view->data) {
        return mr_fail(err, MR_E_MEMORY, "cannot allocate %zu bytes", view->size);
    }
    if (PyBuffer_IsContiguous(buffer, 'C')) {
        memcpy(view->data, buffer->buf, (size_t)buffer->len);
        return MR_OK;
    }
    Py_buffer copy = *buffer; /* the function of the Limited API wants it without const */
    if (PyBuffer_ToContiguous(view->data, &copy, buffer->len, 'C') < 0) {
        PyErr_Clear();
        return mr_fail(err, MR_E_TYPE, "field %s cannot be copied", field->name);
    }
    return MR_OK;
}

/* A Python number where a number is expected; false: it is something else. */
static bool store_number(PyObject *value, const mr_field *field, mr_view *view) {
    if (field->type.n_dims > 0 || !view->data) {
        return false;
    }
    if (field->type.dtype == MR_I64 && PyLong_CheckExact(value)) {
        long long number = PyLong_AsLongLong(value);
        memcpy(view->data, &number, sizeof number);
        return !PyErr_Occurred();
    }
    if (field->type.dtype == MR_F64 && PyFloat_CheckExact(value)) {
        double number = PyFloat_AsDouble(value);
        memcpy(view->data, &number, sizeof number);
        return true;
    }
    return false;
}

/* A buffer with elements that the engine has; numpy's texts and foreign byte orders are none. */
static bool get_plain_buffer(PyObject *value, Py_buffer *buffer) {
    if (!PyObject_CheckBuffer(value) || PyBytes_Check(value) ||
        PyObject_GetBuffer(value, buffer, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return false;
    }
    bool is_plain = dtype_of_format(buffer->format, buffer->itemsize) >= 0;
    if (!is_plain) {
        PyBuffer_Release(buffer);
    }
    return is_plain;
}

/* What exports no such buffer, a tensor or a list, is made an array by _convert.py. */
static int get_buffer(host *self, PyObject *value, Py_buffer *buffer) {
    if (get_plain_buffer(value, buffer)) {
        return 0;
    }
    PyObject *array = PyObject_CallFunctionObjArgs(self->to_array, value, NULL);
    int failed = !array || PyObject_GetBuffer(array, buffer, PyBUF_RECORDS_RO) < 0;
    Py_XDECREF(array);
    return failed ? -1 : 0;
}

mr_status store_value(host *self, PyObject *value, const mr_field *field, mr_view *view,
                      void **memory, size_t *capacity, mr_error *err) {
    Py_buffer buffer;
    if (store_number(value, field, view)) {
        return MR_OK;
    }
    PyErr_Clear();
    if (get_buffer(self, value, &buffer) < 0) {
        return MR_E_HOST; /* with the exception set */
    }
    mr_status status = store_buffer(&buffer, field, view, memory, capacity, err);
    PyBuffer_Release(&buffer);
    return status;
}

/* ---- The op "map" ---- */
typedef struct map_params {
    host *host; /* the table's user */
    const char *function, *version;
    int32_t index; /* of the function, found by check */
} map_params;

static const mr_param map_rows[] = {
    {.name = "function",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(map_params, function),
     .doc = "Which function: its module and name."},
    {.name = "version",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(map_params, version),
     .fallback = "\"\"",
     .doc = "To be changed when the function gives other values: part of the fingerprint. Without "
            "one nothing that it made is kept in a store."},
    {.name = NULL},
};

/* Whether names, module:name or module:name#2, are the same but for module and number. */
static bool is_same_name(const char *one, const char *other) {
    const char *a = strchr(one, ':'), *b = strchr(other, ':');
    size_t n = a && b ? strcspn(a, "#") : 0;
    return a && b ? n == strcspn(b, "#") && memcmp(a, b, n) == 0 : strcmp(one, other) == 0;
}

/* Which function has the name; n_functions: none. */
static int32_t find_function(const host *self, const char *name) {
    int32_t i = 0;
    while (i < self->n_functions && strcmp(self->functions[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* Which function stands for one of the journal: modules may have other names than in the run, so
 * functions of one name are taken in their order, and stay with what they were taken for. */
static int32_t find_replayed(host *self, const char *name) {
    for (int32_t i = 0; i < self->n_functions; i++) {
        function *f = &self->functions[i];
        if (f->replays && strcmp(f->replays, name) == 0) {
            return i;
        }
        if (!f->replays && is_same_name(f->name, name)) {
            f->replays = strdup(name);
            return i;
        }
    }
    return self->n_functions;
}

static mr_status no_function(const host *self, const char *name, mr_error *err) {
    mr_fail(err, MR_E_PARAM, "there is no function \"%s\"", name);
    if (!self->is_replay) {
        mr_hint(err, "pass functions={\"%s\": ...}", name);
    } else {
        mr_hint(err,
                "replay() takes functions from the pipeline that it is given, by name and by "
                "their order; their modules may differ. Its first one is \"%.100s\"",
                self->functions[0].name);
    }
    return MR_E_PARAM;
}

static mr_status map_check(void *params, mr_error *err) {
    map_params *p = params;
    host *self = p->host;
    p->index =
        self->is_replay ? find_replayed(self, p->function) : find_function(self, p->function);
    return p->index < self->n_functions ? MR_OK : no_function(self, p->function, err);
}

/* A function's code is not in its name: only its author can say that it is still the same. */
static uint32_t map_flags(const void *params) {
    const map_params *p = params;
    bool random = p->host->functions[p->index].wants_random;
    return MR_OP_HEAVY | (random ? MR_OP_RANDOM : 0) | (p->version[0] ? 0 : MR_OP_OPAQUE);
}

static int make_inputs(function *f, const mr_field *in, int32_t n_in) {
    Py_XDECREF(f->inputs);
    Py_XDECREF(f->input_types);
    f->inputs = PyTuple_New(n_in);
    f->input_types = PyTuple_New(n_in);
    for (int32_t i = 0; f->inputs && f->input_types && i < n_in; i++) {
        PyObject *name = PyUnicode_FromString(in[i].name), *type = type_tuple(&in[i].type);
        if (!name || !type) {
            Py_XDECREF(name);
            Py_XDECREF(type);
            return -1;
        }
        PyTuple_SetItem(f->inputs, i, name);
        PyTuple_SetItem(f->input_types, i, type);
    }
    return f->inputs && f->input_types ? 0 : -1;
}

/* A pipeline is made with the GIL, a replay makes it without. */
static int name_inputs(function *f, const mr_field *in, int32_t n_in) {
    entered python = enter_python();
    int failed = make_inputs(f, in, n_in);
    if (failed) {
        PyErr_Clear();
    }
    leave_python(python);
    return failed;
}

/* A field that was delivered on request only stays so. */
static void keep_optional(mr_field *out, const mr_field *in, int32_t n_in) {
    for (int32_t i = 0; i < n_in; i++) {
        if (strcmp(in[i].name, out->name) == 0) {
            out->optional = in[i].optional;
        }
    }
}

static mr_status map_plan(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                          int32_t capacity, int32_t *n_out, mr_error *err) {
    const map_params *p = params;
    function *f = &p->host->functions[p->index];
    *n_out = f->n_fields;
    if (capacity < f->n_fields) {
        return MR_OK;
    }
    if (f->one_field && n_in != 1) {
        return mr_fail(err, MR_E_PARAM, "map takes one field, or all of them");
    }
    if (name_inputs(f, in, n_in) < 0) {
        return mr_fail(err, MR_E_MEMORY, "cannot name the inputs of %s", f->name);
    }
    memcpy(out, f->fields, (size_t)f->n_fields * sizeof *out);
    for (int32_t i = 0; !f->one_field && i < f->n_fields; i++) {
        keep_optional(&out[i], in, n_in);
    }
    if (f->one_field) {
        out[0].name = in[0].name;
        out[0].optional = in[0].optional;
    }
    return MR_OK;
}

static mr_status map_open(const void *params, void **state, mr_error *err) {
    const map_params *p = params;
    values_memory *own = calloc(1, sizeof *own);
    *state = own;
    return own && make_values(own, p->host->functions[p->index].n_fields) ? MR_OK : no_thread(err);
}

static void map_close(void *state) {
    if (state) {
        free_values(state);
    }
    free(state);
}

static PyObject *numpy_copy(host *self, const mr_view *view) {
    PyObject *array = array_copy(self->state, view);
    PyObject *result = array ? PyObject_CallFunctionObjArgs(self->as_array, array, NULL) : NULL;
    Py_XDECREF(array);
    return result;
}

static PyObject *sample_of(host *self, const function *f, const mr_view *in, int32_t n_in) {
    if (f->one_field) {
        return numpy_copy(self, &in[0]);
    }
    PyObject *sample = PyDict_New();
    for (int32_t i = 0; sample && i < n_in; i++) {
        PyObject *value = numpy_copy(self, &in[i]);
        if (!value || PyDict_SetItem(sample, PyTuple_GetItem(f->inputs, i), value) < 0) {
            Py_CLEAR(sample);
        }
        Py_XDECREF(value);
    }
    return sample;
}

static PyObject *call_function(host *self, const function *f, const mr_key *key, PyObject *sample) {
    if (!f->wants_random) {
        return PyObject_CallFunctionObjArgs(f->call, sample, NULL);
    }
    PyObject *random =
        PyObject_CallFunction(self->make_random, "KIKI", (unsigned long long)key->seed, key->epoch,
                              (unsigned long long)key->sample, key->op);
    PyObject *result = random ? PyObject_CallFunctionObjArgs(f->call, sample, random, NULL) : NULL;
    Py_XDECREF(random);
    return result;
}

static bool is_field(const function *f, const char *name) {
    int32_t i = 0;
    while (i < f->n_fields && strcmp(f->fields[i].name, name) != 0) {
        i++;
    }
    return i < f->n_fields;
}

/* A key of the result that is no field; "": there is none. */
static void surplus_key(const function *f, PyObject *result, char *out, size_t size) {
    PyObject *keys = PyMapping_Keys(result);
    Py_ssize_t n = keys ? PyList_Size(keys) : 0;
    out[0] = '\0';
    for (Py_ssize_t k = 0; k < n && !out[0]; k++) {
        PyObject *text = PyObject_Str(PyList_GetItem(keys, k));
        const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
        snprintf(out, size, "%s", !name ? "?" : is_field(f, name) ? "" : name);
        Py_XDECREF(text);
    }
    PyErr_Clear();
    Py_XDECREF(keys);
}

/* A field that the result lacks; NULL: it has all. */
static const char *missing_key(const function *f, PyObject *result) {
    for (int32_t i = 0; i < f->n_fields; i++) {
        if (!PyMapping_HasKey(result, f->keys[i])) {
            return f->fields[i].name;
        }
    }
    return NULL;
}

static mr_status other_fields(const function *f, PyObject *result, mr_error *err) {
    char surplus[128];
    const char *missing = missing_key(f, result);
    surplus_key(f, result, surplus, sizeof surplus);
    if (missing && surplus[0]) {
        mr_fail(err, MR_E_TYPE, "%s returned no field \"%s\", but \"%s\"", f->name, missing,
                surplus);
    } else if (missing) {
        mr_fail(err, MR_E_TYPE, "%s returned no field \"%s\"", f->name, missing);
    } else {
        mr_fail(err, MR_E_TYPE, "%s returned one field more, \"%s\"", f->name, surplus);
    }
    mr_hint(err, "every sample needs the same fields as the first, or those of fields=, which "
                 "lists all that are returned");
    return MR_E_TYPE;
}

static mr_status check_result(const function *f, PyObject *result, mr_error *err) {
    if (f->one_field) {
        return MR_OK;
    }
    bool has_keys =
        PyDict_Check(result) || (PyMapping_Check(result) && PyObject_HasAttrString(result, "keys"));
    Py_ssize_t n = has_keys ? PyMapping_Size(result) : -1;
    if (n < 0) {
        PyErr_Clear();
        return mr_fail(err, MR_E_TYPE, "%s did not return a dictionary of fields", f->name);
    }
    return n == f->n_fields ? MR_OK : other_fields(f, result, err);
}

static mr_status store_field(host *self, const function *f, int32_t i, PyObject *result,
                             values_memory *own, mr_view *out, mr_error *err) {
    PyObject *value = f->one_field ? Py_NewRef(result) : PyObject_GetItem(result, f->keys[i]);
    if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyErr_Clear();
        return other_fields(f, result, err);
    }
    mr_status status = value ? store_value(self, value, &f->fields[i], &out[i], &own->memory[i],
                                           &own->capacity[i], err)
                             : MR_E_HOST;
    Py_XDECREF(value);
    return status;
}

static mr_status store_result(host *self, const function *f, PyObject *result, values_memory *own,
                              mr_view *out, mr_error *err) {
    mr_status status = check_result(f, result, err);
    for (int32_t i = 0; status == MR_OK && i < f->n_fields; i++) {
        status = store_field(self, f, i, result, own, out, err);
    }
    return status;
}

static mr_status map_here(const map_params *p, mr_call *call, const mr_view *in, int32_t n_in,
                          mr_view *out, mr_error *err) {
    host *self = p->host;
    const function *f = &self->functions[p->index];
    uint64_t begun = mr_wait_begin(call);
    PyGILState_STATE gil;
    if (!enter(self, &gil)) {
        return no_thread(err);
    }
    mr_wait_end(call, begun);
    PyObject *sample = sample_of(self, f, in, n_in);
    PyObject *result = sample ? call_function(self, f, &call->key, sample) : NULL;
    mr_status status = result ? store_result(self, f, result, call->state, out, err) : MR_E_HOST;
    if (status < 0 && PyErr_Occurred()) {
        status = fail_with_exception(self, (int64_t)call->key.sample, err);
    }
    Py_XDECREF(sample);
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return status;
}

static void remember_report(host *self, int64_t sample, char *report) {
    PyGILState_STATE gil;
    if (enter(self, &gil)) {
        PyObject *text = PyUnicode_DecodeUTF8(report, (Py_ssize_t)strlen(report), "replace");
        if (text) {
            remember(self, sample, text);
        }
        Py_XDECREF(text);
        PyGILState_Release(gil);
    }
    free(report);
}

static mr_status map_elsewhere(const map_params *p, mr_call *call, const mr_view *in, int32_t n_in,
                               mr_view *out, mr_error *err) {
    const function *f = &p->host->functions[p->index];
    values_memory *own = call->state;
    char *report = NULL;
    const process_call request = {.function = p->index,
                                  .key = &call->key,
                                  .in = in,
                                  .n_in = n_in,
                                  .out = out,
                                  .fields = f->fields,
                                  .n_out = f->n_fields,
                                  .memory = own->memory,
                                  .capacity = own->capacity};
    mr_status status = processes_run(p->host->processes, &request, &report, err);
    if (report) {
        remember_report(p->host, (int64_t)call->key.sample, report);
    }
    return status;
}

static mr_status map_run(const void *params, mr_call *call, const mr_view *in, int32_t n_in,
                         mr_view *out, int32_t n_out, mr_error *err) {
    const map_params *p = params;
    (void)n_out;
    return p->host->functions[p->index].in_processes ? map_elsewhere(p, call, in, n_in, out, err)
                                                     : map_here(p, call, in, n_in, out, err);
}

static const mr_op_class map_table = {
    MR_OP_HEADER,
    .name = "map",
    .summary = "Runs a Python function on a sample.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(map_params),
    .params = map_rows,
    .check = map_check,
    .open = map_open,
    .close = map_close,
    .plan_sample = map_plan,
    .run_sample = map_run,
    .flags_for = map_flags,
};

/* ---- The source "dataset" ---- */
typedef struct dataset_params {
    host *host; /* the table's user */
    const char *object;
} dataset_params;

static const mr_param dataset_rows[] = {
    {.name = "object",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(dataset_params, object),
     .fallback = "\"\"",
     .doc = "What the samples are taken from."},
    {.name = NULL},
};

static mr_status dataset_describe(const void *params, mr_field *fields, int32_t capacity,
                                  int32_t *n, mr_error *err) {
    const host *self = ((const dataset_params *)params)->host;
    (void)err;
    return mr_describe_fields(self->dataset.fields, self->dataset.n_fields, fields, capacity, n);
}

static mr_status dataset_open(const void *params, const mr_wanted *wanted, void **state,
                              mr_error *err) {
    (void)wanted;
    (void)err;
    *state = (void *)(uintptr_t)params;
    return MR_OK;
}

static void dataset_close(void *state) {
    (void)state;
}

static void dataset_shape(const void *state, mr_shape *out) {
    const host *self = ((const dataset_params *)state)->host;
    out->samples = self->length;
    memcpy(out->fingerprint, self->fingerprint, sizeof out->fingerprint);
}

/* For datasets with a version; see host_new. The fingerprint covers it, class, length and types. */
static bool dataset_identify(const void *state, int64_t sample, uint64_t out[2]) {
    const host *self = ((const dataset_params *)state)->host;
    out[0] = self->fingerprint[0];
    out[1] = self->fingerprint[1] + (uint64_t)sample;
    return true;
}

static void dataset_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const dataset_params *p = state;
    snprintf(buffer, size, "%s[%lld]", p->object[0] ? p->object : "dataset", (long long)sample);
}

static mr_status keep_object(host *self, PyObject *value, mr_view *out) {
    long long handle = self->n_objects++;
    PyObject *key = PyLong_FromLongLong(handle);
    int failed = !key || PyDict_SetItem(self->objects, key, value) < 0;
    Py_XDECREF(key);
    memcpy(out->data, &handle, sizeof handle);
    return failed ? MR_E_HOST : MR_OK;
}

static PyObject *part_of(const host *self, PyObject *value, int32_t i) {
    if (self->dataset.one_field) {
        return Py_NewRef(value);
    }
    return self->in_tuples ? PySequence_GetItem(value, i)
                           : PyObject_GetItem(value, self->dataset.keys[i]);
}

static mr_status store_sample(host *self, PyObject *value, values_memory *own, mr_view *fields,
                              mr_error *err) {
    mr_status status = MR_OK;
    if (self->as_objects) {
        return keep_object(self, value, &fields[0]);
    }
    if (own->n == 0 && !make_values(own, self->dataset.n_fields)) {
        return no_thread(err);
    }
    for (int32_t i = 0; status == MR_OK && i < self->dataset.n_fields; i++) {
        if (!mr_is_wanted(&fields[i])) {
            continue;
        }
        PyObject *part = part_of(self, value, i);
        status = part ? store_value(self, part, &self->dataset.fields[i], &fields[i],
                                    &own->memory[i], &own->capacity[i], err)
                      : MR_E_HOST;
        Py_XDECREF(part);
    }
    return status;
}

static mr_status dataset_fill(const void *state, const mr_block *block, int64_t sample,
                              mr_view *fields, mr_error *err) {
    host *self = ((const dataset_params *)state)->host;
    (void)block;
    if (self->is_plan) {
        return MR_OK;
    }
    PyGILState_STATE gil;
    worker_thread *thread = enter(self, &gil);
    if (!thread) {
        return no_thread(err);
    }
    PyObject *index = PyLong_FromLongLong(sample);
    PyObject *value = index ? PyObject_GetItem(self->dataset.call, index) : NULL;
    mr_status status = value ? store_sample(self, value, &thread->fill, fields, err) : MR_E_HOST;
    if (status < 0 && PyErr_Occurred()) {
        status = fail_with_exception(self, sample, err);
    }
    Py_XDECREF(index);
    Py_XDECREF(value);
    PyGILState_Release(gil);
    return status;
}

static const mr_source_class dataset_table = {
    MR_SOURCE_HEADER,
    .name = "dataset",
    .summary = "Samples of a Python object with __getitem__ and __len__.",
    .version = 1,
    .param_size = sizeof(dataset_params),
    .params = dataset_rows,
    .describe = dataset_describe,
    .open = dataset_open,
    .close = dataset_close,
    .shape = dataset_shape,
    .sample_name = dataset_name,
    .fill = dataset_fill,
};

/* ---- Making a host ---- */
static int read_dims(PyObject *dims, mr_type *type) {
    Py_ssize_t n = PySequence_Size(dims);
    if (n < 0 || n > MR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "a field has 0 to %d dimensions", MR_MAX_DIMS);
        return -1;
    }
    type->n_dims = (int32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *dim = PySequence_GetItem(dims, i);
        type->dims[i] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* (name, dtype, dims, layout) */
static int read_field(PyObject *item, mr_field *out, PyObject **key) {
    const char *name = NULL, *dtype = NULL, *layout = NULL;
    PyObject *dims = NULL;
    if (!PyArg_ParseTuple(item, "ssOs", &name, &dtype, &dims, &layout)) {
        return -1;
    }
    int number = dtype_of_name(dtype);
    if (number < 0 || read_dims(dims, &out->type) < 0) {
        return -1;
    }
    out->type.dtype = (mr_dtype)number;
    out->type.layout = strcmp(layout, "hwc") == 0   ? MR_HWC
                       : strcmp(layout, "chw") == 0 ? MR_CHW
                                                    : MR_PLAIN;
    out->name = strdup(name);
    *key = PyUnicode_FromString(name);
    return out->name && *key ? 0 : -1;
}

static int read_fields(PyObject *list, function *out) {
    Py_ssize_t n = PySequence_Size(list);
    if (n < 1 || n > MR_FIELDS_LIMIT) {
        PyErr_Format(PyExc_ValueError, "a sample has 1 to %d fields, not %zd", MR_FIELDS_LIMIT, n);
        return -1;
    }
    out->fields = calloc((size_t)n, sizeof *out->fields);
    out->keys = calloc((size_t)n, sizeof *out->keys);
    if (!out->fields || !out->keys) {
        PyErr_NoMemory();
        return -1;
    }
    for (out->n_fields = 0; out->n_fields < n;) {
        int32_t i = out->n_fields++;
        PyObject *item = PySequence_GetItem(list, i);
        int failed = !item || read_field(item, &out->fields[i], &out->keys[i]) < 0;
        Py_XDECREF(item);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static void free_function(function *f) {
    for (int32_t i = 0; i < f->n_fields; i++) {
        free((void *)(uintptr_t)f->fields[i].name);
        Py_XDECREF(f->keys[i]);
    }
    free(f->fields);
    free(f->keys);
    free(f->name);
    free(f->replays);
    Py_XDECREF(f->call);
    Py_XDECREF(f->inputs);
    Py_XDECREF(f->input_types);
}

/* (name, call, fields, wants_random, one_field, in_processes) */
static int read_function(PyObject *item, function *out) {
    const char *name = NULL;
    PyObject *call = NULL, *fields = NULL;
    int random = 0, one = 0, processes_ = 0;
    if (!PyArg_ParseTuple(item, "sOOppp", &name, &call, &fields, &random, &one, &processes_)) {
        return -1;
    }
    out->name = strdup(name);
    out->call = Py_NewRef(call);
    out->wants_random = random != 0;
    out->one_field = one != 0;
    out->in_processes = processes_ != 0;
    return out->name ? read_fields(fields, out) : -1;
}

static int read_functions(host *self, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    self->functions = calloc(n > 0 ? (size_t)n : 1, sizeof *self->functions);
    if (n < 0 || !self->functions) {
        return -1;
    }
    while (self->n_functions < n) {
        PyObject *item = PySequence_GetItem(list, self->n_functions);
        int failed = !item || read_function(item, &self->functions[self->n_functions++]) < 0;
        Py_XDECREF(item);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* (object, length, fields, structure, low, high, has_version, is_plan); structure: one, tuple, dict
 * or object */
static int read_dataset(host *self, PyObject *item) {
    PyObject *object = NULL, *fields = NULL;
    const char *structure = NULL;
    long long length = 0;
    unsigned long long low = 0, high = 0;
    int has_version = 0, is_plan = 0;
    if (item == Py_None) {
        return 0;
    }
    if (!PyArg_ParseTuple(item, "OLOsKKpp", &object, &length, &fields, &structure, &low, &high,
                          &has_version, &is_plan)) {
        return -1;
    }
    self->has_dataset = true;
    self->dataset.call = Py_NewRef(object);
    self->dataset.one_field = strcmp(structure, "one") == 0;
    self->in_tuples = strcmp(structure, "tuple") == 0;
    self->as_objects = strcmp(structure, "object") == 0;
    self->is_plan = is_plan != 0;
    self->length = length;
    self->fingerprint[0] = low;
    self->fingerprint[1] = high;
    if (has_version && !self->as_objects) { /* handles mean nothing to anybody else */
        self->source.identify = dataset_identify;
    }
    return read_fields(fields, &self->dataset);
}

static int read_sockets(host *self, PyObject *list) {
    int fds[256];
    Py_ssize_t n = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < n && i < 256; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        fds[i] = item ? (int)PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
    }
    if (n <= 0 || PyErr_Occurred()) {
        return n == 0 ? 0 : -1;
    }
    self->processes = processes_new(fds, (int32_t)(n < 256 ? n : 256));
    return self->processes ? 0 : -1;
}

static PyObject *host_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"functions",   "dataset", "as_array", "to_array",
                            "make_random", "sockets", NULL};
    PyObject *functions = NULL, *dataset = NULL, *as_array = NULL, *to_array = NULL, *random = NULL,
             *sockets = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOOOO", names, &functions, &dataset,
                                     &as_array, &to_array, &random, &sockets)) {
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    host *self = (host *)alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->state = state_of_type(type);
    self->as_array = Py_NewRef(as_array);
    self->to_array = Py_NewRef(to_array);
    self->make_random = Py_NewRef(random);
    self->exceptions = PyDict_New();
    self->objects = PyDict_New();
    self->op = map_table;
    self->op.user = self;
    self->source = dataset_table;
    self->source.user = self;
    if (!self->exceptions || !self->objects || read_functions(self, functions) < 0 ||
        read_dataset(self, dataset) < 0 || read_sockets(self, sockets) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Functions may refer to what uses them, a bound method of an object that has the loader for
 * instance: the collector must see that. */
static int host_traverse(PyObject *object, visitproc visit, void *arg) {
    host *self = (host *)object;
    Py_VISIT(Py_TYPE(object));
    for (int32_t i = 0; i < self->n_functions; i++) {
        Py_VISIT(self->functions[i].call);
    }
    Py_VISIT(self->dataset.call);
    Py_VISIT(self->exceptions);
    Py_VISIT(self->objects);
    return 0;
}

/* By then the loader has been finalized, so no thread uses these. */
static int host_clear(PyObject *object) {
    host *self = (host *)object;
    for (int32_t i = 0; i < self->n_functions; i++) {
        Py_CLEAR(self->functions[i].call);
    }
    Py_CLEAR(self->dataset.call);
    Py_CLEAR(self->exceptions);
    Py_CLEAR(self->objects);
    return 0;
}

static void host_dealloc(PyObject *object) {
    host *self = (host *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    for (int32_t i = 0; i < self->n_functions; i++) {
        free_function(&self->functions[i]);
    }
    free(self->functions);
    free_function(&self->dataset);
    processes_free(self->processes);
    Py_XDECREF(self->as_array);
    Py_XDECREF(self->to_array);
    Py_XDECREF(self->make_random);
    Py_XDECREF(self->exceptions);
    Py_XDECREF(self->objects);
    release(object);
    Py_DECREF(type);
}

mr_tables host_tables(host *self) {
    self->ops[0] = self->n_functions > 0 ? &self->op : NULL;
    self->sources[0] = self->has_dataset ? &self->source : NULL;
    return (mr_tables){sizeof(mr_tables), self->ops, self->sources};
}

/* The samples that the handles of an as_objects batch stand for; they are given out once. */
static PyObject *host_take(PyObject *object, PyObject *handles) {
    host *self = (host *)object;
    Py_ssize_t n = PySequence_Size(handles);
    PyObject *list = n < 0 ? NULL : PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *key = PySequence_GetItem(handles, i);
        PyObject *value = key ? PyDict_GetItemWithError(self->objects, key) : NULL;
        if (!value) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_KeyError, "a sample of the batch was taken before");
            }
            Py_CLEAR(list);
        } else {
            PyList_SetItem(list, i, Py_NewRef(value));
            PyDict_DelItem(self->objects, key);
        }
        Py_XDECREF(key);
    }
    return list;
}

/* What the i-th function is given: ((names), ((dtype, dims, layout), ...)). */
static PyObject *host_inputs(PyObject *object, PyObject *index) {
    host *self = (host *)object;
    long i = PyLong_AsLong(index);
    if (i < 0 || i >= self->n_functions || !self->functions[i].inputs) {
        PyErr_SetString(PyExc_IndexError, "no pipeline uses this function");
        return NULL;
    }
    return PyTuple_Pack(2, self->functions[i].inputs, self->functions[i].input_types);
}

static PyMethodDef host_methods[] = {
    {"inputs", host_inputs, METH_O, "Names and types of what a function is given."},
    {"take", host_take, METH_O, "Handles to the samples they stand for."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot host_slots[] = {
    {Py_tp_doc, "Python functions and a Python dataset, for one pipeline."},
    {Py_tp_new, host_new},
    {Py_tp_dealloc, host_dealloc},
    {Py_tp_traverse, host_traverse},
    {Py_tp_clear, host_clear},
    {Py_tp_methods, host_methods},
    {0, NULL},
};

PyType_Spec host_spec = {.name = "millrace._core.Host",
                         .basicsize = sizeof(host),
                         .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                         .slots = host_slots};
