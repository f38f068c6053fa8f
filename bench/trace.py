# SPDX-License-Identifier: Apache-2.0
"""trace.py [FOLDER]: what a trace costs the training pipeline, and how near its predictions come.

Costs: runs with and without a trace take turns; rates and CPU time, medians. Predictions: every
workload runs with 1, 2 and 4 threads, with and without a store; what the trace of one run says about
another is compared with that other run. Rounds take turns too; medians."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))

import data  # noqa: E402

CACHE = os.path.join(ROOT, "build/bench-data")
WANTED = 15  # per cent that a prediction may be off

RESIZE = {"resize": {"size": [256, 256]}}
AFTER_RESIZE = [{"random_crop": {"size": 224}}, {"random_flip": {}}, data.NORMALIZE]
KEPT = [{"decode_image": {}}, RESIZE, *AFTER_RESIZE]

# (name, ops, ops before the cache)
STORES = [
    ("training, cache after decode_image", data.TRAIN, 1),
    ("validation, cache after center_crop", data.VAL, 3),
    ("resize 256, random crop: cache after resize", KEPT, 2),
]


# ---- Running --------------------------------------------------------------------------------
class Runner:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.steps = {}

    def report(self, trace):
        out = subprocess.run([self.binary, "report", trace, "--json"], check=True, capture_output=True, text=True)
        return json.loads(out.stdout)["verdict"]

    def run(self, pipeline, threads, steps, trace=None):
        """The command's figures, with CPU seconds; with a trace, also its verdict."""
        command = [self.binary, "run", pipeline, "--quiet", "--no-digest", "--json", "--threads", str(threads),
                   "--epochs", "1000000", "--steps", str(steps)]  # fmt: skip
        path = os.path.join(self.folder, "run.trace")
        cpu = -cpu_of_children()
        out = subprocess.run(command + (["--trace", path] if trace else []), check=True, capture_output=True, text=True)
        result = json.loads(out.stdout.splitlines()[-1])
        result["cpu"] = cpu + cpu_of_children()
        batch = result["samples"] / result["batches"]
        result["rate"] = (result["samples"] - batch) / (result["seconds"] - result["first_batch_seconds"])
        if trace:
            result["verdict"] = self.report(path)
        return result

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


def median(rows, key):
    return statistics.median(row[key] for row in rows)


# ---- What a trace costs ---------------------------------------------------------------------
def measure_cost(runner, pipeline, rounds, seconds):
    steps = runner.steps_for("cost", pipeline, 2, seconds)
    rows = {False: [], True: []}
    for number in range(rounds):
        for trace in (False, True) if number % 2 else (True, False):
            rows[trace].append(runner.run(pipeline, 2, steps, trace))
    each = {trace: {"rate": median(runs, "rate"), "cpu": median(runs, "cpu") / runs[0]["samples"] * 1e3}
            for trace, runs in rows.items()}  # fmt: skip
    print(f"training, 2 threads, {rounds} runs each of {steps * 128} images")
    for trace, name in ((False, "not traced"), (True, "traced")):
        print(f"  {name:12} {each[trace]['rate']:8.1f} images/s   {each[trace]['cpu']:.3f} ms of CPU an image")
    for key, sign in (("rate", "images/s"), ("cpu", "CPU time")):
        pairs = sorted(b[key] / a[key] - 1 for a, b in zip(rows[False], rows[True]))
        print(f"  {sign}, traced against the run beside it: {statistics.median(pairs):+.1%} "
              f"({', '.join(f'{p:+.1%}' for p in pairs)})", flush=True)  # fmt: skip


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
    runs = {n: [] for n in counts}
    for _ in range(rounds):
        for n in counts:
            runs[n].append(runner.run(pipeline, n, runner.steps_for((name, n), pipeline, n, seconds), True)["verdict"])
    for start in (1, 2):
        for n in counts:
            predicted = [p["rate"] for v in runs[start] for p in v["predictions"] if p["threads"] == n]
            table.add(f"{name}: {n} from a run with {start}", predicted, [v["rate"] for v in runs[n]])


def write(folder, name, source, ops):
    return data.write_pipeline(os.path.join(folder, name + ".json"), source, ops)


def with_cache(ops, n, store):
    return [*ops[:n], {"cache": {"path": store, "size": "8GB"}}, *ops[n:]]


def predict_store(runner, table, name, source, ops, n, rounds, seconds):
    """Off: no cache. Cold: the epoch that fills it. Warm: the epochs after. A cold run is short, so
    it has small batches; each has a store of its own."""
    off_path, runs = write(runner.folder, "off", source, ops), {"off": [], "cold": [], "warm": []}
    for number in range(rounds):
        store = tempfile.mkdtemp(prefix="store-", dir=CACHE)
        path = write(runner.folder, "cached", source, with_cache(ops, n, store + "/s"))
        runs["off"].append(runner.run(off_path, 2, runner.steps_for((name, "off"), off_path, 2, 2 * seconds), True)["verdict"])
        cold = [runner.binary, "run", path, "--quiet", "--no-digest", "--threads", "2", "--batch", "16", "--trace",
                runner.folder + "/cold.trace"]  # fmt: skip
        subprocess.run(cold, check=True, capture_output=True)
        runs["cold"].append(runner.report(runner.folder + "/cold.trace"))
        steps = runner.steps_for((name, "warm"), path, 2, seconds)
        runs["warm"].append(runner.run(path, 2, steps, True)["verdict"])
        shutil.rmtree(store)
    off, warm = ([v["rate"] for v in runs[state]] for state in ("off", "warm"))
    full = {state: [c["rate"] for v in runs[state] for c in v["caches"] if c["ops"] == n] for state in ("off", "cold")}
    table.add(f"{name}: full, from a run without", full["off"], warm)
    table.add(f"{name}: full, from the one that fills it", full["cold"], warm)
    if runs["cold"][0]["uncached_at_least"]:
        print(f"  {name + ': without, from the one that fills it':62} {median(runs['cold'], 'uncached'):9.0f} {statistics.median(off):9.0f}   at least")
    else:
        table.add(f"{name}: without, from the one that fills it", [v["uncached"] for v in runs["cold"]], off)


# ---- The whole ------------------------------------------------------------------------------
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    parser.add_argument("--seconds", type=float, default=2, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["cost", "threads", "store"])
    options = parser.parse_args()
    folder = options.folder or data.default_photos(ROOT)
    workloads, _ = data.prepare(folder, CACHE)
    table = Table()
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        os.environ["XDG_CACHE_HOME"] = work
        runner = Runner(os.path.abspath(options.millrace), work)
        runner.run(workloads["train"][2], 2, 8)  # files into memory
        if options.only in (None, "cost"):
            measure_cost(runner, workloads["train"][2], 2 * options.rounds + 3, 1.5 * options.seconds)
        print(f"\n  {'samples/s':62} predicted  measured")
        if options.only in (None, "threads"):
            for name in ("train", "val", "large", "array"):
                predict_threads(runner, table, name, workloads[name][2], options.rounds, options.seconds)
        if options.only in (None, "store"):
            for name, ops, n in STORES:
                predict_store(runner, table, name, data.files_in(folder), ops, n, options.rounds, options.seconds)
    near = sum(abs(off) <= WANTED for off in table.rows)
    print(f"\n  {near} of {len(table.rows)} within {WANTED} %")


if __name__ == "__main__":
    main()
