# SPDX-License-Identifier: Apache-2.0
"""Rows of .npy with this build and with an earlier commit's, in turn: medians of rates and of processor time (which other
programs change less), and whether the digests are the same.

    npy_before.py MILLRACE EARLIER [ROUNDS]

EARLIER is the earlier command."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROWS, WIDTH = 200_000, 3072


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(millrace, document, *options):
    before = processor_time()
    done = subprocess.run([millrace, "run", document, "--json", "--quiet", *options], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return {**json.loads(done.stdout), "processor_seconds": processor_time() - before}


def main():
    commands = {"now": sys.argv[1], "earlier": sys.argv[2]}
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", np.random.default_rng(1).integers(0, 256, (ROWS, WIDTH), np.uint8))
        document = f"{folder}/p.json"
        with open(document, "w") as out:
            json.dump({"source": {"array": {"path": f"{folder}/x.npy"}}, "batch": 256, "shuffle": True, "seed": 1}, out)
        digests = {name: run(millrace, document)["digest"] for name, millrace in commands.items()}
        print("digests are", "the same" if len(set(digests.values())) == 1 else f"not the same: {digests}")
        for threads in ("2", "1"):
            told = {name: [] for name in commands}
            for _ in range(rounds):
                for name, millrace in commands.items():
                    told[name].append(run(millrace, document, "--no-digest", "--epochs", "30", "--threads", threads))
            for what in ("samples_per_second", "processor_seconds"):
                now, earlier = (statistics.median(one[what] for one in told[name]) for name in commands)
                print(f"{threads} threads, {what.replace('_', ' ')}: {now:,.4g}, earlier {earlier:,.4g}: "
                      f"{now / earlier:.3f} x; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
