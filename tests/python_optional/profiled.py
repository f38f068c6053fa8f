# SPDX-License-Identifier: Apache-2.0
"""Datasets for test_opt_profile.py, in a module of their own: spawned workers import it."""
import os
import threading
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

import millrace as mr
from millrace._profile_join import Part


class Twice:
    def __call__(self, x):
        return 2 * x + torch.rand(())  # draws from the worker's generator


def add_one(x):
    return x + 1


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class Numbers(Dataset):
    def __init__(self, n, bad=None, sleep=0):
        self.n, self.bad, self.sleep = n, bad, sleep
        self.transform = Compose([Twice(), add_one])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.bad:
            raise RuntimeError(f"number {i}")
        time.sleep(self.sleep)
        return self.transform(torch.full((8,), float(i))), i


class StandardTransform:
    """As torchvision has it."""

    def __init__(self, transform):
        self.transform, self.target_transform = transform, None

    def __call__(self, x, i):
        return self.transform(x), i


class Photos(Numbers):
    """A dataset as torchvision's, which keep their transform twice."""

    def __init__(self, n, transform):
        super().__init__(n)
        self.transform, self.target_transform = transform, None
        self.transforms = StandardTransform(transform)
        self.loader = number

    def __getitem__(self, i):
        return self.transforms(self.loader(i), i)


def number(i):
    return torch.full((8,), float(i))


class Words(Numbers):
    """Steps are given by name what they work on, and give it so."""

    def __getitem__(self, i):
        return self.transform(image=torch.full((8,), float(i)))["image"], i


class Named:
    def __call__(self, image):
        return {"image": 2 * image}


class NamedCompose(Compose):
    def __call__(self, **fields):
        for transform in self.transforms:
            fields = transform(**fields)
        return fields


NamedCompose.__name__ = "Compose"  # as albumentations names it


class Several(Numbers):
    """Takes a number, or a list of them for a whole batch."""

    def one(self, i):
        return self.transform(torch.full((8,), float(i))), torch.tensor(i)

    def __getitem__(self, i):
        if isinstance(i, int):
            return self.one(i)
        x, numbers = zip(*map(self.one, i))
        return torch.stack(x), torch.stack(numbers)


class Unequal:
    """Batches of 1, 2, 3, ... samples; it does not tell how many."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        begin, length = 0, 1
        while begin < self.n:
            yield list(range(begin, min(begin + length, self.n)))
            begin, length = begin + length, length + 1

    def __len__(self):
        return len(list(iter(self)))


class Slow:
    """It waits often, and so leaves its CPU by itself more often than others take it."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, x):
        for _ in range(5):
            time.sleep(self.seconds / 5)
        return x


class Sorts:
    """A step that computes, in functions of libtorch."""

    def __call__(self, x):
        for _ in range(20):
            torch.sort(torch.rand(20_000))
        return x


class FirstIsSlow(Numbers):
    """The first worker sleeps."""

    def __getitem__(self, i):
        time.sleep(0.05 if get_worker_info().id == 0 else 0)
        return super().__getitem__(i)


def slow_collate(samples):
    for _ in range(60):
        time.sleep(0.002)
    return default_collate(samples)


class Together(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((4,), float(i)), i

    def __getitems__(self, indices):
        return [self[i] for i in indices]


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class Busy(Numbers):
    """Starts a thread and a process for each sample, as libraries do."""

    def __getitem__(self, i):
        made = []
        thread = threading.Thread(target=lambda: made.append(Numbers.__getitem__(self, i)))
        thread.start()
        thread.join()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return made[0]


class Nested(Numbers):
    """Each sample comes out of a loader of its own."""

    def __init__(self, n):
        super().__init__(n)
        self.inner = DataLoader(Numbers(4), batch_size=2)

    def __getitem__(self, i):
        return self.transform(sum(x.sum(0) for x, _ in self.inner)), i


def pairs(samples):
    return list(samples)


# ---- What a trace has ----
KINDS = {name: mr._core.record_kind(name)
         for name in ("sample", "op", "fill", "seal", "wait_batch", "deliver", "consume", "start",
                      "wait_work")}


def spans_of(path):
    part = Part(str(path))
    return part, {track: np.concatenate(pieces) for track, pieces in part.spans.items()}


def batches_in(tracks):
    """Lotus's quantities of each batch, in seconds: {batch: {name: value}}."""
    batches = {}
    for span in np.concatenate(list(tracks.values())):
        known = batches.setdefault(int(span["batch"]), dict.fromkeys(("work", "wait", "consume", "ready"), 0.0))
        begun, length = 1e-9 * float(span["start"]), 1e-9 * float(span["duration"])
        name = next((name for name, kind in KINDS.items() if kind == span["kind"]), "")
        if name == "seal":
            known["ready"] = begun + length
        elif name == "wait_batch":
            known["asked"], known["wait"] = begun, length
        elif name == "deliver":
            known["taken"] = begun
        elif name in ("sample", "consume"):
            known["work" if name == "sample" else name] += length
    return {number: batch for number, batch in sorted(batches.items()) if "taken" in batch}
