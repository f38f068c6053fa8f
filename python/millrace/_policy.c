/* SPDX-License-Identifier: Apache-2.0 */
/* _policy.c - a Python object as the policy of a rehearsal buffer (mr_policy).
 *
 * It is an adapter of _policy.py, whose methods get memory of the engine as memoryviews and copy
 * it. An exception ends the run, and is raised by next(). */
#include "_binding.h"

static PyObject *view(const void *data, int64_t n, int flags) {
    char *bytes = n > 0 ? (char *)(uintptr_t)data : "";
    return PyMemoryView_FromMemory(bytes, (Py_ssize_t)(n * (int64_t)sizeof(int64_t)), flags);
}

static mr_status fail(python_policy *self, mr_error *err) {
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XDECREF(self->exception);
    self->exception = value;
    return mr_fail(err, MR_E_HOST, "the policy raised an exception");
}

/* Calls a method with (step, size, views...); each view is taken over. */
static mr_status call(python_policy *self, const char *name, const mr_policy_view *v,
                      PyObject **views, int n, mr_error *err) {
    PyObject *args = PyTuple_New(n + 2), *result = NULL;
    bool whole = args != NULL;
    for (int i = 0; i < n; i++) {
        whole = whole && views[i];
    }
    if (whole) {
        (void)PyTuple_SetItem(args, 0, PyLong_FromLongLong(v->step));
        (void)PyTuple_SetItem(args, 1, PyLong_FromLongLong(v->size));
        for (int i = 0; i < n; i++) {
            (void)PyTuple_SetItem(args, i + 2, Py_NewRef(views[i]));
        }
        PyObject *method = PyObject_GetAttrString(self->object, name);
        result = method ? PyObject_CallObject(method, args) : NULL;
        Py_XDECREF(method);
    }
    Py_XDECREF(args);
    for (int i = 0; i < n; i++) {
        Py_XDECREF(views[i]);
    }
    mr_status status = result ? MR_OK : fail(self, err);
    Py_XDECREF(result);
    return status;
}

static mr_status place(void *user, const mr_policy_view *v, const int64_t *samples,
                       const int64_t *labels, const uint64_t *keys, int64_t n, int64_t *places,
                       mr_error *err) {
    entered python = enter_python();
    PyObject *views[] = {view(v->samples, v->n, PyBUF_READ), view(v->labels, v->n, PyBUF_READ),
                         view(samples, n, PyBUF_READ),       view(labels, n, PyBUF_READ),
                         view(keys, n, PyBUF_READ),          view(places, n, PyBUF_WRITE)};
    mr_status status = call(user, "place", v, views, 6, err);
    leave_python(python);
    return status;
}

static mr_status draw(void *user, const mr_policy_view *v, const uint64_t *keys, int64_t n,
                      int64_t *places, double *weights, mr_error *err) {
    entered python = enter_python();
    PyObject *views[] = {view(v->samples, v->n, PyBUF_READ), view(v->labels, v->n, PyBUF_READ),
                         view(keys, n, PyBUF_READ), view(places, n, PyBUF_WRITE),
                         view(weights, n, PyBUF_WRITE)};
    mr_status status = call(user, "draw", v, views, 5, err);
    leave_python(python);
    return status;
}

mr_policy policy_of(python_policy *self) {
    return (mr_policy){(uint32_t)sizeof(mr_policy), self, place, draw};
}

bool policy_raise(python_policy *self) {
    if (!self->exception) {
        return false;
    }
    PyErr_SetObject((PyObject *)Py_TYPE(self->exception), self->exception);
    return true;
}
