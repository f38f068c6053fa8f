# SPDX-License-Identifier: Apache-2.0
"""A folder of very many files: how long the first listing takes, how long every further start, and how much memory.

    many_files.py MILLRACE [FILES [FOLDER]]

The names are hard links to 1,000 small files, in 1,000 folders (a class each), made in a temporary folder in FOLDER and
removed at the end: 10,000,000 take some 300 MB of a disk, and minutes. Three runs of one batch follow: without an index, with
one that is not there yet, and three times with it."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

FOLDERS = 1000


def make_names(folder, n):
    """As evenly as n goes into folders; the i-th of each is a link to file i % 1,000."""
    os.mkdir(f"{folder}/files")
    for i in range(FOLDERS):
        with open(f"{folder}/files/{i:03}", "wb") as out:
            out.write(b"x" * 100)
    kept = os.open(f"{folder}/files", os.O_RDONLY)
    for c in range(FOLDERS):
        os.makedirs(f"{folder}/names/c{c:03}")
        here = os.open(f"{folder}/names/c{c:03}", os.O_RDONLY)
        for i in range(n // FOLDERS + (c < n % FOLDERS)):
            os.link(f"{i % FOLDERS:03}", f"{i:08}.bin", src_dir_fd=kept, dst_dir_fd=here)
        os.close(here)
    os.close(kept)


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_batch(millrace, folder, n, index):
    source = {"path": f"{folder}/names", "extensions": ["bin"], **({"index": index} if index else {})}
    with open(f"{folder}/p.json", "w") as out:
        json.dump({"source": {"files": source}, "batch": 64, "shuffle": True}, out)
    before = processor_time()
    done = subprocess.run([millrace, "run", f"{folder}/p.json", "--steps", "1", "--json", "--quiet"], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    told = json.loads(done.stdout)
    assert told["dataset_samples"] == n
    return told["first_batch_seconds"], processor_time() - before, told["peak_rss_bytes"]


def main():
    millrace, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        make_names(folder, n)
        time.sleep(5)  # of a folder that changed just now no listing is kept
        index = f"{folder}/index"
        print(f"{n:,} files in {FOLDERS:,} folders; load {os.getloadavg()[0]:.1f}")
        for name, kept in [("without an index", None), ("first start", index), *3 * [("next start", index)]]:
            seconds, processor, peak = first_batch(millrace, folder, n, kept)
            print(f"{name:17} first batch after {seconds:6.2f} s, {processor:6.2f} s of processor time, "
                  f"peak {peak / 1e6:6.0f} MB: {peak / n:5.1f} bytes a file", flush=True)
        print(f"the index         {os.path.getsize(index) / 1e6:.0f} MB: {os.path.getsize(index) / n:.1f} bytes a file")


if __name__ == "__main__":
    main()
