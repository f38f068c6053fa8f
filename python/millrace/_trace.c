/* SPDX-License-Identifier: Apache-2.0 */
/* _trace.c - traces from Python: text, pages and exports. All work happens without the GIL. */
#include "_binding.h"

typedef struct request {
    const char *path, *other, *photos, *out;
    int kind;
} request;

typedef mr_status answer(const request *asked, const mr_trace *trace, const mr_trace *other,
                         char **text, mr_error *err);

static mr_status answer_text(const request *asked, const mr_trace *trace, const mr_trace *other,
                             char **text, mr_error *err) {
    (void)other;
    return mr_trace_text(trace, (mr_trace_text_kind)asked->kind, text, err);
}

static mr_status answer_page(const request *asked, const mr_trace *trace, const mr_trace *other,
                             char **text, mr_error *err) {
    (void)text;
    return mr_trace_page(trace, other, asked->photos, asked->out, err);
}

static mr_status answer_export(const request *asked, const mr_trace *trace, const mr_trace *other,
                               char **text, mr_error *err) {
    (void)text;
    (void)other;
    return mr_trace_export(trace, (mr_trace_export_kind)asked->kind, asked->out, err);
}

static mr_status ask(const request *asked, answer *how, char **text, mr_error *err) {
    mr_trace *trace = NULL, *other = NULL;
    mr_status status = mr_trace_open(&trace, asked->path, err);
    if (status == MR_OK && asked->other) {
        status = mr_trace_open(&other, asked->other, err);
    }
    if (status == MR_OK) {
        status = how(asked, trace, other, text, err);
    }
    mr_trace_close(trace);
    mr_trace_close(other);
    return status;
}

static PyObject *reply(PyObject *module, const request *asked, answer *how) {
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    mr_status status;
    Py_BEGIN_ALLOW_THREADS status = ask(asked, how, &text, &err);
    Py_END_ALLOW_THREADS if (status < 0) {
        return raise_error(state_of_module(module), &err, NULL);
    }
    PyObject *result = text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
    mr_free(text);
    return result;
}

PyObject *trace_text(PyObject *module, PyObject *args) {
    request asked = {0};
    return PyArg_ParseTuple(args, "si", &asked.path, &asked.kind)
               ? reply(module, &asked, answer_text)
               : NULL;
}

PyObject *trace_page(PyObject *module, PyObject *args) {
    request asked = {0};
    return PyArg_ParseTuple(args, "szzs", &asked.path, &asked.other, &asked.photos, &asked.out)
               ? reply(module, &asked, answer_page)
               : NULL;
}

PyObject *trace_export(PyObject *module, PyObject *args) {
    request asked = {0};
    return PyArg_ParseTuple(args, "sis", &asked.path, &asked.kind, &asked.out)
               ? reply(module, &asked, answer_export)
               : NULL;
}

/* Measurements are small: the GIL may stay. */
PyObject *sweep_text(PyObject *module, PyObject *args) {
    const char *measurements = NULL;
    char *text = NULL;
    int kind = 0;
    mr_error err = MR_ERROR_INIT;
    if (!PyArg_ParseTuple(args, "si", &measurements, &kind)) {
        return NULL;
    }
    if (mr_sweep_text(measurements, (mr_sweep_text_kind)kind, &text, &err) < 0) {
        return raise_error(state_of_module(module), &err, NULL);
    }
    PyObject *result = PyUnicode_FromString(text);
    mr_free(text);
    return result;
}

/* ---- A loader's figures ---- */
PyObject *lines_of(const mr_loader *loader) {
    static const char *const kinds[] = {"work", "wait", "op"};
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < mr_loader_n_lines(loader); i++) {
        mr_line line = {.size = (uint32_t)sizeof line};
        mr_loader_line(loader, i, &line);
        if (line.count == 0 && line.kind != MR_LINE_OP) {
            continue;
        }
        PyObject *item = Py_BuildValue(
            "{s:s,s:s,s:L,s:L,s:d,s:d,s:d,s:d,s:d,s:d}", "name", line.name, "kind",
            kinds[line.kind], "count", (long long)line.count, "timed", (long long)line.timed,
            "seconds", line.seconds, "mean", line.mean, "p50", line.p50, "p99", line.p99,
            "bytes_in", line.bytes_in, "bytes_out", line.bytes_out);
        if (!item || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}
