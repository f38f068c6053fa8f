# SPDX-License-Identifier: Apache-2.0
"""Petastorm's make_reader and make_batch_reader over mr.parquet: the same arguments, and an order that
depends on the seed alone, every row once an epoch.

    from millrace.petastorm import make_batch_reader
    with make_batch_reader("file:///data/clicks", schema_fields=["user", "price"], num_epochs=3) as reader:
        for batch in reader:
            train(batch.user, batch.price)

What differs: batches have batch_size rows, whatever the row groups; strings are bytes objects; arguments
that are about worker pools and queues change nothing, since threads of this process do the work, but for
reader_pool_type="dummy", which has a function of frames run as batches are taken; what cannot be done is
refused with the way to do it."""
from __future__ import annotations

import collections
import decimal
import functools
import io
import json
import os
import re
import urllib.parse
from typing import Any, Callable, Iterator, Sequence

import numpy as np

import millrace as mr

from . import _core
from ._ahead import Ahead

__all__ = ["Reader", "TransformSpec", "make_batch_reader", "make_reader"]

_COMPARISONS = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
                "in": "in", "not in": "not_in"}
# Pools, queues and file systems: no value depends on them.
_IDLE = {"reader_pool_type", "pyarrow_serialize", "results_queue_size", "shuffle_row_drop_partitions",
         "hdfs_driver", "zmq_copy_buffers", "cache_size_limit", "cache_row_size_estimate",
         "cache_extra_settings", "convert_early_to_numpy"}
_REFUSED = {
    "predicate": 'where=["and", [">", "age", 30], ["in", "country", ["DE"]]] says it, and skips row groups '
                 "by their statistics",
    "rowgroup_selector": "where= skips row groups by their statistics",
    "shard_seed": "shards follow seed=",
    "ngram": "mr.parquet(...).map(...) makes windows of rows",
    "storage_options": "copy or mount the files",
    "filesystem": "copy or mount the files",
}
_DEPTHS = {"uint8": "", "uint16": "16"}  # of images, in the modes of decode_image
_FAR = ("s3", "http", "https")  # make_reader needs the schema beside the files


class TransformSpec:
    """As Petastorm's, for those who have it not installed. edit_fields: (name, dtype, shape, nullable) of
    each field that the function adds or makes otherwise than it got it; None in a shape varies."""

    def __init__(self, func: Callable | None = None, edit_fields: Sequence | None = None,
                 removed_fields: Sequence[str] | None = None,
                 selected_fields: Sequence[str] | None = None) -> None:
        self.func, self.edit_fields = func, list(edit_fields or [])
        self.removed_fields, self.selected_fields = list(removed_fields or []), selected_fields


# ---- Arguments -----------------------------------------------------------------------------------


def _path(url: Any, far: Sequence[str] = ()) -> str:
    """far: schemes of servers whose files can be read."""
    parts = urllib.parse.urlsplit(os.fspath(url))
    if parts.scheme in far:
        return url
    if parts.scheme not in ("", "file"):
        here = f"files of this machine and of {', '.join(far)}" if far else "only files of this machine"
        raise ValueError(f"{url}: {here} can be read; copy or mount them")
    return urllib.parse.unquote(parts.path) if parts.scheme else os.fspath(url)


def _column(field: Any) -> str:
    """A name, or a regular expression of the simple kinds that a pattern can say."""
    name = getattr(field, "name", field)
    if not isinstance(name, str):
        raise TypeError(f"schema_fields wants names of columns, not {name!r}")
    pattern = name.removeprefix("^").removesuffix("$").replace(".*", "*")
    if re.search(r"[\\^$|()\[\]{}+?]", pattern):
        raise ValueError(f"schema_fields: {name!r} is a regular expression; write names, or patterns such as "
                         '"feature_.*"')
    return pattern


def _condition(filters: Sequence) -> list:
    """[("a", "=", 1), ...] are all to hold; of a list of such lists, one."""
    if filters and all(isinstance(f, list) for f in filters):
        return ["or", *map(_condition, filters)]
    for one in filters:
        if len(one) != 3 or one[1] not in _COMPARISONS:
            raise ValueError(f"filters: {one!r} is not (column, operator, value) with one of "
                             f"{' '.join(_COMPARISONS)}")
    return ["and", *([_COMPARISONS[op], column, list(value) if "in" in op else value]
                     for column, op, value in filters)]


def _where(where: list | None, filters: Sequence | None) -> list | None:
    if filters and where:
        return ["and", where, _condition(filters)]
    return _condition(filters) if filters else where


def _check(others: dict) -> None:
    for name, value in others.items():
        if name in _REFUSED and value is not None:
            raise NotImplementedError(f"{name} is not taken: {_REFUSED[name]}")
        if name not in _REFUSED and name not in _IDLE:
            raise TypeError(f"unexpected argument {name!r}")


def _codecs(path: str) -> list[dict]:
    """What the schema that Petastorm left beside its files says of the columns that hold arrays and images.
    Nothing of the pickle is run."""
    beside = os.path.join(path, "_common_metadata")
    if not os.path.exists(beside):
        return []
    said = json.loads(_core.parquet_json(beside))
    if said.get("petastorm", ()) is None:
        raise ValueError(f"{beside}: Petastorm's schema cannot be read: {said.get('petastorm_refused', '')}; "
                         "make_batch_reader gives the columns as they are")
    return [field for field in said.get("petastorm", []) if field["codec"] != "scalar"]


def _load_packed(packed: np.ndarray) -> np.ndarray:
    """The array in what numpy.savez_compressed made."""
    with np.load(io.BytesIO(packed.tobytes()), allow_pickle=False) as arrays:
        return arrays[arrays.files[0]]


def _decoded(pipeline: mr.Pipeline, codecs: list[dict]) -> mr.Pipeline:
    """The pipeline with Petastorm's arrays and images decoded in the threads."""
    for field in codecs:
        name, shape, dtype = field["name"], field["shape"], field["dtype"]
        if name not in pipeline.types:
            continue
        if field["codec"] == "ndarray":
            pipeline = pipeline.decode_npy(dtype, shape, field=name)
        elif field["codec"] == "compressed_ndarray":
            dims = tuple(None if n < 0 else n for n in shape)
            pipeline = pipeline.map(_load_packed, field=name, fields=(dtype, dims), version=1)
        elif dtype not in _DEPTHS or len(shape) not in (2, 3) or shape[2:] not in ([], [1], [3]):
            raise NotImplementedError(f"{name}: images of {dtype}{shape} are not decoded; make_batch_reader gives "
                                      "their bytes")
        else:
            mode = ("rgb" if shape[2:] == [3] else "grey") + _DEPTHS[dtype]
            pipeline = pipeline.decode_image(mode=mode, field=name)
    return pipeline


def _pipeline(paths: list[str], schema_fields: Sequence | None, where: list | None,
              cache: dict | None, nulls: dict) -> mr.Pipeline:
    if hasattr(schema_fields, "get_field_names_at_all_timesteps"):
        raise NotImplementedError(f"an NGram is not taken: {_REFUSED['ngram']}")
    columns = [_column(field) for field in schema_fields or []]
    pipeline = mr.parquet(paths, columns=columns, where=where, **nulls)
    if cache is not None:
        pipeline = pipeline.cache(**cache)
    return pipeline


def _cache(cache_type: str | None, location: str | None) -> dict | None:
    if cache_type in (None, "null"):
        return None
    if cache_type != "local-disk":
        raise ValueError(f"cache_type: {cache_type!r} is none of null, local-disk")
    return {"path": location} if location else {}


# ---- Values --------------------------------------------------------------------------------------


def _values(value: Any, valid: int, texts: bool, flat: bool) -> np.ndarray:
    """A field of the rows that count; texts become bytes objects, flat images lose their one channel."""
    if not isinstance(value, mr.Ragged):
        return value[:valid, ..., 0] if flat else value[:valid]
    out = np.empty(valid, object)
    for i in range(valid):
        out[i] = value[i].tobytes() if texts else value[i][..., 0] if flat else value[i]
    return out


class Reader:
    """Iterates over batches or rows as namedtuples, for num_epochs (None: without end). A transform of
    batches runs in so many threads, ahead of the batch that is used; with 0 as each batch is taken."""

    def __init__(self, pipeline: mr.Pipeline, options: dict, batched: bool,
                 transform: Callable | None, threads: int, codecs: Sequence[dict] = ()) -> None:
        self._arrays = {field["name"] for field in codecs}
        self._flat = {field["name"] for field in codecs
                      if field["codec"] == "compressed_image" and len(field["shape"]) == 2}
        self.batched_output, self.num_epochs = batched, options["epochs"]
        self.last_row_consumed = False
        self._pipeline, self._options, self._transform = pipeline, options, transform
        self._threads = threads
        kinds = pipeline.types
        self._texts = {name for name, kind in kinds.items()
                       if kind[0] == "uint8" and len(kind[1]) == 1 and name not in self._arrays}
        self._start()

    def _start(self) -> None:
        self._loader = self._pipeline.loader(**self._options)
        self._state: dict | None = None
        self._ahead: Ahead | None = None
        if self._transform and self._threads:
            self._ahead = Ahead(lambda item: (self._values(item[0]), item[1]), self._with_states(), self._threads)
            self._items = self._batches_ahead()
        else:
            self._items = self._batches() if self.batched_output else self._rows()

    @property
    def schema(self) -> dict:
        """Fields with (dtype, shape, layout)."""
        return self._pipeline.types

    @property
    def diagnostics(self) -> dict:
        return self._loader.stats()

    def _values(self, batch: Any) -> dict:
        values = {name: _values(value, batch.valid, name in self._texts, name in self._flat)
                  for name, value in batch.items()}
        return self._transform(values) if self._transform else values

    def _with_states(self) -> Iterator[tuple]:
        """Batches, each with the state behind it: the loader itself is ahead of what was delivered."""
        for batch in self._loader.all_epochs():
            yield batch, self._loader.state_dict()

    def _batches_ahead(self) -> Iterator[tuple]:
        for values, self._state in self._ahead:
            yield _named(values)

    def _batches(self) -> Iterator[tuple]:
        for batch in self._loader.all_epochs():
            yield _named(self._values(batch))

    def _rows(self) -> Iterator[tuple]:
        for batch in self._batches():
            for row in zip(*batch):
                yield type(batch)(*row)

    def __iter__(self) -> "Reader":
        return self

    def __next__(self) -> tuple:
        try:
            return next(self._items)
        except StopIteration:
            self.last_row_consumed = True
            raise

    def reset(self) -> None:
        """From the beginning; only after the last row."""
        if not self.last_row_consumed:
            raise NotImplementedError("reset() wants a reader that was read to its end")
        self.stop()
        self.last_row_consumed = False
        self._start()

    def state_dict(self) -> dict:
        """Of the batch that comes next: mr.Loader.state_dict()."""
        return self._state or self._loader.state_dict()

    def stop(self) -> None:
        if self._ahead:
            self._ahead.close()
        self._loader.close()

    def join(self) -> None:
        """After stop(): waits until the transform runs no more."""
        if self._ahead:
            self._ahead.join()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


_TUPLES: dict[tuple, type] = {}


def _named(values: dict) -> tuple:
    names = tuple(name.replace(".", "_") for name in values)
    if names not in _TUPLES:
        _TUPLES[names] = collections.namedtuple("Row", names)  # type: ignore[misc]
    return _TUPLES[names](*values.values())


# ---- Readers -------------------------------------------------------------------------------------


def _frames(spec: TransformSpec) -> Callable:
    """A function of batches from one of pandas' frames."""
    import pandas

    def transform(values: dict) -> dict:
        frame = pandas.DataFrame({name: list(value) if value.ndim > 1 else value
                                  for name, value in values.items()})
        frame = spec.func(frame) if spec.func else frame
        return {name: np.asarray(frame[name].tolist()) if frame[name].dtype != object else
                frame[name].to_numpy() for name in _kept(spec, list(frame.columns))}
    return transform


def _kept(spec: TransformSpec, names: list[str]) -> list[str]:
    names = [name for name in names if name not in spec.removed_fields]
    return [n for n in names if not spec.selected_fields or n in spec.selected_fields]


def _edited(field: Any) -> tuple[str, tuple]:
    """Petastorm's (name, dtype, shape, nullable), or a field of its schema, as map() takes it."""
    name, dtype, shape = tuple(field)[:3]
    if dtype is decimal.Decimal or np.dtype(dtype).kind in "SU":
        return name, ("uint8", (None,))
    return name, (np.dtype(dtype).name, tuple(shape))


def _still(known: tuple, seen: tuple) -> tuple:
    """The type of a column that a function returns: what varies in the column still does, though two rows were
    alike; of another length or type it is what was seen."""
    if (known[0], len(known[1])) != (seen[0], len(seen[1])):
        return seen
    dims = tuple(k if k < 0 else s for k, s in zip(known[1], seen[1]))
    return seen[0], dims, known[2] if dims == known[1] else seen[2]


def _returned(spec: TransformSpec, pipeline: mr.Pipeline) -> dict:
    """Types of what the function returns: those of the columns, but where it edits them. With no word of
    edited fields it may return others, too; what those are is seen from two rows."""
    known: dict = dict(pipeline.types)
    if spec.edit_fields:
        known.update(map(_edited, spec.edit_fields))
    else:
        seen = pipeline.map(spec.func).types
        known = {name: _still(known.get(name, kind), kind) for name, kind in seen.items()}
    return {name: known[name] for name in _kept(spec, list(known))}


def _chosen(function: Callable, names: list[str]) -> Callable:
    """The function, giving these fields alone."""
    @functools.wraps(function)
    def choose(*row: Any) -> dict:
        values = function(*row)
        missing = [name for name in names if name not in values]
        if missing:
            raise ValueError(f"the function of transform_spec returned no {missing[0]}: removed_fields names "
                             "what it leaves out")
        return {name: values[name] for name in names}
    return choose


def _transformed(pipeline: mr.Pipeline, spec: TransformSpec) -> mr.Pipeline:
    if not spec.func:
        return pipeline.fields(_kept(spec, list(pipeline.types)))
    kinds = _returned(spec, pipeline)
    return pipeline.map(_chosen(spec.func, list(kinds)), fields=kinds)


def _threads_of(workers: int, pool: str | None) -> int:
    """For a function of frames; Petastorm's "dummy" pool has none."""
    return 0 if pool == "dummy" else workers or len(os.sched_getaffinity(0))


def _open(pipeline: mr.Pipeline, batched: bool, transform: Callable | None, batch_size: int,
          arguments: dict, codecs: Sequence[dict] = ()) -> Reader:
    world = arguments["shard_count"] or 1
    if (arguments["cur_shard"] is None) != (arguments["shard_count"] is None):
        raise ValueError("cur_shard and shard_count go together")
    shuffle = bool(arguments["shuffle_rows"] or arguments["shuffle_row_groups"])
    options = {"seed": arguments["seed"], "epochs": arguments["num_epochs"],
               "threads": arguments["threads"], "rank": arguments["cur_shard"] or 0, "world": world}
    return Reader(pipeline.shuffle(shuffle).batch(batch_size * world), options, batched, transform,
                  arguments["transform_threads"], codecs)


def make_batch_reader(dataset_url_or_urls: Any, schema_fields: Sequence | None = None,
                      workers_count: int = 0, seed: int | None = None, shuffle_rows: bool = False,
                      shuffle_row_groups: bool = True, num_epochs: int | None = 1,
                      cur_shard: int | None = None, shard_count: int | None = None,
                      cache_type: str | None = "null", cache_location: str | None = None,
                      transform_spec: TransformSpec | None = None, filters: Sequence | None = None,
                      where: list | None = None, batch_size: int = 1024, nulls: str = "error",
                      fill: float = 0, **others: Any) -> Reader:
    """A reader of batches: namedtuples of arrays.

    workers_count: threads; 0 is one for each CPU. where, nulls, fill: as mr.parquet takes them; with
    nulls="fill", fill=float("nan") nulls among floats are what pandas makes of them.
    transform_spec: its function takes and returns a pandas DataFrame, as Petastorm's does; it runs in
    workers_count threads of Python, ahead of the batch that is used, and in the thread that takes the
    batches with reader_pool_type="dummy". A pipeline's ops run without Python's lock."""
    _check(others)
    given = dataset_url_or_urls if isinstance(dataset_url_or_urls, (list, tuple)) else [dataset_url_or_urls]
    pipeline = _pipeline([_path(url, _FAR) for url in given], schema_fields, _where(where, filters),
                         _cache(cache_type, cache_location), {"nulls": nulls, "fill": fill})
    transform = _frames(transform_spec) if transform_spec else None
    return _open(pipeline, True, transform, batch_size,
                 {"seed": seed, "num_epochs": num_epochs, "cur_shard": cur_shard,
                  "shard_count": shard_count, "shuffle_rows": shuffle_rows,
                  "shuffle_row_groups": shuffle_row_groups, "threads": workers_count,
                  "transform_threads": _threads_of(workers_count, others.get("reader_pool_type"))})


def make_reader(dataset_url: Any, schema_fields: Sequence | None = None, workers_count: int = 0,
                seed: int | None = None, shuffle_rows: bool = False, shuffle_row_groups: bool = True,
                num_epochs: int | None = 1, cur_shard: int | None = None,
                shard_count: int | None = None, cache_type: str | None = "null",
                cache_location: str | None = None, transform_spec: TransformSpec | None = None,
                filters: Sequence | None = None, where: list | None = None, batch_size: int = 1024,
                nulls: str = "error", fill: float = 0, **others: Any) -> Reader:
    """A reader of rows: namedtuples of values. Arrays and images in Petastorm's codecs are decoded.

    transform_spec: its function takes and returns a dictionary of one row's arrays, in the threads:
    it is .map() of the pipeline. Its edit_fields say what the function adds or makes otherwise."""
    _check(others)
    path = _path(dataset_url)
    codecs = _codecs(path)
    pipeline = _decoded(_pipeline([path], schema_fields, _where(where, filters),
                                  _cache(cache_type, cache_location),
                                  {"nulls": nulls, "fill": fill}), codecs)
    if transform_spec:
        pipeline = _transformed(pipeline, transform_spec)
        edited = {_edited(field)[0] for field in transform_spec.edit_fields}
        codecs = [field for field in codecs if field["name"] not in edited]
    return _open(pipeline, False, None, batch_size,
                 {"seed": seed, "num_epochs": num_epochs, "cur_shard": cur_shard,
                  "shard_count": shard_count, "shuffle_rows": shuffle_rows,
                  "shuffle_row_groups": shuffle_row_groups, "threads": workers_count,
                  "transform_threads": 0}, codecs)
