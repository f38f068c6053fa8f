# SPDX-License-Identifier: Apache-2.0
"""The steps of a dataset that is somebody else's: found in its attributes, timed where they are called.

A dataset keeps what it calls on every sample in attributes: `transform`, `loader`, a Compose of several.
Each that can be called is a step; of containers that only call their parts one after the other, the parts
are. All processes find the same steps in the same order, so numbers are enough to name one. While it is
timed a step stands behind a wrapper that looks like it; afterwards everything is as it was.
"""
from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _core

FILL, OP, SEAL, WAIT_WORK = map(_core.record_kind, ("fill", "op", "seal", "wait_work"))
NO_BATCH = 2**32 - 1
_IN_TURN = ("Compose", "Sequential", "StandardTransform", "ReplayCompose")
_MOST_OPS, _MOST_DEPTH = 1000, 8


class Site(NamedTuple):
    """Where a step is kept: holder[key]."""
    holder: Any  # a list or dict
    key: Any
    name: str
    op: int


def _is_dataset(value: Any) -> bool:
    return (hasattr(type(value), "__getitem__") or hasattr(type(value), "__iter__")) and \
        hasattr(value, "__dict__") and not isinstance(value, type)


def _parts(value: Any) -> Any:
    """The list or dict that a container calls in turn, or None."""
    if type(value).__name__ not in _IN_TURN:
        return None
    modules = getattr(value, "_modules", None)
    if type(value).__name__ == "Sequential" and isinstance(modules, dict):
        return modules
    if type(value).__name__ == "StandardTransform":
        return value.__dict__
    parts = getattr(value, "transforms", None)
    return parts if isinstance(parts, list) else getattr(parts, "_modules", None)


def _name(key: Any, value: Any) -> str:
    own = getattr(value, "__name__", None)
    if isinstance(own, str):
        return own if own != "<lambda>" else f"{key}"
    return type(value).__name__


def _entries(holder: Any) -> list[tuple[Any, Any]]:
    return list(enumerate(holder) if isinstance(holder, list) else holder.items())


def _find(holder: Any, depth: int, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    for key, value in _entries(holder):
        if id(value) in seen or isinstance(value, type):
            continue
        parts = _parts(value)
        if parts is not None and depth < _MOST_DEPTH:
            seen.add(id(value))
            yield from _find(parts, depth + 1, seen)
        elif callable(value):
            yield holder, key
        elif _is_dataset(value) and depth < _MOST_DEPTH:
            seen.add(id(value))
            yield from _find(vars(value), depth + 1, seen)
        elif isinstance(value, list) and 0 < len(value) <= 64 and depth < _MOST_DEPTH and \
                all(_is_dataset(one) and not isinstance(one, (list, tuple, dict)) for one in value):
            seen.add(id(value))
            yield from _find(value, depth + 1, seen)


def find(dataset: Any) -> list[Site]:
    """The places where a dataset keeps its steps, in the order of its attributes. A step in several
    places is one op: torchvision's datasets have their transform twice."""
    if not hasattr(dataset, "__dict__"):
        return []
    found: list[Site] = []
    ops: dict[int, int] = {}
    for holder, key in _find(vars(dataset), 0, {id(dataset)}):
        step = holder[key]
        found.append(Site(holder, key, _name(key, step), ops.setdefault(id(step), len(ops))))
        if len(found) == _MOST_OPS:
            break
    return found


def one_of_each(sites: list[Site]) -> list[Site]:
    """The first place of each op: its name is the op's."""
    first: dict[int, Site] = {}
    for site in sites:
        first.setdefault(site.op, site)
    return list(first.values())


def _of_all(values: Any) -> int:
    return sum(map(size_of, values[:8]))


def _of_image(image: Any) -> int:
    width, height = image.size
    return width * height * len(image.getbands())


def _nothing(value: Any) -> int:
    return 0


def _way_to_size(value: Any) -> Callable[[Any], int]:
    if isinstance(getattr(value, "nbytes", None), int):
        return _NBYTES
    if isinstance(value, (bytes, str)):
        return len
    if isinstance(value, (tuple, list)):
        return _of_all
    if isinstance(value, dict):
        return lambda values: _of_all(list(values.values()))
    return _of_image if hasattr(value, "getbands") else _nothing


_NBYTES = operator.attrgetter("nbytes")
_ways: dict[type, Callable[[Any], int]] = {}  # asked for at every step: found once for each type


def size_of(value: Any) -> int:
    """Bytes of an array, a tensor, an image or a text; 0 where it is not cheap to tell."""
    way = _ways.get(type(value))
    if way is None:
        way = _ways[type(value)] = _way_to_size(value)
    try:
        return way(value)
    except Exception:  # another value of the type had it
        return 0


class Watch:
    """The stopwatch of one thread that makes samples."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.thread = threading.get_ident()
        self.batch = NO_BATCH
        self.busy = False    # inside a sample
        self.inside = False  # inside a step

    def sample(self, index: Any, make: Callable[[], Any]) -> Any:
        if self.busy or threading.get_ident() != self.thread:
            return make()
        self.recorder.begin(index if isinstance(index, int) else -1, self.batch)
        self.busy = True
        try:
            return make()
        finally:
            self.busy = self.inside = False
            self.recorder.lap(FILL, 0, 0, 0)
            self.recorder.end()

    def step(self, op: int, call: Callable[..., Any], args: Any, keywords: Any) -> Any:
        if not self.busy or self.inside or threading.get_ident() != self.thread:
            return call(*args, **keywords)
        self.inside = True
        self.recorder.lap(FILL, 0, 0, 0)
        result = None
        try:
            result = call(*args, **keywords)
            return result
        finally:
            self.inside = False
            given = args[0] if args else next(iter(keywords.values()), None)
            self.recorder.lap(OP, op, size_of(given), size_of(result))

    def batch_of(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(samples: Any) -> Any:
            begun = self.recorder.now()
            result = collate(samples)
            self.recorder.add(SEAL, begun, self.batch, size_of(result))
            return result
        return timed


def _same(value: Any) -> Any:
    return value


class _Step:
    """A step behind its stopwatch. It has the attributes and the class of what it stands for, and
    is pickled as that."""

    __slots__ = ("_step", "_op", "_watch", "__weakref__")

    def __init__(self, step: Any, op: int, watch: Watch) -> None:
        object.__setattr__(self, "_step", step)
        object.__setattr__(self, "_op", op)
        object.__setattr__(self, "_watch", watch)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._watch.step(self._op, self._step, args, keywords)

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return type(self._step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._step, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._step, name)

    def __repr__(self) -> str:
        return repr(self._step)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _same, (self._step,)


def watch_steps(sites: list[Site], watch: Watch) -> Callable[[], None]:
    """Puts every step behind the stopwatch; the result puts all of them back."""
    kept = [(site, site.holder[site.key]) for site in sites]
    for site, step in kept:
        site.holder[site.key] = _Step(step, site.op, watch)

    def restore() -> None:
        for site, step in kept:
            if isinstance(site.holder, list) and site.key >= len(site.holder):
                continue
            if type(site.holder[site.key]) is _Step:
                site.holder[site.key] = step
    return restore


# ---- Fetchers of torch: what turns indices into a batch, in a worker or in the program itself ----
class _Samples:
    """A map dataset as its fetcher sees it."""

    def __init__(self, dataset: Any, watch: Watch) -> None:
        self._dataset, self._watch = dataset, watch

    def __getitem__(self, index: Any) -> Any:
        return self._watch.sample(index, lambda: self._dataset[index])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _Batches(_Samples):
    """One that gives all samples of a batch at once: they are timed as one."""

    def __getitems__(self, indices: Any) -> Any:
        first = indices[0] if len(indices) else -1
        return self._watch.sample(first, lambda: self._dataset.__getitems__(indices))


class _Items:
    """The iterator of an iterable dataset."""

    def __init__(self, items: Any, watch: Watch) -> None:
        self._items, self._watch, self._n = items, watch, 0

    def __iter__(self) -> "_Items":
        return self

    def __next__(self) -> Any:
        self._n += 1
        return self._watch.sample(self._n - 1, lambda: next(self._items))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


def watch_fetcher(fetcher: Any, watch: Watch) -> Any:
    if hasattr(fetcher, "dataset_iter"):
        fetcher.dataset_iter = _Items(fetcher.dataset_iter, watch)
    else:
        several = getattr(fetcher.dataset, "__getitems__", None)
        fetcher.dataset = (_Batches if several else _Samples)(fetcher.dataset, watch)
    fetcher.collate_fn = watch.batch_of(fetcher.collate_fn)
    return fetcher
