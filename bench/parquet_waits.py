# SPDX-License-Identifier: Apache-2.0
"""parquet_waits.py: what a training program waits for its data: Petastorm as it is, Petastorm with what its
authors moved into the workers (convert_early_to_numpy), and millrace, on the same files. A step is a sleep, so
that the threads that read have the processors to themselves, as beside a GPU. Row groups in an order drawn at
random; 2 threads each (Petastorm's default of 10 as well); in turn, medians.

    ./dev bench parquet_waits"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench/rivals")]
VENVS = os.path.join(ROOT, "build/bench-venvs")
TABLES = {  # rows of a step, what it is
    "T": (16_384, "1,000,000 rows x 24 numbers, snappy, steps of 16,384 rows"),
    "V": (4_096, "200,000 rows x 256 float32 (lists), zstd, steps of 4,096 rows"),
}
WAYS = {
    "millrace": "millrace, 2 threads",
    "petastorm": "Petastorm 0.13.1, 2 threads",
    "petastorm_ten": "Petastorm 0.13.1, 10 threads",
    "petastorm_early": "Petastorm 0.13.1, 2 threads, convert_early_to_numpy",
}


# ---- Ways: each gives batches of n rows -------------------------------------------------------------
def millrace(path, n):
    import millrace as mr
    groups = {"window": 4}
    for batch in mr.parquet(path).shuffle(groups).batch(n).remainder("drop").loader(seed=1, threads=2, epochs=1):
        yield {name: value for name, value in batch.items()}


def cut(batches, n):
    """Batches of n rows from batches of any size; what is left at the end is not a step."""
    import numpy as np
    rest = None
    for batch in batches:
        whole = batch._asdict()
        if rest:
            whole = {name: np.concatenate([rest[name], value]) for name, value in whole.items()}
        rows = len(next(iter(whole.values())))
        for at in range(0, rows - n + 1, n):
            yield {name: value[at:at + n] for name, value in whole.items()}
        at = rows // n * n
        rest = {name: value[at:] for name, value in whole.items()} if at < rows else None


def read_petastorm(path, n, **options):
    from petastorm import make_batch_reader
    with make_batch_reader("file://" + path, num_epochs=1, seed=1, **options) as reader:
        yield from cut(reader, n)


def petastorm(path, n):
    return read_petastorm(path, n, workers_count=2)


def petastorm_ten(path, n):
    return read_petastorm(path, n, workers_count=10)


def petastorm_early(path, n):
    return read_petastorm(path, n, workers_count=2, convert_early_to_numpy=True)


def measure_here(way, table, step, most):
    """Steps, their time, and the part of it that was waited: from the second batch on."""
    import parquet
    rows = TABLES[table][0]
    batches, steps, waited = globals()[way](parquet.path_of(table), rows), 0, 0.0
    if next(batches, None) is None:  # Petastorm now and then loses all row groups of a run
        print(json.dumps({"steps": 0, "waited": 1}))
        return
    begun = time.perf_counter()
    while steps < most:
        asked = time.perf_counter()
        if next(batches, None) is None:
            break
        waited += time.perf_counter() - asked
        steps += 1
        time.sleep(step)
    elapsed = time.perf_counter() - begun
    batches.close()
    print(json.dumps({"steps": steps / elapsed, "waited": waited / elapsed}))


# ---- All of them ------------------------------------------------------------------------------------
def python_of(way):
    return os.path.join(VENVS, "petastorm" if way.startswith("petastorm") else "parquet", "bin/python")


def run(way, table, step, most):
    variables = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "build/python/python"), PYTHONWARNINGS="ignore")
    command = [python_of(way), os.path.abspath(__file__), "--one", way, "--table", table, "--step", str(step),
               "--most", str(most)]
    out = subprocess.run(command, env=variables, capture_output=True, text=True)
    if out.returncode != 0:
        raise SystemExit(f"parquet_waits: {way} {table}: {out.stderr.strip().splitlines()[-1]}")
    return json.loads(out.stdout.splitlines()[-1])


def measure(step, most, rounds):
    found = {(table, way): [] for table in TABLES for way in WAYS}
    for _ in range(rounds):
        for table, way in found:
            found[table, way].append(run(way, table, step, most))
    return {key: dict({k: statistics.median(row[k] for row in rows) for k in rows[0]},
                      empty=sum(row["steps"] == 0 for row in rows)) for key, rows in found.items()}


def page(found, step, rounds, versions):
    import parquet
    yield from ("# What a training step waits for Parquet files", "")
    yield (f"Made by `./dev bench parquet_waits` on {parquet.machine()}: a step sleeps {step * 1000:.0f} ms, medians of "
           f"{rounds}, after the first batch; {', '.join(f'{n} {v}' for n, v in versions.items())}. The load average at "
           f"the end was {os.getloadavg()[0]:.1f}. Petastorm gives whole row groups, which its user cuts into steps.")
    for table, (_, title) in TABLES.items():
        yield from ("", f"## {title}", "", "| way | steps a second | share of the time that a step waits |", "|---|---|---|")
        for way, name in WAYS.items():
            row = found[table, way]
            lost = f"; {row['empty']} of {rounds} runs gave no row at all" if row["empty"] else ""
            yield f"| {name} | {row['steps']:.1f} | {row['waited'] * 100:.1f} %{lost} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.06)
    parser.add_argument("--most", type=int, default=40, help="steps of one measurement")
    parser.add_argument("--table")
    parser.add_argument("--one", metavar="WAY")
    parser.add_argument("--into")
    options = parser.parse_args()
    if options.one:
        return measure_here(options.one, options.table, options.step, options.most)
    import environments
    import parquet
    environments.ENVIRONMENTS["parquet"] = parquet.ENVIRONMENT
    environments.ENVIRONMENTS["petastorm"] = environments.Environment(
        [["petastorm==0.13.1", "pyarrow==14.0.2", "numpy==1.23.5", "pandas==2.0.3", "setuptools<70"]],
        ["petastorm", "pyarrow"])
    versions = {}
    for name in ("parquet", "petastorm"):
        made = environments.make(name, VENVS)
        if "error" in made:
            raise SystemExit(f"parquet_waits: {made['error']}")
        versions = made["versions"]
    for table in TABLES:
        parquet.make_elsewhere(os.path.join(VENVS, "parquet/bin/python"), table)
    text = "\n".join(page(measure(options.step, options.most, options.rounds), options.step, options.rounds, versions)) + "\n"
    if options.into:
        with open(options.into, "w", encoding="utf-8") as out:
            out.write(text)
    print(text)
    return None


if __name__ == "__main__":
    main()
