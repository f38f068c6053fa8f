# SPDX-License-Identifier: Apache-2.0
"""large_store.py [FOLDER]: a store of decoded photos that is larger than memory. The training pipeline reads it
in a control group whose memory is limited (cgroup v1 or v2; needs root), after its files left the page cache.
Beside it, in turn: the same from the page cache, and pread of as many bytes at scattered places of the same files, each once,
2 and 32 at a time, in the same group. Medians; the store should reach 0.9 of the lower of page cache and pread.
First the digest of an epoch read in the group is compared with that of the same pipeline without a store."""

import argparse
import contextlib
import glob
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

CACHE = os.path.join(ROOT, "build/bench-data")
MB = 1 << 20


class Group:
    """A control group with a limit of memory."""

    def __init__(self, limit):
        old = "/sys/fs/cgroup/memory"
        self.path = f"{old if os.path.isdir(old) else '/sys/fs/cgroup'}/millrace-bench-{os.getpid()}"
        self.file = "memory.limit_in_bytes" if os.path.isdir(old) else "memory.max"
        self.most = "memory.max_usage_in_bytes" if os.path.isdir(old) else "memory.peak"
        self.limit = limit

    def __enter__(self):
        os.mkdir(self.path)
        self.write(self.file, self.limit)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # pages that it is charged for may hold it
            self.write("memory.force_empty", 0)
        os.rmdir(self.path)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as out:
            out.write(str(value))

    def read_most(self):
        """Bytes that it had at most."""
        with open(os.path.join(self.path, self.most), encoding="ascii") as file:
            return int(file.read())

    def enter(self):
        self.write("cgroup.procs", os.getpid())


def leave_page_cache(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def bring_into_page_cache(paths):
    for path in paths:
        with open(path, "rb") as file:
            while file.read(16 * MB):
                pass


def run(command, group=None):
    out = subprocess.run(command, capture_output=True, text=True, preexec_fn=group.enter if group else None)
    if out.returncode != 0:
        raise SystemExit(f"large_store: {' '.join(command[:3])}: {out.stderr.strip()}")
    return out.stdout.splitlines()[-1]


class Bench:
    def __init__(self, binary, folder, store, copies):
        self.binary, self.store = binary, store
        source = data.files_in(data.copies_of(folder, CACHE, copies))
        ops = [data.TRAIN[0], {"cache": {"path": store, "size": "8GB"}}, *data.TRAIN[1:]]
        self.pipeline = data.write_pipeline(store + ".json", source, ops)
        self.plain = data.write_pipeline(store + "-plain.json", source, data.TRAIN)

    def fill(self):
        run([self.binary, "cache", "warm", self.pipeline])
        stat = json.loads(run([self.binary, "cache", "stat", "--path", self.store, "--json"]))
        self.segments = sorted(glob.glob(self.store + "/*.seg"))
        self.bytes = sum(os.path.getsize(path) for path in self.segments)
        pipelines = stat["stores"][0]["pipelines"] if "stores" in stat else stat["pipelines"]
        self.entries = sum(p["entries"] for p in pipelines)

    def run_store(self, group, *more):
        command = [self.binary, "run", self.pipeline, "--quiet", "--json", "--threads", "2", *more]
        result = json.loads(run(command, group))
        hits = result["caches"][0]["hits"]
        if hits != self.entries:
            raise SystemExit(f"large_store: {hits} of {self.entries} samples came from the store")
        return result

    def compare_digests(self, limit):
        leave_page_cache(self.segments)
        with Group(limit) as group:
            found = self.run_store(group)["digest"]
            most = group.read_most()
        wanted = json.loads(run([self.binary, "run", self.plain, "--quiet", "--json", "--threads", "2"]))["digest"]
        if found != wanted:
            raise SystemExit(f"large_store: digest {found}, without a store {wanted}")
        print(f"  digest {found}, with the store larger than memory and without a store; {most / 1e6:.0f} MB in the group")

    def read_store(self, group):
        result = self.run_store(group, "--no-digest")
        batch = result["samples"] / result["batches"]
        return (result["samples"] - batch) / (result["seconds"] - result["first_batch_seconds"])

    def pread(self, group, threads):
        reader = os.path.join(os.path.dirname(self.binary), "read_files")
        pieces = str(min(self.entries, 2000))
        return float(run([reader, str(self.bytes // self.entries), pieces, str(threads), *self.segments], group))

    def round(self, limit):
        bring_into_page_cache(self.segments)
        found = {"page cache": self.read_store(None)}
        for name, way in (("larger than memory", self.read_store), ("pread, 2 at a time", lambda g: self.pread(g, 2)),
                          ("pread, 32 at a time", lambda g: self.pread(g, 32))):
            leave_page_cache(self.segments)
            with Group(limit) as group:
                found[name] = way(group)
        return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build/release/millrace"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=11, help="of each photo")
    options = parser.parse_args()
    os.makedirs(CACHE, exist_ok=True)
    work = tempfile.mkdtemp(prefix="large-", dir=CACHE)
    try:
        bench = Bench(os.path.abspath(options.millrace), options.folder or data.default_photos(ROOT), work + "/s", options.copies)
        bench.fill()
        limit = max(int(bench.bytes / 3.3), 300 * MB)
        print(f"{bench.entries} decoded photos, {bench.bytes / 1e9:.2f} GB; memory {limit / 1e6:.0f} MB; samples a second")
        bench.compare_digests(limit)
        rounds = [bench.round(limit) for _ in range(options.rounds)]
        middle = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
        for name, rate in middle.items():
            print(f"  {name:22} {rate:8.0f}   ({', '.join(f'{r[name]:.0f}' for r in rounds)})")
        ratios = [r["larger than memory"] / min(r["page cache"], r["pread, 32 at a time"]) for r in rounds]
        print(f"  of the lower of page cache and pread: {statistics.median(ratios):.2f} ({', '.join(f'{x:.2f}' for x in ratios)})")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
