# SPDX-License-Identifier: Apache-2.0
"""adapt.py MILLRACE PHOTOS: --threads auto beside a sweep of fixed numbers of threads and reads, in turn, on the photos in a
folder: as fast as they come, from slow storage, and for a slow consumer. Prints the share of the best fixed rate that auto
reached, and how many threads were left at work. Runs last SECONDS; what auto tries in the beginning is in its rate."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, SECONDS = 3, 8.0
OPS = [{"decode_image": {}}, {"random_resized_crop": {"size": 96}}, {"random_flip": {}}, {"normalize": {}}]


def run(*more):
    done = subprocess.run([BINARY, "run", DOCUMENT, "--json", "--quiet", "--no-digest", *map(str, more)], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def epochs_for(more):
    said = run("--epochs", 1, *more)
    return max(1, int(SECONDS * said["samples_per_second"] / said["samples"]))


def compare(title, more):
    epochs = epochs_for(more)
    fixed = {(threads, reads): [] for threads in (1, 2, 4) for reads in (8, 32, 128)}
    auto, working = [], []
    for _ in range(ROUNDS):
        for (threads, reads), rates in fixed.items():
            rates.append(run("--epochs", epochs, "--threads", threads, "--reads", reads, *more)["samples_per_second"])
        said = run("--epochs", epochs, "--threads", "auto", *more)
        auto.append(said["samples_per_second"])
        working.append(said["threads_working"])
    best = max(fixed, key=lambda key: statistics.median(fixed[key]))
    rate, own = statistics.median(fixed[best]), statistics.median(auto)
    print(f"| {title} | {best[0]} threads, {best[1]} reads: {rate:,.0f} | {own:,.0f} | {own / rate:.0%} | {statistics.median(working):g} |",
          flush=True)


def main():
    print("| | best fixed, samples/s | auto | share | threads at the end |")
    print("|---|---|---|---|---|")
    compare("as fast as they come", [])
    compare("slow storage", ["--storage", "200MB,1ms"])
    compare("a step takes 200 ms", ["--consume", "200ms"])


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        DOCUMENT = f"{folder}/p.json"
        with open(DOCUMENT, "w", encoding="utf8") as file:
            json.dump({"source": {"files": {"path": os.path.abspath(sys.argv[2])}}, "ops": OPS, "batch": 32, "seed": 1}, file)
        main()
