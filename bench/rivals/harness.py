# SPDX-License-Identifier: Apache-2.0
"""What every rival's program shares: its arguments, the random crop, and the measuring.

A program gives an endless iterator over the sizes of finished batches. The rate is taken between
two batches once it runs (a JIT, worker starts and tuning stay out of it); the first batch is timed
from the start of the process. One JSON line is printed."""

import argparse
import json
import math
import os
import time

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIZE = 224
BATCH = 128
WARM_BATCHES = 2
TICKS = os.sysconf("SC_CLK_TCK")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=["train", "val", "array"], required=True)
    parser.add_argument("--data", required=True, help="a list of image files, or a .npy file")
    parser.add_argument("--cache", required=True, help="folder for what is made from the data once")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prepare", action="store_true", help="only fill the cache")
    return parser.parse_args()


def paths(work):
    with open(work.data, encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def crop_box(width, height, rng):
    """RandomResizedCrop's box (left, top, width, height), as torchvision draws it."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def center_box(width, height):
    """The part of an image that resize 256, center crop 224 shows."""
    side = min(width, height) * SIZE / 256
    return (width - side) / 2, (height - side) / 2, side, side


def forever(make_epoch):
    while True:
        yield from make_epoch()


def family(pid):
    """A process and its descendants."""
    pids = [pid]
    for parent in pids:
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as children:
                    pids += [int(child) for child in children.read().split()]
        except OSError:
            pass  # it ended meanwhile
    return pids


def cpu_seconds():
    """CPU time of this process and all it started, living or waited for."""
    ticks = 0
    for pid in family(os.getpid()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return ticks / TICKS


def measure(batches, seconds):
    process_start = float(os.environ.get("BENCH_START", time.monotonic()))
    iterator = iter(batches)
    next(iterator)
    first = time.monotonic() - process_start
    for _ in range(WARM_BATCHES):
        next(iterator)
    cpu, start, images, taken = cpu_seconds(), time.monotonic(), 0, 0
    # Two workers finish their batches in pairs: an even number of batches ends where it began.
    while time.monotonic() - start < seconds or taken % 2:
        images += next(iterator)
        taken += 1
    elapsed = time.monotonic() - start
    return {
        "samples_per_second": images / elapsed,
        "first_batch_seconds": first,
        "cpu_seconds_per_1000": (cpu_seconds() - cpu) / images * 1000,
        "samples": images,
    }


def main(make_batches, prepare=None):
    work = arguments()
    if work.prepare:
        prepare(work)
        return
    result = measure(make_batches(work), work.seconds)
    print(json.dumps(result), flush=True)
    os._exit(0)  # some loaders take seconds to stop, or hang
