# SPDX-License-Identifier: Apache-2.0
"""How mr.torch.DataLoader gets its batches made. Each class has one iteration at a time:

    Engine    in the order of the law, in the engine's threads
    Planned   in the order of the law, by the workers of torch's own loader
    Sampled   in a sampler's order, by those workers, or by threads
    Stream    as an iterable dataset gives them, by those workers

The first two have the same states, so that one can go on where the other stopped."""
from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
import traceback
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import (IterableDataset, StackDataset, Subset, default_collate,
                              default_convert, get_worker_info)

from . import _host, _random
from ._errors import RemoteError, SampleError, StateError
from ._pipeline import Pipeline

_END = object()
_PLANNED_AHEAD = 32  # so that the thread that plans is not waited for in every step
DRAWS_NOTHING = default_collate, default_convert


# ---- Samples ------------------------------------------------------------------------------------


class Failed:
    """A sample that raised: what the consumer is told, in place of its batch."""

    def __init__(self, where, index, error):
        self.where, self.index = where, index
        self.said = f"{type(error).__name__}: {error}".rstrip(": ")
        self.told = traceback.format_exc()

    def error(self):
        error = SampleError(f"{self.said}\n  file: {self.where} (sample {self.index})\n  op: dataset")
        error.file, error.index, error.op, error.where = self.where, self.index, "dataset", ""
        error.__cause__ = RemoteError(self.told)
        return error


class Seeded:
    """A dataset as the workers of torch's loader see it: samples are asked for by (epoch, number,
    key), and what they draw from global generators depends on seed, epoch and number alone."""

    def __init__(self, dataset, seed, apart):
        self.dataset, self.seed, self.apart = dataset, seed, apart
        self.last, self.in_step = (0, 0), False

    def __getitem__(self, key):
        epoch, number, key = key
        self.last, self.in_step = (epoch, number), False
        try:
            with _random.made_for(self.apart, self.seed, epoch, number, _random.SAMPLE):
                return self.dataset[key]
        except Exception as error:  # pylint: disable=broad-except
            return Failed(f"{type(self.dataset).__name__}[{key!r}]",
                          key if isinstance(key, int) else number, error)


class SeededWhereDrawn(Seeded):
    """The same samples for less: for each sample only the generators are seeded that were seen to be drawn
    from, and after each batch one looks at the others. A batch in which one of those was drawn from is
    made again with all seeded, and that one is seeded in all behind it. Where none is known yet, one sample
    is looked at alone, so that of datasets that always draw only that one is made twice."""

    def __init__(self, dataset, seed, apart, drawn=frozenset()):
        super().__init__(dataset, seed, apart)
        self.drawn = _random.EACH if apart else drawn  # a program's generators are not looked at in this way
        self.known, self.twins = bool(drawn), None

    def __getitems__(self, keys):
        if self.drawn == _random.EACH:
            return [self[key] for key in keys]
        groups = [keys] if self.known else [keys[:1], keys[1:]]
        self.known = True
        samples = [sample for group in groups for sample in self.looked_at(group) or map(self.__getitem__, group)]
        self.last = keys[-1][:2]
        return samples

    def begin(self):
        if self.twins is None:
            self.twins = _random.Twins()  # in the worker: generators are not sent to it
        elif not self.in_step:
            self.twins.begin()
        self.in_step = True

    def looked_at(self, keys):
        """The samples, or None where one fails or has drawn from a generator that is not seeded."""
        self.begin()
        try:
            samples = [self.made(*key) for key in keys]
        except Exception:  # pylint: disable=broad-except
            self.in_step = False
            return None  # made once more alone, it says so
        more = self.twins.drew(_random.EACH - self.drawn)
        self.drawn |= more
        return None if more else samples

    def made(self, epoch, number, key):
        if self.drawn:
            _random.seed_these(self.drawn, self.seed, epoch, number, _random.SAMPLE)
        return self.dataset[key]


class SeededAtOnce(Seeded):
    """Of a dataset that gives the samples of a batch together. Draws are those of its first sample."""

    draws = True

    def __getitems__(self, keys):
        self.last = keys[-1][:2]
        try:
            if not self.draws:
                return self.dataset.__getitems__([key for _, _, key in keys])
            with _random.made_for(self.apart, self.seed, *keys[0][:2], _random.SAMPLE):
                return self.dataset.__getitems__([key for _, _, key in keys])
        except Exception:  # pylint: disable=broad-except
            return [self[key] for key in keys]  # one of them is the one that fails


class AtOnce(SeededAtOnce):
    """Of one that was seen not to draw."""

    draws = False


def gives_many(dataset):
    """Whether a dataset has a way of its own to the samples of a batch, as those of Hugging Face have.
    torch's Subset and StackDataset only pass it on."""
    while isinstance(dataset, Subset) and type(dataset).__getitems__ is Subset.__getitems__:
        dataset = dataset.dataset
    if isinstance(dataset, StackDataset):
        parts = dataset.datasets
        return any(map(gives_many, parts.values() if isinstance(parts, dict) else parts))
    return getattr(dataset, "__getitems__", None) is not None


class Collated:
    """collate_fn for such samples: a batch with a bad one is its failure."""

    def __init__(self, call, batched, samples):
        self.call, self.batched, self.samples = call, batched, samples

    def __call__(self, samples):
        for sample in samples if self.batched else [samples]:
            if isinstance(sample, Failed):
                return sample
        if self.call in DRAWS_NOTHING:
            return self.call(samples)
        self.samples.in_step = False
        with _random.made_for(self.samples.apart, self.samples.seed, *self.samples.last,
                              _random.COLLATE):
            return self.call(samples)


class Initial:
    """worker_init_fn: torch.utils.data.get_worker_info() has the program's dataset."""

    def __init__(self, call):
        self.call = call

    def __call__(self, worker):
        info = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.dataset)
        if self.call is not None:
            self.call(worker)


class Feed:
    """The sampler or batch sampler of torch's loader: keys of the iteration that begins. Its owner has
    that loader, and is not kept alive by it: workers end as soon as nobody uses them."""

    def __init__(self, keys):
        self.keys = weakref.WeakMethod(keys)

    def __iter__(self):
        return self.keys()()


def workers_of_torch(options, dataset, keys, seed, kind):
    """torch's own loader over keys: [(epoch, number, key), ...] for each batch. kind: of samples."""
    batched = options.auto_collation
    feed = {"batch_sampler" if batched else "sampler": Feed(keys)}
    if not batched:
        feed["batch_size"] = None
    samples = kind(dataset, seed, options.num_workers == 0)
    return torch.utils.data.DataLoader(
        samples, **feed, collate_fn=Collated(options.collate_fn, batched, samples),
        generator=torch.Generator().manual_seed(seed), **options.for_workers(Initial))


def checked(batch):
    if isinstance(batch, Failed):
        raise batch.error()
    return batch


# ---- In the order of the law --------------------------------------------------------------------


class Watched:
    """A dataset that measures itself: the time that threads spend in it and on their way to it, where
    they wait for the lock of the interpreter, and how much of that is CPU time. While one thread at a
    time can run, the first is longer than the second."""

    def __init__(self, dataset):
        self.dataset, self.lock, self.here = dataset, threading.Lock(), threading.local()
        self.begin()

    def begin(self):
        """An iteration begins."""
        self.inside = self.cpu = self.waited = 0
        self.began = time.perf_counter_ns()

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        last = getattr(self.here, "last", (0, 0))
        began, cpu = last if last[0] > self.began else (time.perf_counter_ns(), time.thread_time_ns())
        try:
            return self.dataset[i]
        finally:
            self.here.last = now = time.perf_counter_ns(), time.thread_time_ns()
            with self.lock:
                self.inside += now[0] - began
                self.cpu += now[1] - cpu

    def taken(self, batches):
        """The batches, and how long each was waited for: also for the lock of the interpreter, which
        the engine knows nothing of."""
        while True:
            began = time.perf_counter_ns()
            batch = next(batches, _END)
            self.waited += time.perf_counter_ns() - began
            if batch is _END:
                return
            yield batch

    def verdict(self, threads):
        """"processes", "threads" or, as long as there is no telling, None. Processes where the
        consumer waits, the dataset computes, and its threads wait for each other."""
        elapsed = time.perf_counter_ns() - self.began
        if elapsed < 100_000_000 or self.inside == 0:
            return None
        waits, computes = self.waited > elapsed / 5, self.cpu * 10 * threads > self.inside
        if waits and computes and self.cpu < self.inside * 3 / 4 and min(threads, os.cpu_count() or 1) > 1:
            return "processes"
        return "threads" if elapsed > 3_000_000_000 else None


class Alike:
    """A dataset whose samples all have the parts of the first ones, or say that they do not."""

    kinds = {"dict": (dict,), "tuple": (tuple, list)}

    def __init__(self, dataset, structure, n):
        self.dataset, self.kind, self.n = dataset, self.kinds[structure], n

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        sample = self.dataset[i]
        if type(sample) not in self.kind or len(sample) != self.n:
            raise Unlike
        return sample


class Unlike(TypeError):
    """Of a sample whose parts are others."""


def is_unlike(error):
    """Whether a SampleError says that samples are not all of one shape: batch memory cannot hold them."""
    return isinstance(error.__cause__, Unlike) or error._is_type and not error.op


def remainder_of(dataset, options, world):
    """Each rank has as many samples as DistributedSampler gives it: all of them have ceil(n / world). Where
    that makes a whole batch of the last one, drop_last does not drop it."""
    rest, whole = len(dataset) % ((options.batch_size or 1) * world), options.batch_size or 1
    if options.drop_last:
        return "even" if world > 1 and -(-rest // world) == whole else "drop"
    return "even" if world > 1 else "keep"


def law_loader(dataset, shape, options, seed, rank, world, is_plan, once=False):
    """A native loader over a Python dataset. shape: (structure, fields). once: no sample is given twice, so that
    ranks may differ in steps."""
    structure, fields = shape
    whole = dataset
    while isinstance(whole, (Watched, Alike)):
        whole = whole.dataset
    name = type(whole).__name__
    pipeline = Pipeline(("dataset", {"object": name}), (), {
        "shuffle": options.shuffle, "batch": (options.batch_size or 1) * world,
        "remainder": "keep" if once else remainder_of(dataset, options, world)}, dataset=_host.Dataset(dataset, name, fields, structure, "", is_plan, True))
    arrays = structure != "object" and not is_plan
    return pipeline.loader(
        seed=seed, to="torch" if arrays else "numpy", rank=rank, world=world,
        threads=1 if is_plan else max(1, options.num_workers),
        batches_ahead=_PLANNED_AHEAD if is_plan else max(2, (options.prefetch_factor or 2) *
                                            max(1, options.num_workers)),
        pin=bool(options.pin_memory and torch.cuda.is_available() and arrays))


def place_of(state, dataset, shape, options, seed, rank, world):
    """The state of a loader over samples of another shape that is where this one is: a fingerprint
    covers what samples are."""
    plan = law_loader(dataset, shape, options, seed, rank, world, True)
    plan.set_epoch(state["epoch"])
    for _ in range(state["position"] // ((options.batch_size or 1) * world)):
        next(plan)
    state = plan.state_dict()
    plan.close()
    return state


class Engine:
    def __init__(self, dataset, shape, options, seed, place, watch):
        self.structure, self.names = shape[0], [row[0] for row in shape[1]]
        if self.structure in Alike.kinds:
            dataset = Alike(dataset, self.structure, len(self.names))
        self.watched = Watched(dataset) if watch else None
        self.options, self.seed = options, seed
        self.loader = law_loader(self.watched or dataset, shape, options, seed, *place, False)
        self.loader._timeout = options.timeout

    def __len__(self):
        return len(self.loader)

    def batches(self):
        batches = iter(self.loader)
        if self.watched:
            self.watched.begin()
            batches = self.watched.taken(batches)
        return map(self.collate, batches)

    def next_epoch(self):
        """The epoch that the next iteration is of."""
        return self.loader.next_epoch

    def at_end(self):
        """Whether the batch that was given is the last of its epoch."""
        return self.loader._core.steps_left % self.loader._core.n_steps == 0

    def wants_processes(self):
        """Looked at after each batch until it is clear."""
        if self.watched is None:
            return False
        verdict = self.watched.verdict(self.options.num_workers)
        if verdict == "threads":
            self.watched = None
        return verdict == "processes"

    def collate(self, batch):
        """What default_collate would give, or what collate_fn does."""
        if self.structure == "one":
            return batch[self.names[0]]
        if self.structure == "dict":
            return dict(batch)
        if self.structure == "tuple":
            return [batch[name] for name in self.names]
        samples = self.loader._host.take(batch["object"].tolist())
        samples = samples if self.options.auto_collation else samples[0]
        if self.options.collate_fn in DRAWS_NOTHING:
            result = self.options.collate_fn(samples)
        else:
            with _random.Apart(self.seed, batch.epoch, int(batch.samples[-1]), _random.COLLATE):
                result = self.options.collate_fn(samples)
        if self.options.pin_memory and torch.cuda.is_available():
            from torch.utils.data._utils.pin_memory import pin_memory
            return pin_memory(result)
        return result

    def state(self):
        return self.loader.state_dict()

    def load(self, state):
        self.loader.load_state_dict(state)

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def close(self):
        self.loader.close()


class Planned:
    """A native loader plans; what it makes of a step, numbers of samples, goes to the workers. They
    are asked ahead, so the state of each step waits until its batch is delivered."""

    def __init__(self, dataset, shape, options, seed, place, kind):
        self.plan = law_loader(dataset, shape, options, seed, *place, True)
        self.auto_collation, self.delivered, self.states = options.auto_collation, None, deque()
        self.inner = workers_of_torch(options, dataset, self.keys, seed, kind)

    def __len__(self):
        return len(self.plan)

    def keys(self):
        for batch in self.plan:
            self.states.append(self.plan._core.save())
            epoch = batch.epoch
            keys = [(epoch, i, i) for i in batch.samples.tolist()]
            yield keys if self.auto_collation else keys[0]

    def batches(self):
        self.states.clear()
        for batch in self.inner:
            self.delivered = self.states.popleft()
            yield checked(batch)

    def next_epoch(self):
        if self.delivered is None:
            return self.plan.next_epoch
        return self.state()["epoch"] + 1  # the one that it is of is over, or is left

    def at_end(self):
        state = self.state()
        return state["position"] == state["samples"]

    def wants_processes(self):
        return False

    def state(self):
        return json.loads(self.delivered) if self.delivered else self.plan.state_dict()

    def load(self, state):
        self.plan.load_state_dict(state)
        self.delivered = None

    def set_epoch(self, epoch):
        self.plan.set_epoch(epoch)
        self.delivered = None

    def close(self):
        self.inner = None
        self.plan.close()


# ---- In another order ---------------------------------------------------------------------------


class Counted:
    """Epochs and batches counted here: a state says how many batches of which epoch were taken, and
    whoever goes on from it leaves out so many."""

    def __init__(self, dataset, options, seed):
        self.counted, self.options, self.seed = dataset, options, seed
        self.epoch = self.taken = self.skip = 0
        self.inside = False

    def batches(self):
        if self.inside:  # left early: the next epoch
            self.epoch, self.skip = self.epoch + 1, 0
        first, self.skip = self.skip, 0
        yield from self.one_epoch(first)
        if first > 0 and self.taken == first:  # a state after the last batch: its epoch was over
            self.finish()
            yield from self.one_epoch(0)
        self.finish()

    def one_epoch(self, first):
        self.taken = first
        for batch in self.made(first):
            self.inside, self.taken = True, self.taken + 1
            yield checked(batch)

    def finish(self):
        self.epoch, self.taken, self.inside = self.epoch + 1, 0, False

    def next_epoch(self):
        """The epoch that the next iteration is of; of a state after the last batch where it is known to be that."""
        over = 0 < self.length() <= self.skip
        return self.epoch + (self.inside or over)

    def length(self):
        """Batches of an epoch; without end where nobody knows."""
        try:
            return len(self)
        except TypeError:
            return math.inf

    def wants_processes(self):
        return False

    def state(self):
        taken = self.taken if self.inside else self.skip
        return {"millrace_batches": 1, "seed": self.seed, "epoch": self.epoch, "batches": taken, **self.of()}

    def of(self):
        """What batches are counted of: a state of something else would leave out the wrong ones."""
        sized = hasattr(self.counted, "__len__")
        return {"batch": self.options.batch_size, "samples": len(self.counted) if sized else None}

    def load(self, state):
        if state.get("millrace_batches") != 1:
            raise StateError("this is not the state of a DataLoader with a sampler or with an iterable "
                             "dataset")
        if state["seed"] != self.seed:
            raise StateError(f"the state has seed {state['seed']}, this run has seed {self.seed}")
        for name, own in self.of().items():
            if state.get(name, own) != own:
                raise StateError(f"the state is of {'batches' if name == 'batch' else 'a dataset'} of {state[name]} "
                                 f"samples, this loader has {own}")
        self.epoch, self.skip, self.inside = state["epoch"], state["batches"], False

    def set_epoch(self, epoch):
        if self.inside or self.epoch != epoch:
            self.epoch, self.skip, self.inside = epoch, 0, False

    def close(self):
        self.inner = None


class Sampled(Counted):
    def __init__(self, dataset, options, seed, sampler, threads):
        super().__init__(dataset, options, seed)
        self.sampler, self.first, self.dataset = sampler, 0, dataset
        self.kept, self.begun_with = _random.Kept(sampler), {}
        self.threads = threads
        self.inner = None if threads else workers_of_torch(
            options, dataset, self.keys, seed,
            SeededAtOnce if gives_many(dataset) else SeededWhereDrawn)

    def __len__(self):
        return len(self.sampler)

    def keys(self):
        """Of each batch. Samplers that draw from global generators do so by the law."""
        apart, number = _random.Apart(self.seed, self.epoch, 0, _random.ORDER), 0
        self.begun_with = self.kept.states()
        with apart:
            keys = iter(self.sampler)
        for step in itertools.count():
            with apart:
                batch = next(keys, _END)
            if batch is _END:
                return
            batch = list(batch) if self.options.auto_collation else [batch]
            numbered = [(self.epoch, number + i, key) for i, key in enumerate(batch)]
            number += len(batch)
            if step >= self.first:
                yield numbered if self.options.auto_collation else numbered[0]

    def state(self):
        """With the sampler's own generators as they were when the epoch began."""
        states = self.begun_with if self.inside else self.kept.states()
        return {**super().state(), **({"generators": states} if states else {})}

    def load(self, state):
        super().load(state)
        self.kept.set(state.get("generators", {}))

    def made(self, first):
        self.first = first
        return self.in_threads() if self.threads else self.inner

    def in_threads(self):
        """Each batch by one thread, a window of them ahead."""
        options, waiting = self.options, deque()
        ahead = (options.prefetch_factor or 2) * max(1, options.num_workers)
        pool = ThreadPoolExecutor(max(1, options.num_workers), "millrace")
        try:
            for keys in self.keys():
                waiting.append(pool.submit(self.make, keys))
                if len(waiting) >= ahead:
                    yield waiting.popleft().result(options.timeout or None)
            while waiting:
                yield waiting.popleft().result(options.timeout or None)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def make(self, keys):
        """In a thread. Global generators are the whole program's there, and are left alone."""
        samples = []
        for _, number, key in keys if self.options.auto_collation else [keys]:
            try:
                samples.append(self.dataset[key])
            except Exception as error:  # pylint: disable=broad-except
                return Failed(f"{type(self.dataset).__name__}[{key!r}]",
                              key if isinstance(key, int) else number, error)
        return self.options.collate_fn(samples if self.options.auto_collation else samples[0])


class Iterated(IterableDataset):
    """Anything that can be iterated over, as torch wants it."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)


class Stream(Counted):
    """An iterable dataset, with torch's rules: each worker has a copy of it, batches are taken from
    the workers in turn, ranks are the dataset's to tell apart."""

    def __init__(self, dataset, options, seed):
        super().__init__(dataset, options, seed)
        self.generator = torch.Generator()
        if not isinstance(dataset, IterableDataset):
            dataset = Iterated(dataset)
        self.inner = torch.utils.data.DataLoader(
            dataset, batch_size=options.batch_size, drop_last=options.drop_last,
            collate_fn=options.collate_fn, generator=self.generator,
            **options.for_workers(lambda call: call))

    def __len__(self):
        return len(self.inner)

    def made(self, first):
        self.generator.manual_seed(_random.mixed(self.seed, self.epoch, 0, _random.STREAM) >> 1)
        if self.options.num_workers:
            return itertools.islice(self.inner, first, None)
        return itertools.islice(self.here(), first, None)

    def here(self):
        """In this thread, with generators of its own."""
        apart = _random.Apart(self.seed, self.epoch, 0, _random.STREAM)
        with apart:
            batches = iter(self.inner)
        while True:
            with apart:
                batch = next(batches, _END)
            if batch is _END:
                return
            yield batch
