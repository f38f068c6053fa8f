/* SPDX-License-Identifier: Apache-2.0 */
/* _shared.c - shared values (millrace/shared.h), for _shared.py. Bytes in, bytes out; the GIL is
 * given away while others are asked or waited for, and taken again to make a value. */
#include "_binding.h"

#include <millrace/shared.h>
#include <stdlib.h>
#include <string.h>

typedef struct shared {
    PyObject_HEAD mr_shared *shared;
} shared;

static PyObject *fail(PyObject *self, const mr_error *err) {
    return PyErr_Occurred() ? NULL : raise_error(state_of_type(Py_TYPE(self)), err, NULL);
}

static mr_shared *opened(PyObject *self) {
    mr_shared *own = ((shared *)self)->shared;
    if (!own) {
        PyErr_SetString(PyExc_ValueError, "it is closed");
    }
    return own;
}

static int init(PyObject *object, PyObject *args, PyObject *keywords) {
    shared *self = (shared *)object;
    mr_shared_config config = {.size = (uint32_t)sizeof config};
    mr_error err = MR_ERROR_INIT;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "zzsddd", &config.store, &config.fabric, &config.space, &config.ttl,
                          &config.timeout, &config.patience)) {
        return -1;
    }
    if (self->shared) {
        PyErr_SetString(PyExc_ValueError, "it is open already");
        return -1;
    }
    mr_status status;
    Py_BEGIN_ALLOW_THREADS status = mr_shared_open(&self->shared, &config, &err);
    Py_END_ALLOW_THREADS if (status < 0) {
        fail(object, &err);
        return -1;
    }
    return 0;
}

/* Takes the value over. */
static PyObject *bytes_of(void *value, size_t size) {
    PyObject *bytes = PyBytes_FromStringAndSize(value, (Py_ssize_t)size);
    mr_free(value);
    return bytes;
}

static PyObject *get(PyObject *self, PyObject *args) {
    mr_shared *own = opened(self);
    mr_error err = MR_ERROR_INIT;
    Py_buffer key;
    void *value = NULL;
    size_t size = 0;
    mr_status status;
    if (!own || !PyArg_ParseTuple(args, "y*", &key)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        mr_shared_get(own, key.buf, (size_t)key.len, &value, &size, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&key);
    return status < 0           ? fail(self, &err)
           : status == MR_LATER ? Py_NewRef(Py_None)
                                : bytes_of(value, size);
}

static PyObject *put(PyObject *self, PyObject *args) {
    mr_shared *own = opened(self);
    mr_error err = MR_ERROR_INIT;
    Py_buffer key, value;
    mr_status status;
    if (!own || !PyArg_ParseTuple(args, "y*y*", &key, &value)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        mr_shared_put(own, key.buf, (size_t)key.len, value.buf, (size_t)value.len, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&key);
    PyBuffer_Release(&value);
    return status < 0 ? fail(self, &err) : Py_NewRef(Py_None);
}

static mr_status copy_made(PyObject *made, void **value, size_t *size, mr_error *err) {
    Py_buffer bytes;
    if (!made || PyObject_GetBuffer(made, &bytes, PyBUF_SIMPLE) < 0) {
        return mr_fail(err, MR_E_PARAM, "the function failed"); /* Python's own error is set */
    }
    *size = (size_t)bytes.len;
    *value = malloc(*size > 0 ? *size : 1);
    if (*value) {
        memcpy(*value, bytes.buf, *size);
    }
    PyBuffer_Release(&bytes);
    return *value ? MR_OK : mr_fail(err, MR_E_MEMORY, "no memory for %zu bytes", *size);
}

/* In the thread that asked, whose state holds the error until get_or_make is back in it. */
static mr_status make(void *user, void **value, size_t *size, mr_error *err) {
    entered python = enter_python();
    PyObject *made = PyObject_CallNoArgs(user);
    mr_status status = copy_made(made, value, size, err);
    Py_XDECREF(made);
    leave_python(python);
    return status;
}

static PyObject *get_or_make(PyObject *self, PyObject *args) {
    mr_shared *own = opened(self);
    mr_error err = MR_ERROR_INIT;
    Py_buffer key;
    PyObject *maker;
    void *value = NULL;
    size_t size = 0;
    mr_status status;
    if (!own || !PyArg_ParseTuple(args, "y*O", &key, &maker)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        mr_shared_get_or_make(own, key.buf, (size_t)key.len, make, maker, &value, &size, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&key);
    return status < 0 ? fail(self, &err) : bytes_of(value, size);
}

static PyObject *stats(PyObject *self, PyObject *unused) {
    mr_shared *own = opened(self);
    mr_shared_stats s = {.size = (uint32_t)sizeof s};
    (void)unused;
    if (!own) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS mr_shared_stats_now(own, &s);
    Py_END_ALLOW_THREADS return Py_BuildValue(
        "{s:L,s:L,s:L,s:L,s:L,s:s}", "from_store", (long long)s.from_store, "from_fabric",
        (long long)s.from_fabric, "made", (long long)s.made, "waits", (long long)s.waits, "kept",
        (long long)s.kept, "trouble", s.fabric.trouble);
}

static PyObject *close_(PyObject *self, PyObject *unused) {
    mr_shared *own = ((shared *)self)->shared;
    (void)unused;
    ((shared *)self)->shared = NULL;
    Py_BEGIN_ALLOW_THREADS mr_shared_close(own);
    Py_END_ALLOW_THREADS return Py_NewRef(Py_None);
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    mr_shared_close(((shared *)object)->shared);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"get", get, METH_VARARGS, "get(key) -> bytes, or None"},
    {"put", put, METH_VARARGS, "put(key, value)"},
    {"get_or_make", get_or_make, METH_VARARGS, "get_or_make(key, function) -> bytes"},
    {"stats", stats, METH_NOARGS, "What was found and made."},
    {"close", close_, METH_NOARGS, "Writes what waits to be written."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Named values that are made once."},
    {Py_tp_init, init},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec shared_spec = {.name = "millrace._core.Shared",
                           .basicsize = sizeof(shared),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};
