/* SPDX-License-Identifier: Apache-2.0 */
/* _streams.c - a writer of streams (millrace/stream.h), for streams.py. One thread at a time: the
 * GIL stays taken, but for waiting for the disk. */
#include "_binding.h"

#include <millrace/stream.h>

typedef struct stream_writer {
    PyObject_HEAD mr_stream_writer *writer;
    bool busy; /* another thread waits for the disk */
} stream_writer;

static PyObject *fail(PyObject *self, const mr_error *err) {
    return raise_error(state_of_type(Py_TYPE(self)), err, NULL);
}

static bool usable(const stream_writer *self) {
    if (!self->writer || self->busy) {
        PyErr_SetString(PyExc_ValueError, self->writer ? "the writer is used by another thread"
                                                       : "the writer is closed");
        return false;
    }
    return true;
}

static int init(PyObject *object, PyObject *args, PyObject *keywords) {
    stream_writer *self = (stream_writer *)object;
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_error err = MR_ERROR_INIT;
    const char *folder;
    int sync;
    long long segment_bytes;
    unsigned long long id;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "sILiK", &folder, &options.partition, &segment_bytes, &sync, &id)) {
        return -1;
    }
    options.segment_bytes = segment_bytes;
    options.sync = (mr_stream_sync)sync;
    options.id = id;
    if (self->writer) {
        PyErr_SetString(PyExc_ValueError, "the writer is open already");
        return -1;
    }
    if (mr_stream_writer_open(&self->writer, folder, &options, &err) < 0) {
        fail(object, &err);
        return -1;
    }
    return 0;
}

static PyObject *append(PyObject *object, PyObject *args) {
    stream_writer *self = (stream_writer *)object;
    mr_error err = MR_ERROR_INIT;
    Py_buffer value, key;
    long long label, time;
    int64_t number = -1;
    if (!usable(self) || !PyArg_ParseTuple(args, "y*Ly*L", &value, &label, &key, &time)) {
        return NULL;
    }
    const mr_entry entry = {.label = label,
                            .time = time,
                            .key = key.buf,
                            .key_size = (size_t)key.len,
                            .value = value.buf,
                            .size = (size_t)value.len};
    mr_status status = mr_stream_append(self->writer, &entry, &number, &err);
    PyBuffer_Release(&value);
    PyBuffer_Release(&key);
    return status < 0 ? fail(object, &err) : PyLong_FromLongLong(number);
}

static PyObject *finish(PyObject *object, bool closes) {
    stream_writer *self = (stream_writer *)object;
    mr_error err = MR_ERROR_INIT;
    mr_status status;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS status =
        closes ? mr_stream_writer_close(self->writer, &err) : mr_stream_flush(self->writer, &err);
    Py_END_ALLOW_THREADS self->busy = false;
    self->writer = closes ? NULL : self->writer;
    return status < 0 ? fail(object, &err) : Py_NewRef(Py_None);
}

static PyObject *flush(PyObject *object, PyObject *unused) {
    (void)unused;
    return usable((stream_writer *)object) ? finish(object, false) : NULL;
}

static PyObject *close_(PyObject *object, PyObject *unused) {
    stream_writer *self = (stream_writer *)object;
    (void)unused;
    if (!self->writer) {
        Py_RETURN_NONE;
    }
    return usable(self) ? finish(object, true) : NULL;
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    (void)mr_stream_writer_close(((stream_writer *)object)->writer, NULL);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *next_number(PyObject *object, PyObject *unused) {
    (void)unused;
    return usable((stream_writer *)object)
               ? PyLong_FromLongLong(mr_stream_next_number(((stream_writer *)object)->writer))
               : NULL;
}

static PyMethodDef methods[] = {
    {"next_number", next_number, METH_NOARGS, "The number of the entry that comes next."},
    {"append", append, METH_VARARGS, "append(value, label, key, time) -> number"},
    {"flush", flush, METH_NOARGS, "What was appended is acknowledged."},
    {"close", close_, METH_NOARGS, "Flushes and closes."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Appends to one partition of a stream."},
    {Py_tp_init, init},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec stream_writer_spec = {.name = "millrace._core.StreamWriter",
                                  .basicsize = sizeof(stream_writer),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = slots};
