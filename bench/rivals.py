# SPDX-License-Identifier: Apache-2.0
"""rivals.py [FOLDER]: millrace against other loaders on the same work, on this machine.

Makes the rivals' environments in build/bench-venvs, then runs every loader as a process of its own,
one after the other, round by round, so that what disturbs the machine disturbs all of them alike.
Results go to docs/benchmarks.json, and from there into docs/benchmarks.md and docs/benchmarks.svg;
--report makes only the latter two anew. A trial (--workloads, --rounds, --seconds) belongs elsewhere:
--into FOLDER. There a whole can also be made in pieces, where a machine is quiet for minutes only: --add
adds workloads and rounds to the results that stand there, of the same commit and --seconds."""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))

import data  # noqa: E402
import environments  # noqa: E402
import harness  # noqa: E402
import profile_ops  # noqa: E402
import report  # noqa: E402

VENVS = os.path.join(ROOT, "build/bench-venvs")
CACHE = os.path.join(ROOT, "build/bench-data")
PHOTOS = ("train", "val", "large")
WORKLOADS = (*PHOTOS, "array", "threads")


@dataclass
class Rival:
    name: str
    program: str
    environment: str
    workloads: tuple = PHOTOS
    threads: int = 2
    prepares: bool = False


RIVALS = [
    Rival("DALI (CPU)", "dali_cpu.py", "dali"),
    Rival("Grain + OpenCV", "grain_opencv.py", "grain"),
    Rival("FFCV (jpg mode)", "ffcv_jpeg.py", "ffcv", prepares=True),
    Rival(report.PIXELS, "ffcv_raw.py", "ffcv", ("train",), prepares=True),
    Rival("tf.data", "tf_data.py", "tf"),
    Rival("torch DataLoader + OpenCV", "torch_opencv.py", "torch"),
    Rival("torch DataLoader + torchvision (Pillow)", "torchvision_pillow.py", "torch"),
    Rival("torch DataLoader + torchvision (decode_jpeg)", "torchvision_tensors.py", "torch", prepares=True),
    Rival("SPDL", "spdl_ffmpeg.py", "spdl"),
    Rival("numpy fancy indexing (1 thread)", "array_numpy.py", "torch", ("array",)),
    Rival("tf.data", "array_tf.py", "tf", ("array",)),
    Rival("torch DataLoader, no workers", "array_torch.py", "torch", ("array",), 0),
    Rival("torch DataLoader, 2 workers", "array_torch.py", "torch", ("array",)),
    Rival("Grain", "array_grain.py", "grain", ("array",)),
]


# ---- One process ----------------------------------------------------------------------------
class Failed(Exception):
    pass


def pss_bytes(pid):
    total = 0
    for member in harness.family(pid):
        try:
            with open(f"/proc/{member}/smaps_rollup", encoding="ascii") as lines:
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            pass
    return total * 1024


def watch_memory(process, peak):
    while process.poll() is None:
        peak[0] = max(peak[0], pss_bytes(process.pid))
        time.sleep(0.05)


def run_json(command, limit, memory):
    """Runs a program; its last line of JSON. With memory: also the peak of its family's PSS, which
    is watched in runs of its own because watching costs time."""
    environment = dict(os.environ, BENCH_START=str(time.monotonic()), TF_CPP_MIN_LOG_LEVEL="2")
    environment["PYTHONPATH"] = os.path.join(ROOT, "build/python/python")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=environment, start_new_session=True,
    )  # fmt: skip
    peak = [0]
    watcher = threading.Thread(target=watch_memory, args=(process, peak), daemon=True)
    if memory:
        watcher.start()
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise Failed(f"did not end within {limit:.0f} s") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        raise Failed(environments.last_line(err or out))
    result = json.loads(lines[-1])
    if memory:
        watcher.join()
        result["peak_pss_bytes"] = peak[0]
    return result


def children_cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- The loaders ----------------------------------------------------------------------------
class Bench:
    def __init__(self, options, workloads):
        self.options, self.workloads = options, workloads
        self.steps = {}  # of millrace, for (workload, threads)
        self.share = 1  # of the time of a run

    def seconds(self, workload):
        return self.options.seconds * (2 if workload == "large" else 1) * self.share

    def rival(self, rival, workload, memory=False, prepare=False):
        kind, source, _ = self.workloads[workload]
        seconds = self.seconds(workload)
        command = [
            os.path.join(VENVS, rival.environment, "bin/python"),
            os.path.join(ROOT, "bench/rivals", rival.program),
            *("--workload", kind, "--data", source, "--cache", CACHE),
            *("--seconds", str(seconds), "--threads", str(rival.threads)),
        ]
        if prepare:
            done = subprocess.run(command + ["--prepare"], capture_output=True, text=True)
            if done.returncode != 0:
                raise Failed(environments.last_line(done.stderr))
            return None
        return run_json(command, 240 + 4 * seconds, memory)

    def indexed(self, workload):
        """The same pipeline with a store that keeps the row indexes of the photos; round 0 fills it."""
        document = os.path.join(CACHE, f"{workload}-indexed.json")
        with open(self.workloads[workload][2], encoding="utf-8") as plain, \
                open(document, "w", encoding="utf-8") as out:
            cache = {"path": os.path.join(CACHE, "index"), "keep": "index"}
            json.dump({**json.load(plain), "cache": cache}, out)
        return document

    def command(self, workload, threads, steps, indexed=False):
        pipeline = self.indexed(workload) if indexed else self.workloads[workload][2]
        return [
            self.options.millrace, "run", pipeline, "--json", "--quiet", "--no-digest",
            *("--threads", str(threads), "--epochs", "1000000", "--steps", str(steps)),
        ]  # fmt: skip

    def millrace(self, workload, threads=2, memory=False, indexed=False):
        """A run that ended too soon, because the number of batches it takes was guessed too low,
        does not count: it is repeated with more. The rate is taken from the first batch on."""
        key, wanted = (workload, threads, indexed), self.seconds(workload)
        while True:
            steps = self.steps.setdefault(key, 4)
            cpu = -children_cpu_seconds()
            result = run_json(self.command(workload, threads, steps, indexed), 300, memory)
            cpu += children_cpu_seconds()
            if result["seconds"] >= 0.7 * wanted:
                break
            more = min(8, max(1.5, wanted / result["seconds"]))
            self.steps[key] = round(steps * more)
        kept = {k: result[k] for k in ("first_batch_seconds", "samples")}
        seconds = result["seconds"] - result["first_batch_seconds"]
        kept["samples_per_second"] = (result["samples"] - harness.BATCH) / seconds
        if memory:
            kept["peak_pss_bytes"] = result["peak_pss_bytes"]
        return {**kept, "cpu_seconds_per_1000": cpu / result["samples"] * 1000}

    def python(self, workload, memory=False):
        kind, _, pipeline = self.workloads[workload]
        seconds = self.seconds(workload)
        command = [sys.executable, os.path.join(ROOT, "bench/rivals/millrace_python.py")]
        command += ["--workload", kind, "--data", pipeline, "--cache", CACHE, "--seconds", str(seconds)]
        return run_json(command, 60 + 2 * seconds, memory)

    def limit(self, workload):
        kind, source, _ = self.workloads[workload]
        folder, seconds = os.path.dirname(self.options.millrace), self.seconds(workload)
        command = [os.path.join(folder, "limit_jpeg"), kind, source]
        if workload == "array":
            command = [os.path.join(folder, "limit_array"), source, str(data.ARRAY_SHAPE[1])]
        return run_json([*command, str(seconds), "2"], 60 + 2 * seconds, False)


def jobs(bench, wanted, usable):
    """(workload, loader, function(memory)) in the order of a round."""
    for workload in wanted:
        if workload == "threads":
            for n in (1, 2, 4):
                name = f"millrace, {n} thread{'s' if n > 1 else ''}"
                yield workload, name, lambda memory, n=n: bench.millrace("threads", n, memory)
            continue
        yield workload, report.LIMITS[workload], lambda memory, w=workload: bench.limit(w)
        yield workload, report.OURS, lambda memory, w=workload: bench.millrace(w, 2, memory)
        if workload in PHOTOS:
            yield workload, report.INDEXED, lambda memory, w=workload: bench.millrace(w, 2, memory, True)
        yield workload, report.PYTHON, lambda memory, w=workload: bench.python(w, memory)
        for rival in RIVALS:
            if workload in rival.workloads and rival.environment in usable:
                yield workload, rival.name, lambda memory, r=rival, w=workload: bench.rival(r, w, memory)


# ---- The whole ------------------------------------------------------------------------------
def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as lines:
        cpu = next((line.split(": ", 1)[1].strip() for line in lines if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    git = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    return {
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libjpeg-turbo": first_line(["pkg-config", "--modversion", "libjpeg"]),
        "compiler": first_line(["cc", "--version"]),
        "millrace": first_line(git),
        "date": time.strftime("%Y-%m-%d"),
    }


def busy_cpus(seconds):
    """CPUs that others keep busy, on average."""

    def idle_ticks():
        with open("/proc/stat", encoding="ascii") as lines:
            return sum(map(int, next(lines).split()[4:6]))  # idle, and waiting for disks

    start, idle = time.monotonic(), idle_ticks()
    time.sleep(seconds)
    idle = (idle_ticks() - idle) / harness.TICKS
    return max(0.0, os.cpu_count() - idle / (time.monotonic() - start))


def make_environments():
    made = {}
    for name in environments.ENVIRONMENTS:
        made[name] = environments.make(name, VENVS)
        print(f"environment {name}: {made[name].get('error') or made[name]['versions']}", flush=True)
    return made


def prepare_rivals(bench, wanted, made):
    for rival in RIVALS:
        for workload in set(rival.workloads) & set(wanted):
            if rival.prepares and "error" not in made[rival.environment]:
                try:
                    bench.rival(rival, workload, prepare=True)
                except Failed as failure:
                    print(f"{rival.name}, {workload}: {failure}", flush=True)


def rounds_of(results, workload):
    """How many were measured; None: not even round 0."""
    return max((run["round"] for run in results["runs"] if run["workload"] == workload), default=None)


def run_round(bench, wanted, usable, number, results):
    """Round 0 watches memory, in shorter runs; its times do not count."""
    bench.share = 1 if number > 0 else 0.5
    for workload, loader, function in jobs(bench, wanted, usable):
        row = {"workload": workload, "loader": loader, "round": number}
        if number == 0 and loader in report.LIMITS.values():
            continue
        try:
            row.update(function(number == 0))
            shown = f"{row['samples_per_second']:.0f}/s"
        except Failed as failure:
            row["error"] = shown = str(failure)
        print(f"round {number}  {workload:8} {loader:40} {shown}", flush=True)
        results["runs"].append(row)


def run_rounds(bench, wanted, usable, results, path):
    """What was measured is kept round by round, in case it ends before the last."""
    before = {workload: rounds_of(results, workload) for workload in wanted}
    plan = [(workload, 0) for workload in wanted if before[workload] is None]
    for number in range(1, bench.options.rounds + 1):
        plan += [(workload, (before[workload] or 0) + number) for workload in wanted]
    for workload, number in plan:
        run_round(bench, [workload], usable, number, results)
        results["rounds"] = min(rounds_of(results, run["workload"]) for run in results["runs"])
        save(results, path)


def added_to(results, path):
    """The results that stand there with these to come."""
    with open(path, encoding="utf-8") as standing:
        whole = json.load(standing)
    for key, one, other in (("commit", whole["machine"]["millrace"], results["machine"]["millrace"]),
                            ("--seconds", whole["seconds"], results["seconds"])):  # fmt: skip
        if one != other:
            raise SystemExit(f"rivals: {path} is of another {key}: {one}, not {other}")
    whole["environments"] = results["environments"]
    whole["machine"]["busy"] = max(whole["machine"]["busy"], results["machine"]["busy"])
    return whole


def save(results, path):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)
        out.write("\n")


def arguments():
    parser = argparse.ArgumentParser(description="millrace against other loaders")
    parser.add_argument("folder", nargs="?", help="JPEG files, in folders or not")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of each run")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    parser.add_argument("--into", default=os.path.join(ROOT, "docs"), help="folder of the results")
    parser.add_argument("--add", action="store_true", help="to the results that stand there")
    parser.add_argument("--report", action="store_true", help="only write the documents anew")
    options = parser.parse_args()
    unknown = set(options.workloads.split(",")) - set(WORKLOADS)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    options.millrace = os.path.abspath(options.millrace)
    return options


def measure(options, path):
    wanted = options.workloads.split(",")
    busy = round(busy_cpus(3), 2)  # before anything of ours runs
    made = make_environments()
    workloads, facts = data.prepare(options.folder or data.default_photos(ROOT), CACHE)
    bench = Bench(options, workloads)
    results = {"machine": {**machine(), "busy": busy}, "rounds": options.rounds, "seconds": options.seconds,
               "data": facts, "environments": made, "runs": []}  # fmt: skip
    if options.add:
        results = added_to(results, path)
    prepare_rivals(bench, wanted, made)
    usable = {name for name, made_one in made.items() if "error" not in made_one}
    run_rounds(bench, wanted, usable, results, path)
    if "train" in wanted:
        results["profile"] = profile_ops.profile(bench.command("train", 2, bench.steps["train", 2, False]), CACHE)
    return results


def main():
    options = arguments()
    path = os.path.join(options.into, "benchmarks.json")
    if not options.report:
        save(measure(options, path), path)
    with open(path, encoding="utf-8") as results:
        report.write(json.load(results), options.into)
    print(f"written: benchmarks.md, benchmarks.svg and benchmarks.json in {options.into}")


if __name__ == "__main__":
    main()
