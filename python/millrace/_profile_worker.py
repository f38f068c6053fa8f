# SPDX-License-Identifier: Apache-2.0
"""A worker process of a torch DataLoader that is profiled: torch's own loop, with a recorder beside it."""
from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from . import _core
from ._profile_ops import NO_BATCH, WAIT_WORK, Watch, find, one_of_each, watch_fetcher, watch_steps

# A batch's number in a worker's file: epoch and place in it. Joining makes them one row of numbers.
_PLACE_BITS = 20


class Job(NamedTuple):
    """What a worker needs to know; goes to it by pickle."""
    module: str  # whose _worker_loop it is
    path: str
    header: str
    names: list[str]
    zero: tuple[int, int, int]
    epoch: int


def disk_bytes() -> int:
    """What this process has had to get from a disk so far; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("read_bytes:")), 0)
    except OSError:
        return 0


def batch_number(epoch: int, place: int) -> int:
    fits = place < 1 << _PLACE_BITS and epoch < (1 << (32 - _PLACE_BITS)) - 1
    return epoch << _PLACE_BITS | place if fits else NO_BATCH


# Torch's own loops by their modules, while others stand in their places; a forked worker has this too.
originals: dict[str, Callable[..., None]] = {}


def _original(module: str) -> Callable[..., None]:
    return originals.get(module) or import_module(module)._worker_loop


class _Orders:
    """The queue of indices: tells which batch comes next, and how long the worker waited for it."""

    def __init__(self, queue: Any, watch: Watch, epoch: int) -> None:
        self._queue, self._watch, self._epoch = queue, watch, epoch
        self._begun: int | None = None

    def get(self, *args: Any, **keywords: Any) -> Any:
        recorder = self._watch.recorder
        if self._begun is None:
            self._begun = recorder.now()
        order = self._queue.get(*args, **keywords)
        if isinstance(order, tuple):
            self._watch.batch = batch_number(self._epoch, order[0])
        elif order is not None:  # the next epoch, for workers that stay
            self._epoch += 1
        recorder.add(WAIT_WORK, self._begun, self._watch.batch, 0)
        self._begun = None
        return order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def _watch_fetchers(watch: Watch) -> None:
    """This process is torch's worker alone, so nothing is put back."""
    from torch.utils.data import _DatasetKind
    create = _DatasetKind.create_fetcher
    _DatasetKind.create_fetcher = staticmethod(
        lambda *args: watch_fetcher(create(*args), watch))


def loop(job: Job, *args: Any) -> None:
    """In place of torch's worker loop, which it runs."""
    original = _original(job.module)
    given = inspect.signature(original).bind(*args).arguments
    path = f"{job.path}.{job.epoch}.{given['worker_id']}.{os.getpid()}.part"
    header = json.dumps({**json.loads(job.header), "worker": given["worker_id"]})
    try:
        recorder = _core.Recorder(path, header, len(job.names), False, True, job.zero)
    except OSError:  # a profile that cannot be written is no reason to end a training
        original(*args)
        return
    watch, before = Watch(recorder), disk_bytes()
    given["index_queue"] = _Orders(given["index_queue"], watch, job.epoch)
    sites = find(given["dataset"])
    if [site.name for site in one_of_each(sites)] == job.names:
        watch_steps(sites, watch)
    _watch_fetchers(watch)
    try:
        original(*given.values())
    finally:
        recorder.close(json.dumps({"disk_bytes": disk_bytes() - before}))
