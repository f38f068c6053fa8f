# SPDX-License-Identifier: Apache-2.0
"""Datasets for test_opt_profile.py, in a module of their own: spawned workers import it."""
import os
import threading
import time

import torch
from torch.utils.data import Dataset, IterableDataset


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


def pairs(samples):
    return list(samples)
