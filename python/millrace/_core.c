/* SPDX-License-Identifier: Apache-2.0 */
/* _core.c - the module millrace._core: the tables, pipelines and loaders of the C library as Python
 * objects. It knows no op, no source and no parameter by name. */
#include "_binding.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

module_state *state_of_module(PyObject *module) {
    return PyModule_GetState(module);
}

module_state *state_of_type(PyTypeObject *type) {
    return PyType_GetModuleState(type);
}

static void free_object(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static void *alloc_object(PyTypeObject *type) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

/* ---- Errors: which class is chosen in _errors.py ---- */
static PyObject *cause_of(const mr_error *err, PyObject *causes) {
    if (!causes || err->sample < 0 || err->code != MR_E_HOST) {
        return Py_NewRef(Py_None);
    }
    PyObject *key = PyLong_FromLongLong(err->sample);
    PyObject *cause = key ? PyDict_GetItemWithError(causes, key) : NULL;
    Py_XDECREF(key);
    return Py_NewRef(cause ? cause : Py_None);
}

/* Text of an error may hold the bytes of a file's name, and may be cut within a character. */
static PyObject *text_of_error(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

static PyObject *error_values(const mr_error *err) {
    char text[sizeof(mr_error) + 256];
    mr_error_format(err, text, sizeof text);
    return Py_BuildValue("{s:i,s:i,s:L,s:L,s:N,s:N,s:N,s:N,s:N,s:N}", "code", (int)err->code, "sys",
                         err->sys, "sample", (long long)err->sample, "offset",
                         (long long)err->offset, "op", text_of_error(err->op), "where",
                         text_of_error(err->where), "source", text_of_error(err->source), "text",
                         text_of_error(err->text), "hint", text_of_error(err->hint), "message",
                         text_of_error(text));
}

PyObject *raise_error(module_state *state, const mr_error *err, PyObject *causes) {
    PyObject *values = error_values(err), *cause = cause_of(err, causes);
    PyObject *result =
        values ? PyObject_CallFunctionObjArgs(state->raise, values, cause, NULL) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(cause);
    Py_XDECREF(result); /* it raises */
    return NULL;
}

/* ---- Tables ---- */
static PyObject *text_or_none(const char *text) {
    return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

static PyObject *choices_list(const mr_param *row) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && row->choices && row->choices[i]; i++) {
        PyObject *text = PyUnicode_FromString(row->choices[i]);
        if (!text || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *row_dict(const mr_param *row) {
    static const char *const kinds[] = {"int",    "float",   "bool",  "choice", "string", "ints",
                                        "floats", "strings", "bytes", "json",   "ops",    "floats"};
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:N}", "name", row->name, "kind", kinds[row->kind],
                         "default", text_or_none(row->fallback), "choices", choices_list(row),
                         "doc", text_or_none(row->doc));
}

static PyObject *rows_list(const mr_param *row) {
    PyObject *list = PyList_New(0);
    for (; list && row && row->name; row++) {
        PyObject *dict = row_dict(row);
        if (!dict || PyList_Append(list, dict) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(dict);
    }
    return list;
}

static PyObject *table(const char *name, const char *summary, const char *doc, const mr_param *rows,
                       const char *also) {
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:s}", "name", name, "summary", summary, "doc",
                         text_or_none(doc), "params", rows_list(rows), "also", also ? also : "");
}

static int append(PyObject *list, PyObject *item) {
    int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed;
}

static PyObject *tables(PyObject *module, PyObject *unused) {
    PyObject *ops = PyList_New(0), *sources = PyList_New(0);
    int failed = !ops || !sources;
    (void)module;
    (void)unused;
    for (int32_t i = 0; !failed && i < mr_n_ops(); i++) {
        const mr_op_class *op = mr_op_at(i);
        failed = append(ops, table(op->name, op->summary, op->doc, op->params, op->also));
    }
    for (int32_t i = 0; !failed && i < mr_n_sources(); i++) {
        const mr_source_class *source = mr_source_at(i);
        failed = append(sources, table(source->name, source->summary, source->doc, source->params,
                                       source->also));
    }
    if (failed) {
        Py_XDECREF(ops);
        Py_XDECREF(sources);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:N,s:N}", "ops", ops, "sources", sources, "settings",
                         rows_list(mr_settings_params()));
}

/* ---- Pipeline ---- */
typedef struct pipeline {
    PyObject_HEAD mr_pipeline *pipeline;
    host *host;              /* or NULL */
    const mr_op_class **ops; /* its host's and those of plug-ins */
} pipeline;

/* Those of plug-ins, and one more; plug-ins that are opened later do not change it. */
static const mr_op_class **gather_ops(const module_state *state, const mr_op_class *own) {
    size_t n = 0, most = state->n_plugin_ops + 2;
    const mr_op_class **ops = calloc(most, sizeof *ops);
    if (!ops) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size_t i = 0; i < state->n_plugin_ops; i++) {
        ops[n++] = state->plugin_ops[i];
    }
    ops[n] = own;
    return ops;
}

const mr_op_class **replay_ops(const module_state *state, PyObject *given, host **functions) {
    if (given != Py_None && Py_TYPE(given) != state->pipeline) {
        PyErr_SetString(PyExc_TypeError, "pipeline must be a Pipeline");
        return NULL;
    }
    *functions = given == Py_None ? NULL : ((pipeline *)given)->host;
    return gather_ops(state, *functions ? host_tables(*functions).ops[0] : NULL);
}

static PyObject *pipeline_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    module_state *state = state_of_type(type);
    static char *names[] = {"json", "host", NULL};
    const char *json = NULL;
    Py_ssize_t size = 0;
    PyObject *given = Py_None;
    mr_error err = MR_ERROR_INIT;
    mr_tables extra = {.size = sizeof extra};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s#|O", names, &json, &size, &given)) {
        return NULL;
    }
    if (given != Py_None && Py_TYPE(given) != state->host) {
        PyErr_SetString(PyExc_TypeError, "host must be a Host");
        return NULL;
    }
    pipeline *self = alloc_object(type);
    if (!self) {
        return NULL;
    }
    if (given != Py_None) {
        self->host = (host *)Py_NewRef(given);
        extra = host_tables(self->host);
    }
    self->ops = gather_ops(state, extra.ops ? extra.ops[0] : NULL);
    if (!self->ops) {
        Py_DECREF(self);
        return NULL;
    }
    extra.ops = self->ops;
    if (mr_pipeline_parse_with(&self->pipeline, json, (size_t)size, &extra, &err) < 0) {
        Py_DECREF(self);
        return raise_error(state, &err, NULL);
    }
    return (PyObject *)self;
}

static int pipeline_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((pipeline *)object)->host);
    return 0;
}

static void pipeline_dealloc(PyObject *object) {
    pipeline *self = (pipeline *)object;
    PyObject_GC_UnTrack(object);
    mr_pipeline_free(self->pipeline);
    free(self->ops);
    Py_XDECREF((PyObject *)self->host);
    free_object(object);
}

static PyObject *pipeline_json(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mr_pipeline_json(((pipeline *)object)->pipeline));
}

static PyObject *pipeline_is_stream(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(mr_pipeline_is_stream(((pipeline *)object)->pipeline));
}

static PyObject *pipeline_fingerprint(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mr_pipeline_fingerprint(((pipeline *)object)->pipeline));
}

PyObject *type_tuple(const mr_type *type) {
    static const char *const layouts[] = {"", "hwc", "chw"};
    PyObject *dims = PyTuple_New(type->n_dims);
    for (int32_t i = 0; dims && i < type->n_dims; i++) {
        PyTuple_SetItem(dims, i, PyLong_FromLongLong(type->dims[i]));
    }
    return Py_BuildValue("(sNs)", mr_dtype_name(type->dtype), dims, layouts[type->layout]);
}

/* Fields of a sample as delivered: [(name, dtype, dims, layout), ...] */
static PyObject *pipeline_fields(PyObject *object, void *unused) {
    const mr_pipeline *p = ((pipeline *)object)->pipeline;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int32_t i = 0; list && i < mr_pipeline_n_fields(p); i++) {
        const mr_field *field = mr_pipeline_field(p, i);
        if (append(list, Py_BuildValue("(sN)", field->name, type_tuple(&field->type)))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* [(name, field, type text), ...] of the source and of each op. */
static PyObject *pipeline_stages(PyObject *object, void *unused) {
    const mr_pipeline *p = ((pipeline *)object)->pipeline;
    PyObject *list = PyList_New(0);
    char text[128];
    (void)unused;
    for (int32_t i = 0; list && i < mr_pipeline_n_stages(p); i++) {
        const mr_stage *stage = mr_pipeline_stage(p, i);
        mr_type_text(&stage->out, text, sizeof text);
        if (append(list, Py_BuildValue("(sss)", stage->name, stage->field, text))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *pipeline_batch(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(mr_pipeline_settings(((pipeline *)object)->pipeline)->batch);
}

static PyGetSetDef pipeline_values[] = {
    {"json", pipeline_json, NULL, NULL, NULL},
    {"fingerprint", pipeline_fingerprint, NULL, NULL, NULL},
    {"is_stream", pipeline_is_stream, NULL, NULL, NULL},
    {"fields", pipeline_fields, NULL, NULL, NULL},
    {"stages", pipeline_stages, NULL, NULL, NULL},
    {"batch", pipeline_batch, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pipeline_slots[] = {
    {Py_tp_doc, "A checked pipeline document."},
    {Py_tp_new, pipeline_new},
    {Py_tp_dealloc, pipeline_dealloc},
    {Py_tp_traverse, pipeline_traverse},
    {Py_tp_getset, pipeline_values},
    {0, NULL},
};

static PyType_Spec pipeline_spec = {.name = "millrace._core.Pipeline",
                                    .basicsize = sizeof(pipeline),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                    .slots = pipeline_slots};

/* ---- Memory from Python, pinned for instance ---- */
typedef struct block {
    struct block *next;
    void *address; /* as handed out */
    Py_buffer view;
} block;

/* Lives as long as the loader or any block. All under the GIL. */
typedef struct python_memory {
    PyObject *alloc; /* size -> object with a writable buffer */
    block *blocks;
    size_t references;
} python_memory;

static void drop_memory(python_memory *memory) {
    if (--memory->references == 0) {
        Py_DECREF(memory->alloc);
        free(memory);
    }
}

static void *take_block(python_memory *memory, size_t size, size_t align) {
    PyObject *object = PyObject_CallFunction(memory->alloc, "n", (Py_ssize_t)(size + align));
    block *new = calloc(1, sizeof *new);
    int failed = !object || !new || PyObject_GetBuffer(object, &new->view, PyBUF_WRITABLE) < 0;
    Py_XDECREF(object);
    if (!failed && (size_t) new->view.len < size + align) {
        PyBuffer_Release(&new->view);
        failed = 1;
    }
    if (failed) {
        PyErr_Clear();
        free(new);
        return NULL;
    }
    uintptr_t first = (uintptr_t) new->view.buf;
    new->address = (void *)((first + align - 1) & ~(uintptr_t)(align - 1));
    new->next = memory->blocks;
    memory->blocks = new;
    memory->references++;
    return new->address;
}

static void *python_alloc(void *user, size_t size, size_t align) {
    entered python = enter_python();
    void *address = take_block(user, size, align);
    leave_python(python);
    return address;
}

static void python_release(void *user, void *address, size_t size) {
    python_memory *memory = user;
    (void)size;
    if (!Py_IsInitialized()) {
        return;
    }
    entered python = enter_python();
    block **at = &memory->blocks;
    while ((*at)->address != address) {
        at = &(*at)->next;
    }
    block *old = *at;
    *at = old->next;
    PyBuffer_Release(&old->view);
    free(old);
    drop_memory(memory);
    leave_python(python);
}

/* ---- Loader ---- */
typedef struct loader {
    PyObject_HEAD mr_loader *loader;
    pipeline *pipeline;
    python_memory *memory; /* or NULL */
    PyObject *log;         /* text -> None, or NULL */
    python_policy policy;  /* without an object: none */
    bool busy;             /* a thread is inside next */
    char *text;            /* of the last state: memory that is used again; or NULL */
    size_t room;           /* of it */
} loader;

static void write_log(void *user, const char *text) {
    entered python = enter_python();
    PyObject *result = PyObject_CallFunction(((loader *)user)->log, "s", text);
    if (!result) {
        PyErr_Clear();
    }
    Py_XDECREF(result);
    leave_python(python);
}

typedef struct loader_values {
    mr_options options;
    PyObject *pipeline, *allocator, *log, *policy;
    const char *io;
} loader_values;

/* Too much is still too much for the library to refuse. */
static uint32_t at_most_uint32(long long number) {
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static int parse_loader(PyObject *args, PyObject *keywords, module_state *state, loader_values *v) {
    static char *names[] = {"pipeline",    "threads",
                            "world",       "rank",
                            "seed",        "batch",
                            "epochs",      "state",
                            "digest",      "poison",
                            "first_epoch", "batches_ahead",
                            "reads",       "read_ahead_bytes",
                            "disable_cpu", "allocator",
                            "log",         "io",
                            "trace",       "journal",
                            "fabric",      "policy",
                            "by_epoch",    "no_names",
                            NULL};
    mr_options *o = &v->options;
    int digest = 0, poison = 0, by_epoch = 0, no_names = 0;
    long long seed = -1, batch = 0, epochs = 0, first = 0, read_ahead = 0;
    long long threads = 0, world = 0, rank = 0, ahead = 0, reads = 0;
    Py_ssize_t state_size = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "O!|LLLLLLz#ppLLLLzOOszzzOpp", names, state->pipeline, &v->pipeline,
            &threads, &world, &rank, &seed, &batch, &epochs, &o->state, &state_size, &digest,
            &poison, &first, &ahead, &reads, &read_ahead, &o->disable_cpu, &v->allocator, &v->log,
            &v->io, &o->trace, &o->journal, &o->fabric, &v->policy, &by_epoch, &no_names)) {
        return 0;
    }
    o->threads = threads < 0            ? MR_THREADS_AUTO
                 : threads < UINT32_MAX ? (uint32_t)threads
                                        : UINT32_MAX - 1;
    o->world = at_most_uint32(world);
    o->rank = at_most_uint32(rank);
    o->batches_ahead = at_most_uint32(ahead);
    o->reads_in_flight = at_most_uint32(reads);
    o->seed = seed;
    o->batch = batch;
    o->epochs = epochs;
    o->first_epoch = first;
    o->read_ahead_bytes = read_ahead;
    o->state_size = (size_t)state_size;
    o->digest = digest != 0;
    o->poison = poison != 0;
    o->by_epoch = by_epoch != 0;
    o->no_names = no_names != 0;
    o->io = !v->io || strcmp(v->io, "auto") == 0 ? MR_IO_AUTO
            : strcmp(v->io, "uring") == 0        ? MR_IO_URING
                                                 : MR_IO_PREAD;
    return 1;
}

static int use_python_memory(loader *self, PyObject *alloc, mr_allocator *out) {
    self->memory = calloc(1, sizeof *self->memory);
    if (!self->memory) {
        PyErr_NoMemory();
        return 0;
    }
    *self->memory = (python_memory){.alloc = Py_NewRef(alloc), .references = 1};
    *out = (mr_allocator){python_alloc, python_release, self->memory};
    return 1;
}

static PyObject *loader_open(loader *self, loader_values *v, module_state *state) {
    mr_error err = MR_ERROR_INIT;
    mr_allocator allocator;
    mr_status status;
    processes *others = self->pipeline->host ? self->pipeline->host->processes : NULL;
    if (others) {
        allocator = processes_allocator(others);
        v->options.allocator = &allocator;
    } else if (v->allocator && v->allocator != Py_None) {
        if (!use_python_memory(self, v->allocator, &allocator)) {
            return NULL;
        }
        v->options.allocator = &allocator;
    }
    if (v->log && v->log != Py_None) {
        self->log = Py_NewRef(v->log);
        v->options.log = (mr_log){write_log, self};
    }
    mr_policy policy = policy_of(&self->policy);
    if (v->policy && v->policy != Py_None) {
        self->policy.object = Py_NewRef(v->policy);
        v->options.policy = &policy;
    }
    Py_BEGIN_ALLOW_THREADS status =
        mr_loader_open(&self->loader, self->pipeline->pipeline, &v->options, &err);
    Py_END_ALLOW_THREADS if (status < 0) {
        host *h = self->pipeline->host;
        return status == MR_E_HOST && policy_raise(&self->policy)
                   ? NULL
                   : raise_error(state, &err, h ? h->exceptions : NULL);
    }
    return (PyObject *)self;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    module_state *state = state_of_type(type);
    loader_values values = {.options = MR_OPTIONS_INIT};
    if (!parse_loader(args, keywords, state, &values)) {
        return NULL;
    }
    loader *self = alloc_object(type);
    if (!self) {
        return NULL;
    }
    self->pipeline = (pipeline *)Py_NewRef(values.pipeline);
    if (!loader_open(self, &values, state)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* A thread that is inside next is made to leave first. */
static void loader_end(loader *self) {
    mr_loader *old = self->loader;
    host *h = self->pipeline->host;
    if (!old) {
        return;
    }
    self->loader = NULL;
    if (h) {
        host_stop(h);
    }
    Py_BEGIN_ALLOW_THREADS mr_loader_cancel(old);
    Py_END_ALLOW_THREADS while (self->busy) {
        Py_BEGIN_ALLOW_THREADS usleep(1000);
        Py_END_ALLOW_THREADS
    }
    Py_BEGIN_ALLOW_THREADS mr_loader_close(old);
    Py_END_ALLOW_THREADS
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg) {
    loader *self = (loader *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->pipeline);
    Py_VISIT(self->log);
    Py_VISIT(self->policy.object);
    Py_VISIT(self->policy.exception);
    if (self->memory) {
        Py_VISIT(self->memory->alloc);
    }
    return 0;
}

static void loader_dealloc(PyObject *object) {
    loader *self = (loader *)object;
    PyObject_GC_UnTrack(object);
    if (self->pipeline) {
        loader_end(self);
    }
    if (self->memory) {
        drop_memory(self->memory);
    }
    Py_XDECREF((PyObject *)self->pipeline);
    Py_XDECREF(self->log);
    Py_XDECREF(self->policy.object);
    Py_XDECREF(self->policy.exception);
    PyMem_Free(self->text);
    free_object(object);
}

static PyObject *loader_close(PyObject *object, PyObject *unused) {
    (void)unused;
    loader_end((loader *)object);
    Py_RETURN_NONE;
}

static mr_loader *usable(loader *self) {
    if (!self->loader) {
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
    } else if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError,
                        "another thread is inside next(): a loader has one consumer at a time");
        return NULL;
    }
    return self->loader;
}

/* Waits in slices, so that Ctrl-C is noticed. Between them the loader is free: the handler of a
 * signal may save its state, or close it. MR_LATER: an exception is set. */
static mr_status wait_for_next(loader *self, int64_t patience_ns, mr_batch **out, mr_error *err) {
    const int64_t slice_ns = 50 * 1000 * 1000;
    mr_status status = MR_LATER;
    mr_loader *l = usable(self);
    while (status == MR_LATER && l) {
        int64_t wait_ns = patience_ns < slice_ns ? patience_ns : slice_ns;
        self->busy = true;
        Py_BEGIN_ALLOW_THREADS status = mr_loader_next_within(l, wait_ns, out, err);
        Py_END_ALLOW_THREADS self->busy = false;
        patience_ns -= wait_ns;
        if (status == MR_LATER && patience_ns <= 0) {
            PyErr_SetString(PyExc_TimeoutError, "no batch came in time");
            return status;
        }
        if (status == MR_LATER) {
            l = PyErr_CheckSignals() < 0 ? NULL : usable(self);
        }
    }
    return status;
}

static PyObject *loader_next(PyObject *object, PyObject *args) {
    loader *self = (loader *)object;
    mr_error err = MR_ERROR_INIT;
    mr_batch *taken = NULL;
    double seconds = 0;
    if (!PyArg_ParseTuple(args, "|d", &seconds)) {
        return NULL;
    }
    int64_t patience_ns = seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : INT64_MAX;
    mr_status status = wait_for_next(self, patience_ns, &taken, &err);
    if (status == MR_OK) {
        return batch_new(state_of_type(Py_TYPE(object)), taken);
    }
    if (status == MR_LATER) {
        return NULL;
    }
    if (status == MR_END) {
        Py_RETURN_NONE;
    }
    host *h = self->pipeline->host;
    if (status == MR_E_HOST && policy_raise(&self->policy)) {
        return NULL;
    }
    return raise_error(state_of_type(Py_TYPE(object)), &err, h ? h->exceptions : NULL);
}

/* A state may be megabytes, and new memory for it costs as much as writing it: it stays. */
static bool make_room(loader *self) {
    if (!usable(self)) {
        return false;
    }
    size_t room = mr_loader_state_bytes(self->loader);
    if (room > self->room) {
        PyMem_Free(self->text);
        self->text = PyMem_Malloc(room);
        self->room = self->text ? room : 0;
    }
    if (!self->text) {
        PyErr_NoMemory();
    }
    return self->text != NULL;
}

static PyObject *loader_save(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_error err = MR_ERROR_INIT;
    (void)unused;
    if (!make_room(self)) {
        return NULL;
    }
    if (mr_loader_save(self->loader, self->text, self->room, &err) < 0) {
        return raise_error(state_of_type(Py_TYPE(object)), &err, NULL);
    }
    return PyUnicode_FromString(self->text);
}

/* The letters of a rehearsal buffer may be megabytes: they are copied once, and nobody need look
 * through them to have a dictionary. */
static PyObject *loader_state(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_error err = MR_ERROR_INIT;
    const char *letters = NULL;
    int64_t n = -1;
    (void)unused;
    if (!make_room(self)) {
        return NULL;
    }
    if (mr_loader_save_apart(self->loader, self->text, &letters, &n, &err) < 0) {
        return raise_error(state_of_type(Py_TYPE(object)), &err, NULL);
    }
    PyObject *rehearsal = n < 0 ? Py_NewRef(Py_None) : PyUnicode_DecodeASCII(letters, n, NULL);
    return rehearsal ? Py_BuildValue("(sN)", self->text, rehearsal) : NULL;
}

static PyObject *loader_digest(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    char text[33];
    (void)unused;
    if (!usable(self)) {
        return NULL;
    }
    mr_loader_digest(self->loader, text);
    return PyUnicode_FromString(text);
}

static PyObject *loader_stats(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_stats s = {.size = (uint32_t)sizeof s};
    (void)unused;
    if (!self->loader) {
        return usable(self) ? NULL : NULL;
    }
    mr_loader_stats(self->loader, &s);
    return Py_BuildValue(
        "{s:I,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:I,s:I,s:I,s:s,s:s,s:I,s:L,s:L,s:L,s:L}", "threads",
        s.threads, "samples", (long long)s.samples, "batches", (long long)s.batches, "skipped",
        (long long)s.skipped, "bytes_read", (long long)s.bytes_read, "wait_ns",
        (long long)s.wait_ns, "memory_bound", (long long)s.memory_bound, "batch_bytes",
        (long long)s.batch_bytes, "batches_ahead", s.batches_ahead, "reads_in_flight",
        s.reads_in_flight, "morsel", s.morsel, "io", s.io, "cpu", s.cpu, "threads_working",
        s.threads_working, "changes", (long long)s.changes, "blocks_bound",
        (long long)s.blocks_bound, "blocks_alive", (long long)s.blocks_alive, "blocks_most",
        (long long)s.blocks_most);
}

static PyObject *loader_stream(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_stream_stats s = {.size = (uint32_t)sizeof s};
    (void)unused;
    if (!usable(self)) {
        return NULL;
    }
    if (mr_loader_stream(self->loader, &s) < 0) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue(
        "{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "entries",
        (long long)s.entries, "bytes", (long long)s.bytes, "missing", (long long)s.missing,
        "waiting", (long long)s.waiting, "behind", (long long)s.behind, "newest",
        (long long)s.newest, "replayed", (long long)s.replayed, "left_out", (long long)s.left_out,
        "filled", (long long)s.filled, "kept", (long long)s.kept, "spilled", (long long)s.spilled,
        "spill_bytes", (long long)s.spill_bytes, "starved_ns", (long long)s.starved_ns, "received",
        (long long)s.received, "received_bytes", (long long)s.received_bytes, "sent",
        (long long)s.sent, "sent_bytes", (long long)s.sent_bytes);
}

/* (samples, values or None, extra or None, width): contiguous int64, float64 and float32. */
static PyObject *loader_feed_back(PyObject *object, PyObject *args) {
    loader *self = (loader *)object;
    mr_error err = MR_ERROR_INIT;
    Py_buffer samples, values, extra;
    long long width;
    if (!usable(self) || !PyArg_ParseTuple(args, "y*z*z*L", &samples, &values, &extra, &width)) {
        return NULL;
    }
    const mr_feedback feedback = {.size = (uint32_t)sizeof feedback,
                                  .n = (int64_t)(samples.len / (Py_ssize_t)sizeof(int64_t)),
                                  .samples = samples.buf,
                                  .values = values.buf,
                                  .extra = extra.buf,
                                  .width = width};
    mr_status status = mr_loader_feed_back(self->loader, &feedback, &err);
    PyBuffer_Release(&samples);
    PyBuffer_Release(&values);
    PyBuffer_Release(&extra);
    if (status < 0) {
        return raise_error(state_of_type(Py_TYPE(object)), &err, NULL);
    }
    Py_RETURN_NONE;
}

static PyObject *loader_skips(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_skip skip = {.size = sizeof skip};
    PyObject *list = PyList_New(0);
    (void)unused;
    if (!list || !usable(self)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (int64_t i = 0; list && i < mr_loader_n_skips(self->loader); i++) {
        mr_loader_skip(self->loader, i, &skip);
        PyObject *item = Py_BuildValue(
            "{s:L,s:L,s:L,s:L,s:N,s:N,s:N}", "epoch", (long long)skip.epoch, "step",
            (long long)skip.step, "sample", (long long)skip.sample, "replacement",
            (long long)skip.replacement, "file", text_of_error(skip.error->source), "op",
            text_of_error(skip.error->op), "text", text_of_error(skip.error->text));
        if (append(list, item)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *cache_dict(const mr_pipeline *p, const mr_cache_stats *s) {
    return Py_BuildValue("{s:s,s:i,s:z,s:z,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "after",
                         mr_pipeline_stage(p, s->op)->name, "stage", s->op + 1, "path", s->path,
                         "kept", s->kept, "hits", (long long)s->hits, "misses",
                         (long long)s->misses, "waits", (long long)s->waits, "bytes_read",
                         (long long)s->bytes_read, "stored", (long long)s->stored, "bytes_stored",
                         (long long)s->bytes_stored, "evicted", (long long)s->evicted, "refused",
                         (long long)s->refused, "damaged", (long long)s->damaged);
}

static PyObject *loader_caches(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    PyObject *list = usable(self) ? PyList_New(0) : NULL;
    (void)unused;
    for (int32_t i = 0; list && mr_loader_cache(self->loader, i, &stats) == MR_OK; i++) {
        if (append(list, cache_dict(self->pipeline->pipeline, &stats))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* What servers were asked is told where there are any. */
static PyObject *origin_dict(const mr_origin_stats *s) {
    PyObject *dict =
        Py_BuildValue("{s:s,s:L,s:L,s:L}", "name", s->name, "asked", (long long)s->asked, "found",
                      (long long)s->found, "bytes", (long long)s->bytes);
    PyObject *more =
        dict && s->requests > 0
            ? Py_BuildValue("{s:L,s:L,s:L,s:i,s:i,s:d,s:L,s:L}", "requests", (long long)s->requests,
                            "retries", (long long)s->retries, "hedges", (long long)s->hedges,
                            "in_flight", (int)s->in_flight, "width", (int)s->width,
                            "first_byte_seconds", s->first_byte, "received_bytes",
                            (long long)s->received, "busy", (long long)s->busy)
            : NULL;
    if (more && PyDict_Update(dict, more) < 0) {
        Py_CLEAR(dict);
    }
    Py_XDECREF(more);
    return dict;
}

static PyObject *loader_origins(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_origin_stats s = {.size = (uint32_t)sizeof s};
    PyObject *list = usable(self) ? PyList_New(0) : NULL;
    (void)unused;
    for (int32_t i = 0; list && mr_loader_origin(self->loader, i, &s) == MR_OK; i++) {
        if (append(list, origin_dict(&s))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *loader_traffic(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_traffic t = {.size = (uint32_t)sizeof t};
    (void)unused;
    if (!usable(self)) {
        return NULL;
    }
    if (mr_loader_traffic(self->loader, &t) != MR_OK) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:i,s:i,s:L,s:L}", "asked",
                         (long long)t.asked, "found", (long long)t.found, "bytes_in",
                         (long long)t.bytes_in, "samples", (long long)t.samples, "damaged",
                         (long long)t.damaged, "offered", (long long)t.offered, "kept",
                         (long long)t.kept, "bytes_out", (long long)t.bytes_out, "full",
                         (long long)t.full, "dropped", (long long)t.dropped, "failures",
                         (long long)t.failures, "servers", t.servers, "servers_up", t.up,
                         "messages", (long long)t.messages, "pushed", (long long)t.pushed);
}

static PyObject *loader_flush(PyObject *object, PyObject *unused) {
    loader *self = (loader *)object;
    mr_loader *l = usable(self);
    (void)unused;
    if (!l) {
        return NULL;
    }
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS mr_loader_flush(l);
    Py_END_ALLOW_THREADS self->busy = false;
    Py_RETURN_NONE;
}

/* Its threads cannot wait for themselves to end: somebody else must close it then. */
static PyObject *loader_is_inside(PyObject *object, PyObject *unused) {
    const host *h = ((loader *)object)->pipeline->host;
    (void)unused;
    return PyBool_FromLong(h && host_is_inside(h));
}

static PyObject *loader_lines(PyObject *object, PyObject *unused) {
    mr_loader *l = usable((loader *)object);
    (void)unused;
    return l ? lines_of(l) : NULL;
}

static PyObject *loader_metrics(PyObject *object, PyObject *unused) {
    mr_loader *l = usable((loader *)object);
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    (void)unused;
    if (!l) {
        return NULL;
    }
    if (mr_loader_metrics(l, &text, &err) < 0) {
        return PyErr_NoMemory();
    }
    PyObject *result = PyUnicode_FromString(text);
    mr_free(text);
    return result;
}

#define LOADER_NUMBER(name, function)                                                              \
    static PyObject *loader_get_##name(PyObject *object, void *unused) {                           \
        (void)unused;                                                                              \
        mr_loader *l = usable((loader *)object);                                                   \
        return l ? PyLong_FromLongLong(function(l)) : NULL;                                        \
    }
LOADER_NUMBER(n_samples, mr_loader_n_samples)
LOADER_NUMBER(n_steps, mr_loader_n_steps)
LOADER_NUMBER(steps_left, mr_loader_steps_left)

static PyObject *loader_fingerprint(PyObject *object, void *unused) {
    (void)unused;
    mr_loader *l = usable((loader *)object);
    return l ? PyUnicode_FromString(mr_loader_fingerprint(l)) : NULL;
}

/* Names that are no UTF-8 keep their bytes, as Python's file names do. */
static PyObject *loader_classes(PyObject *object, PyObject *args) {
    mr_loader *l = usable((loader *)object);
    const char *field = NULL, *name = NULL;
    if (!l || !PyArg_ParseTuple(args, "s", &field)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && (name = mr_loader_class(l, field, i)) != NULL; i++) {
        if (append(list, PyUnicode_DecodeFSDefault(name))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyMethodDef loader_methods[] = {
    {"classes", loader_classes, METH_VARARGS, "Names of a field's classes."},
    {"next", loader_next, METH_VARARGS,
     "The next batch, or None at the end. Takes how many seconds to wait at most."},
    {"save", loader_save, METH_NOARGS, "The state after the last delivered batch, as JSON."},
    {"state", loader_state, METH_NOARGS,
     "The same without its rehearsal buffer, and that or None."},
    {"digest", loader_digest, METH_NOARGS, "Digest of all delivered batches."},
    {"stats", loader_stats, METH_NOARGS, "Statistics."},
    {"caches", loader_caches, METH_NOARGS, "What its caches did."},
    {"origins", loader_origins, METH_NOARGS, "Where bytes came from."},
    {"traffic", loader_traffic, METH_NOARGS, "What its fabric did, or None."},
    {"flush", loader_flush, METH_NOARGS, "Waits until what they keep is written."},
    {"stream", loader_stream, METH_NOARGS, "How it stands to its stream, or None."},
    {"feed_back", loader_feed_back, METH_VARARGS, "What a trainer says of samples."},
    {"skips", loader_skips, METH_NOARGS, "Bad samples that were replaced."},
    {"is_inside", loader_is_inside, METH_NOARGS, "Whether this thread is one of its threads."},
    {"lines", loader_lines, METH_NOARGS, "How often and how long each op ran."},
    {"metrics", loader_metrics, METH_NOARGS, "The figures as Prometheus wants them."},
    {"close", loader_close, METH_NOARGS, "Ends its threads."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef loader_values_[] = {
    {"n_samples", loader_get_n_samples, NULL, NULL, NULL},
    {"n_steps", loader_get_n_steps, NULL, NULL, NULL},
    {"steps_left", loader_get_steps_left, NULL, NULL, NULL},
    {"fingerprint", loader_fingerprint, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, "A pipeline at work."},
    {Py_tp_new, loader_new},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_traverse, loader_traverse},
    {Py_tp_methods, loader_methods},
    {Py_tp_getset, loader_values_},
    {0, NULL},
};

static PyType_Spec loader_spec = {.name = "millrace._core.Loader",
                                  .basicsize = sizeof(loader),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  .slots = loader_slots};

/* ---- Module ---- */
static int add_type(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **out) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    *out = (PyTypeObject *)type;
    return type ? PyModule_AddObjectRef(module, name, type) : -1;
}

static int set_raiser(PyObject *module, PyObject *raiser) {
    module_state *state = state_of_module(module);
    Py_XDECREF(state->raise);
    state->raise = Py_NewRef(raiser);
    return 0;
}

static int keep_op(module_state *state, const mr_op_class *op) {
    const mr_op_class **ops =
        realloc(state->plugin_ops, (state->n_plugin_ops + 1) * sizeof *state->plugin_ops);
    if (!ops) {
        PyErr_NoMemory();
        return -1;
    }
    state->plugin_ops = ops;
    ops[state->n_plugin_ops++] = op;
    return 0;
}

/* The tables of its ops. It stays open: pipelines use it as long as they like. */
static PyObject *load_plugin(PyObject *module, PyObject *path) {
    module_state *state = state_of_module(module);
    mr_plugin *plugin = NULL;
    mr_error err = MR_ERROR_INIT;
    PyObject *bytes = NULL, *list = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    mr_status status = mr_plugin_open(&plugin, PyBytes_AsString(bytes), &err);
    Py_DECREF(bytes);
    if (status < 0) {
        return raise_error(state, &err, NULL);
    }
    list = PyList_New(0);
    for (const mr_op_class *const *op = mr_plugin_ops(plugin); list && *op; op++) {
        if (keep_op(state, *op) < 0 ||
            append(list, table((*op)->name, (*op)->summary, (*op)->doc, (*op)->params, NULL))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *use_raiser(PyObject *module, PyObject *raiser) {
    set_raiser(module, raiser);
    Py_RETURN_NONE;
}

/* The loader's threads enter Python by PyGILState, which knows the first interpreter alone. */
static int refuse_other_interpreters(void) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "millrace can be used in the main interpreter only, "
                                           "and this is another one of the process");
        return -1;
    }
    return 0;
}

static int exec_module(PyObject *module) {
    module_state *state = state_of_module(module);
    if (refuse_other_interpreters() < 0) {
        return -1;
    }
    enter_prepare();
    set_raiser(module, Py_None);
    if (PyModule_AddStringConstant(module, "version", mr_version()) < 0 ||
        add_type(module, &array_spec, "Array", &state->array) < 0 ||
        add_type(module, &batch_spec, "Batch", &state->batch) < 0 ||
        add_type(module, &host_spec, "Host", &state->host) < 0 ||
        add_type(module, &pipeline_spec, "Pipeline", &state->pipeline) < 0 ||
        add_type(module, &loader_spec, "Loader", &state->loader) < 0 ||
        add_type(module, &stream_writer_spec, "StreamWriter", &state->stream_writer) < 0 ||
        add_type(module, &shared_spec, "Shared", &state->shared) < 0 ||
        add_type(module, &recorder_spec, "Recorder", &state->recorder) < 0) {
        return -1;
    }
    return 0;
}

static int traverse_module(PyObject *module, visitproc visit, void *arg) {
    module_state *state = state_of_module(module);
    Py_VISIT(state->raise);
    Py_VISIT(state->array);
    Py_VISIT(state->batch);
    Py_VISIT(state->host);
    Py_VISIT(state->stream_writer);
    Py_VISIT(state->shared);
    Py_VISIT(state->recorder);
    Py_VISIT(state->pipeline);
    Py_VISIT(state->loader);
    return 0;
}

static int clear_module(PyObject *module) {
    module_state *state = state_of_module(module);
    Py_CLEAR(state->raise);
    Py_CLEAR(state->array);
    Py_CLEAR(state->batch);
    Py_CLEAR(state->host);
    Py_CLEAR(state->stream_writer);
    Py_CLEAR(state->shared);
    Py_CLEAR(state->recorder);
    Py_CLEAR(state->pipeline);
    Py_CLEAR(state->loader);
    return 0;
}

static void free_module(void *module) {
    free(state_of_module(module)->plugin_ops);
    (void)clear_module(module);
}

static PyMethodDef module_methods[] = {
    {"record_kind", record_kind, METH_VARARGS, "The number of a kind of span."},
    {"tables", tables, METH_NOARGS, "Ops, sources and settings with their parameters."},
    {"load_plugin", load_plugin, METH_O, "Ops from a shared library."},
    {"use_raiser", use_raiser, METH_O, "Which function raises errors."},
    {"replay", replay, METH_VARARGS, "Runs again what the run of a journal delivered."},
    {"parquet_json", parquet_json, METH_VARARGS, "What is in a Parquet file, as JSON."},
    {"trace_text", trace_text, METH_VARARGS, "What a trace says, as text."},
    {"sweep_text", sweep_text, METH_VARARGS, "What measurements of a sweep say, as text."},
    {"trace_page", trace_page, METH_VARARGS, "Writes a page about one trace or two."},
    {"trace_export", trace_export, METH_VARARGS, "Writes every span."},
    {"trace_ranks", trace_ranks, METH_VARARGS, "What the traces of a run's ranks say together."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

struct PyModuleDef millrace_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The binding under the package millrace.",
    .m_size = sizeof(module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = traverse_module,
    .m_clear = clear_module,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&millrace_module);
}
