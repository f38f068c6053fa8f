# SPDX-License-Identifier: Apache-2.0
"""A stand-in for torch.utils.data.DataLoader: the same arguments, exact resume, repeatable order.

Order comes from the seed, by the law, so samplers have no place here. Work is done by threads of
this process instead of worker processes: datasets are neither copied nor pickled."""
from __future__ import annotations

import sys
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import IterableDataset, default_collate, default_convert

from . import _host, _world
from ._pipeline import Pipeline

_MOST_EPOCHS = 2**32 - 1


def _refuse(name: str, why: str) -> None:
    raise ValueError(f"millrace.torch.DataLoader does not take {name}: {why}")


def _is_plain(value: Any) -> bool:
    """What batch memory can hold as it is, and default_collate would stack."""
    kinds = (torch.Tensor, int, float)
    numpy = sys.modules.get("numpy")
    return isinstance(value, kinds) or (numpy is not None and
                                        isinstance(value, (numpy.ndarray, numpy.generic)))


def _plain_parts(sample: Any) -> "list | None":
    if type(sample) in (tuple, list):
        parts = list(sample)
    elif type(sample) is dict:
        parts = list(sample.values()) if all(isinstance(k, str) for k in sample) else []
    else:
        parts = [sample]
    return parts if 0 < len(parts) <= 8 and all(map(_is_plain, parts)) else None


def _array_fields(dataset: Any) -> "tuple | None":
    """(structure, fields, type of a sample) where samples fit into batch memory, else None."""
    samples = [dataset[i] for i in range(min(2, len(dataset)))]
    if any(_plain_parts(sample) is None for sample in samples):
        return None
    try:
        structure, fields = _host.look_at(samples, None)
    except (TypeError, ValueError):
        return None
    fixed = all(d >= 0 for _, _, dims, _ in fields for d in dims)
    if structure == "one" and type(samples[0]) in (tuple, list):
        return None  # a list of numbers: default_collate transposes it
    fields = [(name, dtype, dims, "") for name, dtype, dims, _ in fields]
    return (structure, fields, type(samples[0])) if fixed else None


class DataLoader:
    """torch.utils.data.DataLoader's arguments and behaviour, and besides: the order depends on
    seed and epoch alone; state_dict() and load_state_dict() resume at any step, exactly.

    num_workers is a number of threads. The seed is `seed`, else the generator's, else torch's
    initial seed. rank and world are found as by Pipeline.loader; batch_size is one rank's. Each
    iteration is one epoch; one that is left early is followed by the next epoch. There is one
    iteration at a time: a new one ends the one before it."""

    def __init__(self, dataset: Any, batch_size: "int | None" = 1, shuffle: "bool | None" = None,
                 sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: "Callable | None" = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: "Callable | None" = None, multiprocessing_context: Any = None,
                 generator: "torch.Generator | None" = None, *,
                 prefetch_factor: "int | None" = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True, seed: "int | None" = None,
                 rank: "int | None" = None, world: "int | None" = None):
        self._check(dataset, sampler, batch_sampler, timeout, worker_init_fn,
                    multiprocessing_context, in_order, num_workers)
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.drop_last, self.pin_memory, self.generator = drop_last, pin_memory, generator
        self.persistent_workers, self.prefetch_factor = persistent_workers, prefetch_factor
        self.collate_fn = collate_fn or (default_convert if batch_size is None else default_collate)
        arrays = _array_fields(dataset) if collate_fn is None and batch_size is not None else None
        self._structure, self._sample_type = (arrays[0], arrays[2]) if arrays else ("object", None)
        fields = arrays[1] if arrays else [("object", "int64", (), "")]
        rank, world = _world.detect(rank, world)
        remainder = "drop" if drop_last else "pad" if world > 1 else "keep"
        name = type(dataset).__name__
        pipeline = Pipeline(("dataset", {"object": name}), (), {
            "shuffle": bool(shuffle), "batch": (batch_size or 1) * world, "remainder": remainder},
            dataset=_host.Dataset(dataset, name, fields, self._structure, ""))
        self._names = [row[0] for row in fields]
        self._loader = pipeline.loader(
            seed=self._seed(seed), epochs=_MOST_EPOCHS, to="torch" if arrays else "numpy",
            threads=max(1, num_workers), rank=rank, world=world,
            batches_ahead=max(2, (prefetch_factor or 2) * max(1, num_workers)),
            pin=bool(pin_memory and torch.cuda.is_available() and arrays))
        self._inside, self._iteration = False, 0

    @staticmethod
    def _check(dataset, sampler, batch_sampler, timeout, worker_init_fn, context, in_order,
               num_workers):
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise TypeError("millrace.torch.DataLoader takes a dataset with __getitem__ and "
                            "__len__: an iterable one has no order to repeat and no place to "
                            "resume at")
        if sampler is not None or batch_sampler is not None:
            _refuse("sampler and batch_sampler", "the order comes from seed and shuffle; rank and "
                    "world are found by themselves, so DistributedSampler is not needed")
        if worker_init_fn is not None or context is not None:
            _refuse("worker_init_fn and multiprocessing_context", "its workers are threads; for "
                    "processes see Pipeline.map(fn, processes=N)")
        if timeout:
            _refuse("timeout", "a batch that never comes can be interrupted by Ctrl-C")
        if not in_order:
            _refuse("in_order=False", "the order is always exact")
        if num_workers < 0:
            raise ValueError("num_workers must not be negative")

    def _seed(self, seed):
        if seed is None:
            seed = self.generator.initial_seed() if self.generator else torch.initial_seed()
        return seed % 2**53

    def __len__(self) -> int:
        return self._loader.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        """Begins with the first batch that is taken."""
        if self._inside:
            self._go_to(self._loader.epoch + 1)
        self._iteration += 1
        iteration, self._inside = self._iteration, True
        for _ in range(self._loader._steps_left_in_epoch()):
            if iteration != self._iteration:
                raise RuntimeError("another iteration of this DataLoader, or a state, has taken "
                                   "the place of this one: use two DataLoaders")
            yield self._collate(next(self._loader))
        if iteration == self._iteration:
            self._inside = False

    def _go_to(self, epoch):
        self._loader._open(first_epoch=epoch)
        self._inside = False
        self._iteration += 1

    def _collate(self, batch):
        if self._structure != "object":
            return self._rebuild(batch)
        samples = self._loader._host.take(batch["object"].tolist())
        if self.batch_size is None:
            return self.collate_fn(samples[0])
        result = self.collate_fn(samples)
        if self.pin_memory and torch.cuda.is_available():
            from torch.utils.data._utils.pin_memory import pin_memory
            return pin_memory(result)
        return result

    def _rebuild(self, batch):
        """The structure that default_collate would give."""
        if self._structure == "one":
            return batch[self._names[0]]
        if self._structure == "dict":
            return dict(batch)
        return [batch[name] for name in self._names]

    # ---- State ----

    def state_dict(self) -> dict:
        return self._loader.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self._loader.load_state_dict(state)
        self._inside = False
        self._iteration += 1

    @property
    def sampler(self) -> "DataLoader":
        """For programs that call loader.sampler.set_epoch(n)."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch: the rest of it after a state that was saved in it."""
        here = self._loader.state_dict()
        ended = here["position"] == here["samples"]
        if self._inside or here["epoch"] + ended != epoch:
            self._go_to(epoch)

    def close(self) -> None:
        self._loader.close()
