# SPDX-License-Identifier: Apache-2.0
from os import PathLike
from typing import Any, Callable, Iterable, Iterator, Literal, NamedTuple

from torch import Generator
from torch.utils.data import DataLoader as _DataLoader

from . import Loader, Pipeline

class Note(NamedTuple):
    part: str
    how: str
    text: str

class Translation:
    dataset: Any
    pipeline: Pipeline
    notes: list[Note]
    fields: list[str]
    draws: bool
    has_python: bool
    wrote: list[str]
    threads: int
    @property
    def is_equal(self) -> bool: ...
    @property
    def code(self) -> str: ...
    def loader(self, **options: Any) -> Loader: ...
    def compare(self, samples: int = 4) -> dict[str, float]: ...
    def measure(self, seconds: float = 2.0) -> float: ...

def translate(loader: Any, folder: str | PathLike[str] | None = None) -> Translation: ...

class DataLoader(_DataLoader[Any]):
    seed: int | None
    rank: int | None
    world: int | None
    workers: str
    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Iterable[Any] | None = None,
                 batch_sampler: Iterable[Iterable[Any]] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], Any] | None = None,
                 multiprocessing_context: Any = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True, seed: int | None = None,
                 rank: int | None = None, world: int | None = None,
                 workers: Literal["threads", "processes", "auto"] = "auto") -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...  # type: ignore[override]  # an iterator, and none of torch's
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def set_epoch(self, epoch: int) -> None: ...
    @property
    def next_epoch(self) -> int: ...
    def close(self) -> None: ...
