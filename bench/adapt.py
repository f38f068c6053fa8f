# SPDX-License-Identifier: Apache-2.0
"""adapt.py MILLRACE PHOTOS [CASE...]: --threads auto beside a sweep of fixed numbers of threads and reads, in turn, on the photos in a
folder: as fast as they come (fast), from slow storage (far), and for a slow consumer (slow); all cases, or those named. Prints
the share of the best fixed rate that auto reached, and how many threads were left at work. Runs of auto last AUTO_SECONDS, within which it
is to have found what is best: what it tries in the beginning is in its rate."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, SECONDS, AUTO_SECONDS = 3, 4.0, 20.0
CASES = {"fast": ("as fast as they come", []), "far": ("slow storage", ["--storage", "200MB,1ms"]),
         "slow": ("a step takes 200 ms", ["--consume", "200ms"])}
OPS = [{"decode_image": {}}, {"random_resized_crop": {"size": 96}}, {"random_flip": {}}, {"normalize": {}}]


def run(*more):
    done = subprocess.run([BINARY, "run", DOCUMENT, "--json", "--quiet", "--no-digest", *map(str, more)], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def epochs_for(more):
    said = run("--epochs", 1, *more)
    return lambda seconds: max(1, round(seconds * said["samples_per_second"] / said["samples"]))


def compare(title, more):
    epochs = epochs_for(more)
    fixed = {(threads, reads): [] for threads in (1, 2, 4) for reads in (8, 32, 128)}
    auto, working = [], []
    for _ in range(ROUNDS):
        for (threads, reads), rates in fixed.items():
            rates.append(run("--epochs", epochs(SECONDS), "--threads", threads, "--reads", reads, *more)["samples_per_second"])
        said = run("--epochs", epochs(AUTO_SECONDS), "--threads", "auto", *more)
        auto.append(said["samples_per_second"])
        working.append(said["threads_working"])
    best = max(fixed, key=lambda key: statistics.median(fixed[key]))
    rate, own = statistics.median(fixed[best]), statistics.median(auto)
    print(f"| {title} | {best[0]} threads, {best[1]} reads: {rate:,.0f} | {own:,.0f} | {own / rate:.0%} | {statistics.median(working):g} |",
          flush=True)


def main():
    print("| | best fixed, samples/s | auto | share | threads at the end |")
    print("|---|---|---|---|---|")
    for case in sys.argv[3:] or CASES:
        compare(*CASES[case])


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        DOCUMENT = f"{folder}/p.json"
        with open(DOCUMENT, "w", encoding="utf8") as file:
            json.dump({"source": {"files": {"path": os.path.abspath(sys.argv[2])}}, "ops": OPS, "batch": 32, "seed": 1}, file)
        main()
