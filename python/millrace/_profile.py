# SPDX-License-Identifier: Apache-2.0
"""Profiles of loaders that people have: a trace of a torch DataLoader, as loader(trace=...) gives of
ours, without a change to the program.

    with mr.profile(loader, "run.trace"):
        train(loader)
    print(mr.report("run.trace"))

Torch's own worker loop runs in torch's own processes; a recorder beside it writes down when each sample,
step and batch began and ended. Nothing else is different: not a byte, not the order, not a seed.
"""
from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import _core, _profile_pin
from ._loader import Loader
from ._profile_join import join, parts_of
from ._profile_ops import Site, Watch, find, one_of_each, size_of, watch_fetcher, watch_steps
from ._profile_pin import spent_by
from ._profile_worker import Job, batch_number, disk_bytes, loop, originals
from ._sweep import is_torchs, rows_of
from ._translate import Outlook
from ._world import detect

_WAIT, _DELIVER, _CONSUME, _START = map(_core.record_kind,
                                        ("wait_batch", "deliver", "consume", "start"))
_starting = threading.Lock()  # torch's loop and fetchers are exchanged while workers start


# ---- What is known of a loader ----
def _is_batched(loader: Any) -> bool:
    return loader.batch_sampler is not None and \
        bool(getattr(loader.dataset, "__getitems__", None))


def _ahead(loader: Any) -> int:
    return (loader.prefetch_factor or 0) * loader.num_workers or 1


def _batch(loader: Any) -> int:
    """The most samples of a batch, as far as it is known beforehand: batch samplers need not tell."""
    told = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    return told if isinstance(told, int) and told > 0 else 1


def _setup(loader: Any) -> dict[str, Any]:
    try:
        samples = len(loader.dataset)
    except TypeError:
        samples = 0
    rank, world = detect(None, None)
    return {"threads": max(loader.num_workers, 1), "cpus": len(os.sched_getaffinity(0)),
            "world": world, "rank": rank, "batch": _batch(loader), "batches_ahead": _ahead(loader),
            "reads_in_flight": 0, "morsel": 1, "batch_bytes": 0, "dataset_samples": samples,
            "checked_bytes_per_second": 0, "io": "", "cpu": "", "batched": _is_batched(loader),
            "workers": loader.num_workers, "persistent": bool(loader.persistent_workers),
            "prefetch": loader.prefetch_factor or 0}


def _fingerprint(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _header(loader: Any, sites: list[Site], names: bool) -> dict[str, Any]:
    """What is known beforehand. `as` is what a step would cost as an op, against what it costs."""
    ops: list[dict[str, Any]] = [{"name": site.name, "host": False, "random": False, "opaque": True, "fused": 0}
                                 for site in one_of_each(sites)]
    translation: dict[str, Any] = {}
    try:
        outlook = Outlook(loader)
        for op, site in zip(ops, one_of_each(sites)):
            op["as"] = outlook.costs.get(id(site.holder[site.key]), 1.0)
        document = {"pipeline": outlook.document} if names and outlook.document else {}
        translation = {"translation": document}
    except Exception:  # an outlook is no reason to end a training
        pass
    source, collate = type(loader.dataset).__name__, getattr(loader.collate_fn, "__qualname__", "")
    # Ranks may have folders, files and lengths of their own; what they do with them is the same.
    return {**translation, "millrace": _core.version, "foreign": "torch", "source": source,
            "fingerprint": _fingerprint(source, [op["name"] for op in ops], _batch(loader), collate),
            "dataset": _fingerprint(source), "seed": 0, "first_epoch": 0, "pipeline": "",
            "setup": _setup(loader), "ops": ops}


def _names_of(dataset: Any) -> Callable[[int], str]:
    """What a dataset calls its samples, where it tells: files of torchvision's folders."""
    for attribute in ("samples", "imgs", "files", "paths"):
        listed = getattr(dataset, attribute, None)
        if isinstance(listed, (list, tuple)) and listed:
            def name(sample: int) -> str:
                entry = listed[sample] if 0 <= sample < len(listed) else ""
                return str(entry[0] if isinstance(entry, (list, tuple)) else entry)
            return name
    return lambda sample: f"sample {sample}"


# ---- An epoch as the program sees it ----
def _others_ns() -> int:
    """CPU time of all threads of the program but this one."""
    return time.process_time_ns() - time.thread_time_ns()


class _Epoch:
    """Torch's iterator, timed from outside."""

    def __init__(self, batches: Any, session: "_OfTorch", epoch: int) -> None:
        self._batches, self._session, self._epoch = batches, session, epoch
        self._place, self._taken = 0, 0

    def __iter__(self) -> "_Epoch":
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __next__(self) -> Any:
        session = self._session
        recorder = session.recorder
        if recorder is None:
            return next(self._batches)
        if self._taken:
            recorder.add(_CONSUME, self._taken, batch_number(self._epoch, self._place - 1), 0)
            self._taken = 0
        number, begun = batch_number(self._epoch, self._place), recorder.now()
        session.begin_batch(number)
        others, pinned = _others_ns(), spent_by(threading.current_thread())
        batch = next(self._batches)
        session.beside_ns += _others_ns() - others
        session.pinning_ns += spent_by(threading.current_thread()) - pinned
        if session.recorder is not recorder:
            return batch
        recorder.add(_WAIT, begun, number, 0)
        self._taken = recorder.now()
        recorder.add(_DELIVER, self._taken, number, size_of(batch))
        self._place += 1
        session.count(batch, recorder.now() - begun)
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


# ---- Starting workers ----
def _loops() -> list[Any]:
    """The modules in which loops of worker processes are looked up when these are started."""
    from torch.utils.data._utils import worker
    stateful = sys.modules.get("torchdata.stateful_dataloader.stateful_dataloader")
    return [worker] if stateful is None else [worker, stateful]


def _undisturbed(work: Callable[[], None]) -> None:
    """Runs to its end whatever signals arrive: torch's handler raises where a worker has died, Ctrl-C
    anywhere. Handlers run in the main thread, so the work is another's; what they raised comes after."""
    done, raised = threading.Event(), None

    def run() -> None:
        try:
            work()
        finally:
            done.set()

    thread = threading.Thread(target=run)
    try:
        thread.start()
    except BaseException as error:
        raised = error
    if thread.ident is None:  # the interpreter ends, and starts no more of them
        run()
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:
            raised = raised or error
    if raised is not None:
        raise raised


class Profile:
    """A profile that is being made; see profile(). What a program did with the loader, it may do with this."""

    def __init__(self, loader: Any, path: str | os.PathLike[str]) -> None:
        self.loader, self.trace = loader, os.fspath(path)

    def close(self) -> None:
        """Ends the profile; the trace is whole."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self.loader

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        except BaseException:  # a handler of signals raised: what is left is done first
            self.close()
            raise

    def __iter__(self) -> Any:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet
            raise AttributeError(name)
        return getattr(self.loader, name)


class _OfOurs(Profile):
    """Of a loader of ours, which writes its trace itself."""

    def __init__(self, loader: Any, path: str | os.PathLike[str], names: bool) -> None:
        super().__init__(loader, path)
        if loader.trace:
            raise ValueError(f"the loader writes a trace already, to {loader.trace}")
        self._engine: Any = loader
        loader._retrace(self.trace, names)

    def close(self) -> None:
        """Ends the profile; the loader goes on without."""
        engine, self._engine = self._engine, None
        if engine is not None and engine._core is not None:
            engine._retrace(None)


class _OfTorch(Profile):
    """A profile of torch's loader that is being made; see profile()."""

    def __init__(self, loader: Any, path: str | os.PathLike[str], names: bool) -> None:
        super().__init__(loader, path)
        self._watched = loader
        self.recorder: Any = None
        self._names, self._sites = names, find(loader.dataset)
        self._epochs = self._samples = self._batches = self.beside_ns = self.pinning_ns = 0
        self._pinners: set[threading.Thread] = set()
        self._disk_bytes = disk_bytes()
        self._class = type(loader)
        self._watch: Watch | None = None
        self._restore: Callable[[], None] | None = None
        self._owner, self._ending = os.getpid(), threading.Lock()
        for part in parts_of(self.trace):
            os.unlink(part)
        self._open()

    # ---- The program's side ----
    def _open(self) -> None:
        loader = self._watched
        self._ops = [site.name for site in one_of_each(self._sites)]
        self._header = json.dumps(_header(loader, self._sites, self._names))
        alone = loader.num_workers == 0
        self.recorder = _core.Recorder(self.trace, self._header, len(self._ops), True, alone, None)
        if alone:
            self._watch = Watch(self.recorder)
            self._restore = watch_steps(self._sites, self._watch)
        profiled = type(self._class.__name__, (self._class,),
                        {"__iter__": lambda _: self._begin(), "__module__": self._class.__module__,
                         "__qualname__": self._class.__qualname__})
        loader.__class__ = profiled
        self._pins = bool(loader.pin_memory)
        if self._pins:
            _profile_pin.begin()
        atexit.register(self.close)

    def _begin(self) -> Any:
        if self.recorder is None or os.getpid() != self._owner:
            return self._class.__iter__(self._watched)
        epoch, begun = self._epochs, self.recorder.now()
        self._epochs += 1
        with _starting:
            batches = self._start(epoch)
        self.recorder.add(_START, begun, batch_number(epoch, 0), 0)
        if getattr(batches, "_pin_memory_thread", None) is not None:
            self._pinners.add(batches._pin_memory_thread)
        return _Epoch(batches, self, epoch)

    def _start(self, epoch: int) -> Any:
        from torch.utils.data import _DatasetKind
        create = _DatasetKind.__dict__["create_fetcher"]
        for module in _loops():
            originals[module.__name__] = module._worker_loop
            job = Job(module.__name__, self.trace, self._header, self._ops, self.recorder.zero, epoch)
            module._worker_loop = functools.partial(loop, job)
        if self._watch is not None:
            watch, make = self._watch, create.__func__
            _DatasetKind.create_fetcher = staticmethod(lambda *args: watch_fetcher(make(*args), watch))
        try:
            return self._class.__iter__(self._watched)
        finally:
            for module in _loops():
                module._worker_loop = originals.pop(module.__name__)
            _DatasetKind.create_fetcher = create

    def begin_batch(self, number: int) -> None:
        if self._watch is not None:
            self._watch.batch = number

    def count(self, batch: Any, ticks: int) -> None:
        self._batches += 1
        # Without a batch size, what the dataset gives is one sample, whatever it has inside.
        whole = self._watched.batch_sampler is not None
        self._samples += rows_of(batch, _batch(self._watched)) if whole else 1

    # ---- The end ----
    def close(self) -> None:
        """Ends the profile: the loader is as it was, and the trace is whole. Workers that are kept
        for further epochs are let go first."""
        if self.recorder is None or os.getpid() != self._owner:
            return
        self._watched.__class__ = self._class
        if self._restore is not None:
            self._restore()
        _undisturbed(self._finish)
        atexit.unregister(self.close)

    def _finish(self) -> None:
        with self._ending:
            recorder, self.recorder = self.recorder, None
            if recorder is None:
                return
            self._let_workers_go()
            self._end_pinning()
            recorder.close(json.dumps({"samples": self._samples, "batches": self._batches, "skipped": 0,
                                       "bytes_read": 0, "wait_ns": 0, "refused": 0, "whole_bytes": [],
                                       "beside_ns": self.beside_ns, "pinning_ns": self.pinning_ns,
                                       "disk_bytes": self._own_disk_bytes()}))
            name = _names_of(self._watched.dataset) if self._names else lambda sample: f"sample {sample}"
            join(self.trace, parts_of(self.trace), name)

    def _end_pinning(self) -> None:
        if self._pins:
            self.pinning_ns += sum(map(spent_by, self._pinners))
            _profile_pin.end()

    def _own_disk_bytes(self) -> int:
        return 0 if self._watched.num_workers else disk_bytes() - self._disk_bytes

    def _let_workers_go(self) -> None:
        """Workers of an epoch that goes on write until they end. The next epoch starts others."""
        kept = getattr(self._watched, "_iterator", None)
        if kept is not None:
            self._watched._iterator = None
            kept._shutdown_workers()


def _profile_work(loader: Any, path: str | os.PathLike[str], names: bool) -> Profile:
    """Of mr.torch.DataLoader: what makes its batches at the moment is profiled."""
    work = loader._settled()
    if getattr(work, "loader", None) is not None:
        made: Profile = _OfOurs(work.loader, path, names)
    elif getattr(work, "inner", None) is not None:
        made = _OfTorch(work.inner, path, names)
    else:
        raise TypeError('threads that follow a sampler have no trace: use workers="processes", or no sampler')
    made.loader = loader
    return made


def profile(loader: Any, path: str | os.PathLike[str], *, names: bool = True) -> Profile:
    """Records what a loader does into a trace, from now on until the `with` block or the program ends, or
    close() is called: torch's DataLoader, torchdata's StatefulDataLoader, or one of ours. Iterate over the
    loader as before, or over what this returns.

    Per batch: how long the program waited for it, how long it lay ready, whether a later one was ready
    first. Per sample: each step that the dataset keeps in an attribute (transforms, one by one in a
    Compose; `loader`), and its own time as `fill`; `seal` is collate_fn. mr.report() reads the trace,
    `millrace report` too.

    names=False leaves names of files and folders out. Sizes, names of steps and times are all else that is kept.
    """
    if is_torchs(loader):
        return _OfTorch(loader, path, names)
    if isinstance(loader, Loader):
        return _OfOurs(loader, path, names)
    if type(loader).__module__ == "millrace.torch" and hasattr(loader, "_settled"):
        return _profile_work(loader, path, names)
    module = type(loader).__module__
    kind = type(loader).__name__ if module == "builtins" else f"{module}.{type(loader).__name__}"
    raise TypeError(f"profile() takes a torch DataLoader or a loader of millrace, not {kind}")
