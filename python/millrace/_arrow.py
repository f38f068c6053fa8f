# SPDX-License-Identifier: Apache-2.0
"""Tables of others as a source: whatever speaks the Arrow C stream interface, held in memory."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Sequence

import numpy as np

from ._pipeline import dataset

_PLAIN = "number, boolean, time, text, bytes or list of numbers"


def _numbers(column: Any) -> np.ndarray:
    """A column without nulls as an array; times as the whole numbers they are stored as."""
    import pyarrow as pa
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _ragged(column: Any, values: np.ndarray) -> Callable:
    offsets = np.asarray(column.offsets)
    return lambda row: values[offsets[row]:offsets[row + 1]]


def _texts(column: Any) -> Callable:
    import pyarrow as pa
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int64)[column.offset:]
    values = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return lambda row: values[starts[row]:starts[row + 1]]


def _getter(name: str, column: Any) -> Callable:
    """row -> value."""
    import pyarrow as pa
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _getter(name, column.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) \
            or pa.types.is_large_binary(kind):
        return _texts(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _ragged(column, _numbers(_whole(name, column.values)))
    if pa.types.is_fixed_size_list(kind):
        values = _numbers(_whole(name, column.flatten())).reshape(len(column), kind.list_size)
    else:
        values = _numbers(column)
    if values.dtype == object:
        raise TypeError(f"column {name} is {kind}: no {_PLAIN}")
    return values.__getitem__


def _whole(name: str, column: Any) -> Any:
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueError(f"column {name}, row {row}: null; fill it first, as with pyarrow.compute.fill_null")
    return column


class _Rows:
    """The rows of a table, each a dictionary of arrays."""

    def __init__(self, table: Any) -> None:
        self._length = table.num_rows
        self._getters = {name: _getter(name, _whole(name, table[name].combine_chunks()))
                         for name in table.column_names}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> dict:
        return {name: np.asarray(get(row)) for name, get in self._getters.items()}


def arrow(stream: Any, columns: Sequence[str] | None = None, *, version: str = ""):
    """Rows of a table that somebody else reads: anything with __arrow_c_stream__ (a pyarrow Table or
    RecordBatchReader, a polars DataFrame, a DuckDB relation), all of it in memory; or names of Parquet
    files, which pyarrow then reads, with a warning that says so.

    For what mr.parquet refuses, encrypted files for instance, and for tables that are in memory anyway;
    mr.parquet reads files faster, and no more than is needed. Wants pyarrow. version: as for dataset()."""
    import pyarrow as pa
    if not hasattr(stream, "__arrow_c_stream__"):
        import pyarrow.dataset
        warnings.warn(f"{stream} is read by pyarrow, all of it into memory", stacklevel=2)
        stream = pyarrow.dataset.dataset(stream, format="parquet").scanner(columns=columns)
        stream = stream.to_reader()
    table = pa.RecordBatchReader.from_stream(stream).read_all()
    return dataset(_Rows(table.select(list(columns)) if columns else table), version=version)
