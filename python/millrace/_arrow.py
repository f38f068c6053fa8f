# SPDX-License-Identifier: Apache-2.0
"""Tables of others as a source: whatever speaks the Arrow C stream interface, held in memory. Columns
become the fields that mr.parquet makes of them."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from ._pipeline import dataset


def _whole(name: str, column: Any, lists: Sequence[np.ndarray] = ()) -> Any:
    """The column, which must have no null. lists: around it, from the outermost on."""
    if column.null_count:
        row = column.is_null().index(True).as_py()
        for offsets in reversed(lists):
            row = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(f"column {name}, row {row}: null; fill it first, as with pyarrow.compute.fill_null")
    return column


# ---- Columns as leaves ---------------------------------------------------------------------------


def _is_list(kind: Any) -> bool:
    from pyarrow import types
    return any(is_one(kind) for is_one in (types.is_list, types.is_large_list, types.is_fixed_size_list,
                                           types.is_list_view, types.is_large_list_view, types.is_map))


def _members(name: str, column: Any) -> Iterator[tuple[str, Any]]:
    """The members of a struct. Hugging Face keeps an image as {bytes, path}: its bytes have the struct's
    name, and a path may be missing."""
    import pyarrow.compute as pc
    names = [member.name for member in column.type]
    image = sorted(names) == ["bytes", "path"]
    for member, values in zip(names, column.flatten()):
        if image and member == "path":
            values = pc.fill_null(values.cast("string"), "")
        yield name if image and member == "bytes" else f"{name}.{member}", values


def _items(column: Any) -> tuple[np.ndarray, Any]:
    """Where the lists of a column begin and end, and all their items."""
    import pyarrow as pa
    import pyarrow.compute as pc
    if pa.types.is_map(column.type):
        pair = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        column = column.cast(pa.list_(pair))
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), column.flatten()


def _leaves(name: str, column: Any, lists: tuple[np.ndarray, ...] = ()) -> Iterator[tuple]:
    """(name, values, lists around them) for each leaf of a column's type."""
    import pyarrow as pa
    import pyarrow.compute as pc
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(name, column.storage, lists)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(name, column.dictionary_decode(), lists)
    elif pa.types.is_run_end_encoded(kind):
        yield from _leaves(name, pc.run_end_decode(column), lists)
    elif pa.types.is_struct(kind):
        for member, values in _members(name, column):
            yield from _leaves(member, values, lists)
    elif _is_list(kind):
        offsets, items = _items(_whole(name, column, lists))
        yield from _leaves(name, items, (*lists, offsets))
    else:
        yield name, _whole(name, column, lists), lists


# ---- Leaves as fields ----------------------------------------------------------------------------


def _is_text(kind: Any) -> bool:
    from pyarrow import types
    return any(is_one(kind) for is_one in (types.is_string, types.is_large_string, types.is_string_view,
                                           types.is_binary, types.is_large_binary, types.is_binary_view))


def _texts(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """All bytes, and where each text begins and ends."""
    import pyarrow as pa
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int64)[column.offset:column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), starts


def _numbers(name: str, column: Any) -> np.ndarray:
    """Values without nulls as an array; times as the whole numbers they are stored as."""
    import pyarrow as pa
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        data = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        return data[column.offset * width:(column.offset + len(column)) * width].reshape(-1, width)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_decimal(kind):
        return np.array([float(value) for value in column.to_pylist()])
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:
        raise TypeError(f"column {name} is {kind}: no number, boolean, time, text or bytes, nor lists of such")
    return values


def _within(lists: Sequence[np.ndarray], row: int) -> tuple[int, int]:
    first, end = row, row + 1
    for offsets in lists:
        first, end = int(offsets[first]), int(offsets[end])
    return first, end


def _length(lists: Sequence[np.ndarray]) -> int | None:
    """Of all lists, where they are of one length."""
    lengths = np.diff(lists[0])
    return int(lengths[0]) if len(lists) == 1 and len(lengths) and (lengths == lengths[0]).all() else None


class _Field(NamedTuple):
    name: str
    type: tuple  # as for dataset()
    get: Callable  # row -> value


def _field(name: str, values: np.ndarray, lists: Sequence[np.ndarray], is_text: bool = False) -> _Field:
    def get(row: int) -> np.ndarray:
        first, end = _within(lists, row)
        return values[first:end]
    if not lists:
        return _Field(name, (values.dtype, values.shape[1:]), values.__getitem__)
    length = None if is_text else _length(lists)
    return _Field(name, (values.dtype, (length, *values.shape[1:])), get)


def _fields(name: str, column: Any, lists: tuple[np.ndarray, ...]) -> Iterator[_Field]:
    """The fields of a leaf."""
    is_text = _is_text(column.type)
    if is_text:
        values, starts = _texts(column)
        lists = (*lists, starts)
    else:
        values = _numbers(name, column)
    yield _field(name, values, lists, is_text)
    for depth in range(1, len(lists)):
        ending = "lengths" if len(lists) == 2 else f"lengths{depth}"
        yield _field(f"{name}.{ending}", np.diff(lists[depth]), lists[:depth], is_text=True)


class _Rows:
    """The rows of a table, each a dictionary of arrays."""

    def __init__(self, table: Any) -> None:
        self._length = table.num_rows
        if len(set(table.column_names)) < len(table.column_names):
            raise ValueError(f"two columns have one name: {', '.join(table.column_names)}; rename_columns() tells them apart")
        fields = [field for name in table.column_names
                  for leaf in _leaves(name, _in_one(table[name])) for field in _fields(*leaf)]
        self._getters = {field.name: field.get for field in fields}
        self.types = {field.name: field.type for field in fields}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> dict:
        return {name: np.asarray(get(row)) for name, get in self._getters.items()}


def _in_one(column: Any) -> Any:
    import pyarrow as pa
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of an empty one
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return whole


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
    rows = _Rows(table.select(list(columns)) if columns else table)
    return dataset(rows, rows.types, version=version)
