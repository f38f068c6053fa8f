# SPDX-License-Identifier: Apache-2.0
"""One job under several settings: how fast, at what CPU time and memory, and what then holds it up.

    result = mr.sweep(lambda **how: DataLoader(data, 64, **how), num_workers=[1, 2, 4])
    print(result)
    result.save("sweep.html")
"""
from __future__ import annotations

import csv
import gc
import html
import io
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _core
from ._loader import Loader

_TABLE, _CSV, _PAGE, _CONCLUSION = range(4)
_TRACE_SWEEP = 3


# ---- Batches of any loader ----
def rows_of(batch: Any, otherwise: int = 1) -> int:
    """How many samples a batch has, by its first array."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else otherwise
    if isinstance(batch, (list, tuple)):
        return rows_of(batch[0], len(batch)) if batch else otherwise
    return otherwise


def is_torchs(loader: Any) -> bool:
    """Whether torch's own code makes its batches; mr.torch.DataLoader has only the same type."""
    data, ours = sys.modules.get("torch.utils.data"), sys.modules.get("millrace.torch")
    return data is not None and isinstance(loader, data.DataLoader) and \
        not (ours is not None and isinstance(loader, ours.DataLoader))


def _epochs(loader: Iterable[Any], steps: int | None) -> Iterator[Iterator[Any]]:
    """Iterators to be gone through: one epoch, or as many as give so many steps."""
    yield iter(loader)
    while steps is not None:
        yield iter(loader)


def _take(loader: Iterable[Any], steps: int | None, consume: Callable[[Any], Any] | None) -> int:
    samples, left = 0, steps
    for batches in _epochs(loader, steps):
        try:
            before = left
            for batch in batches if left is None else itertools.islice(batches, left):
                samples += rows_of(batch)
                left = left - 1 if left is not None else None
                if consume is not None:
                    consume(batch)
        finally:
            end = getattr(batches, "_shutdown_workers", None)
            if end is not None and not getattr(loader, "persistent_workers", False):
                end()  # so that their CPU time is known
        if not left or left == before:
            break
    return samples


def _close(loader: Any) -> None:
    kept = getattr(loader, "_iterator", None)
    if is_torchs(loader) and kept is not None:
        loader._iterator = None
        kept._shutdown_workers()
    close = getattr(loader, "close", None)
    if callable(close):
        close()


# ---- Memory ----
def _family(process: int) -> list[int]:
    found = [process]
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    found += _family(int(child))
    except OSError:
        pass
    return found


def _memory_now() -> int:
    """Bytes of this process and its children; pages that several share are counted once."""
    total = 0
    for process in _family(os.getpid()):
        try:
            with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
                total += sum(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return total


class _Memory:
    """The most that was in use meanwhile, looked at ten times a second."""

    def __enter__(self) -> "_Memory":
        self.most, self._end = _memory_now(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._end.wait(0.1):
            self.most = max(self.most, _memory_now())

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


# ---- One job ----
def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class _Job:
    def __init__(self, make: Callable[..., Any], how: dict[str, Any], steps: int | None,
                 consume: Callable[[Any], Any] | None) -> None:
        self.make, self.how, self.steps, self.consume = make, how, steps, consume
        self.rounds: list[dict[str, float]] = []
        self.memory = 0
        self.part: dict[str, Any] = {}
        self.error: Exception | None = None

    def _guarded(self, work: Callable[[], None]) -> None:
        if self.error is None:
            try:
                work()
            except Exception as error:  # a setting may be one that the loader refuses
                self.error = error
        gc.collect()

    def measure(self) -> None:
        def work() -> None:
            cpu, begun = _cpu(), time.perf_counter()
            loader = self.make(**self.how)
            try:
                samples = _take(loader, self.steps, self.consume)
                seconds = time.perf_counter() - begun
            finally:
                _close(loader)
            self.rounds.append({"seconds": seconds, "samples": samples, "cpu": _cpu() - cpu})
        self._guarded(work)

    def trace(self, path: str) -> None:
        def work() -> None:
            with _Memory() as memory:
                traced = self._traced(path)
            self.memory = memory.most
            if traced:
                self.part = json.loads(_core.trace_text(path, _TRACE_SWEEP))
        self._guarded(work)

    def _traced(self, path: str) -> bool:
        loader = self.make(**self.how)
        try:
            if isinstance(loader, Loader):
                options = {**loader._options, "state": None, "trace": path}
                loader.close()
                loader = loader.pipeline.loader(**options)
                _take(loader, self.steps, self.consume)
                return True
            if is_torchs(loader):
                from ._profile import profile
                with profile(loader, path, names=False):
                    _take(loader, self.steps, self.consume)
                return True
            _take(loader, self.steps, self.consume)
            return False
        finally:
            _close(loader)

    @property
    def document(self) -> dict[str, Any]:
        rounds = [{**one, "memory": self.memory} for one in self.rounds]
        run = {"set": {name: _plain(value) for name, value in self.how.items()}, "rounds": rounds, **self.part}
        return run if self.error is None else {**run, "error": f"{type(self.error).__name__}: {self.error}"}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else getattr(value, "__name__", str(value))


# ---- The result ----
class Sweep:
    """What a sweep found. print() shows the table and what follows from it, a notebook the page; `runs`
    has every measurement, `rows` a dictionary for each combination of settings."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._text = json.dumps(document)

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.document["runs"]

    @property
    def rows(self) -> list[dict[str, str]]:
        """As the CSV has them: medians, and figures of each op for one sample."""
        return list(csv.DictReader(io.StringIO(self.csv)))

    @property
    def csv(self) -> str:
        return _core.sweep_text(self._text, _CSV)

    @property
    def html(self) -> str:
        """The page, complete in itself."""
        return _core.sweep_text(self._text, _PAGE)

    @property
    def conclusion(self) -> str:
        """Which settings are fastest, and where more of it stops paying."""
        return _core.sweep_text(self._text, _CONCLUSION)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, or, where the name ends in .csv or .json, the figures."""
        name = os.fspath(path)
        text = self.csv if name.endswith(".csv") else self._text if name.endswith(".json") else self.html
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    def __str__(self) -> str:
        return _core.sweep_text(self._text, _TABLE)

    def __repr__(self) -> str:
        return f"<millrace.Sweep of {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html)}" title="millrace sweep" '
                'style="width:100%;height:760px;border:0;border-radius:12px"></iframe>')


def sweep(make_loader: Callable[..., Any], *, rounds: int = 3, steps: int | None = None,
          consume: Callable[[Any], Any] | None = None, **settings: Iterable[Any]) -> Sweep:
    """Measures a loader under every combination of settings: sweep(make, num_workers=[1, 2, 4],
    prefetch_factor=[2, 8]) calls make(num_workers=1, prefetch_factor=2) and so on. make_loader returns
    anything that gives batches: a torch DataLoader, a millrace loader, or what can be iterated over.

    Each is run `rounds` times, in turns with the others, for one epoch or `steps` batches, from making
    the loader to its last batch; consume(batch) is called with each. Then once more with a trace, which
    tells what holds it up and where its time goes (of torch's loaders and ours), and with an eye on
    memory. A setting that raises is listed with its error."""
    axes = {name: list(values) for name, values in settings.items()}
    if not axes or not all(axes.values()):
        raise ValueError("there is nothing to sweep: give lists of settings, num_workers=[1, 2, 4]")
    if rounds < 1 or (steps is not None and steps < 1):
        raise ValueError("rounds and steps must be at least 1")
    jobs = [_Job(make_loader, dict(zip(axes, values)), steps, consume)
            for values in itertools.product(*axes.values())]
    jobs[-1].measure()  # finds files that are not in memory yet: not counted
    jobs[-1].rounds.clear()
    for turn in range(rounds):
        for i in range(len(jobs)):
            jobs[(i + turn) % len(jobs)].measure()
    with tempfile.TemporaryDirectory() as folder:
        for job in jobs:
            job.trace(os.path.join(folder, "trace"))
    failed = [job.error for job in jobs if job.error is not None]
    if len(failed) == len(jobs):
        raise failed[0]
    return Sweep({"what": getattr(make_loader, "__name__", type(make_loader).__name__),
                  "axes": {name: [_plain(value) for value in values] for name, values in axes.items()},
                  "runs": [job.document for job in jobs]})
