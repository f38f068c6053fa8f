# SPDX-License-Identifier: Apache-2.0
"""torch_profilers.py FOLDER: what it costs to have a torch DataLoader watched, by us and by others.

The job is the ImageNet training pipeline with two workers, over the same samples each time. It runs alone and under
each profiler, in turns. CPU time is that of the job, its workers and the profiler together, which other programs on
the machine disturb little; time that passed is shown beside it. Wants torch, torchvision, py-spy, scalene and
austin-dist beside the package; one that is not there is said to be missing."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.dirname(sys.executable)

# name: what starts the program, what it is told; OUT is a file
WAYS = {
    "alone": (["PYTHON"], []),
    "mr.profile": (["PYTHON"], ["--inside", "millrace"]),
    "cProfile": (["PYTHON", "-m", "cProfile", "-o", "OUT"], []),
    "torch.profiler": (["PYTHON"], ["--inside", "torch"]),
    "py-spy, 100 Hz": (["py-spy", "record", "-r", "100", "--subprocesses", "-f", "raw", "-o", "OUT", "--", "PYTHON"], []),
    "py-spy, native": (
        ["py-spy", "record", "-r", "100", "--subprocesses", "--native", "-f", "raw", "-o", "OUT", "--", "PYTHON"], []),
    "scalene, CPU": (["PYTHON", "-m", "scalene", "run", "--cpu-only", "-o", "OUT", "PROGRAM", "---"], []),
    "austin, 1 ms": (["austin", "-i", "1ms", "-C", "-o", "OUT", "PYTHON"], []),
    "perf record -F 999 -g": (["perf", "record", "-q", "-F", "999", "-g", "-e", "cpu-clock", "-o", "OUT", "PYTHON"], []),
}  # fmt: skip


# ---- The job ----
def job(options):
    import contextlib

    sys.path.insert(0, os.path.join(ROOT, "tests/python_optional"))
    import torch
    from vision import torchvision
    tv = torchvision()
    T = tv.transforms
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dataset = tv.datasets.ImageFolder(options.folder, T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
        T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    loader = torch.utils.data.DataLoader(dataset, 32, shuffle=True, num_workers=2, persistent_workers=True)
    watching = contextlib.nullcontext()
    if options.inside == "millrace":
        import millrace as mr
        watching = mr.profile(loader, options.out)
    elif options.inside == "torch":
        watching = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    before, begun = sum(os.times()[:4]), time.perf_counter()
    with watching as watch:
        samples = sum(len(labels) for _ in range(options.epochs) for _, labels in loader)
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()
    if options.inside == "torch":
        watch.export_chrome_trace(options.out)
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - begun,
                      "loop_cpu": sum(os.times()[:4]) - before}), flush=True)  # fmt: skip


# ---- Under a profiler ----
def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_once(way, options):
    folder = tempfile.mkdtemp()
    start, told = WAYS[way]
    names = {"PYTHON": sys.executable, "OUT": f"{folder}/out", "PROGRAM": os.path.abspath(__file__),
             "---": "---"}  # fmt: skip
    command = [names.get(word, word) for word in start]
    beside = os.path.join(BIN, command[0])
    command[0] = beside if os.path.exists(beside) else command[0]
    rest = [options.folder, "--job", "--epochs", str(options.epochs), "--out", f"{folder}/out", *told]
    command += rest if "PROGRAM" in start else [os.path.abspath(__file__), *rest]
    if shutil.which(command[0]) is None:
        return {"error": "not installed"}
    before = used()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    cpu = used() - before
    written = sum(os.path.getsize(os.path.join(where, name)) for where, _, files in os.walk(folder) for name in files)
    shutil.rmtree(folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"samples"')]
    if not lines:
        return {"error": (done.stderr or done.stdout).strip().splitlines()[-1:] or "nothing was said"}
    return {**json.loads(lines[-1]), "cpu": cpu, "written": written}


def show(runs):
    loop = statistics.median(row["loop_cpu"] for row in runs["alone"])
    print(f"{'':24} {'CPU s':>8} {'cost':>8} {'seconds':>8} {'KB written':>11}")
    for way, rows in runs.items():
        good = [(row, alone) for row, alone in zip(rows, runs["alone"]) if "error" not in row]
        if not good:
            print(f"{way:24} {rows[0]['error']}")
            continue
        cost = statistics.median((row["cpu"] - alone["cpu"]) / loop for row, alone in good)
        middle = {key: statistics.median(row[key] for row, _ in good) for key in ("cpu", "seconds", "written")}
        print(f"{way:24} {middle['cpu']:8.2f} {cost:+8.1%} {middle['seconds']:8.2f} {middle['written'] / 1e3:11.0f}",
              flush=True)  # fmt: skip
    print(f"the job's own CPU time, from the first batch on: {loop:.2f} s; cost is against that")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--job", action="store_true", help="be the job")
    parser.add_argument("--inside", choices=["", "millrace", "torch"], default="")
    parser.add_argument("--out")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default=",".join(WAYS).replace(", ", ";"))
    options = parser.parse_args()
    if options.job:
        job(options)
        return
    ways = [way.replace(";", ", ") for way in options.ways.split(",")]
    runs = {way: [] for way in ways}
    run_once("alone", options)
    for number in range(options.rounds):
        for i in range(len(ways)):
            way = ways[(i + number) % len(ways)]
            runs[way].append(run_once(way, options))
    show(runs)


if __name__ == "__main__":
    main()
