# SPDX-License-Identifier: Apache-2.0
"""Objects on servers against files, against curl and boto3, and against other loaders: tar shards from
nginx, photos one by one with 20 ms of latency, a table, a second epoch with the bytes kept, requests
that fail and hang. Everything runs on this machine; ratios are of runs that take turns. Prints the page
docs/benchmarks_far.md.

    far.py MILLRACE PROXY [PHOTOS]      the command, bench/delay_proxy.c, and a folder of photos

PARTS=shards,kept,rivals,table,photos chooses some of them, RIVALS=boto3,s3fs some of the others, ROUNDS how often,
LONGER=3 takes so many times the epochs of the last two.
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
PARTS = os.environ.get("PARTS", "shards,kept,rivals,table,photos").split(",")
SHARDS, MEMBERS, SIZE = 6, 800, 100_000
LONGER = int(os.environ.get("LONGER", "1"))
SERVERS = ["delay_proxy", "nginx"]
# As servers of files are set up, so that they take little of the CPUs that the loader runs on.
CONF = "sendfile on; tcp_nopush on; open_file_cache max=4096; access_log off;"
rows = []  # what, wanted, ratios, note


def tell(what, wanted, ratios, note=""):
    rows.append((what, wanted, ratios, note))
    print(f"{what}: {statistics.median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)}) {note}",
          file=sys.stderr, flush=True)


# ---- Data ----
def make_shards(root):
    for shard in range(SHARDS):
        with tarfile.open(root / f"s-{shard}.tar", "w") as tar:
            for i in range(MEMBERS):
                info = tarfile.TarInfo(f"{shard:03d}{i:05d}.bin")
                info.size = SIZE
                tar.addfile(info, io.BytesIO(os.urandom(SIZE)))
    return [f"s-{shard}.tar" for shard in range(SHARDS)], SHARDS * MEMBERS * SIZE


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
def run(millrace, document, epochs, digest=False, apart=False, **environment):
    """Samples a second after the first batch, CPU seconds, what it told. apart: on one CPU alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([*(["taskset", "-c", "0"] if apart else []), millrace, "run", file.name, "--epochs", str(epochs), "--json", "--quiet",
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
def proxy(program, server, milliseconds, hang=0, fail=0):
    process = subprocess.Popen([program, str(server), str(milliseconds), str(hang), str(fail)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait()


def started(name):
    """Programs of that name that this one has started: their numbers in /proc, and what stands there."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            begin, _, end = (folder / "stat").read_text().rpartition(")")
            if begin.endswith(f"({name}") and int(end.split()[1]) == os.getpid():
                yield int(folder.name), end.split()


def spent_by(name):
    """CPU seconds so far of the programs of that name that this one has started."""
    return sum((int(n[11]) + int(n[12])) / os.sysconf("SC_CLK_TCK") for _, n in started(name))


@contextlib.contextmanager
def servers_on(cpus):
    before = os.sched_getaffinity(0)
    pids = [pid for name in SERVERS for pid, _ in started(name)]
    for pid in pids:
        os.sched_setaffinity(pid, cpus)
    yield
    for pid in pids:
        os.sched_setaffinity(pid, before)


def compare(millrace, near, far, epochs):
    """Runs from the folder and from the server: what they give, and the CPU seconds of both, of the
    proxy and of nginx; and the ratio where the loader has one CPU and the servers have the other."""
    from_near = run(millrace, near, epochs, True)
    before = [spent_by(name) for name in SERVERS]
    from_far = run(millrace, far, epochs, True)
    servers = [spent_by(name) - b for name, b in zip(SERVERS, before)]
    assert from_far[2]["digest"] == from_near[2]["digest"]
    with servers_on({1}):
        apart = run(millrace, far, epochs // 2, apart=True)[0] / run(millrace, near, epochs // 2, apart=True)[0]
    return from_near, from_far, [from_near[1], from_far[1], *servers], apart


def tell_spent(spent, epochs):
    """Where all CPUs are busy, the second is what the rates come to."""
    note = "CPU seconds an epoch: {:.3f} from the folder, {:.3f} from the server; {:.3f} of the proxy, {:.3f} of nginx".format(
        *(statistics.median(s) / epochs for s in zip(*spent)))
    tell("the same by CPU seconds of the loader", None, [near / far for near, far, *_ in spent], note)
    tell("the same, the servers' with them", None, [near / sum(rest) for near, *rest in spent])


# ---- What is measured ----
def shards_of(at, names):
    return {"source": {"tar": {"path": [f"{at}/{n}" for n in names], "fields": ["bin"]}}, "batch": 64,
            "shuffle": False}


def bench_shards(millrace, root, address, names, total):
    far, near = shards_of(address, names), shards_of(root, names)
    assert run(millrace, far, 1, True)[2]["digest"] == run(millrace, near, 1, True)[2]["digest"]
    against_curl, against_near, rates = [], [], []
    for _ in range(ROUNDS):
        limit = total / curl(address, names)
        rate = run(millrace, far, 3)[0]
        against_curl.append(rate * SIZE / limit)
        against_near.append(rate / run(millrace, near, 3)[0])
        rates.append(rate * SIZE / 1e6)
    tell("tar shards over HTTP, against curl of the same files, six at once", 0.9, against_curl,
         f"{statistics.median(rates):.0f} MB/s")
    tell("the same, against the folder", None, against_near)


def bench_kept(millrace, root, address, names, total):
    far, near = shards_of(address, names), shards_of(root, names)
    with tempfile.TemporaryDirectory() as store:
        kept = {"MILLRACE_OBJECTS": store + "/o", "MILLRACE_OBJECTS_SIZE": str(4 * total)}
        run(millrace, far, 1, **kept)
        tell("the same, all of it kept, against the folder", 1, [
            run(millrace, far, 3, **kept)[0] / run(millrace, near, 3)[0] for _ in range(ROUNDS)])


def bench_table(millrace, program, root, server):
    wanted, size = make_table(root / "t.parquet")

    def document(at):
        return {"source": {"parquet": {"path": f"{at}/t.parquet"}}, "fields": wanted, "batch": 1024,
                "shuffle": True}

    ratios, apart, fetched, spent, epochs = [], [], [], [], 40 * LONGER
    with proxy(program, server, 20) as slow:
        for _ in range(ROUNDS):
            near, far, seconds, ratio = compare(millrace, document(root), document(slow), epochs)
            ratios.append(far[0] / near[0])
            apart.append(ratio)
            spent.append(seconds)
            fetched.append(sum(o.get("received_bytes", 0) for o in far[2]["origins"]) / (epochs * size))
    tell("a table of 1,000,000 rows, 4 of 24 columns, 20 ms, against the file", 0.8, ratios, f"{far[0]:.0f} rows/s")
    tell("the same, the loader on one CPU and the servers on the other", 0.8, apart)
    tell_spent(spent, epochs)
    tell("bytes fetched for it, of those of the wanted columns", 1.05, fetched, "at most")


def bench_photos(millrace, program, root, photos, server):
    names = sorted(p for p in pathlib.Path(photos).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))[:1000]
    for i, name in enumerate(names):
        (root / f"{i}.jpg").write_bytes(name.read_bytes())
    (root / "list").write_text("".join(f"{i}.jpg\t{i % 10}\n" for i in range(len(names))))

    def document(at):
        return {"source": {"files": {"list": f"{at}/list"}}, "batch": 64, "shuffle": True,
                "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_flip": {}}]}

    against_near, apart, against_well, first, spent, epochs = [], [], [], [], [], 36 * LONGER
    with proxy(program, server, 20) as slow, proxy(program, server, 20, 10, 10) as bad:
        for _ in range(ROUNDS):
            near, far, seconds, ratio = compare(millrace, document(root), document(slow), epochs)
            apart.append(ratio)
            failing = run(millrace, document(bad), epochs, True)
            assert failing[2]["digest"] == near[2]["digest"]
            against_near.append(far[0] / near[0])
            spent.append(seconds)
            against_well.append(failing[0] / far[0])
            first.append(failing[2]["first_batch_seconds"])
    tell("photos one by one, 20 ms, training pipeline, against the folder", 0.9, against_near, f"{far[0]:.0f} photos/s")
    tell("the same, the loader on one CPU and the servers on the other", 0.9, apart)
    tell_spent(spent, epochs)
    tell("photos, 1 % of requests fail and 1 % hang, against none", 0.85, against_well,
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
    system = s3fs.S3FileSystem(anon=True, client_kwargs={"endpoint_url": address}, skip_instance_cache=True)
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


def by_streaming(root, address, names):
    """MosaicML Streaming, of shards in its own format with the same samples."""
    import streaming
    os.environ.update({"S3_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                       "AWS_DEFAULT_REGION": "us-east-1"})
    with tempfile.TemporaryDirectory() as local:
        samples = streaming.StreamingDataset(remote="s3://data/mds", local=local, shuffle=False, batch_size=64)
        return sum(len(sample["bin"]) for sample in samples)


def make_streaming(root):
    import streaming
    with streaming.MDSWriter(out=str(root / "data" / "mds"), columns={"bin": "bytes"}) as out:
        for _ in range(SHARDS * MEMBERS):
            out.write({"bin": os.urandom(SIZE)})


RIVALS = {  # loaders, with the ratio that is wanted; the first is none: a limit
    "boto3": ("boto3, 8 threads, ranges of 8 MB (no loader: a limit)", 0.9, by_boto3),
    "s3fs": ("s3fs", 2, by_s3fs),
    "s3torchconnector": ("s3torchconnector", 2, by_s3torchconnector),
    "webdataset": ("webdataset, curl in a pipe", 2, by_webdataset),
    "streaming": ("MosaicML Streaming", 2, by_streaming),
}


def megabytes_a_second(read, *arguments):
    begin = time.monotonic()
    size = read(*arguments)
    return size / (time.monotonic() - begin) / 1e6


def bench_rivals(millrace, root, address, names):
    (root / "data").mkdir(exist_ok=True)
    for name in names:
        (root / "data" / name).symlink_to(root / name)
    for key in os.environ.get("RIVALS", ",".join(RIVALS)).split(","):
        what, wanted, read = RIVALS[key]
        try:
            if key == "streaming":
                make_streaming(root)
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(megabytes_a_second(read, root, address, names))
                ours.append(run(millrace, shards_of(address, names), 3)[0] * SIZE / 1e6)
            tell(f"tar shards, against {what}", wanted, [o / t for o, t in zip(ours, theirs)],
                 f"{statistics.median(ours):.0f} against {statistics.median(theirs):.0f} MB/s")
        except Exception as failure:  # not installed, or not with this server
            print(f"{what}: left out, {type(failure).__name__}: {failure}"[:300], file=sys.stderr)


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
        server = f"{folder}/server"
        with far_servers.nginx(root, pathlib.Path(folder) / "own", socket=server, more=CONF) as address:
            if {"shards", "kept", "rivals"} & set(PARTS):
                names, total = make_shards(root)
            if "shards" in PARTS:
                bench_shards(millrace, root, address, names, total)
            if "kept" in PARTS:
                bench_kept(millrace, root, address, names, total)
            if "rivals" in PARTS:
                bench_rivals(millrace, root, address, names)
            if "table" in PARTS:
                bench_table(millrace, program, root, server)
            if "photos" in PARTS and len(sys.argv) > 3:
                bench_photos(millrace, program, root, sys.argv[3], server)
    print_page(before)


if __name__ == "__main__":
    main()
