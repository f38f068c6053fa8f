# SPDX-License-Identifier: Apache-2.0
"""instructions.py [FOLDER]: what a trace costs, in instructions: callgrind counts them, so that a busy machine changes
nothing. The training pipeline, validation and rows of an array run once over few and over more samples, with and without a
trace; what an additional sample takes is the difference, start and end left out. The kernel's share (writing 40 bytes a span, probes)
is not counted; `bench/trace.py` measures the time of all of it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))

import data  # noqa: E402

CACHE = os.path.join(ROOT, "build/bench-data")
BATCH = 16
PHOTOS = (16, 80)
ROWS = (1_000, 17_000)


def count(binary, work, pipeline, trace):
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={work}/out", binary, "run", pipeline, "--quiet",
               "--no-digest", "--io", "pread", "--threads", "1", "--batch", str(BATCH)]
    out = subprocess.run(command + (["--trace", work + "/t"] if trace else []), capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", out.stderr)
    if out.returncode != 0 or not found:
        raise SystemExit(f"instructions: {out.stderr.strip()[-500:]}")
    return int(found.group(1))


def some_photos(folder, work, n):
    """Spread over all, so that few and many are alike."""
    into, names = f"{work}/photos{n}", data.photos_in(folder)
    os.makedirs(into)
    for i in range(n):
        shutil.copyfile(names[i * len(names) // n], f"{into}/{i:04}.jpg")
    return data.files_in(into)


def some_rows(work, n):
    import numpy as np
    np.save(f"{work}/rows{n}.npy", np.random.default_rng(1).integers(0, 256, (n, 3072), dtype=np.uint8))
    return {"array": {"path": f"{work}/rows{n}.npy"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    options = parser.parse_args()
    folder = options.folder or data.default_photos(ROOT)
    os.makedirs(CACHE, exist_ok=True)
    print("instructions of a sample       not traced       traced", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        photos, rows = [some_photos(folder, work, n) for n in PHOTOS], [some_rows(work, n) for n in ROWS]
        for name, sources, sizes, ops in (("training", photos, PHOTOS, data.TRAIN), ("validation", photos, PHOTOS, data.VAL),
                                          ("rows of 3 KB", rows, ROWS, [])):
            paths = [data.write_pipeline(f"{work}/{i}.json", source, ops) for i, source in enumerate(sources)]
            plain, traced = ([count(options.millrace, work, path, trace) for path in paths] for trace in (False, True))
            plain, traced = ((more - few) / (sizes[1] - sizes[0]) for few, more in (plain, traced))
            print(f"  {name:24} {plain:14,.0f} {traced:12,.0f}   {100 * (traced / plain - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
