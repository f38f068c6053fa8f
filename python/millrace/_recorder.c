/* SPDX-License-Identifier: Apache-2.0 */
/* _recorder.c - a recorder of loading that others do (millrace/record.h), for profile.py. One
 * thread at a time: the GIL stays taken, but for closing. */
#include "_binding.h"

typedef struct recorder {
    PyObject_HEAD mr_recorder *recorder;
} recorder;

static mr_recorder *opened(PyObject *object) {
    mr_recorder *r = ((recorder *)object)->recorder;
    if (!r) {
        PyErr_SetString(PyExc_ValueError, "the recorder is closed");
    }
    return r;
}

static int init(PyObject *object, PyObject *args, PyObject *keywords) {
    recorder *self = (recorder *)object;
    mr_record_clock zero;
    mr_record_config config = {.size = (uint32_t)sizeof config};
    mr_error err = MR_ERROR_INIT;
    PyObject *clock;
    unsigned long long ticks;
    long long monotonic, unix_time;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "ssippO", &config.path, &config.header, &config.n_ops,
                          &config.consumer, &config.worker, &clock)) {
        return -1;
    }
    if (clock != Py_None) {
        if (!PyArg_ParseTuple(clock, "KLL", &ticks, &monotonic, &unix_time)) {
            return -1;
        }
        zero = (mr_record_clock){ticks, monotonic, unix_time};
        config.zero = &zero;
    }
    if (self->recorder) {
        PyErr_SetString(PyExc_ValueError, "the recorder is open already");
        return -1;
    }
    if (mr_recorder_open(&self->recorder, &config, &err) < 0) {
        raise_error(state_of_type(Py_TYPE(object)), &err, NULL);
        return -1;
    }
    return 0;
}

static PyObject *zero_of(PyObject *object, void *unused) {
    const mr_recorder *r = opened(object);
    mr_record_clock zero;
    (void)unused;
    if (!r) {
        return NULL;
    }
    mr_recorder_clock(r, &zero);
    return Py_BuildValue("(KLL)", (unsigned long long)zero.ticks, (long long)zero.monotonic_ns,
                         (long long)zero.unix_ns);
}

static PyObject *now(PyObject *object, PyObject *unused) {
    const mr_recorder *r = opened(object);
    (void)unused;
    return r ? PyLong_FromUnsignedLongLong(mr_recorder_now(r)) : NULL;
}

static PyObject *begin(PyObject *object, PyObject *args) {
    mr_recorder *r = opened(object);
    long long sample;
    unsigned batch;
    if (!r || !PyArg_ParseTuple(args, "LI", &sample, &batch)) {
        return NULL;
    }
    mr_recorder_begin(r, sample, batch);
    Py_RETURN_NONE;
}

static PyObject *lap(PyObject *object, PyObject *args) {
    mr_recorder *r = opened(object);
    int kind, op;
    Py_ssize_t in, out;
    if (!r || !PyArg_ParseTuple(args, "iinn", &kind, &op, &in, &out)) {
        return NULL;
    }
    mr_recorder_lap(r, kind, op, (size_t)in, (size_t)out);
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *object, PyObject *unused) {
    mr_recorder *r = opened(object);
    (void)unused;
    if (!r) {
        return NULL;
    }
    mr_recorder_end(r);
    Py_RETURN_NONE;
}

static PyObject *add(PyObject *object, PyObject *args) {
    mr_recorder *r = opened(object);
    int kind;
    unsigned long long begun;
    unsigned batch;
    Py_ssize_t bytes;
    if (!r || !PyArg_ParseTuple(args, "iKIn", &kind, &begun, &batch, &bytes)) {
        return NULL;
    }
    const mr_record_span span = {.size = (uint32_t)sizeof span,
                                 .kind = kind,
                                 .begun = begun,
                                 .item = batch,
                                 .batch = batch,
                                 .bytes = (size_t)bytes};
    mr_recorder_add(r, &span);
    Py_RETURN_NONE;
}

static PyObject *close_(PyObject *object, PyObject *args) {
    recorder *self = (recorder *)object;
    const char *last = NULL;
    if (!PyArg_ParseTuple(args, "|z", &last)) {
        return NULL;
    }
    mr_recorder *r = self->recorder;
    self->recorder = NULL;
    Py_BEGIN_ALLOW_THREADS mr_recorder_close(r, last);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    mr_recorder_close(((recorder *)object)->recorder, NULL);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

PyObject *record_kind(PyObject *module, PyObject *args) {
    const char *name;
    (void)module;
    return PyArg_ParseTuple(args, "s", &name) ? PyLong_FromLong(mr_record_kind(name)) : NULL;
}

static PyMethodDef methods[] = {
    {"now", now, METH_NOARGS, "This moment, in ticks."},
    {"begin", begin, METH_VARARGS, "begin(sample, batch)"},
    {"lap", lap, METH_VARARGS, "lap(kind, op, bytes_in, bytes_out)"},
    {"end", end, METH_NOARGS, "The sample is done."},
    {"add", add, METH_VARARGS, "add(kind, begun, batch, bytes): what lasted from then until now"},
    {"close", close_, METH_VARARGS, "close(end=None): writes the last word."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"zero", zero_of, NULL, "Where times count from, for recorders of other processes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Recorder(path, header, n_ops, consumer, worker, zero): writes a trace."},
    {Py_tp_init, init},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec recorder_spec = {.name = "millrace._core.Recorder",
                             .basicsize = sizeof(recorder),
                             .flags = Py_TPFLAGS_DEFAULT,
                             .slots = slots};
