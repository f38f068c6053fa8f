# SPDX-License-Identifier: Apache-2.0
"""translate.py FOLDER: a torch loader against the pipeline that it translates to, in turns, for usual chains
of transforms: samples/s of both, and the CPU time of each step and of the op that takes its place. Wants torch,
torchvision and the package on the path; see docs/tracing.md for figures."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/python_optional"))

import millrace as mr  # noqa: E402
from vision import torchvision  # noqa: E402

tv = torchvision()
T = tv.transforms
END = [T.ToTensor(), T.Normalize(mr.IMAGENET_MEAN, mr.IMAGENET_STD)]
CHAINS = {
    "training": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *END],
    "validation": [T.Resize(256), T.CenterCrop(224), *END],
    "jitter": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4), *END],
    "rand_augment": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.RandAugment(), *END],
}


def epochs_per_second(loader, seconds):
    """Samples a second from the first batch on, over whole batches."""
    samples, begun = 0, 0.0
    while not begun or time.perf_counter() - begun < seconds:
        for batch in loader:
            samples += len(batch[1] if isinstance(batch, list) else batch["label"]) if begun else 0
            begun = begun or time.perf_counter()
    return samples / (time.perf_counter() - begun)


def ops_of(path):
    part = json.loads(mr._core.trace_text(path, 3))
    return {op["name"]: (1e3 * op["seconds"], 1e3 * op.get("cpu", 0)) for op in part["ops"]}


def steps(loader, translation, folder):
    """Milliseconds a sample, elapsed and CPU: of the old steps and of the ops, with one worker each."""
    theirs, ours = os.path.join(folder, "torch.trace"), os.path.join(folder, "millrace.trace")
    with mr.profile(DataLoader(loader.dataset, loader.batch_size, num_workers=1), theirs) as profiled:
        for _ in profiled:
            pass
    with translation.loader(threads=1, trace=ours, epochs=1) as own:
        for _ in own:
            pass
    return ops_of(theirs), ops_of(ours), mr.report(theirs).figures.get("translation")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--chains", default=",".join(CHAINS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.chains.split(","):
        dataset = tv.datasets.ImageFolder(options.folder, T.Compose(CHAINS[name]))
        old = DataLoader(dataset, options.batch, shuffle=True, num_workers=options.workers, persistent_workers=True)
        translation = mr.torch.translate(old)
        rates = []
        with translation.loader() as new:
            for _ in range(options.rounds):
                rates.append((epochs_per_second(old, options.seconds), epochs_per_second(new, options.seconds)))
        torch_rate, rate = (statistics.median(column) for column in zip(*rates))
        times = statistics.median(ours / theirs for theirs, ours in rates)
        print(f"{name}: torch {torch_rate:.0f}/s, millrace {rate:.0f}/s, {times:.2f} times "
              f"(from {min(b / a for a, b in rates):.2f} to {max(b / a for a, b in rates):.2f})", flush=True)
        del old
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours, predicted = steps(DataLoader(dataset, options.batch), translation, folder)
        for title, table in (("torch", theirs), ("millrace", ours)):
            print(f"  {title}: " + ", ".join(f"{op} {wall:.3f} ({cpu:.3f} CPU) ms" for op, (wall, cpu) in table.items()))
        print(f"  predicted from the profile with one worker: {predicted}", flush=True)


if __name__ == "__main__":
    main()
