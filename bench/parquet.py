# SPDX-License-Identifier: Apache-2.0
"""parquet.py: Parquet files to batches of numpy arrays: millrace against pyarrow with a pool of threads by
hand and by read_table, polars, DuckDB and torch's DataLoader over pyarrow. All in turn, round by round, 2 threads each, medians; every way in a process of its
own, for at least --seconds after a first epoch that is not counted. Beside the rate stands the processor
time of a million rows, which says more where the machine has other work.

    ./dev bench parquet"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))
import environments  # noqa: E402

ENVIRONMENT = environments.Environment(
    [["numpy==2.4.6", "pyarrow==26.0.1", "polars==2.1.0", "duckdb==2.0.0", "pillow==13.0.0", environments.TORCH]],
    ["pyarrow", "polars", "duckdb", "torch"])
DATA = os.path.join(ROOT, "build/bench-data")
VENVS = os.path.join(ROOT, "build/bench-venvs")
THREADS = 2
FLOATS, WORDS, BUCKETS = [f"i{i}" for i in range(13)], [f"c{i}" for i in range(26)], 100_000

TABLES = {  # rows, rows of a row group, rows of a batch, what it is
    "T": (1_000_000, 50_000, 1024, "1,000,000 rows x 24 numbers, snappy, batches of 1,024, window shuffle over 10 row groups"),
    "S": (1_000_000, 50_000, 1024, "the same table in its order"),
    "V": (200_000, 10_000, 1024, "200,000 rows x 256 float32 (lists), zstd, batches of 1,024, in order"),
    "R": (400_000, 50_000, 16_384, "400,000 rows of a recommender: 13 floats (fill, log1p, standardize), 26 strings of 8 "
          "characters (hashed into buckets), zstd, batches of 16,384, in order"),
    "W": (20_000, 5_000, 1024, "one column of 500 float32, snappy, batches of 1,024, in order"),
    "W10": (20_000, 5_000, 1024, "ten of these columns"),
    "W500": (20_000, 5_000, 1024, "all of these columns"),
    "I": (480, 60, 32, "480 JPEG photos in a column of bytes, decoded, cropped to 224 x 224, batches of 32; beside it the "
          "same files in a folder"),
}
WAYS = {"W": ["millrace", "pyarrow"], "W10": ["millrace", "pyarrow"], "W500": ["millrace", "pyarrow"],
        "I": ["millrace", "files", "pillow"], "T": ["millrace", "pyarrow"], "S": ["millrace", "pyarrow", "polars", "duckdb"],
        "V": ["millrace", "pyarrow", "read_table", "polars", "duckdb"], "R": ["millrace", "polars", "torch_workers"]}
NAMES = {"files": "millrace, source files", "pillow": "pyarrow and Pillow, 2 threads", "millrace": "millrace",
         "pyarrow": "pyarrow, pool by hand", "read_table": "pyarrow, read_table", "polars": "polars", "duckdb": "DuckDB",
         "torch_workers": "torch over pyarrow, 2 workers"}


# ---- Files ---------------------------------------------------------------------------------------
def path_of(table):
    name = "T" if table == "S" else "W" if table[0] == "W" else table
    return os.path.join(DATA, f"parquet-{name}.parquet")


def wanted_of(table):
    """Names of the columns, where not all are wanted."""
    return [f"c{i}" for i in range(int(table[1:] or 1))] if table[0] == "W" else None


PHOTOS = os.path.join(DATA, "photos-480")


def columns_of(table, rng, n):
    import numpy as np
    import pyarrow as pa
    if table[0] == "W":
        return {f"c{i}": rng.standard_normal(n).astype(np.float32) for i in range(500)}
    if table == "I":
        subprocess.run([os.path.join(ROOT, "scripts/photos"), PHOTOS, str(n)], check=True, stdout=subprocess.DEVNULL)
        files = sorted(os.path.join(folder, f) for folder, _, names in os.walk(PHOTOS) for f in names)
        return {"image": [open(file, "rb").read() for file in files[:n]]}
    if table == "V":
        values = pa.array(rng.standard_normal(n * 256).astype(np.float32))
        return {"v": pa.ListArray.from_arrays(np.arange(0, n * 256 + 1, 256, dtype=np.int32), values)}
    if table == "R":
        floats = {name: np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 1000, n)).astype(np.float32)
                  for name in FLOATS}
        words = {name: [f"{v:08x}" for v in rng.zipf(1.3, n) % 1_000_000] for name in WORDS}
        return {**{k: pa.array(v, from_pandas=True) for k, v in floats.items()}, **words}
    makers = (lambda: rng.standard_normal(n).astype(np.float32), lambda: rng.integers(0, 1000, n),
              lambda: rng.standard_normal(n))
    return {f"c{i}": makers[i % 3]() for i in range(24)}


def make(table):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    rows, group, _, _ = TABLES[table]
    if not os.path.exists(path_of(table)) or (table == "I" and not os.path.exists(PHOTOS)):
        os.makedirs(DATA, exist_ok=True)
        pq.write_table(pa.table(columns_of(table, np.random.default_rng(0), rows)), path_of(table) + ".part",
                       row_group_size=group, compression={"V": "zstd", "R": "zstd", "I": "none"}.get(table, "snappy"))
        os.rename(path_of(table) + ".part", path_of(table))


def make_elsewhere(python, table):
    """By a Python that has pyarrow."""
    subprocess.run([python, "-c", f"import sys; sys.path[:0] = [{ROOT!r} + '/bench']; import parquet; "
                    f"parquet.make({table!r})"], check=True)


# ---- Ways: each gives the batches of an epoch, as dictionaries of arrays ----------------------------
def millrace(table, batch):
    import millrace as mr
    pipeline = mr.parquet(path_of(table), columns=wanted_of(table) or [],
                          nulls="fill" if table == "R" else "error").batch(batch)
    if table == "I":
        pipeline = pipeline.decode_image().center_crop(224)
    pipeline = pipeline.shuffle({"window": 10} if table == "T" else False)
    for name in FLOATS if table == "R" else []:
        pipeline = pipeline.log1p(field=name).standardize(mean=3.0, std=2.0, field=name)
    for name in WORDS if table == "R" else []:
        pipeline = pipeline.hash_bucket(buckets=BUCKETS, field=name)
    loader = pipeline.loader(seed=1, threads=THREADS)
    while True:
        yield iter(loader)


def files(table, batch):
    import millrace as mr
    loader = mr.files(PHOTOS).decode_image().center_crop(224).batch(batch).fields(["image"]).loader(threads=THREADS)
    while True:
        yield iter(loader)


def pillow(table, batch):
    import concurrent.futures as futures
    import io
    import numpy as np
    import pyarrow.parquet as pq
    from PIL import Image

    def decode(data):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        return np.asarray(image.crop((left, top, left + 224, top + 224)))

    with futures.ThreadPoolExecutor(THREADS) as pool:
        while True:
            yield ({"image": np.stack(list(pool.map(decode, record["image"].to_pylist())))}
                   for record in pq.ParquetFile(path_of(table)).iter_batches(batch))


def arrays_of(record):
    """A record batch or table of pyarrow without a copy where there can be one."""
    out = {}
    for name in record.schema.names:
        column = record[name]
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        out[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1) \
            if hasattr(column, "flatten") and column.type.num_fields else column.to_numpy(zero_copy_only=False)
    return out


def pyarrow(table, batch):
    """Threads read and shuffle windows of row groups; batches are slices of these."""
    import concurrent.futures as futures
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(1)
    file = path_of(table)
    groups, window = pq.ParquetFile(file).num_row_groups, 10 if table == "T" else 1
    rng = np.random.default_rng(1)

    def read(numbers, seed):
        whole = arrays_of(pq.ParquetFile(file).read_row_groups(numbers, columns=wanted_of(table), use_threads=False))
        if table == "T":
            order = np.random.default_rng(seed).permutation(len(next(iter(whole.values()))))
            whole = {name: values[order] for name, values in whole.items()}
        return whole

    def epoch(pool):
        order = rng.permutation(groups) if table == "T" else np.arange(groups)
        parts = [order[i:i + window].tolist() for i in range(0, groups, window)]
        waiting = []
        for i in range(len(parts) + THREADS):
            if i < len(parts):
                waiting.append(pool.submit(read, parts[i], i))
            if i >= THREADS:
                whole = waiting.pop(0).result()
                n = len(next(iter(whole.values())))
                for at in range(0, n, batch):
                    yield {name: values[at:at + batch] for name, values in whole.items()}

    with futures.ThreadPoolExecutor(THREADS) as pool:
        while True:
            yield epoch(pool)


def read_table(table, batch):
    """All of the file at once, by threads of pyarrow's; batches are slices."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(THREADS)

    def epoch():
        whole = arrays_of(pq.read_table(path_of(table)))
        for at in range(0, len(next(iter(whole.values()))), batch):
            yield {name: values[at:at + batch] for name, values in whole.items()}
    while True:
        yield epoch()


def hashed_words(column):
    """Words are of 8 characters: read as whole numbers, as one does by hand who knows that."""
    import numpy as np
    begin = np.frombuffer(column.buffers()[1], np.int32)[column.offset]
    letters = np.frombuffer(column.buffers()[2], np.uint64, len(column), begin)
    return ((letters * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(BUCKETS)).astype(np.int64)


def torch_record(record):
    """A record batch of a recommender's table as tensors, its steps taken."""
    import torch
    out = {}
    for name in FLOATS:
        values = torch.from_numpy(record[name].fill_null(0).to_numpy(zero_copy_only=False).copy())
        out[name] = (torch.log1p(values) - 3.0) / 2.0
    out.update((name, torch.from_numpy(hashed_words(record[name]))) for name in WORDS)
    return out


def torch_workers(table, batch):
    """A DataLoader whose workers take the row groups by turns."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch.utils.data as data

    class Rows(data.IterableDataset):
        def __iter__(self):
            pa.set_cpu_count(1)
            me = data.get_worker_info()
            file = pq.ParquetFile(path_of(table))
            groups = range(me.id, file.num_row_groups, me.num_workers)
            return map(torch_record, file.iter_batches(batch, row_groups=groups, use_threads=False))

    loader = data.DataLoader(Rows(), batch_size=None, num_workers=THREADS, persistent_workers=True)
    while True:
        yield iter(loader)


def polars(table, batch):
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    def epoch():
        frame = pl.scan_parquet(path_of(table))
        if table == "R":
            frame = frame.with_columns(
                *[((pl.col(c).fill_null(0).log1p() - 3.0) / 2.0).cast(pl.Float32) for c in FLOATS],
                *[pl.col(c).hash() % BUCKETS for c in WORDS])
        if table == "V":  # an array of two dimensions instead of an object for each row
            frame = frame.with_columns(pl.col("v").list.to_array(256))
        for part in frame.collect().iter_slices(batch):
            yield {name: part[name].to_numpy() for name in part.columns}
    while True:
        yield epoch()


def duckdb(table, batch):
    import duckdb as db
    connection = db.connect()
    connection.execute(f"set threads to {THREADS}")

    def epoch():
        reader = connection.execute(f"select * from '{path_of(table)}'").to_arrow_reader(batch)
        for record in reader:
            yield arrays_of(record)
    while True:
        yield epoch()


def processor_seconds():
    """Of this process and of its workers."""
    own, ticks = resource.getrusage(resource.RUSAGE_SELF), 0
    for child in multiprocessing.active_children():
        with open(f"/proc/{child.pid}/stat", encoding="utf-8") as stat:
            ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
    return own.ru_utime + own.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def measure_here(way, table, seconds):
    """Rows a second and processor seconds a million rows of this process."""
    rows, _, batch, _ = TABLES[table]
    epochs, done = globals()[way](table, batch), 0

    def run_epoch():
        n = sum(len(next(iter(b.values()))) for b in next(epochs))
        if n != rows:
            raise RuntimeError(f"{way} gave {n} of {rows} rows")
        return n
    run_epoch()
    begun, used = time.perf_counter(), processor_seconds()
    while time.perf_counter() - begun < seconds:
        done += run_epoch()
    elapsed, cpu = time.perf_counter() - begun, processor_seconds() - used
    print(json.dumps({"rate": done / elapsed, "cpu": cpu / done * 1e6}))


# ---- All of them -----------------------------------------------------------------------------------
def run(python, way, table, seconds):
    variables = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "build/python/python"))
    command = [python, os.path.abspath(__file__), "--one", way, table, "--seconds", str(seconds)]
    out = subprocess.run(command, env=variables, capture_output=True, text=True)
    if out.returncode != 0:
        raise SystemExit(f"parquet: {way} {table}: {out.stderr.strip().splitlines()[-1]}")
    return json.loads(out.stdout.splitlines()[-1])


def measure(python, tables, rounds, seconds):
    found = {(table, way): [] for table in tables for way in WAYS[table]}
    for _ in range(rounds):
        for table, way in found:
            found[table, way].append(run(python, way, table, seconds))
    return {key: {k: statistics.median(row[k] for row in rows) for k in rows[0]} for key, rows in found.items()}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next(line.split(": ")[1].strip() for line in lines if line.startswith("model name"))
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def page(found, versions, loads, rounds):
    yield "# Parquet to batches"
    yield ""
    yield (f"Made by `./dev bench parquet` on {machine()}: {THREADS} threads each, in turn, medians of {rounds}; "
           f"{', '.join(f'{n} {v}' for n, v in versions.items())}. The machine's load average was "
           f"{loads[0]:.1f} when it began and {loads[1]:.1f} at the end; above {THREADS}, others were at work "
           "too, and only ratios say something. Processor time is that of the whole process and of its workers.")
    for table in dict.fromkeys(key[0] for key in found):
        yield from ("", f"## {table}: {TABLES[table][3]}", "")
        yield from ("| way | rows/s | millrace is faster | CPU s per million rows | millrace needs less |", "|---|---|---|---|---|")
        own = found[table, "millrace"]
        for way in WAYS[table]:
            row = found[table, way]
            yield (f"| {NAMES[way]} | {row['rate']:,.0f} | {own['rate'] / row['rate']:.2f} x | {row['cpu']:.2f} | "
                   f"{row['cpu'] / own['cpu']:.2f} x |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--one", metavar="WAY")
    parser.add_argument("--into")
    options = parser.parse_args()
    if options.one:
        return measure_here(options.one, options.tables[0], options.seconds)
    environments.ENVIRONMENTS["parquet"] = ENVIRONMENT
    made = environments.make("parquet", VENVS)
    if "error" in made:
        raise SystemExit(f"parquet: {made['error']}")
    python, begun = os.path.join(VENVS, "parquet/bin/python"), os.getloadavg()[0]
    for table in options.tables:
        make_elsewhere(python, table)
    found = measure(python, options.tables, options.rounds, options.seconds)
    with open(os.path.join(ROOT, "bench/notes_parquet.md"), encoding="utf-8") as notes:
        said = "\n" + notes.read()
    text = "\n".join(page(found, made["versions"], (begun, os.getloadavg()[0]), options.rounds)) + "\n" + said
    if options.into:
        with open(options.into, "w", encoding="utf-8") as out:
            out.write(text)
    print(text)
    return None


if __name__ == "__main__":
    main()
