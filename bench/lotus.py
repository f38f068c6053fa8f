# SPDX-License-Identifier: Apache-2.0
"""lotus.py FOLDER [-o PAGE.html]: the image-classification pipeline of the Lotus paper (loader, random resized crop,
flip, ToTensor, Normalize, collate) through a torch DataLoader with 1 to 4 workers: end-to-end time, CPU seconds in
all and for each step, as the paper's figure 1 (a), (b) and (e); and how near the prediction for each number of
workers comes, made from the profile with every other. Wants torch, torchvision and the package on the path."""

import argparse
import os
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/python_optional"))

import millrace as mr  # noqa: E402
from vision import torchvision  # noqa: E402


def steady_rate(times, batch):
    return (len(times) - 1) * batch / (times[-1] - times[0])


def predictions(result, taken, batch):
    """Of each run's profile for the others, against their rates from the first batch on: `taken` has, of each run
    with so many workers, when batches were taken. The last of them is the profile's."""
    measured = {workers: statistics.median(steady_rate(times, batch) for times in runs[-1 - len(result.runs[0]["rounds"]):-1])
                for workers, runs in taken.items()}
    for run in result.runs:
        own = run["set"]["num_workers"]
        rates = {one["threads"]: one["rate"] for one in run["predictions"]}
        for workers, rate in rates.items():
            if workers in measured:
                print(f"  from {own} for {workers} workers: {rate:6.1f}/s predicted, {measured[workers]:6.1f}/s measured, "
                      f"{rate / measured[workers] - 1:+.0%}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("-o", "--out")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=33)
    parser.add_argument("--workers", default="1,2,3,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tv = torchvision()
    T = tv.transforms
    dataset = tv.datasets.ImageFolder(options.folder, T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(mr.IMAGENET_MEAN, mr.IMAGENET_STD)]))

    taken, current = {}, []

    def image_classification(num_workers):
        taken.setdefault(num_workers, []).append([])
        current[:] = [taken[num_workers][-1]]
        return DataLoader(dataset, options.batch, shuffle=True, num_workers=num_workers, persistent_workers=True)

    result = mr.sweep(image_classification, num_workers=[int(n) for n in options.workers.split(",")],
                      rounds=options.rounds, steps=options.steps, consume=lambda _: current[0].append(time.perf_counter()))
    print(result)
    predictions(result, taken, options.batch)
    if options.out:
        result.save(options.out)
        result.save(os.path.splitext(options.out)[0] + ".csv")


if __name__ == "__main__":
    main()
