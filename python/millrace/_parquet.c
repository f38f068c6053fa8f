/* SPDX-License-Identifier: Apache-2.0 */
/* _parquet.c - what is in a Parquet file, from Python. */
#include "_binding.h"

#include <millrace/parquet.h>

PyObject *parquet_json(PyObject *module, PyObject *args) {
    const char *path;
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    mr_status status;
    if (!PyArg_ParseTuple(args, "s", &path)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = mr_parquet_describe(path, true, &text, &err);
    Py_END_ALLOW_THREADS if (status < 0) {
        return raise_error(state_of_module(module), &err, NULL);
    }
    PyObject *result = PyUnicode_FromString(text);
    mr_free(text);
    return result;
}
