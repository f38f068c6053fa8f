# SPDX-License-Identifier: Apache-2.0
"""dct_scale.py BINARY [FOLDER]: what decode_image's dct_scale gains, and how much pixels differ from
those without it, on the workloads of rivals.py. Rates are medians of runs that take turns."""

import json
import os
import statistics
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))
sys.path.insert(0, os.path.join(ROOT, "tests/python"))

import data  # noqa: E402
import mrlib  # noqa: E402

CACHE = os.path.join(ROOT, "build/bench-data")
ROUNDS = 3


def variant(path, scaled):
    with open(path, encoding="utf-8") as file:
        pipeline = json.load(file)
    pipeline["ops"][0] = {"decode_image": {"dct_scale": scaled}}
    return pipeline


def pixels(path, scaled):
    """Batches of bytes, that is without what comes behind the pixels."""
    pipeline = variant(path, scaled)
    pipeline["ops"] = [op for op in pipeline["ops"] if "normalize" not in op]
    with mrlib.Loader({**pipeline, "epochs": 1}, threads=2) as loader:
        for batch in loader:
            yield batch["image"].astype(np.int16)


def differences(path):
    """Images, images that came out different, and of those the mean and largest difference and the
    mean of each image's largest."""
    images, mean, largest = 0, [], []
    for exact, scaled in zip(pixels(path, False), pixels(path, True)):
        apart = np.abs(exact - scaled).reshape(len(exact), -1)
        images += len(apart)
        changed = apart[apart.any(axis=1)]
        mean += list(changed.mean(axis=1))
        largest += list(changed.max(axis=1))
    return images, mean, largest


def rate(binary, path, scaled):
    into = os.path.join(CACHE, "dct_scale.json")
    with open(into, "w", encoding="utf-8") as file:
        json.dump(variant(path, scaled), file)
    command = [binary, "run", into, "--json", "--quiet", "--no-digest", "--threads", "2"]
    shown = subprocess.run(
        command + ["--epochs", "8" if "large" in path else "12"], capture_output=True, text=True, check=True
    ).stdout
    return json.loads(shown.splitlines()[-1])["samples_per_second"]


def main():
    binary, folder = sys.argv[1], (sys.argv[2:] or [None])[0]
    workloads, _ = data.prepare(folder or data.default_photos(ROOT), CACHE)
    for name in ("train", "val", "large"):
        path = workloads[name][2]
        images, mean, largest = differences(path)
        rates = {scaled: [] for scaled in (False, True)}
        for _ in range(ROUNDS):
            for scaled in rates:
                rates[scaled].append(rate(binary, path, scaled))
        exact, scaled = (statistics.median(rates[s]) for s in (False, True))
        print(f"{name:6} {len(mean)} of {images} images differ", end="")
        if mean:
            print(f", by {np.mean(mean):.2f} of 255 on average, {max(largest)} at most", end="")
        print(f"; {exact:.1f} images/s without, {scaled:.1f} with: {scaled / exact:.2f}", flush=True)


if __name__ == "__main__":
    main()
