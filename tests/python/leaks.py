# SPDX-License-Identifier: Apache-2.0
"""Counts objects and references, under a debug build of Python, which checks much besides: whatever is
done again and again must leave none behind. Run by scripts/python debug."""
import gc
import os
import sys

import numpy as np

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "data", "photos")


def images():
    return mr.files(PHOTOS).decode_image().center_crop(8).batch(4)


def double(sample, rng):
    return {"image": sample["image"] * rng.uniform(), "name": sample["path"]}


def fail(sample):
    raise ValueError(sample["index"])


def take_all(pipeline, **options):
    with pipeline.loader(**options) as loader:
        for batch in loader:
            batch.samples, batch.epoch, batch.digest
        loader.stats(), loader.skips(), loader.state_dict(), repr(loader)


def bad(action, *kinds):
    try:
        action()
    except kinds:
        return
    raise AssertionError("no error")


def capsules():
    with images().loader() as loader:
        raw = next(loader)._raw.fields()["image"]
    for version in (None, (1, 0)):
        raw.__dlpack__(max_version=version)
    np.from_dlpack(raw)


class Owner:
    """Has the loader that calls it: only the collector can end it."""

    def __init__(self):
        self.loader = images().map(self.work).loader(epochs=50)
        next(self.loader)

    def work(self, sample):
        return sample


CASES = {
    "cycle": Owner,
    "images": lambda: take_all(images()),
    "tables": lambda: mr._core.tables(),
    "ragged": lambda: take_all(mr.files(PHOTOS).fields(["image", "path"]).batch(4)),
    "dlpack": capsules,
    "map": lambda: take_all(images().map(double)),
    "dataset": lambda: take_all(mr.dataset([(np.ones(3), i) for i in range(9)]).batch(2)),
    "texts": lambda: take_all(mr.dataset([{"a": "x" * i, "b": 1.5} for i in range(9)])),
    "left early": lambda: next(images().epochs(50).loader()),
    "bad parameter": lambda: bad(lambda: images().resize(0), ValueError),
    "bad folder": lambda: bad(lambda: mr.files("nowhere").loader(), FileNotFoundError),
    "bad function": lambda: bad(lambda: take_all(images().map(
        fail, fields={"x": "int64"})), mr.SampleError),
    "bad state": lambda: bad(lambda: images().loader(state={"a": 1}), mr.StateError),
    "allocator": lambda: take_all(images(), allocator=lambda n: np.empty(n, np.uint8)),
}


SHARED = [None, True, False, 0, (), dict, np.ndarray, mr._core.Array, mr._core.Batch, mr._core.Host,
          mr._core.Loader, mr._core.Pipeline, double]


def count():
    """Objects that exist, and references to those that always exist. (The debug build's own count
    of all references does not see those that the extension drops: the Limited API's macros.)"""
    gc.collect()
    return sys.getallocatedblocks() + sum(sys.getrefcount(shared) for shared in SHARED)


def growth(action):
    """What twenty runs leave behind: the least of twelve rounds, since caches fill for a while."""
    least = sys.maxsize
    for _ in range(12):
        before = count()
        for _ in range(20):
            action()
        least = min(least, count() - before)
        if least <= 2:
            break
    return least


def main():
    failed = 0
    for name, action in CASES.items():
        n = growth(action)
        print(f"{name:<14} {n:4d} objects and references after 20 runs")
        failed += n >= 20  # one a run is a leak
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
