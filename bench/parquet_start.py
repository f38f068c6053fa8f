# SPDX-License-Identifier: Apache-2.0
"""parquet_start.py: how long Parquet sets take to start. 10,000 files: their footers read, then kept in a store. 10^9 rows in
1,000 files: from the beginning, and from a saved state in the middle. Times are from the start of the loader to its first
batch, with the window shuffle and without; medians, in turn. Of the rows also the processor time of the whole command, which says more
where the machine has other work.

    ./dev bench parquet_start"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, "build/bench-data")


def make(folder, files, rows, group):
    """Copies of one file: other files all the same. Columns of one value each take a few bytes."""
    os.makedirs(folder)
    table = pa.table({"a": np.zeros(rows, np.int32), "b": np.ones(rows, np.float32)})
    first = os.path.join(folder, "00000.parquet")
    pq.write_table(table, first, row_group_size=group, compression="snappy")
    for i in range(1, files):
        shutil.copyfile(first, os.path.join(folder, f"{i:05}.parquet"))


def write_pipeline(path, folder, store, shuffle, batch):
    source = {"path": folder, "store": store} if store else {"path": folder}
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"source": {"parquet": source}, "shuffle": shuffle, "batch": batch, "seed": 1}, out)
    return path


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_and_processor(binary, pipeline, *more):
    """Seconds to the first batch, and processor seconds of all of it."""
    before = processor_seconds()
    return start(binary, pipeline, *more), processor_seconds() - before


def start(binary, pipeline, *more):
    """Seconds to the first batch."""
    command = [binary, "run", pipeline, "--steps", "1", "--threads", "2", "--quiet", "--no-digest", "--json", *more]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])["first_batch_seconds"]


def move_state(path, position):
    """The same state at another sample."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r'"position": \d+', f'"position": {position}', file.read())
    body = text[:text.index(', "check"')]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{body}, "check": "{xxhash.xxh3_64_hexdigest(body.encode())}"}}\n')


def middle(seconds):
    return f"{statistics.median(seconds):.3f} s ({', '.join(f'{s:.3f}' for s in seconds)})"


def measure_files(binary, work, rounds, files):
    make(work + "/many", files, 100, 100)
    store = work + "/store"
    plain = write_pipeline(work + "/plain.json", work + "/many", None, True, 64)
    kept = write_pipeline(work + "/kept.json", work + "/many", store, True, 64)
    start(binary, plain)  # into memory
    times = {"no store": [], "empty store": [], "full store": []}
    for _ in range(rounds):
        shutil.rmtree(store, ignore_errors=True)
        times["no store"].append(start(binary, plain))
        times["empty store"].append(start(binary, kept))
        times["full store"].append(start(binary, kept))
    print(f"{files:,} files, first batch")
    for name, seconds in times.items():
        print(f"  {name:14} {middle(seconds)}", flush=True)


def measure_rows(binary, work, rounds, files):
    rows = 1_000_000
    make(work + "/rows", files, rows, 100_000)
    state = work + "/state"
    print(f"{files * rows:,} rows in {files * 10:,} row groups, first batch of 1,024")
    for shuffle in (False, {"window": 8}):
        pipeline = write_pipeline(work + "/rows.json", work + "/rows", work + "/rows-store", shuffle, 1024)
        start(binary, pipeline, "--state-out", state)
        move_state(state, files * rows // 2 + 12_345)
        begins, resumes = [], []
        for _ in range(rounds):
            begins.append(start_and_processor(binary, pipeline))
            resumes.append(start_and_processor(binary, pipeline, "--state-in", state))
        for name, place, found in (("in windows" if shuffle else "in order", "beginning", begins), ("", "middle", resumes)):
            first, processor = zip(*found)
            print(f"  {name:12} from the {place:9} {middle(first)}, processor {middle(processor)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--billions", type=int, default=1_000, help="files of a million rows")
    options = parser.parse_args()
    os.makedirs(CACHE, exist_ok=True)
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="start-", dir=CACHE) as work:
        measure_files(options.millrace, work, options.rounds, options.files)
        measure_rows(options.millrace, work, options.rounds, options.billions)


if __name__ == "__main__":
    main()
