# SPDX-License-Identifier: Apache-2.0
"""trace.py [FOLDER]: what a trace costs the training pipeline, and how near its predictions come.

Costs: runs with and without a trace take turns; rates and CPU time, medians. Predictions: every
workload runs with 1, 2 and 4 threads, with and without a store; what the trace of one run says about
another is compared with that other run. Rounds take turns too; medians. `--keep DIR` keeps the traces, and
`--again DIR` takes those in place of runs: what another build makes of the same traces."""

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))

import data  # noqa: E402

CACHE = os.path.join(ROOT, "build/bench-data")
WANTED = 15  # per cent that a prediction may be off
COPIES = 6  # of each photo, where a store is filled

RESIZE = {"resize": {"size": [256, 256]}}
AFTER_RESIZE = [{"random_crop": {"size": 224}}, {"random_flip": {}}, data.NORMALIZE]
KEPT = [{"decode_image": {}}, RESIZE, *AFTER_RESIZE]

THREADED = ["train", "val", "large", "array"]
# (name, ops, ops before the cache)
STORES = [
    ("training, cache after decode_image", data.TRAIN, 1),
    ("validation, cache after center_crop", data.VAL, 3),
    ("resize 256, random crop: cache after resize", KEPT, 2),
]


# ---- Running --------------------------------------------------------------------------------
class Runner:
    def __init__(self, binary, folder, traces, again):
        self.binary, self.folder, self.traces, self.again = binary, folder, traces, again
        self.steps = {}

    def verdict(self, name):
        path = os.path.join(self.traces, name + ".trace")
        out = subprocess.run([self.binary, "report", path, "--json"], check=True, capture_output=True, text=True)
        return json.loads(out.stdout)["verdict"]

    def run(self, pipeline, threads, steps, trace=None):
        """The command's figures, with CPU seconds; `trace` is the name of one that is written."""
        command = [self.binary, "run", pipeline, "--quiet", "--no-digest", "--json", "--threads", str(threads),
                   "--epochs", "1000000", "--steps", str(steps)]  # fmt: skip
        command += ["--trace", os.path.join(self.traces, trace + ".trace")] if trace else []
        cpu = -cpu_of_children()
        out = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(out.stdout.splitlines()[-1])
        result["cpu"] = cpu + cpu_of_children()
        batch = result["samples"] / result["batches"]
        result["rate"] = (result["samples"] - batch) / (result["seconds"] - result["first_batch_seconds"])
        return result

    def run_epoch(self, pipeline, trace):
        """One epoch in small batches."""
        command = [self.binary, "run", pipeline, "--quiet", "--no-digest", "--threads", "2", "--batch", "16",
                   "--trace", os.path.join(self.traces, trace + ".trace")]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)

    def steps_for(self, key, pipeline, threads, seconds):
        """So many batches that a run takes about that long."""
        if key not in self.steps:
            steps, took = 6, 0
            while took < 0.4:
                result = self.run(pipeline, threads, steps)
                took = result["seconds"]
                steps *= 4
            batch = result["samples"] / result["batches"]
            self.steps[key] = max(8, round(result["rate"] / batch * seconds))
        return self.steps[key]


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Others:
    """How many CPUs programs other than ours and its children use, from its making on."""

    def __init__(self):
        self.begun, self.others = time.monotonic(), self.used_by_others()

    @staticmethod
    def used_by_others():
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system = (int(word) for word in stat.readline().split()[1:4])
        own = resource.getrusage(resource.RUSAGE_SELF)
        return (user + nice + system) / os.sysconf("SC_CLK_TCK") - own.ru_utime - own.ru_stime - cpu_of_children()

    def cpus(self):
        return (self.used_by_others() - self.others) / (time.monotonic() - self.begun)


def median(rows, key):
    return statistics.median(row[key] for row in rows)


# ---- What a trace costs ---------------------------------------------------------------------
def interval_of_median(values):
    """Between which two of them the median of all such lies, with a probability of 95 % at least: of n values as
    many lie below it as heads fall of n coins."""
    n, k, tail = len(values), 0, 0.0
    while tail + math.comb(n, k) / 2**n <= 0.025:
        tail += math.comb(n, k) / 2**n
        k += 1
    values = sorted(values)
    return values[max(k - 1, 0)], values[n - max(k, 1)]


def measure_cost(runner, pipeline, pairs, seconds):
    """Many short pairs: what the machine gives changes from second to second, and the median of the pairs' quotients
    is certain long before a run of any length is."""
    steps = runner.steps_for("cost", pipeline, 2, seconds)
    rows = {False: [], True: []}
    for number in range(pairs):
        for trace in (False, True) if number % 2 else (True, False):
            rows[trace].append(runner.run(pipeline, 2, steps, "cost" if trace else None))
    print(f"training, 2 threads, {pairs} pairs of runs of {steps * 128} images")
    for trace, name in ((False, "not traced"), (True, "traced")):
        cpu = median(rows[trace], "cpu") / rows[trace][0]["samples"] * 1e3
        print(f"  {name:12} {median(rows[trace], 'rate'):8.1f} images/s   {cpu:.3f} ms of CPU an image")
    for key, sign in (("rate", "images/s"), ("cpu", "CPU time")):
        quotients = [b[key] / a[key] - 1 for a, b in zip(rows[False], rows[True])]
        low, high = interval_of_median(quotients)
        print(f"  {sign}, traced against the run beside it: {statistics.median(quotients):+.2%}, "
              f"between {low:+.2%} and {high:+.2%} with a probability of 95 %", flush=True)  # fmt: skip


# ---- Predictions ----------------------------------------------------------------------------
class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, predicted, measured):
        """Rates of every round. Runs of one round are near each other in time, and so is what the machine
        gives: a round's prediction is compared with its own run."""
        off = 100 * (statistics.median(p / m for p, m in zip(predicted, measured)) - 1)
        predicted, measured = statistics.median(predicted), statistics.median(measured)
        self.rows.append(off)
        mark = "" if abs(off) <= WANTED else "   off by more than wanted"
        print(f"  {what:62} {predicted:9.0f} {measured:9.0f} {off:+6.1f} %{mark}", flush=True)


def predict_threads(runner, table, name, pipeline, rounds, seconds):
    counts = (1, 2, 4)
    traces = {n: [f"{name}-{n}-{number}" for number in range(rounds)] for n in counts}
    for number in range(0 if runner.again else rounds):
        for n in counts:
            runner.run(pipeline, n, runner.steps_for((name, n), pipeline, n, seconds), traces[n][number])
    yield
    runs = {n: [runner.verdict(trace) for trace in traces[n]] for n in counts}
    for start in (1, 2):
        for n in counts:
            predicted = [p["rate"] for v in runs[start] for p in v["predictions"] if p["threads"] == n]
            table.add(f"{name}: {n} from a run with {start}", predicted, [v["rate"] for v in runs[n]])


def write(folder, name, source, ops):
    return data.write_pipeline(os.path.join(folder, name + ".json"), source, ops)


def with_cache(ops, n, store):
    return [*ops[:n], {"cache": {"path": store, "size": "8GB"}}, *ops[n:]]


def fill_and_read(runner, name, source, ops, n, number, seconds):
    store = tempfile.mkdtemp(prefix="store-", dir=CACHE)
    off = write(runner.folder, "off", source, ops)
    path = write(runner.folder, "cached", source, with_cache(ops, n, store + "/s"))
    runner.run(off, 2, runner.steps_for((name, "off"), off, 2, 2 * seconds), f"{name}-off-{number}")
    runner.run_epoch(path, f"{name}-cold-{number}")
    runner.run(path, 2, runner.steps_for((name, "warm"), path, 2, seconds), f"{name}-warm-{number}")
    shutil.rmtree(store)


def predict_store(runner, table, name, source, ops, n, rounds, seconds):
    """Off: no cache. Cold: the epoch that fills it. Warm: the epochs after. A cold run is one epoch, so there are copies of
    the photos and small batches: in a short run most of the batches' memory is touched for the first time. Each
    has a store of its own."""
    for number in range(0 if runner.again else rounds):
        fill_and_read(runner, name, source, ops, n, number, seconds)
    yield
    runs = {state: [runner.verdict(f"{name}-{state}-{number}") for number in range(rounds)]
            for state in ("off", "cold", "warm")}  # fmt: skip
    off, warm = ([v["rate"] for v in runs[state]] for state in ("off", "warm"))
    full = {state: [c["rate"] for v in runs[state] for c in v["caches"] if c["ops"] == n] for state in ("off", "cold")}
    table.add(f"{name}: full, from a run without", full["off"], warm)
    table.add(f"{name}: full, from the one that fills it", full["cold"], warm)
    if runs["cold"][0]["uncached_at_least"]:
        print(f"  {name + ': without, from the one that fills it':62} {median(runs['cold'], 'uncached'):9.0f} {statistics.median(off):9.0f}   at least")
    else:
        table.add(f"{name}: without, from the one that fills it", [v["uncached"] for v in runs["cold"]], off)


# ---- The whole ------------------------------------------------------------------------------
def predictions(runner, table, workloads, folder, options):
    """All runs come first and what is made of their traces after them, since that takes CPU time too."""
    parts = []
    names = {None: THREADED, "threads": THREADED, "rows": ["array"]}.get(options.only, [])
    parts += [predict_threads(runner, table, name, workloads[name][2], options.rounds, options.seconds)
              for name in names]  # fmt: skip
    if options.only in (None, "store"):
        source = data.files_in(data.copies_of(folder, CACHE, COPIES))
        parts += [predict_store(runner, table, name, source, ops, n, options.rounds, options.seconds)
                  for name, ops, n in STORES]  # fmt: skip
    for part in parts:
        next(part)
    print(f"\n  {'samples/s':62} predicted  measured")
    for part in parts:
        next(part, None)
    near = sum(abs(off) <= WANTED for off in table.rows)
    print(f"\n  {near} of {len(table.rows)} within {WANTED} %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    parser.add_argument("--seconds", type=float, default=2, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=50, help="of runs with and without a trace, a third as long")
    parser.add_argument("--only", choices=["cost", "threads", "rows", "store"])
    parser.add_argument("--keep", help="a folder for the traces")
    parser.add_argument("--again", help="a folder that --keep named: no runs, the same traces")
    options = parser.parse_args()
    folder = options.folder or data.default_photos(ROOT)
    workloads, _ = data.prepare(folder, CACHE)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        os.environ["XDG_CACHE_HOME"] = work
        traces = options.again or options.keep or work
        os.makedirs(traces, exist_ok=True)
        runner = Runner(os.path.abspath(options.millrace), work, traces, options.again)
        others = Others()
        if not options.again:
            runner.run(workloads["train"][2], 2, 8)  # files into memory
        if options.only in (None, "cost") and not options.again:
            measure_cost(runner, workloads["train"][2], options.pairs, options.seconds / 3)
        if options.only != "cost":
            predictions(runner, Table(), workloads, folder, options)
        if not options.again:
            print(f"other programs took {others.cpus():.2f} of {os.cpu_count()} CPUs meanwhile")


if __name__ == "__main__":
    main()
