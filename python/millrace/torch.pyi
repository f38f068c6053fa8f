# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, Iterator

from torch import Generator

class DataLoader:
    dataset: Any
    batch_size: int | None
    num_workers: int
    drop_last: bool
    pin_memory: bool
    generator: Generator | None
    collate_fn: Callable[..., Any]
    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: None = None, batch_sampler: None = None, num_workers: int = 0,
                 collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn: None = None,
                 multiprocessing_context: None = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True, seed: int | None = None,
                 rank: int | None = None, world: int | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    @property
    def sampler(self) -> DataLoader: ...
    def set_epoch(self, epoch: int) -> None: ...
    def close(self) -> None: ...
