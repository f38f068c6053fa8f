# SPDX-License-Identifier: Apache-2.0
"""What Python costs: the same pipeline from the command and from Python, and a torch Dataset through
millrace and through torch's own DataLoader. Best of five runs each; stand_in: PAIRS=9 pairs of them.

    scripts/python bench [engine] [datasets] [stand_in]
"""
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

import millrace as mr

COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")
RUNS = 5


def best(*measures):
    """Of each; they take turns, so that a machine which changes its mind changes it for all."""
    rates = [[measure() for measure in measures] for _ in range(RUNS)]
    return [max(column) for column in zip(*rates)]


def row(name, value, unit="samples/s"):
    print(f"{name:<58} {value:>12,.1f} {unit}")


# ---- The engine from Python ---------------------------------------------------------------------


def from_command(path, threads):
    out = subprocess.run([COMMAND, "run", path, "--json", "--quiet", "--no-digest", "--threads",
                          str(threads)], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["samples_per_second"]


def from_python(pipeline, threads):
    with pipeline.loader(threads=threads, epochs=1) as loader:
        start = time.perf_counter()
        samples = sum(batch.size for batch in loader)
        return samples / (time.perf_counter() - start)


def python_per_batch():
    """Microseconds from the engine's batch to a dictionary of numpy arrays."""
    with mr.synthetic(samples=32000, shape=[16]).batch(16).loader(threads=1) as loader:
        batches = [loader._core.next() for _ in range(2000)]
        start = time.perf_counter()
        for batch in batches:
            loader._finish(batch)
        return (time.perf_counter() - start) / 2000 * 1e6


def engine():
    pipeline = mr.synthetic(samples=500_000, shape=[3072]).batch(256).epochs(12)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(str(pipeline))
        file.flush()
        for threads in (1, 2):
            command, python = best(lambda: from_command(file.name, threads),
                                   lambda: from_python(pipeline, threads))
            row(f"3 KB samples, batches of 256, command, {threads} threads", command)
            row(f"3 KB samples, batches of 256, Python, {threads} threads", python)
            row("    of the command's", 100 * python / command, "%")
    row("Python per batch", min(python_per_batch() for _ in range(RUNS)), "microseconds")


# ---- A torch Dataset ----------------------------------------------------------------------------


class Small:
    """3 KB samples that exist already."""

    def __init__(self):
        self.values = np.random.default_rng(0).integers(0, 256, (40000, 3072), dtype=np.uint8)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i], i % 10


class Work:
    """Samples that numpy works on for a while, mostly without the GIL."""

    def __len__(self):
        return 3000

    def __getitem__(self, i):
        return np.sqrt(np.random.default_rng(i).random((96, 96, 3), np.float32)), i


def rate(epoch, samples):
    """Of the second epoch: the first one starts the workers. epoch(): its batches."""
    for _ in epoch():
        pass
    start = time.perf_counter()
    for _ in epoch():
        pass
    return samples / (time.perf_counter() - start)


def epochs_of(pipeline, threads):
    loader = pipeline.loader(to="torch", threads=threads, epochs=2)
    return loader.one_epoch


def datasets():
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        print("skipped: torch is not installed")
        return
    for name, dataset, batch in (("3 KB samples", Small(), 256), ("numpy work", Work(), 64)):
        n = len(dataset)
        for workers in (1, 2):
            options = {"batch_size": batch, "shuffle": True, "num_workers": workers}
            pipeline = mr.dataset(dataset).batch(batch)
            rates = best(
                lambda: rate(DataLoader(dataset, persistent_workers=True, **options).__iter__, n),
                lambda: rate(mr.torch.DataLoader(dataset, **options).__iter__, n),
                lambda: rate(epochs_of(pipeline, workers), n))
            row(f"{name}, torch DataLoader, {workers} workers", rates[0])
            row(f"{name}, millrace.torch.DataLoader, {workers} workers", rates[1])
            row(f"{name}, mr.dataset, {workers} threads", rates[2])


# ---- The drop-in on what people have -------------------------------------------------------------


def augmentations():
    """torchvision's, where it is installed; see tests/python_optional/test_opt_torchvision.py."""
    import torch
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    try:
        from torchvision import transforms as t
    except ImportError:
        return None, None
    return library, t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor()])


class Photos:
    """Pillow decodes, torchvision augments; without it a random crop drawn as it draws it."""

    def __init__(self):
        noise = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
        data = io.BytesIO()
        Image.fromarray(noise).resize((480, 320)).save(data, "JPEG", quality=90)
        self.data = data.getvalue()
        self.library, self.augment = augmentations()

    def __len__(self):
        return 600

    def __getitem__(self, i):
        import torch
        if self.augment:
            return self.augment(Image.open(io.BytesIO(self.data)).convert("RGB")), i
        left = int(torch.randint(0, 100, (1,)))
        image = Image.open(io.BytesIO(self.data)).convert("RGB").crop((left, 0, left + 300, 300))
        pixels = np.array(image.resize((224, 224), Image.Resampling.BILINEAR))
        return torch.from_numpy(pixels).permute(2, 0, 1).float().div_(255), i


class Tokens:
    """Pure Python, under the GIL."""

    text = " ".join(f"word{i % 97} number {i}" for i in range(400))

    def __len__(self):
        return 1500

    def __getitem__(self, i):
        known = {}
        return np.array([known.setdefault(w, len(known))
                         for w in re.findall(r"\w+|\S", self.text)][:512])


class Augmented:
    """numpy, and its global generator."""

    image = np.random.default_rng(0).normal(size=(3, 128, 128)).astype(np.float32)

    def __len__(self):
        return 2000

    def __getitem__(self, i):
        noise = np.random.normal(0, 0.1, self.image.shape).astype(np.float32)
        return np.ascontiguousarray((self.image + noise)[:, :, ::-1] * 1.1), i


class Rows:
    """A table that gives the rows of a batch together, as the datasets of Hugging Face do; each
    access costs as much as theirs."""

    table = np.random.default_rng(0).random((20000, 64), np.float32)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        return self.__getitems__([i])[0]

    def __getitems__(self, indices):
        sum(range(10000))
        return list(self.table[indices])


class Sleeps:
    def __len__(self):
        return 400

    def __getitem__(self, i):
        time.sleep(0.01)
        return i


def two_epochs(kind, dataset):
    """Seconds, the start of the workers included."""
    start = time.perf_counter()
    loader = kind(dataset, batch_size=16, shuffle=True, num_workers=2)
    for _ in range(2):
        for _ in loader:
            pass
    return time.perf_counter() - start


def stand_in():
    """With two workers each, as a share of torch's rate. What else the machine does changes from one
    moment to the next: each is compared with the other's run beside it, in turns the first of the two.
    """
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        print("skipped: torch is not installed")
        return
    kinds, pairs = (DataLoader, mr.torch.DataLoader), int(os.environ.get("PAIRS", "9"))
    for dataset in (Photos(), Tokens(), Augmented(), Sleeps(), Rows()):
        times = []
        for pair in range(pairs if pairs < 5 or not isinstance(dataset, Sleeps) else 5):
            order = kinds if pair % 2 else kinds[::-1]
            found = {kind: two_epochs(kind, dataset) for kind in order}
            times.append([found[kind] for kind in kinds])
        shares = sorted(100 * theirs / ours for theirs, ours in times)
        least = [min(column) for column in zip(*times)]
        row(f"{type(dataset).__name__}, millrace.torch.DataLoader of torch's, median of {len(times)}",
            shares[len(shares) // 2], "%")
        row("    quarter and three quarters of them, and of both the best",
            shares[len(shares) // 4], f"{shares[3 * len(shares) // 4]:,.1f} {100 * least[0] / least[1]:,.1f} %")


if __name__ == "__main__":
    for part in (engine, datasets, stand_in):
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            part()
