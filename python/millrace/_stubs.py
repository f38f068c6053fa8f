# SPDX-License-Identifier: Apache-2.0
"""Writes __init__.pyi, for type checkers and editors, from the tables:

    python -m millrace._stubs > python/millrace/__init__.pyi
"""
from . import _tables

_HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by python -m millrace._stubs from the tables: do not edit.
from os import PathLike
from typing import Any, Callable, Iterator, Literal, Mapping, Sequence

import numpy as np

from . import torch as torch

__version__: str
IMAGENET_MEAN: tuple[float, float, float]
IMAGENET_STD: tuple[float, float, float]

_Type = str | tuple[str, Sequence[int | None]] | tuple[str, Sequence[int | None], str]


class SampleError(RuntimeError):
    file: str
    index: int
    op: str


class StateError(ValueError): ...


class Ragged:
    values: Any
    offsets: Any
    shapes: Any
    def __init__(self, values: Any, offsets: Any, shapes: Any) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def texts(self) -> list[str]: ...


class Batch(dict[str, Any]):
    epoch: int
    step: int
    size: int
    valid: int
    digest: str
    samples: np.ndarray[Any, np.dtype[np.int64]]


class Sheet:
    png: bytes
    path: str | PathLike[str] | None


class Loader:
    pipeline: Pipeline
    rank: int
    world: int
    def __enter__(self) -> Loader: ...
    def __exit__(self, *_: object) -> None: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __len__(self) -> int: ...
    def one_epoch(self) -> Iterator[Batch]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    def digest(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def flush(self) -> None: ...
    def skips(self) -> list[dict[str, Any]]: ...
    def metrics(self) -> str: ...
    @property
    def trace(self) -> str | None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class Report:
    trace: str
    other: str | None
    @property
    def text(self) -> str: ...
    @property
    def figures(self) -> dict[str, Any]: ...
    @property
    def verdict(self) -> dict[str, Any]: ...
    @property
    def html(self) -> str: ...
    def explain(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def export(self, path: str | PathLike[str],
               format: Literal["chrome", "csv"] = "chrome") -> None: ...


def report(trace: str | PathLike[str] | Loader, other: str | PathLike[str] | Loader | None = None,
           out: str | PathLike[str] | None = None) -> Report: ...
def show(batch: Batch, path: str | PathLike[str] | None = None, *, columns: int = 0,
         cell: int = 0) -> Sheet: ...
def dataset(object: Any, fields: Mapping[str, _Type] | None = None, *,
            names: Sequence[str] | None = None, version: str = "") -> Pipeline: ...
'''

_PIPELINE = '''

class Pipeline:
    @classmethod
    def from_json(cls, text: str | bytes | dict[str, Any],
                  functions: Mapping[str, Callable[..., Any]] | None = None) -> Pipeline: ...
    @property
    def document(self) -> dict[str, Any]: ...
    def to_json(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def types(self) -> dict[str, tuple[str, tuple[int, ...], str]]: ...
    def map(self, function: Callable[..., Any], *, field: str | None = None,
            fields: Mapping[str, _Type] | _Type | None = None, processes: int = 0,
            version: str | int | None = None) -> Pipeline: ...
    def auto_cache(self, **parameters: Any) -> Pipeline: ...
    def map_batch(self, function: Callable[..., Any]) -> Pipeline: ...
    def loader(self, *, seed: int | None = None, epochs: int | None = None,
               batch: int | None = None, to: Literal["numpy", "torch", "jax"] = "numpy",
               threads: int = 0, rank: int | None = None, world: int | None = None,
               digest: bool = False, ragged: Literal["values", "nested"] = "values",
               pin: bool | None = None, state: Mapping[str, Any] | None = None,
               batches_ahead: int = 0, reads: int = 0, read_ahead_bytes: int = 0,
               io: Literal["auto", "uring", "pread"] = "auto", disable_cpu: str | None = None,
               allocator: Callable[[int], Any] | None = None,
               trace: str | PathLike[str] | None = None) -> Loader: ...
'''


def _quoted(text):
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _definition(table, indent, first, extra):
    signature = _tables.signature_of(table, "Pipeline", first=first, extra=extra)
    parts = []
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            parts.append("*")
        text = p.name if p.annotation is p.empty else f"{p.name}: {p.annotation}"
        parts.append(text if p.default is p.empty else f"{text} = {p.default!r}")
    doc = "\n".join(f"{indent}    {line}".rstrip()
                    for line in _quoted(_tables.doc_of(table)).split("\n"))
    return (f"{indent}def {table['name']}({', '.join(parts)}) -> Pipeline:\n"
            f'{indent}    """{doc.strip()}"""\n')


def _setting(row):
    table = {"name": row["name"], "summary": row["doc"], "doc": None,
             "params": [{**row, "default": None}]}
    return _definition(table, "    ", ("self",), ())


def text():
    tables = _tables.TABLES
    parts = [_HEAD]
    parts += [_definition(table, "", (), ()) for table in tables["sources"]]
    parts.append(_PIPELINE)
    parts += [_setting(row) for row in tables["settings"]]
    parts += [_definition(table, "    ", ("self",), (_tables.FIELD,)) for table in tables["ops"]]
    return "".join(parts)


if __name__ == "__main__":
    print(text(), end="")
