# SPDX-License-Identifier: Apache-2.0
"""A stand-in for torch.utils.data.DataLoader: the same arguments and attributes, exact resume, an order
and random numbers that repeat.

Without a sampler the order is the law's: it comes from the seed. Samples are made by threads of this
process, which copy and pickle nothing, or by worker processes: see `workers`."""
from __future__ import annotations

import functools
import sys
import warnings
import weakref
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import (BatchSampler, DistributedSampler, IterableDataset, SequentialSampler,
                              default_collate, default_convert)

from . import _accelerate, _host, _random, _world
from ._errors import SampleError, StateError
from ._lookout import Lookout
from ._torch_work import (AtOnce, Engine, Planned, Sampled, SeededWhereDrawn, Stream, gives_many,
                          is_unlike, law_loader, place_of)
from ._translate import Translation, translate  # noqa: F401

_OBJECT = ("object", [("object", "int64", (), "")])
_MOST_DIMS = 6  # of a field


def _is_plain(value: Any) -> bool:
    """What batch memory can hold as it is, and default_collate would stack."""
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and value.device.type == "cpu" and \
            not value.requires_grad and not value.is_quantized
    numpy = sys.modules.get("numpy")
    return isinstance(value, (int, float)) or (numpy is not None and
                                               isinstance(value, (numpy.ndarray, numpy.generic)))


def _plain_parts(sample: Any) -> "list | None":
    if type(sample) in (tuple, list):
        parts = list(sample)
    elif type(sample) is dict:
        parts = list(sample.values()) if all(isinstance(k, str) for k in sample) else []
    else:
        parts = [sample]
    return parts if parts and all(map(_is_plain, parts)) else None


def _array_shape(samples: list) -> "tuple | None":
    """(structure, fields) where samples fit into batch memory, else None."""
    if any(_plain_parts(sample) is None for sample in samples):
        return None
    try:
        structure, fields = _host.look_at(samples, None)
    except (TypeError, ValueError):
        return None
    fixed = all(len(dims) <= _MOST_DIMS and min(dims, default=0) >= 0 for _, _, dims, _ in fields)
    if structure == "one" and type(samples[0]) in (tuple, list):
        return None  # a list of numbers: default_collate transposes it
    fields = [(name, dtype, dims, "") for name, dtype, dims, _ in fields]
    return (structure, fields) if fixed else None


def _share_of(samples: int, rank: int, world: int) -> int:
    """How many of a short batch a rank has: low ranks have more, as plan/schedule.c shares it."""
    return samples * (world - rank) // world - samples * (world - rank - 1) // world


class _Order(DistributedSampler):
    """The order of the law over the whole dataset, as a sampler: for programs that look at
    loader.sampler or build another loader from it. Each iteration is the next epoch, or that of
    set_epoch(), which is also the loader's. It is of this kind so that nobody shares it out again:
    the loader itself does. A loader that is made from it takes its rank's share, share_out()."""

    def __init__(self, loader: "DataLoader", options: "_Options"):  # pylint: disable=super-init-not-called
        self._loader, self._options, self._is_share, self._is_once = weakref.ref(loader), options, False, False
        self._dataset, self.epoch, self._seed = loader.dataset, 0, loader._seed()
        self._place_given = loader.rank, loader.world

    def share_out(self, once: bool) -> None:
        """once: no sample is given twice for the sake of ranks that have as many as the others."""
        self._is_share, self._is_once = True, once

    def __iter__(self) -> Iterator[int]:
        epoch = self.epoch
        self.epoch += 1
        place = _world.detect(*self._place_given) if self._is_share else (0, 1)
        if not self._options.shuffle and place[1] == 1:
            yield from range(len(self))
            return
        for batch in self._planned(epoch, place):
            yield from batch

    def _planned(self, epoch: int, place: tuple) -> Iterator[list]:
        loader = self._loader()
        if loader is not None:
            self._seed = loader._seed()
        plan = law_loader(self._dataset, _OBJECT, self._options, self._seed, *place, True, self._is_once)
        plan.set_epoch(epoch)
        for batch in plan:
            yield batch.samples.tolist()
        plan.close()

    def batches_of_rank(self) -> Iterator[list]:
        """This rank's batches of the epoch that the loader would give next, from its beginning. The loader's own
        next iteration is of the one behind it."""
        loader = self._loader()
        epoch = self.epoch if loader is None else loader.next_epoch
        (self if loader is None else loader).set_epoch(epoch + 1)
        yield from self._planned(epoch, _world.detect(*self._place_given))

    def __len__(self) -> int:
        if not self._is_share:
            return len(self._dataset)
        (rank, world), batch = _world.detect(*self._place_given), self._options.batch_size or 1
        if self._is_once:  # then nothing is dropped either
            steps, rest = divmod(len(self._dataset), batch * world)
            return steps * batch + _share_of(rest, rank, world)
        each = -(-len(self._dataset) // world)
        return each // batch * batch if self._options.drop_last else each

    def steps_of_rank(self) -> int:
        world, batch = _world.detect(*self._place_given)[1], self._options.batch_size or 1
        each = -(-len(self._dataset) // world)
        return each // batch if self._options.drop_last else -(-each // batch)

    def set_epoch(self, epoch: int) -> None:
        self.epoch, loader = epoch, self._loader()
        if loader is not None:
            loader.set_epoch(epoch)

    def whole_of(self) -> int:
        """Of how many ranks it has the samples."""
        return 1 if self._is_share else _world.detect(*self._place_given)[1]

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_loader": self._loader()}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._loader = weakref.ref(state["_loader"]) if state["_loader"] is not None else lambda: None


class _InOrder(_Order, SequentialSampler):
    """Without shuffling: Lightning asks what kind it is of."""


class _Batches(BatchSampler):
    """That order in batches, or another's that was put in its place. Of several ranks it has those of all."""

    def __iter__(self) -> Iterator[list]:
        if isinstance(self.sampler, _Order) and _accelerate.is_skipping():
            return self.sampler.batches_of_rank()
        world = self.sampler.whole_of() if isinstance(self.sampler, _Order) else 1
        if world > 1:
            warnings.warn("loader.batch_sampler has the batches of all ranks, and this process is one of "
                          f"{world}: whoever iterates over it must share them out. The loader itself does",
                          RuntimeWarning, stacklevel=2)
        return super().__iter__()

    def __len__(self) -> int:
        if isinstance(self.sampler, _Order) and _accelerate.is_skipping():
            return self.sampler.steps_of_rank()
        return super().__len__()

    def set_epoch(self, epoch: int) -> None:
        getattr(self.sampler, "set_epoch", lambda _: None)(epoch)


class _Options:
    """What the ways of making batches need to know."""

    def __init__(self, **values: Any):
        self.__dict__.update(values)

    def for_workers(self, initial: Callable) -> dict:
        """Arguments of torch's loader."""
        values = {"num_workers": self.num_workers, "pin_memory": self.pin_memory,
                  "timeout": self.timeout if self.num_workers else 0,
                  "multiprocessing_context": self.multiprocessing_context if self.num_workers else None,
                  "persistent_workers": self.persistent_workers}
        if self.num_workers:
            values.update(worker_init_fn=initial(self.worker_init_fn),
                          prefetch_factor=self.prefetch_factor)
        return values


class DataLoader(_accelerate.Told, torch.utils.data.DataLoader):
    """torch.utils.data.DataLoader's arguments, attributes and behaviour, and besides:

    The order depends on seed and epoch alone, or is the sampler's. state_dict() and load_state_dict()
    resume at any step, exactly. Numbers that samples, samplers and collate_fn draw from the generators
    of torch, random and numpy depend on seed, epoch and sample, not on the number of workers.

    seed: else the generator's, else torch.initial_seed(), or 0 where there are several ranks, which
    must agree on it (so does DistributedSampler).
    rank, world: found as by Pipeline.loader; batch_size is one rank's. A sampler, a batch_sampler and
    an iterable dataset tell ranks apart themselves.
    workers: "threads" of this process; "processes", those of torch's loader; "auto": threads, unless
    samples draw from global generators, the dataset gives whole batches (__getitems__), worker_init_fn
    or multiprocessing_context is given, a sample is seen to be made under the GIL for longer than a
    moment, or threads are seen to wait for each other under it.

    Each iteration is one epoch; one that is left early is followed by the next epoch. There is one
    iteration at a time: a new one ends the one before it.

    Nothing of torch's class is used: it is the base because programs ask whether a loader is of it, and
    make another from its attributes. So each argument is an attribute of its name, but for shuffle."""

    def __init__(self, dataset: Any, batch_size: "int | None" = 1, shuffle: "bool | None" = None,
                 sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: "Callable | None" = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: "Callable | None" = None, multiprocessing_context: Any = None,
                 generator: "torch.Generator | None" = None, *,
                 prefetch_factor: "int | None" = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True, seed: "int | None" = None,
                 rank: "int | None" = None, world: "int | None" = None, workers: str = "auto"):
        # pylint: disable=super-init-not-called
        self._iterable = isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__")
        self.dataset, self.num_workers, self.workers = dataset, num_workers, workers
        self.timeout, self.worker_init_fn, self.in_order = timeout, worker_init_fn, in_order
        self.generator = generator
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.persistent_workers, self.prefetch_factor = persistent_workers, prefetch_factor
        self._check(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if workers == "threads" and (worker_init_fn or multiprocessing_context):
            raise ValueError("worker_init_fn and multiprocessing_context are for worker processes: "
                             'leave them out, or use workers="processes" or "auto"')
        self.multiprocessing_context = multiprocessing_context  # torch's class looks at it
        self._sampler = batch_sampler if batch_sampler is not None else sampler
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self.batch_size, self.drop_last = batch_size, drop_last
        auto_collation = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if auto_collation else default_convert)
        self._has_collate = not auto_collation or self.collate_fn is not default_collate
        self._options = _Options(
            batch_size=batch_size, shuffle=bool(shuffle), drop_last=drop_last,
            auto_collation=auto_collation, collate_fn=self.collate_fn, num_workers=num_workers,
            timeout=timeout, worker_init_fn=worker_init_fn, pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context, prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers)
        self.seed, self._seed_here = seed, torch.initial_seed()
        self._seed_of_state: "int | None" = None
        self.rank, self.world = rank, world
        self._place = _world.detect(rank, world)
        self._work: Any = None
        self._saved: Any = None
        self._found: Any = None  # by _look()
        self._begun, self._iteration, self._next_epoch = False, 0, None
        self._asked = False  # for the rank and world, of which one warning is enough
        # accelerate takes a loader as it is that was prepared already, as one that knows its rank must be.
        self._is_accelerate_prepared = self._is_by_law = self._sampler is None and not self._iterable
        self._set_samplers(sampler, batch_sampler)

    def _check(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if self.num_workers < 0:
            raise ValueError("num_workers must not be negative")
        if self.timeout < 0:
            raise ValueError("timeout must not be negative")
        if not self.in_order:
            raise ValueError("millrace.torch.DataLoader does not take in_order=False: the order is "
                             "always exact")
        if self.workers not in ("threads", "processes", "auto"):
            raise ValueError('workers must be "threads", "processes" or "auto", not '
                             f"{self.workers!r}")
        if self.persistent_workers and not self.num_workers:
            raise ValueError("persistent_workers needs num_workers > 0")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or
                                          drop_last):
            raise ValueError("batch_sampler decides on batch_size, shuffle, sampler and drop_last: "
                             "pass none of them beside it")
        if sampler is not None and shuffle:
            raise ValueError("sampler decides on the order: do not pass shuffle beside it")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None makes no batches: drop_last has no meaning")
        if self._iterable:
            self._check_iterable(shuffle, sampler, batch_sampler)

    def _check_iterable(self, shuffle, sampler, batch_sampler):
        if not hasattr(self.dataset, "__iter__"):
            raise TypeError(f"{type(self.dataset).__name__} is no dataset: it has neither __getitem__ "
                            "and __len__ nor __iter__")
        if shuffle or sampler is not None or batch_sampler is not None:
            raise ValueError("an iterable dataset has an order of its own: it takes no shuffle, "
                             "sampler or batch_sampler")
        if self.workers == "threads" and self.num_workers:
            raise ValueError("an iterable dataset is shared out among worker processes, by "
                             'get_worker_info(): use workers="processes" or "auto", or num_workers=0')

    def _set_samplers(self, sampler, batch_sampler):
        """The attributes that torch's loader has."""
        if self._iterable:
            self.sampler = self.batch_sampler = None
            return
        order = _Order if self._options.shuffle else _InOrder
        self.sampler = sampler if sampler is not None else order(self, self._options) \
            if batch_sampler is None else SequentialSampler(self.dataset)
        for given in (sampler, getattr(self._sampler, "sampler", None)):
            if isinstance(given, _Order):
                # Lightning has this one for predictions, of which it wants each once
                given.share_out(type(batch_sampler).__name__ == "_IndexBatchSamplerWrapper")
        if batch_sampler is not None:
            self.batch_sampler = batch_sampler
        elif self.batch_size is None:
            self.batch_sampler = None
        else:
            kind = _Batches if sampler is None else BatchSampler
            self.batch_sampler = kind(self.sampler, self.batch_size, self.drop_last)

    # ---- Opening ----

    def _seed(self) -> int:
        if self.seed is not None:
            return self.seed % 2**53
        if self._seed_of_state is not None:
            return self._seed_of_state
        if self.generator is not None:
            return self.generator.initial_seed() % 2**53
        agreed = self._place[1] > 1 and self._sampler is None and not self._iterable
        return 0 if agreed else self._seed_here % 2**53

    def _settled(self) -> Any:
        """What makes the batches, for the rank and world of this moment until the first batch."""
        found = _world.detect(self.rank, self.world, warn=not self._asked)
        self._asked = True
        if found != self._place and self._begun:
            raise _world.changed(self._place, found)
        if self._work is None or found != self._place:
            old, self._work, self._place = self._work, None, found
            state, self._saved = old.state() if old is not None else self._saved, None
            self._close(old)
            self._work = self._make()
            if state is not None and state["seed"] == self._seed():
                self._load(state)
            elif state is not None:  # another world may have another seed
                self._work.set_epoch(state["epoch"])
        if self._next_epoch is not None:
            epoch, self._next_epoch = self._next_epoch, None
            self._work.set_epoch(epoch)
        return self._work

    def _make(self) -> Any:
        if self._iterable:
            return Stream(self.dataset, self._options, self._seed())
        if self._sampler is not None:
            sampler = self._sampler if self.batch_sampler is None else self.batch_sampler
            return Sampled(self.dataset, self._options, self._seed(), sampler,
                           self.workers == "threads")
        shape, draws, holds = self._look()
        at_once = not draws and self.batch_size is not None and gives_many(self.dataset)
        processes = self.workers == "processes" or self.workers == "auto" and (
            draws or at_once or self.num_workers > 0 and (holds or self.worker_init_fn is not None or
                                               self.multiprocessing_context is not None))
        if draws and self.workers == "threads":
            warnings.warn("the dataset draws from the generators of torch, random or numpy, which all "
                          'threads of a program share: what it draws does not repeat. workers="auto" '
                          'or "processes" makes it', RuntimeWarning, stacklevel=5)
        if processes:
            return self._planned()
        watch = self.workers == "auto" and self.num_workers > 1
        return Engine(self.dataset, shape, self._options, self._seed(), self._place, watch)

    def _planned(self) -> Planned:
        shape, draws, _ = self._look()
        many = self.batch_size is not None and gives_many(self.dataset)
        kind = AtOnce if many and not draws else functools.partial(SeededWhereDrawn, drawn=draws)
        return Planned(self.dataset, shape, self._options, self._seed(), self._place, kind)

    def _look(self) -> tuple:
        """Looks at two samples: whether they are arrays, which generators they draw from, and whether
        making the second, for which all is loaded, takes long and holds the lock of the interpreter."""
        if self._found is None:
            apart = _random.Apart(self._seed(), 0, 0, _random.SAMPLE)
            lookout = Lookout(self.workers == "auto" and self.num_workers > 0)
            with apart, lookout:
                samples = [lookout.watch(self.dataset.__getitem__, i)
                           for i in range(min(2, len(self.dataset)))]
            arrays = None if self._has_collate else _array_shape(samples)
            self._found = arrays or _OBJECT, apart.drew(), lookout.holds()
        return self._found

    # ---- Iterating ----

    def __len__(self) -> int:
        if self._is_empty():
            return 0
        return len(self._settled())

    def _is_empty(self) -> bool:
        return not self._iterable and self._sampler is None and len(self.dataset) == 0

    def __iter__(self) -> Iterator[Any]:
        if self._is_empty():
            return iter(())
        self._settled()
        self._iteration += 1
        return self._told(self._iteration) if self._is_by_law else self._batches(self._iteration)

    def _last_batch(self) -> int:
        return -1 if self.drop_last else len(self.dataset) % ((self.batch_size or 1) * self._place[1])

    def _told(self, iteration: int) -> Iterator[Any]:
        with _accelerate.going_through(self, self._last_batch) as looks:
            for found in self._batches(iteration):
                if looks:
                    self.end_of_dataloader = self._work.at_end()
                yield found

    def _batches(self, iteration: int) -> Iterator[Any]:
        batches = self._work.batches()
        while True:
            if iteration != self._iteration:
                raise RuntimeError("another iteration of this DataLoader, or a state, has taken "
                                   "the place of this one: use two DataLoaders")
            try:
                batch = next(batches)
            except StopIteration:
                return
            except TimeoutError:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None
            except SampleError as error:
                if not is_unlike(error):
                    raise
                batches = self._collate_from_here()
                continue
            self._begun = True
            yield batch
            if self._work.wants_processes():
                batches = self._change_over() or batches

    def _change_over(self) -> Any:
        """From threads to processes, in the middle of an epoch; not at its end."""
        state = self._work.state()
        if state["position"] == state["samples"]:
            return None
        self._close(self._work)  # threads end before processes are forked
        self._work = self._planned()
        self._work.load(state)
        return self._work.batches()

    def _collate_from_here(self) -> Any:
        """Samples differ in shape, though the first two did not: collate_fn makes batches of them."""
        state = place_of(self._work.state(), self.dataset, _OBJECT, self._options, self._seed(),
                         *self._place)
        self._close(self._work)
        self._found = _OBJECT, *self._found[1:]
        self._work = self._make()
        self._work.load(state)
        return self._work.batches()

    @staticmethod
    def _close(work: Any) -> None:
        if work is not None:
            work.close()

    def close(self) -> None:
        """Ends threads and processes; so does the end of the program."""
        self._close(self._work)
        self._work = None

    def __getstate__(self) -> dict:
        """A pickled loader goes on where this one is, with workers of its own."""
        state = self._work.state() if self._work is not None else None
        return {**self.__dict__, "_work": None, "_begun": False, "_saved": state}

    def __repr__(self) -> str:
        shown = {"batch_size": self.batch_size, "drop_last": self.drop_last,
                 "num_workers": self.num_workers, "workers": self.workers}
        if self._sampler is not None:
            shown["sampler"] = type(self._sampler).__name__
        else:
            shown["shuffle"] = self._options.shuffle
        said = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"<millrace.torch.DataLoader of {type(self.dataset).__name__}: {said}>"

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iteration is of: the one that a state is in the middle of, the one behind it
        where the state is that of its last batch. A training loop that goes on from a state counts from it:
        for epoch in range(loader.next_epoch, 90)."""
        return 0 if self._is_empty() else self._settled().next_epoch()

    # ---- State ----

    def state_dict(self) -> dict:
        """The state after the last batch that was taken: a few numbers."""
        return self._settled().state()

    def load_state_dict(self, state: dict) -> None:
        """Goes on from a state. Where no seed was given, its seed is taken over."""
        if self.seed is None and isinstance(state.get("seed"), int) and \
                state["seed"] != self._seed():
            self._seed_of_state = state["seed"]
            self.close()
        self._settled()
        self._load(state)
        self._begun = False
        self._iteration += 1

    def _load(self, state: dict) -> None:
        try:
            self._work.load(state)
        except StateError as first:
            if self._found is None or self._found[0] is _OBJECT:
                raise
            work, found = self._work, self._found
            self._found = _OBJECT, *found[1:]  # that of a loader whose samples were found to differ
            self._work = self._make()
            try:
                self._work.load(state)
            except StateError:
                self._close(self._work)
                self._work, self._found = work, found
                raise first from None
            self._close(work)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch: the rest of it after a state that was saved in it."""
        if self._work is None:
            self._next_epoch = epoch
        else:
            self._work.set_epoch(epoch)
        for part in (self._sampler, getattr(self._sampler, "sampler", None), self.dataset):
            if self._sampler is not None or self._iterable:
                getattr(part, "set_epoch", lambda _: None)(epoch)
