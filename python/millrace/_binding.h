/* SPDX-License-Identifier: Apache-2.0 */
/* _binding.h - what the files of the Python binding share.
 *
 * The binding is written against the Limited API of CPython 3.11, so one build serves 3.11 and
 * later. Types live in the module, everything else in objects; the statics are the key under
 * which a worker thread finds its own state (_host.c) and what forks need (_enter.c): threads are
 * the process's. What may wait gives the GIL away first, and what a worker calls takes it. */
#ifndef MILLRACE_PYTHON_BINDING_H
#define MILLRACE_PYTHON_BINDING_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <millrace/millrace.h>

typedef struct module_state {
    PyTypeObject *array, *batch, *pipeline, *loader, *host, *stream_writer, *shared, *recorder;
    PyObject *raise;                /* millrace._errors.raise_error */
    const mr_op_class **plugin_ops; /* of all plug-ins, which stay open as long as the process */
    size_t n_plugin_ops;
    void **numpy; /* see numpy_table */
    bool numpy_is_asked;
} module_state;

extern struct PyModuleDef millrace_module;
module_state *state_of_module(PyObject *module);
module_state *state_of_type(PyTypeObject *type);

/* ---- _core.c ---- */
/* Sets the Python exception for an error; always returns NULL. `causes` is the host's dictionary
 * of exceptions by sample, or NULL. */
PyObject *type_tuple(const mr_type *type); /* (dtype, dims, layout) */
PyObject *raise_error(module_state *state, const mr_error *err, PyObject *causes);

/* ---- _array.c: memory with a type, seen by Python ---- */
extern PyType_Spec array_spec, batch_spec;

/* An array over memory of a batch, which it keeps alive, or a copy of memory. */
PyObject *array_of_batch(module_state *state, mr_batch *batch, mr_dtype dtype, int32_t n_dims,
                         const int64_t *dims, void *data);
PyObject *array_copy(module_state *state, const mr_view *view);

PyObject *batch_new(module_state *state, mr_batch *batch); /* takes the reference over */

/* ---- _numpy.c ---- */
/* numpy's functions; NULL, without an exception: numpy is not there, or newer than is known here.
 */
void **numpy_table(void);
bool numpy_has(mr_dtype dtype); /* a type of its own for it */

/* An array over memory that `owner` keeps. */
PyObject *numpy_array(void **numpy, PyObject *owner, mr_dtype dtype, int32_t n_dims,
                      const int64_t *dims, void *data);

/* "B" for uint8 and so on; bfloat16, which the buffer protocol has no letter for, is "H". */
const char *dtype_format(mr_dtype dtype);
int dtype_of_format(const char *format, Py_ssize_t item_size); /* or -1 */
int dtype_of_name(const char *name);                           /* or -1, with an exception set */

/* ---- _enter.c: into Python from any thread ---- */
typedef struct entered {
    PyGILState_STATE gil;
    PyThreadState *own; /* made for this stay; NULL: the thread has one */
} entered;

void enter_prepare(void); /* with the GIL, once before the others */
entered enter_python(void);
void leave_python(entered e);
PyThreadState *enter_make_state(void);      /* the calling thread's; without the GIL */
void enter_end_state(PyThreadState *state); /* likewise; with the GIL, which is let go */

/* ---- _streams.c: a writer of streams ---- */
extern PyType_Spec stream_writer_spec;

/* ---- _replay.c: a function of the module ---- */
PyObject *replay(PyObject *module, PyObject *args);

/* ---- _shared.c: values that are made once ---- */
extern PyType_Spec shared_spec;

/* ---- _parquet.c: a function of the module ---- */
PyObject *parquet_json(PyObject *module, PyObject *args);

/* ---- _recorder.c: traces of loading that others do ---- */
extern PyType_Spec recorder_spec;
PyObject *record_kind(PyObject *module, PyObject *args);

/* ---- _trace.c: functions of the module, and a loader's lines ---- */
PyObject *trace_text(PyObject *module, PyObject *args);
PyObject *trace_page(PyObject *module, PyObject *args);
PyObject *sweep_text(PyObject *module, PyObject *args);
PyObject *trace_export(PyObject *module, PyObject *args);
PyObject *trace_ranks(PyObject *module, PyObject *args);
PyObject *lines_of(const mr_loader *loader);

/* ---- _host.c: Python functions as ops, Python objects as sources ---- */
extern PyType_Spec host_spec;

typedef struct function {
    char *name;
    char *replays; /* in a replay: the name that the journal has for it; NULL: not found yet */
    PyObject *call;
    bool wants_random, in_processes, one_field;
    mr_field *fields;
    PyObject **keys; /* names of the fields, as Python strings */
    int32_t n_fields;
    PyObject *inputs, *input_types; /* of what it is given, set by planning */
} function;

typedef struct processes processes;

typedef struct host {
    PyObject_HEAD module_state *state;
    function *functions;
    int32_t n_functions;
    mr_op_class op;
    const mr_op_class *ops[2];

    function dataset; /* its call is the object, its keys what is asked of a sample */
    bool has_dataset, in_tuples, as_objects;
    bool is_replay; /* functions may come from other modules than those of the run */
    bool is_plan;   /* somebody else makes the samples: only order and state are wanted */
    int64_t length;
    uint64_t fingerprint[2];
    mr_source_class source;
    const mr_source_class *sources[2];

    PyObject *as_array, *to_array, *make_random; /* numpy.asarray and helpers of _convert.py */
    PyObject *exceptions;                        /* sample: exception, or text from a process */
    PyObject *objects;                           /* handle: sample, where as_objects */
    int64_t n_objects;
    processes *processes; /* (optional) */
} host;

mr_tables host_tables(host *self);

/* (_core.c) The ops of plug-ins and of a pipeline (or None), and who has its functions, or NULL. To
 * be freed; NULL: with an exception set. */
const mr_op_class **replay_ops(const module_state *state, PyObject *pipeline, host **functions);

/* Before the loader's threads end: those that wait for a process give up. */
void host_stop(host *self);
bool host_is_inside(const host *self); /* whether this thread is one of the loader's */

/* Writes a Python value where a field's value goes: into view->data where its type is fixed, else
 * into *memory, which grows as needed. */
mr_status store_value(host *self, PyObject *value, const mr_field *field, mr_view *view,
                      void **memory, size_t *capacity, mr_error *err);

/* ---- _process.c: functions in other processes, over shared memory ---- */
/* fds: sockets to the processes, one each; they are the caller's to close. */
processes *processes_new(const int *fds, int32_t n);
void processes_stop(processes *all);
void processes_free(processes *all);
mr_allocator processes_allocator(processes *all);

typedef struct process_call {
    int32_t function;
    const mr_key *key;
    const mr_view *in;
    int32_t n_in;
    mr_view *out;
    const mr_field *fields;
    int32_t n_out;
    void **memory; /* per output, for those whose size varies */
    size_t *capacity;
} process_call;

/* Without the GIL. *report gets the text of a traceback, to be freed, where the function failed. */
mr_status processes_run(processes *all, const process_call *call, char **report, mr_error *err);

/* ---- _policy.c ---- */
typedef struct python_policy {
    PyObject *object;    /* an adapter of _policy.py; NULL: none */
    PyObject *exception; /* that ended the run; NULL: none */
} python_policy;
mr_policy policy_of(python_policy *self);
bool policy_raise(python_policy *self); /* false: there is nothing to raise */

#endif
