# SPDX-License-Identifier: Apache-2.0
"""store.py [FOLDER]: millrace's store against other ways to keep prepared samples.

All ways in turn, round by round, medians; written to docs/benchmarks_store.md (or --into FILE)."""

import argparse
import json
import os
import platform
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
PROGRAM = os.path.join(ROOT, "build/release/bench_store")
SIZES = (3072, 65536, 150528)
TRIALS = 4
AFTER = json.dumps([{"random_crop": {"size": 224}}, {"random_flip": {}}, data.NORMALIZE])[1:-1]

environments.ENVIRONMENTS["store"] = environments.Environment(
    [["diskcache==5.6.3", "lmdb==1.7.5"]], ["diskcache", "lmdb"]
)


# ---- Programs -------------------------------------------------------------------------------
def last_json(out):
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(environments.last_line(done.stderr or done.stdout))
    return last_json(done.stdout)


def rival(environment, program, *arguments):
    """A rival's program, which finds diskcache and lmdb beside its own packages."""
    packages = f"{VENVS}/store/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    command = [f"{VENVS}/{environment}/bin/python", f"{ROOT}/bench/rivals/{program}", *arguments]
    return command, dict(os.environ, PYTHONPATH=packages)


def run_rival(environment, program, *arguments):
    command, variables = rival(environment, program, *arguments)
    return run(command, env=variables)


class Folder:
    """An empty folder on the disk of the tree, for as long as it is needed."""

    def __enter__(self):
        os.makedirs(CACHE, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix="store-", dir=CACHE)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def medians(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


# ---- Measurements ---------------------------------------------------------------------------
def measure_values(rounds):
    """Microseconds to bring one value into a batch."""
    table = []
    for size in SIZES:
        rows = []
        for _ in range(rounds):
            with Folder() as folder:
                row = run([PROGRAM, "values", str(size), folder])
                row.update(run_rival("store", "store_diskcache.py", "values", str(size), folder + "/d"))
                rows.append(row)
        table.append(medians(rows))
    return table


def photos(folder, store, epochs, after=AFTER):
    return run([PROGRAM, "photos", folder, store, after, str(epochs)])


def first_epochs(folder, pairs=5):
    """Without a store and with an empty one, in turn; the first pair, after other work, warms up."""
    rows = []
    for _ in range(pairs + 1):
        with Folder() as store:
            rows.append({"off": photos(folder, "-", 1)["rates"][0], "first": photos(folder, store + "/s", 1)["rates"][0]})
    return medians(rows[1:])


def measure_epochs(folder, names, rounds, seconds):
    """Samples a second of the same work, kept and made anew."""
    rows = []
    work = ("--workload", "train", "--data", names, "--cache", CACHE)
    for program, environment in (("store_ffcv.py", "ffcv"), ("store_lmdb.py", "torch")):
        command, variables = rival(environment, program, *work, "--prepare")
        subprocess.run(command, env=variables, check=True, capture_output=True)
    for _ in range(rounds):
        row = first_epochs(folder)
        with Folder() as store:
            photos(folder, store + "/s", 1)
            warm = photos(folder, store + "/s", 8)
            row["second"] = statistics.median(warm["rates"])
            row["ffcv"] = run_rival("ffcv", "store_ffcv.py", *work, "--seconds", str(seconds))["samples_per_second"]
            row["lmdb"] = run_rival("torch", "store_lmdb.py", *work, "--seconds", str(seconds))["samples_per_second"]
            rows.append(row)
    return medians(rows)


def together(commands):
    """All at once; what each printed."""
    running = [
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command, variables in commands
    ]
    outs = [process.communicate() for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(environments.last_line(outs[0][1]))
    return [last_json(out) for out, _ in outs]


def measure_trials(folder, names, rounds):
    """One process alone, and several at once over one store."""
    rows = []
    for _ in range(rounds):
        row = {}
        for n in (1, TRIALS):
            with Folder() as store:
                command = [PROGRAM, "photos", folder, store + "/s", AFTER, "1"]
                done = together([(command, None)] * n)
                row[f"millrace_{n}"] = max(one["seconds"] for one in done)
                row[f"millrace_made_{n}"] = sum(one["made"] for one in done)
            with Folder() as store:
                done = together([rival("torch", "store_diskcache.py", "trial", names, store)] * n)
                row[f"diskcache_{n}"] = max(one["seconds"] for one in done)
                row[f"diskcache_made_{n}"] = sum(one["decoded"] for one in done)
        command = [PROGRAM, "photos", folder, "-", AFTER, "1"]
        row["off_1"] = together([(command, None)])[0]["seconds"]
        row[f"off_{TRIALS}"] = max(one["seconds"] for one in together([(command, None)] * TRIALS))
        rows.append(row)
    return medians(rows)


# ---- Report ---------------------------------------------------------------------------------
def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next(line.split(": ")[1].strip() for line in lines if line.startswith("model name"))
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def write(path, table, epochs, trials, n, shown):
    lines = ["# Benchmarks of the store", ""]
    lines += [f"Made by `./dev bench store` on {machine()}; {n} photos. {shown}.", ""]
    lines += ["## Reading a value into a batch", ""]
    lines += ["Microseconds, one thread, everything in the page cache, in random order; memcpy reads", "the same values from memory.", ""]
    lines += ["| bytes | memcpy | pread | store | diskcache | store / memcpy speed | pread / store | diskcache / store |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in table:
        lines.append(
            f"| {row['bytes']:.0f} | {row['memcpy']:.2f} | {row['pread']:.2f} | {row['store']:.2f} | {row['diskcache']:.1f} "
            f"| {row['memcpy'] / row['store']:.0%} | {row['pread'] / row['store']:.2f} | {row['diskcache'] / row['store']:.1f} |"
        )
    lines += ["", "## Epochs", ""]
    lines += ["Decode, resize to 256 x 256 (kept as bytes), random crop of 224, flip, normalise; 2 threads or", "workers; samples a second.", ""]
    lines += ["| way | samples/s | against the store's second epoch |", "|---|---|---|"]
    names = {
        "second": "millrace, second epoch",
        "off": "millrace without a store",
        "first": "millrace, first epoch, filling the store",
        "ffcv": "FFCV, raw mode, prepared beforehand",
        "lmdb": "LMDB + torch DataLoader, prepared beforehand",
    }
    for key, name in names.items():
        lines.append(f"| {name} | {epochs[key]:.0f} | {epochs['second'] / epochs[key]:.2f} |")
    lines += ["", f"The first epoch with the store on takes {epochs['off'] / epochs['first'] - 1:+.1%} of the time without it.", ""]
    lines += [f"## {TRIALS} trials at once", ""]
    lines += ["One epoch of the same work by processes that share a store; seconds until the last is done, and", "how many photos were decoded in all.", ""]
    lines += [f"| way | 1 process | {TRIALS} processes | {TRIALS} against 1 | decoded by {TRIALS} |", "|---|---|---|---|---|"]
    for key, name in (("off", "without a store"), ("millrace", "millrace"), ("diskcache", "diskcache + OpenCV (decode and resize only)")):
        one, many = trials[f"{key}_1"], trials[f"{key}_{TRIALS}"]
        made = trials.get(f"{key}_made_{TRIALS}", n * TRIALS)
        lines.append(f"| {name} | {one:.2f} | {many:.2f} | {many / one:.2f} | {made:.0f} |")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--into", default=os.path.join(ROOT, "docs/benchmarks_store.md"))
    options = parser.parse_args()
    versions = {}
    for name in ("store", "ffcv", "torch"):
        made = environments.make(name, VENVS)
        if "error" in made:
            raise SystemExit(f"store: {name}: {made['error']}")
        versions.update(made["versions"])
    folder = os.path.abspath(options.folder or data.demo_photos(ROOT))
    os.makedirs(CACHE, exist_ok=True)
    found = data.photos_in(folder)
    names = data.write_list(os.path.join(CACHE, "store-photos.txt"), found)
    table = measure_values(options.rounds)
    epochs = measure_epochs(folder, names, options.rounds, options.seconds)
    trials = measure_trials(folder, names, options.rounds)
    shown = ", ".join(f"{name} {versions[name]}" for name in ("diskcache", "lmdb", "ffcv", "torch"))
    write(options.into, table, epochs, trials, len(found), shown)
    with open(options.into, encoding="utf-8") as page:
        print(page.read())


if __name__ == "__main__":
    main()
