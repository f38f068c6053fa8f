# SPDX-License-Identifier: Apache-2.0
"""libmillrace through ctypes, for the tests: the structs of the headers, mr_op_apply as a function
over numpy arrays, and a loader that can be iterated. The environment variable MILLRACE_LIB names
the shared library. numpy has no bfloat16: such arrays are uint16 with the same bits."""
import ctypes as c
import json
import os

import numpy as np

MAX_DIMS = 6
DTYPES = ["uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "int8", "int16",
          "uint16", "uint32", "uint64", "bool"]
# Position 4 is bfloat16's, for which numpy has no type.
NUMPY = [np.uint8, np.int32, np.int64, np.float16, np.uint16, np.float32, np.float64, np.int8,
         np.int16, np.uint16, np.uint32, np.uint64, np.bool_]
PLAIN, HWC, CHW = 0, 1, 2
LAYOUTS = {"plain": PLAIN, "hwc": HWC, "chw": CHW}
IO = {"auto": 0, "uring": 1, "pread": 2}
OK, END = 0, 1
CODES = {"PARAM": -1, "MEMORY": -2, "IO": -3, "NOT_FOUND": -4, "CORRUPT": -5, "LIMIT": -6,
         "UNSUPPORTED": -7, "TYPE": -8, "STATE": -9, "CANCELLED": -10, "FORKED": -11,
         "INTERNAL": -12}
STATE_MAX = 1024


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("sys", c.c_int), ("sample", c.c_int64), ("offset", c.c_int64),
                ("op", c.c_char * 32), ("where", c.c_char * 128), ("source", c.c_char * 512),
                ("text", c.c_char * 512), ("hint", c.c_char * 256)]

    def __init__(self):
        super().__init__(sample=-1, offset=-1)


class Type(c.Structure):
    _fields_ = [("dtype", c.c_int), ("layout", c.c_int), ("n_dims", c.c_int32),
                ("dims", c.c_int64 * MAX_DIMS)]


class View(c.Structure):
    _fields_ = [("type", Type), ("data", c.c_void_p), ("size", c.c_size_t)]


class Key(c.Structure):
    _fields_ = [("seed", c.c_uint64), ("epoch", c.c_uint32), ("op", c.c_uint32),
                ("sample", c.c_uint64)]


class Array(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int), ("n_dims", c.c_int32),
                ("dims", c.c_int64 * (MAX_DIMS + 1)), ("data", c.c_void_p), ("size", c.c_size_t),
                ("offsets", c.POINTER(c.c_int64)), ("shapes", c.POINTER(c.c_int64)),
                ("sample_dims", c.c_int32), ("layout", c.c_int)]


class Log(c.Structure):
    WRITE = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
    _fields_ = [("write", WRITE), ("user", c.c_void_p)]


class Options(c.Structure):
    _fields_ = [("size", c.c_uint32), ("threads", c.c_uint32), ("world", c.c_uint32),
                ("rank", c.c_uint32), ("seed", c.c_int64), ("batch", c.c_int64),
                ("epochs", c.c_int64), ("state", c.c_char_p), ("state_size", c.c_size_t),
                ("digest", c.c_bool), ("poison", c.c_bool), ("batches_ahead", c.c_uint32),
                ("reads_in_flight", c.c_uint32), ("read_ahead_bytes", c.c_int64), ("io", c.c_int),
                ("disable_cpu", c.c_char_p), ("allocator", c.c_void_p), ("log", Log)]


class Stats(c.Structure):
    _fields_ = [("size", c.c_uint32), ("threads", c.c_uint32), ("samples", c.c_int64),
                ("batches", c.c_int64), ("skipped", c.c_int64), ("bytes_read", c.c_int64),
                ("wait_ns", c.c_int64), ("memory_bound", c.c_int64), ("batch_bytes", c.c_int64),
                ("batches_ahead", c.c_uint32), ("reads_in_flight", c.c_uint32),
                ("morsel", c.c_uint32), ("io", c.c_char_p), ("cpu", c.c_char_p),
                ("threads_working", c.c_uint32), ("adapts", c.c_bool), ("changes", c.c_int64),
                ("blocks_bound", c.c_int64), ("blocks_alive", c.c_int64), ("blocks_most", c.c_int64)]


class Skip(c.Structure):
    _fields_ = [("size", c.c_uint32), ("epoch", c.c_int64), ("step", c.c_int64), ("sample", c.c_int64),
                ("replacement", c.c_int64), ("error", c.POINTER(Error))]


class MrError(Exception):
    """A failed call; has the fields of mr_error as attributes."""

    def __init__(self, err):
        for name, _ in Error._fields_:
            value = getattr(err, name)
            setattr(self, name, value.decode() if isinstance(value, bytes) else value)
        super().__init__(f"{self.code}: {self.text} [op {self.op!r} at {self.where!r} in "
                         f"{self.source!r}] {self.hint}")


def _declare(lib):
    """Result and argument types of the functions used here."""
    p, s, i32, i64 = c.c_void_p, c.c_char_p, c.c_int32, c.c_int64
    err = c.POINTER(Error)
    for name, result, arguments in [
            ("mr_version", s, []),
            ("mr_op_find", p, [s]),
            ("mr_op_apply", c.c_int,
             [p, s, c.POINTER(Key), c.POINTER(View), s, c.POINTER(View), err]),
            ("mr_free", None, [p]),
            ("mr_error_format", c.c_size_t, [err, c.c_char_p, c.c_size_t]),
            ("mr_draw_u64", c.c_uint64, [c.POINTER(Key), c.c_uint32]),
            ("mr_draw_unit", c.c_double, [c.POINTER(Key), c.c_uint32]),
            ("mr_draw_range", c.c_double, [c.POINTER(Key), c.c_uint32, c.c_double, c.c_double]),
            ("mr_draw_below", i64, [c.POINTER(Key), c.c_uint32, i64]),
            ("mr_exact_exp", c.c_double, [c.c_double]),
            ("mr_exact_log", c.c_double, [c.c_double]),
            ("mr_pipeline_parse", c.c_int, [c.POINTER(p), s, c.c_size_t, p, err]),
            ("mr_pipeline_free", None, [p]),
            ("mr_pipeline_json", s, [p]),
            ("mr_pipeline_fingerprint", s, [p]),
            ("mr_loader_open", c.c_int, [c.POINTER(p), p, c.POINTER(Options), err]),
            ("mr_loader_next", c.c_int, [p, c.POINTER(p), err]),
            ("mr_loader_cancel", None, [p]),
            ("mr_loader_close", None, [p]),
            ("mr_loader_n_samples", i64, [p]),
            ("mr_loader_n_steps", i64, [p]),
            ("mr_loader_steps_left", i64, [p]),
            ("mr_loader_fingerprint", s, [p]),
            ("mr_loader_digest", None, [p, c.c_char_p]),
            ("mr_loader_save", c.c_int, [p, c.c_char_p, c.c_size_t, err]),
            ("mr_loader_stats", None, [p, c.POINTER(Stats)]),
            ("mr_loader_n_skips", i64, [p]),
            ("mr_loader_skip", c.c_int, [p, i64, c.POINTER(Skip)]),
            ("mr_batch_unref", None, [p]),
            ("mr_batch_size", i64, [p]),
            ("mr_batch_valid", i64, [p]),
            ("mr_batch_epoch", i64, [p]),
            ("mr_batch_step", i64, [p]),
            ("mr_batch_samples", c.POINTER(i64), [p]),
            ("mr_batch_n_arrays", i32, [p]),
            ("mr_batch_array", c.POINTER(Array), [p, i32]),
            ("mr_batch_digest", s, [p])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


_lib = None


def lib():
    """The library, loaded at the first use."""
    global _lib
    if _lib is None:
        _lib = c.CDLL(os.environ["MILLRACE_LIB"])
        _declare(_lib)
    return _lib


def _check(status, err):
    if status < 0:
        raise MrError(err)
    return status


def _text(value):
    return None if value is None else value.encode() if isinstance(value, str) else value


def _as_array(data, size, dtype, shape):
    """A copy of memory as a numpy array."""
    return np.frombuffer(c.string_at(data, size), NUMPY[dtype]).reshape(shape).copy()


# ---- One op ---------------------------------------------------------------------------------


def view_of(array, layout=None, dtype=None):
    """A view over an array (which must stay alive). Three-dimensional uint8 counts as HWC."""
    view = View(data=array.ctypes.data, size=array.nbytes)
    view.type.dtype = DTYPES.index(dtype) if dtype else NUMPY.index(array.dtype.type)
    if layout is None:
        layout = "hwc" if array.ndim == 3 and array.dtype == np.uint8 else "plain"
    view.type.layout = LAYOUTS[layout]
    view.type.n_dims = array.ndim
    view.type.dims[:array.ndim] = array.shape
    return view


def apply_typed(op, params, array, seed=0, epoch=0, sample=0, opword=None, disable_cpu=None,
                layout=None, dtype=None):
    """Runs one op; returns the output array and its (dtype name, layout number)."""
    table = lib().mr_op_find(op.encode())
    if not table:
        raise KeyError(f"no op {op!r}")
    if isinstance(array, (bytes, bytearray)):
        array = np.frombuffer(bytes(array), np.uint8)
    array = np.ascontiguousarray(array)
    key = Key(seed=seed, epoch=epoch, op=opword or 0, sample=sample)
    view, out, err = view_of(array, layout, dtype), View(), Error()
    text = params if isinstance(params, str) else json.dumps(params or {})
    _check(lib().mr_op_apply(table, text.encode(), key, view, _text(disable_cpu), out, err), err)
    try:
        shape = list(out.type.dims[:out.type.n_dims])
        result = _as_array(out.data, out.size, out.type.dtype, shape)
    finally:
        lib().mr_free(out.data)
    return result, (DTYPES[out.type.dtype], out.type.layout)


def apply(op, params, array, **options):
    """Runs one op on a numpy array or bytes: see apply_typed for the options."""
    return apply_typed(op, params, array, **options)[0]


# ---- A loader -------------------------------------------------------------------------------


class Batch(dict):
    """A delivered batch: field name -> array (dense) or list of arrays (ragged)."""

    def __init__(self, batch):
        super().__init__()
        size = lib().mr_batch_size(batch)
        self.size, self.valid = size, lib().mr_batch_valid(batch)
        self.epoch, self.step = lib().mr_batch_epoch(batch), lib().mr_batch_step(batch)
        self.samples = lib().mr_batch_samples(batch)[:size]
        self.digest = lib().mr_batch_digest(batch).decode()
        for i in range(lib().mr_batch_n_arrays(batch)):
            array = lib().mr_batch_array(batch, i).contents
            self[array.name.decode()] = self._ragged(array, size) if array.offsets else \
                _as_array(array.data, array.size, array.dtype, list(array.dims[:array.n_dims]))

    @staticmethod
    def _ragged(array, size):
        flat = np.frombuffer(c.string_at(array.data, array.size), NUMPY[array.dtype])
        n = array.sample_dims
        return [flat[array.offsets[i]:array.offsets[i + 1]]
                .reshape(array.shapes[i * n:(i + 1) * n]).copy() for i in range(size)]


class Loader:
    """A pipeline (dict or JSON text) at work. Options are those of mr_options by name; io is
    "auto", "uring" or "pread", state a text from save(). Iterate it, or call next(). Warnings are
    collected in self.warnings."""

    def __init__(self, pipeline, **options):
        self.pipeline, self.loader, self.warnings = c.c_void_p(), c.c_void_p(), []
        text = (pipeline if isinstance(pipeline, str) else json.dumps(pipeline)).encode()
        err = Error()
        _check(lib().mr_pipeline_parse(self.pipeline, text, len(text), None, err), err)
        self._write = Log.WRITE(lambda _, line: self.warnings.append(line.decode()))
        try:
            _check(lib().mr_loader_open(self.loader, self.pipeline, self._options(options), err),
                   err)
        except MrError:
            self.close()
            raise

    def _options(self, given):
        options = Options(size=c.sizeof(Options), seed=-1)
        options.log.write = self._write
        for name, value in given.items():
            if name not in dict(Options._fields_):
                raise TypeError(f"no option {name!r}")
            if name == "io":
                value = IO[value]
            setattr(options, name, _text(value) if isinstance(value, str) else value)
        if options.state:
            options.state_size = len(options.state)
        return options

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __iter__(self):
        return self

    def __next__(self):
        batch, err = c.c_void_p(), Error()
        if _check(lib().mr_loader_next(self.loader, batch, err), err) == END:
            raise StopIteration
        try:
            return Batch(batch)
        finally:
            lib().mr_batch_unref(batch)

    def save(self):
        buffer, err = c.create_string_buffer(STATE_MAX), Error()
        _check(lib().mr_loader_save(self.loader, buffer, STATE_MAX, err), err)
        return buffer.value.decode()

    def digest(self):
        buffer = c.create_string_buffer(33)
        lib().mr_loader_digest(self.loader, buffer)
        return buffer.value.decode()

    def stats(self):
        stats = Stats(size=c.sizeof(Stats))
        lib().mr_loader_stats(self.loader, stats)
        values = {name: getattr(stats, name) for name, _ in Stats._fields_}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}

    def skips(self):
        """[(epoch, step, sample, replacement, MrError), ...]"""
        out, skip = [], Skip(size=c.sizeof(Skip))
        for i in range(lib().mr_loader_n_skips(self.loader)):
            lib().mr_loader_skip(self.loader, i, skip)
            out.append((skip.epoch, skip.step, skip.sample, skip.replacement,
                        MrError(skip.error.contents)))
        return out

    def __len__(self):
        return lib().mr_loader_steps_left(self.loader)

    @property
    def n_samples(self):
        return lib().mr_loader_n_samples(self.loader)

    def fingerprint(self):
        return lib().mr_pipeline_fingerprint(self.pipeline).decode()

    def cancel(self):
        lib().mr_loader_cancel(self.loader)

    def close(self):
        lib().mr_loader_close(self.loader)
        lib().mr_pipeline_free(self.pipeline)
        self.loader, self.pipeline = c.c_void_p(), c.c_void_p()
