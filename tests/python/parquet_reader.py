# SPDX-License-Identifier: Apache-2.0
"""The Parquet reader through ctypes, for the tests: tests/probe/parquet_probe.c, which the build puts
beside the library that MILLRACE_LIB names."""
import ctypes as c
import json
import os

import numpy as np

from mrlib import MAX_DIMS, Error, MrError, Type

DEPTH = 16
DTYPES = [np.uint8, np.int32, np.int64, np.float16, np.uint16, np.float32, np.float64, np.int8,
          np.int16, np.uint16, np.uint32, np.uint64, np.bool_]
ERROR, FILL, MASK = 0, 1, 2
PHYSICAL = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTES", "FIXED"]


class Bytes(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class Column(c.Structure):
    _fields_ = [("name", c.c_char_p), ("path", c.c_char_p), ("physical", c.c_int),
                ("logical", c.c_int), ("fixed_size", c.c_int32), ("bits", c.c_int32),
                ("is_unsigned", c.c_bool), ("scale", c.c_int32), ("precision", c.c_int32),
                ("per_second", c.c_int32), ("utc", c.c_bool), ("max_def", c.c_int32),
                ("max_rep", c.c_int32), ("list_def", c.c_uint8 * DEPTH), ("dtype", c.c_int),
                ("items", c.c_int32), ("refused", c.c_char_p)]


class Group(c.Structure):
    _fields_ = [("rows", c.c_int64), ("bytes", c.c_int64), ("chunks", c.c_void_p)]


class File(c.Structure):
    _fields_ = [("rows", c.c_int64), ("n_columns", c.c_int32), ("n_groups", c.c_int32),
                ("n_pairs", c.c_int32), ("columns", c.POINTER(Column)),
                ("groups", c.POINTER(Group))]


class Range(c.Structure):
    _fields_ = [("start", c.c_int64), ("end", c.c_int64)]


class Vector(c.Structure):
    _fields_ = [("column", c.POINTER(Column)), ("n_rows", c.c_int64), ("n_cells", c.c_int64),
                ("n_nulls", c.c_int64), ("values", c.c_void_p), ("valid", c.c_void_p),
                ("n_lists", c.c_int64 * DEPTH), ("offsets", c.c_void_p * DEPTH),
                ("length", c.c_int64 * DEPTH), ("list_valid", c.c_void_p * DEPTH),
                ("ranges", c.POINTER(Range)), ("range_start", c.POINTER(c.c_int64)),
                ("n_ranges", c.c_int32), ("bytes", c.c_int64)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char * 256), ("codec", c.c_int), ("type", Type), ("text", c.c_bool),
                ("nullable", c.c_bool)]


class Field(c.Structure):
    _fields_ = [("name", c.c_char * 256), ("column", c.c_int32), ("role", c.c_int),
                ("depth", c.c_int32), ("type", Type)]


def _load():
    path = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "tests", "parquet_probe.so")
    if not os.path.exists(path):
        return None
    lib = c.CDLL(path)
    p, err = c.c_void_p, c.POINTER(Error)
    for name, result, arguments in [
            ("open", c.POINTER(File), [p, c.c_size_t, err]),
            ("reopen", c.POINTER(File), [c.POINTER(File), c.c_int64, c.POINTER(c.c_int64), err]),
            ("close", None, [c.POINTER(File)]), ("decoder", p, [c.c_bool]),
            ("decoder_free", None, [p]),
            ("decode", c.POINTER(Vector),
             [p, c.POINTER(File), c.c_int32, c.c_int32, p, c.c_int32, c.c_double, err]),
            ("decode_ranges", c.POINTER(Vector),
             [p, c.POINTER(File), c.c_int32, c.c_int32, p, c.POINTER(Range), c.c_int32,
              c.POINTER(c.c_int64), err]),
            ("free", None, [c.POINTER(Vector)]),
            ("select", c.c_int32, [c.POINTER(File), c.c_char_p, c.POINTER(c.c_int32), err]),
            ("describe", c.c_char_p, [c.POINTER(File), c.c_bool]),
            ("fields", c.c_int32,
             [c.POINTER(File), c.c_int32, c.c_int32, c.c_int64, c.POINTER(Field)]),
            ("copy", c.c_int32,
             [c.POINTER(Vector), c.POINTER(Field), p, c.c_int64, p, c.c_size_t, err]),
            ("row", c.c_int64, [c.POINTER(Vector), c.POINTER(Field), c.c_int64, p]),
            ("where", c.c_int32,
             [p, c.POINTER(File), c.c_int32, p, c.c_char_p, c.c_char_p, c.c_bool, p,
              c.POINTER(c.c_int64), err]),
            ("petastorm", c.c_int32, [p, c.c_size_t, c.POINTER(Tensor), c.c_int32, err]),
            ("unzip", c.c_int64, [p, p, c.c_size_t, p, c.c_int64, err]),
            ("partitions", c.c_char_p, [c.c_char_p, c.c_char_p])]:
        function = getattr(lib, "probe_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


lib = _load()


def _array(address, n, dtype):
    return np.frombuffer(c.string_at(address, n * np.dtype(dtype).itemsize), dtype) if n else \
        np.empty(0, dtype)


def _call(function, *arguments):
    err = Error()
    result = function(*arguments, err)
    if err.code < 0:
        raise MrError(err)
    return result


class Reader:
    """A file's bytes, opened. Columns of row groups come as lists of Python values, one per row."""

    def __init__(self, data, scalar=False, by_index=False):
        self.data = data
        self.address = c.cast(c.c_char_p(data), c.c_void_p)
        self.file = _call(lib.probe_open, self.address, len(data))
        self.index_size = c.c_int64()
        if by_index:
            again = _call(lib.probe_reopen, self.file, len(data), self.index_size)
            lib.probe_close(self.file)
            self.file = again
        self.decoder = lib.probe_decoder(scalar)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.probe_decoder_free(self.decoder)
        lib.probe_close(self.file)

    @property
    def columns(self):
        return [self.file.contents.columns[i] for i in range(self.file.contents.n_columns)]

    @property
    def group_rows(self):
        return [self.file.contents.groups[i].rows for i in range(self.file.contents.n_groups)]

    def decode(self, group, column, policy=FILL, fill=0.0):
        return _call(lib.probe_decode, self.decoder, self.file, group, column, self.address, policy,
                     fill)

    def column(self, group, column):
        vector = self.decode(group, column)
        try:
            return rows_of(vector.contents)
        finally:
            lib.probe_free(vector)

    def fields(self, column, policy=FILL, length=0):
        out = (Field * (DEPTH + 2))()
        return [out[i] for i in range(lib.probe_fields(self.file, column, policy, length, out))]

    def select(self, pattern):
        out = (c.c_int32 * max(1, self.file.contents.n_columns))()
        return list(out[:_call(lib.probe_select, self.file, pattern.encode(), out)])

    def where(self, group, condition, partitions=None, pages=False):
        rows = self.group_rows[group]
        bitmap, n = np.zeros((rows + 7) // 8 + 1, np.uint8), c.c_int64()
        verdict = _call(lib.probe_where, self.decoder, self.file, group, self.address,
                        json.dumps(condition).encode(),
                        json.dumps(partitions).encode() if partitions else None, pages,
                        bitmap.ctypes.data, n)
        bits = np.unpackbits(bitmap, bitorder="little")[:rows].astype(bool)
        assert bits.sum() == n.value
        return verdict, bits


def _cells(v):
    """The values of a vector as a list, None where null."""
    column, n = v.column.contents, v.n_cells
    if column.items == 0:
        views = (Bytes * n).from_address(v.values) if n else []
        values = [c.string_at(b.data, b.size) if b.size else b"" for b in views]
    else:
        array = _array(v.values, n * column.items, DTYPES[column.dtype])
        fixed = PHYSICAL[column.physical] == "FIXED" and DTYPES[column.dtype] == np.uint8
        values = [bytes(row) for row in array.reshape(n, column.items)] if fixed else array.tolist()
    if v.valid:
        valid = _array(v.valid, n, np.uint8)
        values = [x if ok else None for x, ok in zip(values, valid)]
    return values


def rows_of(v):
    items = _cells(v)
    for depth in reversed(range(v.column.contents.max_rep)):
        n = v.n_lists[depth]
        if v.offsets[depth]:
            offsets = _array(v.offsets[depth], n + 1, np.int64)
        else:
            offsets = np.arange(n + 1) * v.length[depth]
        assert offsets[-1] == len(items)
        lists = [items[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
        if v.list_valid[depth]:
            valid = _array(v.list_valid[depth], n, np.uint8)
            lists = [x if ok else None for x, ok in zip(lists, valid)]
        items = lists
    assert len(items) == v.n_rows
    return items
