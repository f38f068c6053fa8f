# SPDX-License-Identifier: Apache-2.0
"""torch_profilers.py FOLDER: what it costs to have a torch DataLoader watched, by us and by others.

The job is the ImageNet training pipeline with two workers, over the same samples each time. It runs alone and under
each profiler, in turns. CPU time is that of the job, its workers and the profiler together, which other programs on
the machine disturb little; time that passed is shown beside it. Wants torch, torchvision, py-spy, scalene and
austin-dist beside the package; one that is not there is said to be missing.

With --pairs N it compares the job alone and under mr.profile in one process that has imported all of it, N times, one
right after the other, for one epoch and for several: CPU time of the program and its workers from making the loader to
its end. With --by-hand N it compares the time of each step in a profile with that of the same steps called and timed
here, N times in turns.

With --instructions N it counts the instructions of the job alone and under mr.profile with callgrind, in all of its
processes, for N photos and for three times as many: what a photo more takes has neither import, nor start, nor end in it.
Other programs do not change it; what the kernel does for the probes is not in it."""

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
def make_loader(folder):
    sys.path.insert(0, os.path.join(ROOT, "tests/python_optional"))
    import torch
    from vision import torchvision
    tv = torchvision()
    T = tv.transforms
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dataset = tv.datasets.ImageFolder(folder, T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
        T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    return torch.utils.data.DataLoader(dataset, 32, shuffle=True, num_workers=2, persistent_workers=True)


def end(loader):
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()
        loader._iterator = None


def count_instructions(folder, inside, photos):
    """(of the program, of its workers): each process leaves a file of callgrind's."""
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}/cg.%p",
                   sys.executable, os.path.abspath(__file__), folder, "--job", "--epochs", "1", "--photos", str(photos),
                   "--inside", inside, "--out", f"{out}/trace", "--counted"]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        if process.wait() != 0:
            sys.exit("the job did not end well under callgrind")
        totals = {}
        for name in os.listdir(out):
            if name.startswith("cg."):
                with open(os.path.join(out, name), encoding="utf-8", errors="replace") as file:
                    totals[name] = sum(int(line.split()[1]) for line in file if line.startswith("totals:"))
        program = totals.pop(f"cg.{process.pid}")
        return program, sum(totals.values())


def instructions(options):
    few, many = options.instructions, 3 * options.instructions
    each = {}
    for inside in ("", "millrace"):
        counted = [count_instructions(options.folder, inside, photos) for photos in (few, many)]
        each[inside] = [(after - before) / (many - few) for before, after in zip(*counted)]
        print(f"{inside or 'alone':10} a photo: {each[inside][0] / 1e6:.3f} million instructions of the program, "
              f"{each[inside][1] / 1e6:.3f} million of its workers; of {few} and {many}: {counted}", flush=True)
    more = [watched - alone for alone, watched in zip(each[""], each["millrace"])]
    print(f"mr.profile: {sum(more) / sum(each['']):+.2%} instructions for a photo, {more[1] / each[''][1]:+.2%} in workers")


def job(options):
    import contextlib

    import torch
    loader = make_loader(options.folder)
    if options.photos:
        loader.dataset.samples = loader.dataset.samples[:options.photos]
    watching = contextlib.nullcontext()
    if options.inside == "millrace":
        import millrace as mr
        watching = mr.profile(loader, options.out)
    elif options.inside == "torch":
        watching = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if options.counted:  # importing torch takes minutes when it is
        subprocess.run(["callgrind_control", "--instr=on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    before, begun = sum(os.times()[:4]), time.perf_counter()
    with watching as watch:
        samples = sum(len(labels) for _ in range(options.epochs) for _, labels in loader)
    end(loader)
    if options.inside == "torch":
        watch.export_chrome_trace(options.out)
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - begun,
                      "loop_cpu": sum(os.times()[:4]) - before}), flush=True)  # fmt: skip


# ---- Pairs of runs in one process ----
def used_by(options, epochs, path):
    """CPU seconds of the program and its workers, from making the loader to its end."""
    import millrace as mr
    loader = make_loader(options.folder)
    before = sum(os.times()[:4])
    profile = mr.profile(loader, path) if path else None
    for _ in range(epochs):
        for _ in loader:
            pass
    if profile is not None:
        profile.close()
    end(loader)
    return sum(os.times()[:4]) - before


def likely(values):
    """The middle, and between which of the values it lies with a probability of 95 % (of six values or more)."""
    values, n = sorted(values), len(values)
    left_out = max((k for k in range(n // 2) if sum(math.comb(n, i) for i in range(k + 1)) <= 0.025 * 2**n), default=0)
    return statistics.median(values), values[left_out], values[-1 - left_out]


def pairs(options):
    """Of one epoch and of several: what those more take has neither opening nor ending the profile in it."""
    lengths = (1, options.epochs)
    with tempfile.TemporaryDirectory() as folder:
        ways = [(epochs, path) for epochs in lengths for path in (None, f"{folder}/trace")]
        found = []
        for number in range(options.pairs + 1):  # the first warms up
            turn = {way: used_by(options, *way) for way in (ways if number % 2 else ways[::-1])}
            found.append([turn[way] for way in ways])
    del found[0]
    for epochs, (alone, watched) in zip(lengths, ((0, 1), (2, 3))):
        middle, low, high = likely([turn[watched] / turn[alone] - 1 for turn in found])
        seconds = [statistics.median(turn[way] for turn in found) for way in (alone, watched)]
        print(f"CPU time of {epochs} epochs: {seconds[0]:.3f} s alone, {seconds[1]:.3f} s under mr.profile; of {len(found)} pairs "
              f"the middle {middle:+.2%}, between {low:+.2%} and {high:+.2%}")
    middle, low, high = likely([(turn[3] - turn[1]) / (turn[2] - turn[0]) - 1 for turn in found])
    print(f"what {lengths[1] - lengths[0]} epochs more take: {middle:+.2%}, between {low:+.2%} and {high:+.2%}")


# ---- Steps timed by hand ----
def by_profile(loader, path):
    import millrace as mr
    with mr.profile(loader, path):
        for _ in loader:
            pass
    return {op["name"]: op["total"] for op in mr.report(path).figures["ops"]}


def by_hand(loader):
    import torch
    seconds, now = {}, time.perf_counter
    dataset = loader.dataset
    steps = [(type(step).__name__, step) for step in dataset.transform.transforms]
    for indices in loader.batch_sampler:
        batch = []
        for path, label in (dataset.samples[i] for i in indices):
            begun = now()
            value = dataset.loader(path)
            ended = now()
            seconds["default_loader"] = seconds.get("default_loader", 0) + ended - begun
            for name, step in steps:
                begun = now()
                value = step(value)
                ended = now()
                seconds[name] = seconds.get(name, 0) + ended - begun
            batch.append((value, label))
        torch.utils.data.default_collate(batch)  # memory is taken and given back as by the loader
    return seconds


def compare_steps(options):
    import torch
    loader = torch.utils.data.DataLoader(make_loader(options.folder).dataset, 32, shuffle=True)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.by_hand + 1):
            turn = []
            for way in (by_hand, lambda one: by_profile(one, f"{folder}/trace"))[::1 if number % 2 else -1]:
                torch.manual_seed(number)
                turn.append(way(loader))
            found.append(turn[::1 if number % 2 else -1])
    for name in found[0][0]:
        hand, profiled = (min(turn[way][name] for turn in found) / len(loader.dataset) for way in (0, 1))
        ratios = sorted(turn[1][name] / turn[0][name] - 1 for turn in found)
        print(f"{name:24} {1e3 * hand:7.3f} ms by hand, {1e3 * profiled:7.3f} ms in the profile, least of {len(found)}: "
              f"{profiled / hand - 1:+.1%}; by turns {statistics.median(ratios):+.1%}")


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
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--by-hand", type=int, default=0)
    parser.add_argument("--instructions", type=int, default=0)
    parser.add_argument("--counted", action="store_true", help="the job runs under callgrind")
    parser.add_argument("--photos", type=int, default=0, help="of the job: so many of the folder's; 0: all")
    parser.add_argument("--ways", default=",".join(WAYS).replace(", ", ";"))
    options = parser.parse_args()
    if options.job:
        job(options)
        return
    if options.pairs or options.by_hand:
        (pairs if options.pairs else compare_steps)(options)
        return
    if options.instructions:
        instructions(options)
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
