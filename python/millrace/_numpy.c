/* SPDX-License-Identifier: Apache-2.0 */
/* _numpy.c - memory as numpy's arrays, made by numpy's own functions.
 *
 * An array of an object with the buffer protocol takes several times as long, which counts where a
 * batch has many small columns. numpy's functions for others stand in a table whose order it keeps
 * from version to version, so nothing of numpy is needed to build this. */
#include "_binding.h"

/* Places in numpy's table. */
enum {
    ABI_VERSION = 0,
    ARRAY_TYPE = 2,
    DESCR_FROM_TYPE = 45,
    NEW_FROM_DESCR = 94,
    SET_BASE_OBJECT = 282,
    NEWEST_ABI = 2 /* of the versions whose table is known to be so */
};
enum { IS_C_CONTIGUOUS = 0x0001, IS_ALIGNED = 0x0100, IS_WRITEABLE = 0x0400 };

typedef unsigned abi_version(void);
typedef PyObject *descr_from_type(int type);
typedef PyObject *new_from_descr(PyTypeObject *subtype, PyObject *descr, int n_dims,
                                 const Py_ssize_t *dims, const Py_ssize_t *strides, void *data,
                                 int flags, PyObject *object);
typedef int set_base_object(PyObject *array, PyObject *base);

/* numpy's numbers of types; -1 where it has none. */
static const int type_numbers[] = {
    [MR_U8] = 2,   [MR_I32] = 5,  [MR_I64] = 7,  [MR_F16] = 23, [MR_BF16] = -1,
    [MR_F32] = 11, [MR_F64] = 12, [MR_I8] = 1,   [MR_I16] = 3,  [MR_U16] = 4,
    [MR_U32] = 6,  [MR_U64] = 8,  [MR_BOOL] = 0,
};
_Static_assert(sizeof(long) == sizeof(int64_t), "int64 is numpy's type of C's long");

static void **table_of(const char *module) {
    PyObject *numpy = PyImport_ImportModule(module);
    PyObject *capsule = numpy ? PyObject_GetAttrString(numpy, "_ARRAY_API") : NULL;
    void **table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(capsule); /* the module, which stays, has it too */
    Py_XDECREF(numpy);
    PyErr_Clear();
    return table;
}

void **numpy_table(void) {
    void **table = table_of("numpy._core._multiarray_umath");
    table = table ? table : table_of("numpy.core._multiarray_umath");
    unsigned version = table ? ((abi_version *)table[ABI_VERSION])() >> 24 : 0;
    return version >= 1 && version <= NEWEST_ABI ? table : NULL;
}

bool numpy_has(mr_dtype dtype) {
    return type_numbers[dtype] >= 0;
}

PyObject *numpy_array(void **numpy, PyObject *owner, mr_dtype dtype, int32_t n_dims,
                      const int64_t *dims, void *data) {
    static char nothing[1];
    Py_ssize_t shape[MR_MAX_DIMS + 1];
    for (int32_t i = 0; i < n_dims; i++) {
        shape[i] = (Py_ssize_t)dims[i];
    }
    PyObject *descr = ((descr_from_type *)numpy[DESCR_FROM_TYPE])(type_numbers[dtype]);
    PyObject *array =
        descr ? ((new_from_descr *)numpy[NEW_FROM_DESCR])(
                    numpy[ARRAY_TYPE], descr, n_dims, shape, NULL, data ? data : nothing,
                    IS_C_CONTIGUOUS | IS_ALIGNED | IS_WRITEABLE, NULL)
              : NULL;
    if (array && ((set_base_object *)numpy[SET_BASE_OBJECT])(array, Py_NewRef(owner)) < 0) {
        Py_CLEAR(array);
    }
    return array;
}
