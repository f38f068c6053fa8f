# SPDX-License-Identifier: Apache-2.0
"""store.py [FOLDER]: millrace's store against other ways to keep prepared samples.

All ways in turn, round by round, medians; written to docs/benchmarks_store.md (or --into FILE). A few
hundred photos are over before a training has begun, so everything that begins with an empty store is
measured twice: with the photos as they are, and with COPIES copies of each.

`--only PART` measures one part (and with `--photos few` or `many` one of the two sets); the page is made of
that and of what was measured before, which is kept in build/bench-data. A rival that cannot be installed is left out, and
the page says so."""

import argparse
import json
import mmap
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
COPIES = 6
NOTES = os.path.join(ROOT, "bench/notes_store.md")
BEFORE = json.dumps([{"decode_image": {}}, {"resize": {"size": [256, 256]}}])[1:-1]
AFTER = json.dumps([{"random_crop": {"size": 224}}, {"random_flip": {}}, data.NORMALIZE])[1:-1]
TRAIN = json.dumps(data.TRAIN[:1])[1:-1], json.dumps(data.TRAIN[1:])[1:-1]
SECOND_RIVALS = {"ffcv": ("store_ffcv.py", "ffcv"), "lmdb": ("store_lmdb.py", "torch")}
PARTS = ("values", "second", "first", "trials")
RESULTS = os.path.join(CACHE, "store-results.json")

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


def fetch_memory(size=3 << 29):
    """Memory that the host of a virtual machine took back costs up to ten times as much to clear as
    memory that was used a moment ago; that is neither the store's doing nor the rivals'."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


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


def photos(folder, store, epochs, ops=(BEFORE, AFTER)):
    fetch_memory()
    return run([PROGRAM, "photos", folder, store, *ops, str(epochs)])


def one_pair(folder, ops, way=""):
    """An epoch without a store, and one that fills an empty one: the time of the epoch, and of all."""
    off = photos(folder, "-", 1, ops)
    with Folder() as store:
        on = photos(folder, f"{way}{store}/s", 1, ops)
    row = {"off": off["rates"][0], "on": on["rates"][0]}
    row["epoch"] = row["off"] / row["on"] - 1
    row["all"] = on["seconds"] / off["seconds"] - 1
    row["cpu"] = on["cpu"] / off["cpu"] - 1
    return row


def measure_first(folder, pairs):
    """The first epoch as the training has it, and for a pipeline that delivers what is kept: without
    a store the one decodes only the part of each photo that the random crop shows."""
    crop, whole = (BEFORE, AFTER), (BEFORE, "")
    kinds = {"crop": (crop,), "whole": (whole,), "train": (TRAIN,), "auto": (TRAIN, "auto:")}
    rows = {kind: [] for kind in kinds}
    for i in range(pairs + 1):  # the first pair, after other work, warms up
        for kind, way in kinds.items():
            row = one_pair(folder, *way)
            if i > 0:
                rows[kind].append(row)
    return {kind: medians(of) for kind, of in rows.items()}


def measure_second(folder, names, rounds, seconds, installed):
    """Samples a second of the same work once everything is kept."""
    rows = []
    work = ("--workload", "train", "--data", names, "--cache", CACHE)
    rivals = {key: way for key, way in SECOND_RIVALS.items() if way[1] in installed}
    for program, environment in rivals.values():
        command, variables = rival(environment, program, *work, "--prepare")
        subprocess.run(command, env=variables, check=True, capture_output=True)
    with Folder() as store:
        photos(folder, store + "/s", 1)
        for _ in range(rounds):
            row = {"second": statistics.median(photos(folder, store + "/s", 5)["rates"])}
            row["off"] = photos(folder, "-", 1)["rates"][0]
            for key, (program, environment) in rivals.items():
                row[key] = run_rival(environment, program, *work, "--seconds", str(seconds))["samples_per_second"]
            rows.append(row)
    return medians(rows)


def together(commands):
    """All at once; what each printed."""
    fetch_memory()
    running = [
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command, variables in commands
    ]
    outs = [process.communicate() for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(environments.last_line(outs[0][1]))
    return [last_json(out) for out, _ in outs]


def run_trials(folder, store, n):
    command = [PROGRAM, "photos", folder, store, BEFORE, AFTER, "1"]
    done = together([(command, None)] * n)
    made = sum(one["made"] for one in done)
    return {"seconds": max(one["seconds"] for one in done), "cpu": sum(one["cpu"] for one in done), "made": made}


def run_diskcache_trials(names, store, n):
    done = together([rival("torch", "store_diskcache.py", "trial", names, store)] * n)
    return {"seconds": max(one["seconds"] for one in done), "made": sum(one["decoded"] for one in done)}


def measure_trials(folder, names, rounds):
    """One process alone, and several at once over one store; and the same when everything is kept."""
    rows = []
    for _ in range(rounds):
        row = {}
        for n in (1, TRIALS):
            with Folder() as store:
                row[f"millrace {n}"] = run_trials(folder, store + "/s", n)
                row[f"warm {n}"] = run_trials(folder, store + "/s", n)
            with Folder() as store:
                row[f"diskcache {n}"] = run_diskcache_trials(names, store, n)
            row[f"off {n}"] = run_trials(folder, "-", n)
        rows.append(row)
    return {key: medians([row[key] for row in rows]) for key in rows[0]}


# ---- Report ---------------------------------------------------------------------------------
def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next(line.split(": ")[1].strip() for line in lines if line.startswith("model name"))
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def show_values(table):
    yield from ("## Reading a value into a batch", "")
    yield from ("Microseconds, one thread, everything in the page cache, in random order; memcpy reads", "the same values from memory.", "")
    yield "| bytes | memcpy | pread | store | diskcache | store / memcpy speed | pread / store | diskcache / store |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in table:
        yield (
            f"| {row['bytes']:.0f} | {row['memcpy']:.2f} | {row['pread']:.2f} | {row['store']:.2f} | {row['diskcache']:.1f} "
            f"| {row['memcpy'] / row['store']:.0%} | {row['pread'] / row['store']:.2f} | {row['diskcache'] / row['store']:.1f} |"
        )


def show_second(second):
    names = {
        "second": "millrace, second epoch",
        "off": "millrace without a store",
        "ffcv": "FFCV, raw mode, prepared beforehand",
        "lmdb": "LMDB + torch DataLoader, prepared beforehand",
    }
    yield from ("## Second epoch", "")
    yield from ("Decode, resize to 256 x 256 (kept as bytes), random crop of 224, flip, normalise; 2 threads or", "workers; samples a second.", "")
    yield from ("| way | samples/s | against the store's second epoch |", "|---|---|---|")
    for key, name in names.items():
        if key not in second:
            yield f"| {name} | could not be installed | |"
            continue
        yield f"| {name} | {second[key]:.0f} | {second['second'] / second[key]:.2f} |"


def show_first(first):
    kinds = {
        "crop": "the same work",
        "whole": "decode and resize only",
        "train": "RandomResizedCrop, decoded photos kept",
        "auto": 'RandomResizedCrop, `"cache": "auto"`',
    }
    yield from ("## First epoch", "")
    yield from (
        "What filling an empty store costs: samples a second in the epoch; how much longer the epoch takes",
        "than without a store, and the program from opening the loader until all is written, synced and",
        "closed; and how much more CPU time that is. Without a store only the part of a photo is decoded that",
        "the random crop shows; a store needs all of it. The pipeline that only decodes and resizes needs all of",
        "it either way. Where a random crop is right behind the decoder, `auto` chooses what is kept: for one",
        "epoch row indexes, for which no more of a photo is decoded.",
        "",
    )
    yield from ("| photos | pipeline | without | with a store | epoch | until closed | CPU time |", "|---|---|---|---|---|---|---|")
    for n, rows in first.items():
        for kind, name in kinds.items():
            row = rows[kind]
            yield f"| {n} | {name} | {row['off']:.0f} | {row['on']:.0f} | {row['epoch']:+.1%} | {row['all']:+.1%} | {row['cpu']:+.1%} |"


def show_trials(trials):
    names = {
        "off": "without a store",
        "millrace": "millrace, from an empty store",
        "warm": "millrace, from a full store",
        "diskcache": "diskcache + OpenCV (decode and resize only)",
    }
    yield from (f"## {TRIALS} trials at once", "")
    yield from (
        "One epoch of the same work by processes that share a store; seconds until the last is done and",
        "closed, and how many photos were decoded in all.",
        "",
    )
    yield from (f"| photos | way | 1 process | {TRIALS} processes | {TRIALS} against 1 | decoded by {TRIALS} |", "|---|---|---|---|---|---|")
    for n, rows in trials.items():
        for key, name in names.items():
            one, many = rows[f"{key} 1"], rows[f"{key} {TRIALS}"]
            made = int(n) * TRIALS if key == "off" else many["made"]
            yield f"| {n} | {name} | {one['seconds']:.2f} | {many['seconds']:.2f} | {many['seconds'] / one['seconds']:.2f} | {made:.0f} |"


def write(path, parts, n, shown):
    lines = ["# Benchmarks of the store", ""]
    lines += [f"Made by `./dev bench store` on {machine()}; {n} photos, and {COPIES} copies of each. {shown}."]
    for part in parts:
        lines += ["", *part]
    with open(NOTES, encoding="utf-8") as notes:
        lines += ["", notes.read().rstrip()]
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


# ---- The whole ------------------------------------------------------------------------------
def install():
    """Versions by package, and which environments there are. Without diskcache there is nothing to compare with."""
    versions, installed = {}, set()
    for name in ("store", "ffcv", "torch"):
        made = environments.make(name, VENVS)
        if "error" not in made:
            installed.add(name)
            versions.update(made["versions"])
        elif name != "ffcv":
            raise SystemExit(f"store: {name}: {made['error']}")
    return versions, installed


def load_results():
    if not os.path.exists(RESULTS):
        return {}
    with open(RESULTS, encoding="utf-8") as file:
        return json.load(file)


def measure(options, sets, installed, results):
    """The parts that are wanted; `sets` are (folder, list of its photos) by "few" and "many"."""
    wanted = [options.only] if options.only else PARTS
    chosen = [options.photos] if options.photos else sets
    for part in wanted:
        if part == "values":
            results[part] = measure_values(options.rounds)
        elif part == "second":
            results[part] = measure_second(*sets["many"], options.rounds, options.seconds, installed)
        elif part == "first":
            for name in chosen:
                results.setdefault(part, {})[name] = measure_first(sets[name][0], options.pairs)
        else:
            for name in chosen:
                results.setdefault(part, {})[name] = measure_trials(*sets[name], options.rounds)
        with open(RESULTS, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--photos", choices=["few", "many"])
    parser.add_argument("--into", default=os.path.join(ROOT, "docs/benchmarks_store.md"))
    options = parser.parse_args()
    versions, installed = install()
    few = os.path.abspath(options.folder or data.default_photos(ROOT))
    sets, counts = {}, {}
    for name, folder in (("few", few), ("many", data.copies_of(few, CACHE, COPIES))):
        found = data.photos_in(folder)
        counts[name] = len(found)
        sets[name] = folder, data.write_list(os.path.join(CACHE, f"store-photos-{len(found)}.txt"), found)
    results = load_results() if options.only else {}
    measure(options, sets, installed, results)
    by_number = {part: {counts[name]: results[part][name] for name in sets if name in results.get(part, {})}
                 for part in ("first", "trials")}  # fmt: skip
    if any(part not in results for part in PARTS) or any(len(of) < len(sets) for of in by_number.values()):
        print("store: not all parts were measured yet; no page")
        return
    shown = ", ".join(f"{name} {versions[name]}" for name in ("diskcache", "lmdb", "ffcv", "torch") if name in versions)
    parts = (show_values(results["values"]), show_second(results["second"]), show_first(by_number["first"]),
             show_trials(by_number["trials"]))  # fmt: skip
    write(options.into, parts, counts["few"], shown)
    with open(options.into, encoding="utf-8") as page:
        print(page.read())


if __name__ == "__main__":
    main()
