/* SPDX-License-Identifier: Apache-2.0 */
/* _array.c - batches as Python sees them: arrays that export their memory without a copy, by the
 * buffer protocol and by DLPack. An array holds a reference to its batch; the memory goes back to
 * the pool when the last array over it is gone. */
#include "_binding.h"

#include <stdlib.h>
#include <string.h>

/* ---- DLPack: the layout that the standard gives, versions 0 and 1 ---- */
enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t n_dims;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

/* ---- Element types ---- */
typedef struct dtype_row {
    const char *format;
    uint8_t code;
} dtype_row;

static const dtype_row rows[] = {
    [MR_U8] = {"B", DL_UINT},   [MR_I32] = {"i", DL_INT},     [MR_I64] = {"q", DL_INT},
    [MR_F16] = {"e", DL_FLOAT}, [MR_BF16] = {"H", DL_BFLOAT}, [MR_F32] = {"f", DL_FLOAT},
    [MR_F64] = {"d", DL_FLOAT}, [MR_I8] = {"b", DL_INT},      [MR_I16] = {"h", DL_INT},
    [MR_U16] = {"H", DL_UINT},  [MR_U32] = {"I", DL_UINT},    [MR_U64] = {"Q", DL_UINT},
    [MR_BOOL] = {"?", DL_BOOL},
};

enum { N_DTYPES = sizeof rows / sizeof *rows };

const char *dtype_format(mr_dtype dtype) {
    return rows[dtype].format;
}

int dtype_of_format(const char *format, Py_ssize_t item_size) {
    if (!format || (format[0] == '<' && format[1]) || (format[0] == '=' && format[1])) {
        format = format ? format + 1 : "B";
    }
    char letter = format[0] == 'l' ? 'q' : format[0] == 'L' ? 'Q' : format[0];
    for (int i = 0; i < N_DTYPES && format[1] == '\0'; i++) {
        if (rows[i].format[0] == letter && i != MR_BF16 &&
            mr_dtype_size((mr_dtype)i) == (size_t)item_size) {
            return i;
        }
    }
    return -1;
}

int dtype_of_name(const char *name) {
    for (int i = 0; i < N_DTYPES; i++) {
        if (strcmp(mr_dtype_name((mr_dtype)i), name) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no element type \"%s\"", name);
    return -1;
}

/* ---- Array ---- */
typedef struct array {
    PyObject_HEAD mr_batch *batch; /* or NULL: the memory is our own */
    void *data;
    mr_dtype dtype;
    int n_dims;
    Py_ssize_t size; /* bytes */
    Py_ssize_t shape[MR_MAX_DIMS + 1], strides[MR_MAX_DIMS + 1];
} array;

static array *array_new(module_state *state, mr_dtype dtype, int32_t n_dims, const int64_t *dims) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->array, Py_tp_alloc);
    array *self = (array *)alloc(state->array, 0);
    if (!self) {
        return NULL;
    }
    self->dtype = dtype;
    self->n_dims = n_dims;
    self->size = (Py_ssize_t)mr_dtype_size(dtype);
    for (int i = n_dims - 1; i >= 0; i--) {
        self->strides[i] = self->size;
        self->shape[i] = (Py_ssize_t)dims[i];
        self->size *= self->shape[i];
    }
    return self;
}

PyObject *array_of_batch(module_state *state, mr_batch *batch, mr_dtype dtype, int32_t n_dims,
                         const int64_t *dims, void *data) {
    array *self = array_new(state, dtype, n_dims, dims);
    if (self) {
        mr_batch_ref(batch);
        self->batch = batch;
        self->data = data;
    }
    return (PyObject *)self;
}

PyObject *array_copy(module_state *state, const mr_view *view) {
    array *self = array_new(state, view->type.dtype, view->type.n_dims, view->type.dims);
    if (!self) {
        return NULL;
    }
    self->data = malloc(view->size ? view->size : 1);
    if (!self->data) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (view->size > 0) {
        memcpy(self->data, view->data, view->size);
    }
    return (PyObject *)self;
}

static void array_dealloc(PyObject *object) {
    array *self = (array *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (self->batch) {
        mr_batch_unref(self->batch);
    } else {
        free(self->data);
    }
    release(object);
    Py_DECREF(type);
}

static int array_get_buffer(PyObject *object, Py_buffer *view, int flags) {
    array *self = (array *)object;
    static char nothing[1];
    *view = (Py_buffer){.buf = self->data ? self->data : nothing,
                        .obj = Py_NewRef(object),
                        .len = self->size,
                        .itemsize = (Py_ssize_t)mr_dtype_size(self->dtype),
                        .ndim = self->n_dims};
    view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)dtype_format(self->dtype) : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? self->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    return 0;
}

/* ---- Array: DLPack ---- */
typedef struct export {
    union {
        dl_managed old;
        dl_versioned new;
    } tensor;
    mr_batch *batch;
    PyObject *owner; /* where there is no batch */
    int64_t shape[MR_MAX_DIMS + 1], strides[MR_MAX_DIMS + 1];
}
export;

/* May come from any thread, without the GIL. */
static void end_export(export *e) {
    if (e->batch) {
        mr_batch_unref(e->batch);
    } else if (Py_IsInitialized()) {
        entered python = enter_python();
        Py_DECREF(e->owner);
        leave_python(python);
    }
    free(e);
}

static void delete_old(dl_managed *tensor) {
    end_export(tensor->context);
}

static void delete_new(dl_versioned *tensor) {
    end_export(tensor->context);
}

/* A capsule that nobody consumed still has its first name. */
static void capsule_dies(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *tensor = PyCapsule_GetPointer(capsule, "dltensor");
        tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *tensor = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        tensor->deleter(tensor);
    }
}

static void describe(const array *self, export *e, dl_tensor *tensor) {
    Py_ssize_t item = (Py_ssize_t)mr_dtype_size(self->dtype);
    for (int i = 0; i < self->n_dims; i++) {
        e->shape[i] = self->shape[i];
        e->strides[i] = self->strides[i] / item;
    }
    tensor->data = self->data;
    tensor->device.type = DL_CPU;
    tensor->n_dims = self->n_dims;
    tensor->dtype.code = rows[self->dtype].code;
    tensor->dtype.bits = (uint8_t)(8 * item);
    tensor->dtype.lanes = 1;
    tensor->shape = e->shape;
    tensor->strides = e->strides;
}

static PyObject *export_array(array *self, bool versioned) {
    export *e = calloc(1, sizeof *e);
    if (!e) {
        return PyErr_NoMemory();
    }
    e->batch = self->batch;
    e->owner = (PyObject *)self;
    if (self->batch) {
        mr_batch_ref(self->batch);
    } else {
        Py_INCREF(e->owner);
    }
    PyObject *capsule = NULL;
    if (versioned) {
        e->tensor.new.version.major = 1;
        e->tensor.new.context = e;
        e->tensor.new.deleter = delete_new;
        describe(self, e, &e->tensor.new.tensor);
        capsule = PyCapsule_New(&e->tensor.new, "dltensor_versioned", capsule_dies);
    } else {
        e->tensor.old.context = e;
        e->tensor.old.deleter = delete_old;
        describe(self, e, &e->tensor.old.tensor);
        capsule = PyCapsule_New(&e->tensor.old, "dltensor", capsule_dies);
    }
    if (!capsule) {
        end_export(e);
    }
    return capsule;
}

static PyObject *array_dlpack(PyObject *object, PyObject *args, PyObject *keywords) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", names, &stream, &version, &device,
                                     &copy)) {
        return NULL;
    }
    if (stream != Py_None || copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "CPU memory has no stream, and is not copied");
        return NULL;
    }
    long type = DL_CPU, major = 0;
    if (device != Py_None && !PyArg_ParseTuple(device, "ll", &type, &major)) {
        return NULL;
    }
    if (type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "the array is in CPU memory");
        return NULL;
    }
    major = 0;
    if (version != Py_None) {
        long minor = 0;
        if (!PyArg_ParseTuple(version, "ll", &major, &minor)) {
            return NULL;
        }
    }
    return export_array((array *)object, major >= 1);
}

static PyObject *array_dlpack_device(PyObject *object, PyObject *unused) {
    (void)object;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static PyObject *array_shape(PyObject *object, void *unused) {
    array *self = (array *)object;
    PyObject *shape = PyTuple_New(self->n_dims);
    (void)unused;
    for (int i = 0; shape && i < self->n_dims; i++) {
        PyTuple_SetItem(shape, i, PyLong_FromSsize_t(self->shape[i]));
    }
    return shape;
}

static PyObject *array_dtype(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mr_dtype_name(((array *)object)->dtype));
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The memory as a DLPack capsule, without a copy."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef array_values[] = {
    {"shape", array_shape, NULL, NULL, NULL},
    {"dtype", array_dtype, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "Typed memory of a batch: buffer protocol and DLPack."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_values},
    {Py_bf_getbuffer, array_get_buffer},
    {0, NULL},
};

PyType_Spec array_spec = {.name = "millrace._core.Array",
                          .basicsize = sizeof(array),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = array_slots};

/* ---- Batch ---- */
typedef struct batch {
    PyObject_HEAD mr_batch *batch;
} batch;

PyObject *batch_new(module_state *state, mr_batch *given) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->batch, Py_tp_alloc);
    batch *self = (batch *)alloc(state->batch, 0);
    if (!self) {
        mr_batch_unref(given);
        return NULL;
    }
    self->batch = given;
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    mr_batch_unref(((batch *)object)->batch);
    release(object);
    Py_DECREF(type);
}

/* Who makes the arrays of a batch: numpy, or NULL for arrays of this file. */
typedef struct maker {
    module_state *state;
    void **numpy;
    PyObject *batch;
} maker;

static PyObject *make_array(const maker *by, mr_dtype dtype, int32_t n_dims, const int64_t *dims,
                            void *data) {
    return by->numpy && numpy_has(dtype)
               ? numpy_array(by->numpy, by->batch, dtype, n_dims, dims, data)
               : array_of_batch(by->state, ((batch *)by->batch)->batch, dtype, n_dims, dims, data);
}

/* A dense field is an array, a ragged one a tuple of values, offsets and shapes. */
static PyObject *field_value(const maker *by, const mr_array *field) {
    int64_t n = mr_batch_size(((batch *)by->batch)->batch), offset_dims[1] = {n + 1},
            shape_dims[2] = {n, field->sample_dims};
    PyObject *values = make_array(by, field->dtype, field->n_dims, field->dims, field->data);
    if (!field->offsets || !values) {
        return values;
    }
    PyObject *offsets = make_array(by, MR_I64, 1, offset_dims, (void *)(uintptr_t)field->offsets);
    PyObject *shapes = make_array(by, MR_I64, 2, shape_dims, (void *)(uintptr_t)field->shapes);
    PyObject *all = offsets && shapes ? PyTuple_Pack(3, values, offsets, shapes) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(offsets);
    Py_XDECREF(shapes);
    return all;
}

static PyObject *make_fields(const maker *by) {
    const mr_batch *b = ((batch *)by->batch)->batch;
    PyObject *fields = PyDict_New();
    for (int32_t i = 0; fields && i < mr_batch_n_arrays(b); i++) {
        const mr_array *field = mr_batch_array(b, i);
        PyObject *value = field_value(by, field);
        if (!value || PyDict_SetItemString(fields, field->name, value) < 0) {
            Py_CLEAR(fields);
        }
        Py_XDECREF(value);
    }
    return fields;
}

static PyObject *batch_fields(PyObject *object, PyObject *unused) {
    const maker by = {state_of_type(Py_TYPE(object)), NULL, object};
    (void)unused;
    return make_fields(&by);
}

static PyObject *batch_numpy_fields(PyObject *object, PyObject *unused) {
    module_state *state = state_of_type(Py_TYPE(object));
    (void)unused;
    if (!state->numpy_is_asked) {
        state->numpy = numpy_table();
        state->numpy_is_asked = true;
    }
    const maker by = {state, state->numpy, object};
    return make_fields(&by);
}

static PyObject *batch_samples(PyObject *object, PyObject *unused) {
    mr_batch *b = ((batch *)object)->batch;
    int64_t dims[1] = {mr_batch_size(b)};
    (void)unused;
    return array_of_batch(state_of_type(Py_TYPE(object)), b, MR_I64, 1, dims,
                          (void *)(uintptr_t)mr_batch_samples(b));
}

static PyObject *batch_layouts(PyObject *object, PyObject *unused) {
    static const char *const names[] = {"", "hwc", "chw"};
    mr_batch *b = ((batch *)object)->batch;
    PyObject *all = PyDict_New();
    (void)unused;
    for (int32_t i = 0; all && i < mr_batch_n_arrays(b); i++) {
        const mr_array *field = mr_batch_array(b, i);
        PyObject *text = PyUnicode_FromString(names[field->layout]);
        if (!text || PyDict_SetItemString(all, field->name, text) < 0) {
            Py_CLEAR(all);
        }
        Py_XDECREF(text);
    }
    return all;
}

/* Names of classes as C has them: the texts belong to the list. */
static const char **class_names(PyObject *list, int64_t *n) {
    *n = PyList_Size(list);
    const char **names = *n < 0 ? NULL : calloc((size_t)*n + 1, sizeof *names);
    for (Py_ssize_t i = 0; names && i < *n; i++) {
        names[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
        if (!names[i]) {
            PyErr_Clear();
            names[i] = "?";
        }
    }
    return names;
}

static PyObject *batch_sheet(PyObject *object, PyObject *args) {
    const char *path = NULL;
    PyObject *classes = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_sheet sheet = {.size = sizeof sheet};
    if (!PyArg_ParseTuple(args, "siiO", &path, &sheet.columns, &sheet.cell, &classes)) {
        return NULL;
    }
    const char **names = class_names(classes, &sheet.n_classes);
    if (!names) {
        return PyErr_NoMemory();
    }
    sheet.classes = names;
    mr_status status = mr_batch_sheet(((batch *)object)->batch, &sheet, path, &err);
    free(names);
    return status == MR_OK ? Py_NewRef(Py_None)
                           : raise_error(state_of_type(Py_TYPE(object)), &err, NULL);
}

#define NUMBER_GETTER(name, function)                                                              \
    static PyObject *batch_get_##name(PyObject *object, void *unused) {                            \
        (void)unused;                                                                              \
        return PyLong_FromLongLong(function(((batch *)object)->batch));                            \
    }
NUMBER_GETTER(size, mr_batch_size)
NUMBER_GETTER(valid, mr_batch_valid)
NUMBER_GETTER(epoch, mr_batch_epoch)
NUMBER_GETTER(step, mr_batch_step)

static PyObject *batch_digest(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mr_batch_digest(((batch *)object)->batch));
}

static PyMethodDef batch_methods[] = {
    {"fields", batch_fields, METH_NOARGS, "Name to Array, or to (values, offsets, shapes)."},
    {"numpy_fields", batch_numpy_fields, METH_NOARGS,
     "Likewise, of numpy's arrays; an Array where numpy has no such type, or is not known."},
    {"samples", batch_samples, METH_NOARGS, "Dataset index of each sample."},
    {"layouts", batch_layouts, METH_NOARGS, "Name to \"hwc\", \"chw\" or \"\"."},
    {"sheet", batch_sheet, METH_VARARGS, "Draws the batch as a PNG file."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_values[] = {
    {"size", batch_get_size, NULL, NULL, NULL},   {"valid", batch_get_valid, NULL, NULL, NULL},
    {"epoch", batch_get_epoch, NULL, NULL, NULL}, {"step", batch_get_step, NULL, NULL, NULL},
    {"digest", batch_digest, NULL, NULL, NULL},   {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "A delivered batch."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_values},
    {0, NULL},
};

PyType_Spec batch_spec = {.name = "millrace._core.Batch",
                          .basicsize = sizeof(batch),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = batch_slots};
