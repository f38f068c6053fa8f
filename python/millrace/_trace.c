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

/* ---- Ranks of one run ---- */
typedef struct ranks_request {
    const char **paths;
    mr_trace **traces;
    int32_t n;
    const char *photos, *out; /* out: the page; NULL: a text */
    int kind;
} ranks_request;

static mr_status ask_ranks(const ranks_request *asked, char **text, mr_error *err) {
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < asked->n; i++) {
        status = mr_trace_open(&asked->traces[i], asked->paths[i], err);
    }
    if (status == MR_OK) {
        status = asked->out
                     ? mr_trace_ranks_page(asked->traces, asked->n, asked->photos, asked->out, err)
                     : mr_trace_ranks(asked->traces, asked->n, (mr_trace_text_kind)asked->kind,
                                      text, err);
    }
    for (int32_t i = 0; i < asked->n; i++) {
        mr_trace_close(asked->traces[i]);
    }
    return status;
}

static bool take_paths(PyObject *tuple, ranks_request *asked) {
    Py_ssize_t n = PyTuple_Size(tuple);
    asked->paths = PyMem_Calloc((size_t)n + 1, sizeof *asked->paths);
    asked->traces = PyMem_Calloc((size_t)n + 1, sizeof *asked->traces);
    if (!asked->paths || !asked->traces) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        asked->paths[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (!asked->paths[i]) {
            return false;
        }
    }
    asked->n = (int32_t)n;
    return true;
}

/* (paths, kind, photos, out): a text, or None where the page went to a file. */
PyObject *trace_ranks(PyObject *module, PyObject *args) {
    ranks_request asked = {0};
    mr_error err = MR_ERROR_INIT;
    PyObject *tuple = NULL, *result = NULL;
    char *text = NULL;
    if (!PyArg_ParseTuple(args, "O!izz", &PyTuple_Type, &tuple, &asked.kind, &asked.photos,
                          &asked.out)) {
        return NULL;
    }
    if (take_paths(tuple, &asked)) {
        mr_status status;
        Py_BEGIN_ALLOW_THREADS status = ask_ranks(&asked, &text, &err);
        Py_END_ALLOW_THREADS if (status < 0) {
            raise_error(state_of_module(module), &err, NULL);
        }
        else {
            result = text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
        }
    }
    mr_free(text);
    PyMem_Free(asked.paths);
    PyMem_Free(asked.traces);
    return result;
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
