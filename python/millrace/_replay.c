/* SPDX-License-Identifier: Apache-2.0 */
/* _replay.c - what a run on a stream delivered, once more, with the Python functions of its ops. */
#include "_binding.h"

#include <stdlib.h>

/* replay(journal, pipeline or None, threads) -> (steps, samples, compared, digest) */
PyObject *replay(PyObject *module, PyObject *args) {
    module_state *state = state_of_module(module);
    PyObject *journal, *pipeline;
    long long threads;
    mr_error err = MR_ERROR_INIT;
    mr_replay_result result = {.size = (uint32_t)sizeof result};
    mr_status status;
    if (!PyArg_ParseTuple(args, "O&OL", PyUnicode_FSConverter, &journal, &pipeline, &threads)) {
        return NULL;
    }
    host *functions = NULL;
    const mr_op_class **ops = replay_ops(state, pipeline, &functions);
    if (!ops) {
        Py_DECREF(journal);
        return NULL;
    }
    if (functions) {
        functions->is_replay = true; /* the pipeline is replay()'s own */
    }
    const char *folder = PyBytes_AsString(journal);
    uint32_t n = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
    Py_BEGIN_ALLOW_THREADS status = mr_replay(folder, ops, n, &result, &err);
    Py_END_ALLOW_THREADS free(ops);
    Py_DECREF(journal);
    if (status < 0) {
        return raise_error(state, &err, functions ? functions->exceptions : NULL);
    }
    return Py_BuildValue("LLLs", (long long)result.steps, (long long)result.samples,
                         (long long)result.compared, result.digest);
}
