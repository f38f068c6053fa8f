#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ranks gain that send each other what they keep: bytes by origin, and epochs from slow shared storage.

    bench/peers.py [BUILD] [RANKS] [MB]

Open MPI on this machine; storage is slowed down to 100 MB/s for all ranks together (preload/throttle.c). An epoch after the
first is the difference between a run of 1 epoch and one of 9, over 8; all kinds take turns, and the median of three counts.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release")
ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 4
megabytes = int(sys.argv[3]) if len(sys.argv) > 3 else 100
size, batch, rate = 100_000, 64 * ranks, 100e6
n = megabytes * 1_000_000 // size // batch * batch  # whole batches: every epoch has every file
epochs = 9


def run(folder, share, fabric, times, throttle):
    document = {"source": {"files": {"path": f"{folder}/data", "extensions": []}}, "ops": [], "batch": batch,
                "seed": 1, "remainder": "drop", "share": share}
    path = f"{folder}/{share}.json"
    with open(path, "w") as out:
        json.dump(document, out)
    env = dict(os.environ, OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
    wrap = ["-x", f"LD_PRELOAD={folder}/throttle.so", "-x", f"THROTTLE_FILE={folder}/clock",
            "-x", f"THROTTLE_RATE={rate}"] if throttle else []
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", *wrap, "-n", str(ranks), f"{build}/millrace", "run", path,
               "--json", "--quiet", "--no-digest", "--threads", "1", "--io", "pread", "--epochs", str(times)]
    command += ["--fabric", fabric] if fabric else []
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    bytes_in = sum(line["fabric"]["bytes_in"] for line in lines if line.get("fabric"))
    return max(line["seconds"] for line in lines), sum(line["bytes_read"] for line in lines), bytes_in


def later_epoch(folder, share, fabric, throttle):
    one, many = (run(folder, share, fabric, times, throttle) for times in (1, epochs))
    return [(b - a) / (epochs - 1) for a, b in zip(one, many)]


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.mkdir(f"{folder}/data")
        for i in range(n):
            with open(f"{folder}/data/{i:06}.bin", "wb") as out:
                out.write(i.to_bytes(4, "little") * (size // 4))
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", f"{here}/preload/throttle.c", "-o", f"{folder}/throttle.so",
                        "-ldl"], check=True)
        whole = n // batch * batch * size
        kinds = {"alone": ("strict", None, True), "strict": ("strict", "mpi", True), "local": ("local", "mpi", True),
                 "page cache": ("strict", None, False)}
        results = {name: [] for name in kinds}
        for _ in range(3):
            for name, kind in kinds.items():
                results[name].append(later_epoch(folder, *kind))
        beta = math.sqrt(1 - 1 / ranks) / math.sqrt(2 * math.pi * batch / ranks)
        predicted = {"alone": 0, "strict": (ranks - 1) / ranks, "local": beta, "page cache": 0}
        base = statistics.median(r[0] for r in results["alone"])
        print(f"{ranks} ranks, {n} files of {size} bytes, batch {batch}; an epoch after the first:")
        print(f"{'':12} {'seconds':>8} {'times':>6} {'MB/s':>7} {'storage':>9} {'moved':>7} {'predicted':>9}")
        for name, rows in results.items():
            seconds, read, moved = (statistics.median(column) for column in zip(*rows))
            print(f"{name:12} {seconds:8.3f} {base / seconds:6.1f} {whole / seconds / 1e6:7.0f} {read / whole:9.1%} "
                  f"{moved / whole:7.1%} {predicted[name]:9.1%}")


main()
