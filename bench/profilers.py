# SPDX-License-Identifier: Apache-2.0
"""profilers.py [FOLDER]: what it costs to be watched.

Two jobs do the same work, one through millrace and one through a torch DataLoader. Each runs alone
and under every profiler, in turns; medians, and changes against the run alone of the same round. What
a profiler does not see of a job is in docs/tracing.md."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))

import data  # noqa: E402
import environments  # noqa: E402

VENVS = os.path.join(ROOT, "build/bench-venvs")
CACHE = os.path.join(ROOT, "build/bench-data")
PROGRAM = os.path.join(ROOT, "bench/rivals/watched.py")

environments.ENVIRONMENTS["profilers"] = environments.Environment([["py-spy==0.4.1"]], ["py-spy"], ["linux-perf"])

# name: (what starts the program, what it is told); OUT is a file, PYTHON and SPY are programs
WAYS = {
    "alone": (["PYTHON"], []),
    "millrace's trace": (["PYTHON"], ["--inside", "millrace", "--out", "OUT"]),
    "cProfile": (["PYTHON", "-m", "cProfile", "-o", "OUT"], []),
    "torch.profiler": (["PYTHON"], ["--inside", "torch", "--out", "OUT"]),
    "perf record -F 999 -g": (["perf", "record", "-q", "-F", "999", "-g", "-e", "cpu-clock", "-o", "OUT", "PYTHON"], []),
    "py-spy, 100 Hz": (["SPY", "record", "-r", "100", "--subprocesses", "-f", "raw", "-o", "OUT", "--", "PYTHON"], []),
    "py-spy, 100 Hz, native": (
        ["SPY", "record", "-r", "100", "--subprocesses", "--native", "-f", "raw", "-o", "OUT", "--", "PYTHON"], []),
}  # fmt: skip


def run_once(job, way, inputs, seconds):
    folder = tempfile.mkdtemp(dir=CACHE)
    names = {"PYTHON": f"{VENVS}/torch/bin/python", "SPY": f"{VENVS}/profilers/bin/py-spy", "OUT": f"{folder}/out"}
    before, after = ([names.get(word, word) for word in words] for words in WAYS[way])
    command = [*before, PROGRAM, job, *inputs, "--seconds", str(seconds), *after]
    variables = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "build/python/python"))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=variables, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    written = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    shutil.rmtree(folder)
    if not lines:
        return {"error": environments.last_line(done.stderr or done.stdout)}
    return {**json.loads(lines[-1]), "written": written}


def show(job, runs):
    print(f"\n{job}")
    print(f"  {'':24} {'images/s':>9} {'':8} {'CPU ms an image':>16} {'MB written':>11} {'B an image':>11}")
    for way, rows in runs.items():
        good = [row for row in rows if "error" not in row]
        if not good:
            print(f"  {way:24} {rows[0]['error']}")
            continue
        middle = {key: statistics.median(row[key] for row in good) for key in good[0]}
        rate, each = middle["samples_per_second"], middle["written"] / middle["samples"]
        change = statistics.median(
            row["samples_per_second"] / alone["samples_per_second"] - 1
            for row, alone in zip(rows, runs["alone"]) if "error" not in row
        )  # fmt: skip
        print(f"  {way:24} {rate:9.1f} {change:+8.1%} {middle['cpu_seconds_per_1000']:16.3f} "
              f"{middle['written'] / 1e6:11.2f} {each:11.0f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seconds", type=float, default=3, help="of each run, once it is under way")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--jobs", default="millrace,torch")
    options = parser.parse_args()
    os.makedirs(CACHE, exist_ok=True)
    for name in ("torch", "profilers"):
        made = environments.make(name, VENVS)
        print(f"{name}: {made.get('error') or made['versions']}", flush=True)
    if shutil.which("perf"):
        print(subprocess.run(["perf", "--version"], capture_output=True, text=True).stdout.strip())
    folder = os.path.abspath(options.folder or data.default_photos(ROOT))
    names = data.write_list(os.path.join(CACHE, "photos.txt"), data.photos_in(folder))
    inputs = ["--folder", folder, "--data", names]
    for job in options.jobs.split(","):
        ways = [way for way in WAYS if job == "millrace" or way != "millrace's trace"]
        runs = {way: [] for way in ways}
        run_once(job, "alone", inputs, 1)
        for number in range(options.rounds):
            for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                runs[way].append(run_once(job, way, inputs, options.seconds))
        show(f"{job}: {options.rounds} runs of {options.seconds:g} s each", runs)


if __name__ == "__main__":
    main()
