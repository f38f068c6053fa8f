# SPDX-License-Identifier: Apache-2.0
"""Objects on servers against files, against curl and boto3, and against other loaders: tar shards from
nginx, photos one by one with 20 ms of latency, a table, a second epoch with the bytes kept, requests
that fail and hang. Everything runs on this machine; ratios are of runs that take turns. Prints the page
docs/benchmarks_far.md.

    far.py MILLRACE PROXY [PHOTOS]      the command, bench/delay_proxy.c, and a folder of photos
"""
import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "python"))
os.environ.setdefault("MILLRACE_LIB", "")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SHARDS = 6
rows = []  # what, wanted, ratios, note


def tell(what, wanted, ratios, note=""):
    rows.append((what, wanted, ratios, note))
    print(f"{what}: {statistics.median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)}) {note}",
          file=sys.stderr, flush=True)


# ---- Data ----
def make_shards(root, n=SHARDS, members=800, size=100_000):
    for shard in range(n):
        with tarfile.open(root / f"s-{shard}.tar", "w") as tar:
            for i in range(members):
                info = tarfile.TarInfo(f"{shard:03d}{i:05d}.bin")
                info.size = size
                tar.addfile(info, io.BytesIO(os.urandom(size)))
    return n * members * size


def make_table(path):
    """24 columns of numbers in groups of 50,000 rows, of which four are wanted. Gives the bytes of those."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet
    draw = np.random.default_rng(1)
    table = pyarrow.table({f"c{i:02d}": draw.standard_normal(1_000_000).astype("f4") for i in range(24)})
    pyarrow.parquet.write_table(table, path, row_group_size=50_000, compression="snappy")
    meta = pyarrow.parquet.read_metadata(path)
    wanted = ["c03", "c04", "c11", "c20"]
    chunks = [meta.row_group(g).column(c) for g in range(meta.num_row_groups) for c in range(24)]
    return wanted, sum(c.total_compressed_size for c in chunks if c.path_in_schema in wanted)


# ---- Runs ----
def run(millrace, document, epochs, digest=False, **environment):
    """Samples a second after the first batch, CPU seconds, what it told."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([millrace, "run", file.name, "--epochs", str(epochs), "--json", "--quiet",
                              *([] if digest else ["--no-digest"])],
                             check=True, capture_output=True, env={**os.environ, **environment})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = json.loads(out.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return told["samples"] / (told["seconds"] - told["first_batch_seconds"]), cpu, told


def curl(address, names):
    begin = time.monotonic()
    all_ = [subprocess.Popen(["curl", "-s", "-o", "/dev/null", f"{address}/{name}"]) for name in names]
    for one in all_:
        assert one.wait() == 0
    return time.monotonic() - begin


@contextlib.contextmanager
def proxy(program, port, milliseconds, hang=0, fail=0):
    process = subprocess.Popen([program, str(port), str(milliseconds), str(hang), str(fail)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait()


# ---- What is measured ----
def shards_of(at, names):
    return {"source": {"tar": {"path": [f"{at}/{n}" for n in names], "fields": ["bin"]}}, "batch": 64,
            "shuffle": False}


def bench_shards(millrace, root, address):
    total = make_shards(root)
    names = [f"s-{i}.tar" for i in range(SHARDS)]
    far, near = shards_of(address, names), shards_of(root, names)
    assert run(millrace, far, 1, True)[2]["digest"] == run(millrace, near, 1, True)[2]["digest"]
    against_curl, against_near, rates = [], [], []
    for _ in range(ROUNDS):
        limit = total / curl(address, names)
        rate = run(millrace, far, 3)[0]
        against_curl.append(rate * 100_000 / limit)
        against_near.append(rate / run(millrace, near, 3)[0])
        rates.append(rate / 10)
    tell("tar shards over HTTP, against curl of the same files, six at once", 0.9, against_curl,
         f"{statistics.median(rates):.0f} MB/s")
    tell("the same, against the folder", None, against_near)
    with tempfile.TemporaryDirectory() as store:
        kept = {"MILLRACE_OBJECTS": store + "/o", "MILLRACE_OBJECTS_SIZE": str(4 * total)}
        run(millrace, far, 1, **kept)
        tell("the same, all of it kept, against the folder", 1, [
            run(millrace, far, 3, **kept)[0] / run(millrace, near, 3)[0] for _ in range(ROUNDS)])
    bench_rivals(root, address, names, statistics.median(rates))


def bench_table(millrace, program, root, address):
    wanted, size = make_table(root / "t.parquet")

    # One lane: where lanes meet inside a row group, both read it, from files as from servers.
    def document(at):
        return {"source": {"parquet": {"path": f"{at}/t.parquet"}}, "fields": wanted, "batch": 1024,
                "shuffle": {"window": 10, "lanes": 1}}

    ratios, fetched = [], []
    with proxy(program, address.rsplit(":", 1)[1], 20) as slow:
        for _ in range(ROUNDS):
            near = run(millrace, document(root), 10, True)
            far = run(millrace, document(slow), 10, True)
            assert far[2]["digest"] == near[2]["digest"]
            ratios.append(far[0] / near[0])
            fetched.append(sum(o.get("received_bytes", 0) for o in far[2]["origins"]) / (10 * size))
    tell("a table of 1,000,000 rows, 4 of 24 columns, 20 ms, against the file", 0.8, ratios)
    tell("bytes fetched for it, of those of the wanted columns", 1.05, fetched, "at most")


def bench_photos(millrace, program, root, photos, port):
    names = sorted(p for p in pathlib.Path(photos).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))[:1000]
    for i, name in enumerate(names):
        (root / f"{i}.jpg").write_bytes(name.read_bytes())
    (root / "list").write_text("".join(f"{i}.jpg\t{i % 10}\n" for i in range(len(names))))

    def document(at):
        return {"source": {"files": {"list": f"{at}/list"}}, "batch": 64, "shuffle": True,
                "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_flip": {}}]}

    against_near, by_cpu, against_well, first = [], [], [], []
    with proxy(program, port, 20) as slow, proxy(program, port, 20, 10, 10) as bad:
        for _ in range(ROUNDS):
            near = run(millrace, document(root), 6, True)
            far = run(millrace, document(slow), 6, True)
            failing = run(millrace, document(bad), 6, True)
            assert far[2]["digest"] == near[2]["digest"] == failing[2]["digest"]
            against_near.append(far[0] / near[0])
            by_cpu.append(near[1] / far[1])
            against_well.append(failing[0] / far[0])
            first.append(failing[2]["first_batch_seconds"])
    tell("photos one by one, 20 ms, training pipeline, against the folder", 0.9, against_near)
    tell("the same by CPU seconds of the loader, the servers' left out", None, by_cpu)
    tell("the same, 1 % of requests fail and 1 % hang, against none", 0.85, against_well,
         f"same digest; first batch after {statistics.median(first):.1f} s")


# ---- Others, on the same server and shards; those that are not installed are left out ----
def by_boto3(root, address, names):
    import boto3
    import botocore
    client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", config=botocore.config.Config(
        signature_version=botocore.UNSIGNED, s3={"addressing_style": "path"}, max_pool_connections=8))
    ranges = [(n, at) for n in names for at in range(0, (root / n).stat().st_size, 8 << 20)]

    def get(piece):
        name, at = piece
        return len(client.get_object(Bucket="data", Key=name, Range=f"bytes={at}-{at + (8 << 20) - 1}")["Body"].read())

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(pool.map(get, ranges))


def by_s3fs(root, address, names):
    import s3fs
    system = s3fs.S3FileSystem(anon=True, endpoint_url=address, skip_instance_cache=True)
    return sum(len(data) for data in system.cat([f"data/{n}" for n in names]).values())


def by_s3torchconnector(root, address, names):
    from s3torchconnector import S3ClientConfig
    from s3torchconnector._s3client import S3Client
    client = S3Client("us-east-1", endpoint=address, s3client_config=S3ClientConfig(force_path_style=True, unsigned=True))
    return sum(len(client.get_object("data", n).read()) for n in names)


def by_webdataset(root, address, names):
    import webdataset
    urls = [f"pipe:curl -s {address}/data/{n}" for n in names]
    return sum(len(sample["bin"]) for sample in webdataset.WebDataset(urls, shardshuffle=False))


def bench_rivals(root, address, names, ours):
    (root / "data").mkdir(exist_ok=True)
    for name in names:
        with contextlib.suppress(FileExistsError):
            (root / "data" / name).symlink_to(root / name)
    for what, read in (("boto3, 8 threads, ranges of 8 MB (no loader: a limit)", by_boto3), ("s3fs", by_s3fs),
                       ("s3torchconnector", by_s3torchconnector), ("webdataset, curl in a pipe", by_webdataset)):
        try:
            seconds = []
            for _ in range(ROUNDS):
                begin = time.monotonic()
                size = read(root, address, names)
                seconds.append((time.monotonic() - begin) / size * 1e6)
            tell(f"tar shards, against {what}", None, [ours * s for s in seconds],
                 f"{1 / statistics.median(seconds):.0f} MB/s")
        except Exception as failure:  # not installed, or not with this server
            print(f"{what}: left out, {type(failure).__name__}: {failure}"[:200], file=sys.stderr)


def print_page(before):
    print("# Objects on servers, measured\n\nMade by `./dev bench far`. nginx, a proxy with latency (`bench/delay_proxy.c`) and the loader share this "
          f"machine: {os.cpu_count()} CPUs, load {before:.1f} when it began and {os.getloadavg()[0]:.1f} at the end. Ratios are of runs that take turns, the "
          "median of those in brackets; where other programs take the CPUs they say little about a quiet machine.\n")
    print("| | wanted | measured | |\n|---|---|---|---|")
    for what, wanted, ratios, note in rows:
        print(f"| {what} | {'' if wanted is None else wanted} | {statistics.median(ratios):.2f} "
              f"({', '.join(f'{r:.2f}' for r in ratios)}) | {note} |")


def main():
    import far_servers
    millrace, program = sys.argv[1:3]
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "www"
        root.mkdir()
        pathlib.Path(folder).chmod(0o755)
        with far_servers.nginx(root, pathlib.Path(folder) / "own") as address:
            bench_shards(millrace, root, address)
            bench_table(millrace, program, root, address)
            if len(sys.argv) > 3:
                bench_photos(millrace, program, root, sys.argv[3], address.rsplit(":", 1)[1])
    print_page(before)


if __name__ == "__main__":
    main()
