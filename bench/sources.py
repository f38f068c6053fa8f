# SPDX-License-Identifier: Apache-2.0
"""sources.py: samples that lie in shards, arrays and HDF5 files, against the readers that people take for them:
webdataset, tf.data, DALI, h5py and numpy. All in turn, round by round, 2 threads or workers each, medians; every
way in a process of its own, for at least --seconds after a first part that is not counted.

    ./dev bench sources"""

import argparse
import itertools
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/rivals"))
DATA = os.path.join(ROOT, "build/bench-data/sources")
VENVS = os.path.join(ROOT, "build/bench-venvs")
PHOTOS = os.path.join(ROOT, "build/demo/photos")
THREADS, RECORDS, RECORD, TOKENS, ROWS, IMAGES = 2, 20_000, 3072, 2048, 400_000, 20_000
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

SUBJECTS = {  # what, ways (the first is what the others are compared with)
    "photos": ("240 photos, random crop of 224, flip, normalise; photos/s",
               ["millrace_tar", "millrace_files", "dali", "tensorflow", "webdataset"]),
    "records": (f"{RECORDS:,} samples of 3 KB, full shuffle (tf.data, webdataset: a buffer of 10,000); samples/s",
                ["millrace_tfrecord", "millrace_tar", "millrace_npy", "tensorflow", "webdataset"]),
    "tokens": ("windows of 2,048 int32, batches of 32, full shuffle; MB/s",
               ["millrace", "millrace_command", "memcpy"]),
    "rows": ("rows of 24 float32, batches of 4,096, full shuffle; rows/s",
             ["millrace_ops", "millrace_plain", "numpy_ops"]),
    "hdf5": ("20,000 x 64 x 64 float32, chunks of 64 rows, gzip 4, batches of 64; rows/s",
             ["millrace", "h5py_by_chunk"]),
}


# ---- Files -----------------------------------------------------------------------------------------
def path_of(name):
    return os.path.join(DATA, name)


def make_tar(path, samples):
    with tarfile.open(path + ".part", "w") as tar:
        for i, parts in enumerate(samples):
            for extension, data in parts.items():
                info = tarfile.TarInfo(f"{i:06d}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    os.rename(path + ".part", path)


def make_tfrecord(path, samples):
    import tensorflow as tf
    with tf.io.TFRecordWriter(path + ".part") as out:
        for parts in samples:
            out.write(tf.train.Example(features=tf.train.Features(feature={
                "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[next(iter(parts.values()))])),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(parts["cls"])])),
            })).SerializeToString())
    os.rename(path + ".part", path)


def make_all():
    import h5py
    import numpy as np
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(0)
    if not os.path.exists(path_of("tokens.bin")):
        rng.integers(0, 50_000, 32 << 20).astype(np.int32).tofile(path_of("tokens.bin"))
    if not os.path.exists(path_of("rows.npy")):
        np.save(path_of("rows.npy"), rng.standard_normal((ROWS, 24), np.float32))
    if not os.path.exists(path_of("records.tfrecord")):
        values = rng.integers(0, 256, (RECORDS, RECORD)).astype(np.uint8)
        np.save(path_of("records.npy"), values)
        samples = [{"bin": v.tobytes(), "cls": b"%d" % (i % 10)} for i, v in enumerate(values)]
        make_tar(path_of("records.tar"), samples)
        make_tfrecord(path_of("records.tfrecord"), samples)
    if not os.path.exists(path_of("images.h5")):
        with h5py.File(path_of("images.part"), "w") as file:
            x = np.round(rng.standard_normal((IMAGES, 64, 64), np.float32), 2)
            file.create_dataset("x", data=x, chunks=(64, 64, 64), compression="gzip", compression_opts=4)
        os.rename(path_of("images.part"), path_of("images.h5"))
    if not os.path.exists(path_of("photos.tfrecord")):
        samples = []
        for folder, _, names in sorted(os.walk(PHOTOS)):
            for name in sorted(names):
                with open(os.path.join(folder, name), "rb") as file:
                    samples.append({"jpg": file.read(), "cls": b"1"})
        make_tar(path_of("photos.tar"), samples)
        make_tfrecord(path_of("photos.tfrecord"), samples)


# ---- millrace: gives the size of each batch ----------------------------------------------------------
def batches_of(pipeline):
    loader = pipeline.loader(seed=1, threads=THREADS)
    while True:
        for batch in loader:
            yield len(next(iter(batch.values())))


def photos(pipeline):
    return batches_of(pipeline.decode_image().random_resized_crop(size=224).random_flip().normalize(mean=MEAN, std=STD)
                      .shuffle(True).batch(32))


def photos_millrace_tar():
    import millrace as mr
    return photos(mr.tar(path_of("photos.tar"), fields=["jpg", "cls"], numbers=["cls"]))


def photos_millrace_files():
    import millrace as mr
    return photos(mr.files(PHOTOS))


def records_millrace_tar():
    import millrace as mr
    return batches_of(mr.tar(path_of("records.tar"), fields=["bin", "cls"], numbers=["cls"]).shuffle(True).batch(64))


def records_millrace_tfrecord():
    import millrace as mr
    return batches_of(mr.tfrecord(path_of("records.tfrecord"), fields=["x:bytes", "y:int64"]).shuffle(True).batch(64))


def records_millrace_npy():
    import millrace as mr
    return batches_of(mr.array(path_of("records.npy")).shuffle(True).batch(64))


def tokens_millrace():
    import millrace as mr
    pipeline = mr.tokens(path_of("tokens.bin"), length=TOKENS, dtype="int32").shuffle(True).batch(32)
    sizes = batches_of(pipeline)
    while True:  # a batch takes 10 us: looking at the clock after each would count
        yield sum(itertools.islice(sizes, 32)) * TOKENS * 4 / 1e6


def tokens_millrace_command():
    """The same by the command, whose consumer is not Python."""
    document = {"source": {"tokens": {"path": path_of("tokens.bin"), "length": TOKENS, "dtype": "int32"}}, "shuffle": True,
                "batch": 32, "seed": 1}
    while True:
        begun = time.perf_counter()
        rate = told(document, "--epochs", "300")["samples_per_second"]
        yield rate * (time.perf_counter() - begun) * TOKENS * 4 / 1e6


def rows_millrace_plain():
    import millrace as mr
    return batches_of(mr.array(path_of("rows.npy")).shuffle(True).batch(4096))


def rows_millrace_ops():
    import millrace as mr
    return batches_of(mr.array(path_of("rows.npy")).standardize(mean=[0.1] * 24, std=[1.5] * 24).clip(low=-1, high=1)
                      .shuffle(True).batch(4096))


def hdf5_millrace():
    import millrace as mr
    return batches_of(mr.hdf5(path_of("images.h5")).shuffle({"window": 16}).batch(64))


# ---- Rivals ------------------------------------------------------------------------------------------
def tokens_memcpy():
    """memcpy of the same windows into batches of the same size, nine of them in turn, in 2 threads."""
    program = os.path.join(ROOT, "build/release/limit_array")
    while True:
        begun = time.perf_counter()
        out = subprocess.run([program, path_of("tokens.bin"), str(4 * TOKENS), "2", str(THREADS), "32"],
                             capture_output=True, check=True)
        rate = json.loads(out.stdout)["samples_per_second"]
        yield rate * (time.perf_counter() - begun) * TOKENS * 4 / 1e6


def rows_numpy_ops():
    import numpy as np
    data = np.load(path_of("rows.npy"), mmap_mode="r")
    mean, std, rng = np.full(24, 0.1, np.float32), np.full(24, 1.5, np.float32), np.random.default_rng(1)
    while True:
        order = rng.permutation(ROWS)
        for at in range(0, ROWS, 4096):
            yield len(np.clip((data[order[at:at + 4096]] - mean) / std, -1, 1))


def records_tensorflow():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    spec = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}
    data = tf.data.TFRecordDataset(path_of("records.tfrecord")).repeat().shuffle(10_000).batch(64)
    data = data.map(lambda b: tf.io.parse_example(b, spec), num_parallel_calls=THREADS)
    data = data.map(lambda d: (tf.reshape(tf.io.decode_raw(d["x"], tf.uint8), [-1, RECORD]), d["y"]),
                    num_parallel_calls=THREADS).prefetch(4)
    for x, _ in data.as_numpy_iterator():
        yield len(x)


def records_webdataset():
    import numpy as np
    import torch
    import webdataset as wds
    data = wds.WebDataset(path_of("records.tar"), shardshuffle=False, empty_check=False,
                          nodesplitter=wds.split_by_node, workersplitter=lambda s: s).repeat()
    data = data.shuffle(10_000).map(lambda s: (np.frombuffer(s["bin"], np.uint8), int(s["cls"]))).batched(64)
    for x, _ in torch.utils.data.DataLoader(data, batch_size=None, num_workers=THREADS):
        yield len(x)


def photos_tensorflow():
    import tensorflow as tf
    import tf_data
    spec = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}
    read, tf.io.read_file = tf.io.read_file, lambda data: data  # its crop takes the bytes that are there

    def load(record):
        return tf_data.train(tf, tf.io.parse_single_example(record, spec)["x"]) / 255.0
    data = tf.data.TFRecordDataset(path_of("photos.tfrecord")).repeat().shuffle(240)
    data = data.map(load, num_parallel_calls=THREADS).batch(32).prefetch(2)
    tf.io.read_file = read
    for x in data.as_numpy_iterator():
        yield len(x)


def photos_dali():
    import dali_cpu
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=32, num_threads=THREADS, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.webdataset(paths=[path_of("photos.tar")], ext=["jpg", "cls"], random_shuffle=True)
        images, mirror = dali_cpu.train(fn, types, encoded)
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", crop=[224, 224],
                                        mean=[255 * m for m in MEAN], std=[255 * s for s in STD], mirror=mirror)
    running = pipeline()
    running.build()
    while True:
        (images,) = running.run()
        yield len(images)


def photos_webdataset():
    import torch
    import webdataset as wds
    import torchvision_pillow
    library = torchvision_pillow.declare_compiled_ops()  # noqa: F841
    from torchvision.transforms import v2
    change = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor(),
                         v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    data = wds.WebDataset(path_of("photos.tar"), shardshuffle=False, empty_check=False,
                          nodesplitter=wds.split_by_node, workersplitter=lambda s: s).repeat().shuffle(240)
    data = data.decode("pil").map(lambda s: (change(s["jpg"]),)).batched(32)  # a tuple: batched() takes samples apart
    for (x,) in torch.utils.data.DataLoader(data, batch_size=None, num_workers=THREADS):
        yield len(x)


class Chunks:
    """A chunk is an item; its rows are shuffled."""

    def __init__(self):
        self.file = None

    def __len__(self):
        return IMAGES // 64

    def __getitem__(self, i):
        import h5py
        import numpy as np
        self.file = self.file or h5py.File(path_of("images.h5"), "r")
        rows = self.file["x"][64 * i:64 * i + 64]
        return rows[np.random.permutation(len(rows))]


def hdf5_h5py_by_chunk():
    import torch
    loader = torch.utils.data.DataLoader(Chunks(), batch_size=None, num_workers=THREADS, shuffle=True,
                                         persistent_workers=True)
    while True:
        for x in loader:
            yield len(x)


# ---- All of them -------------------------------------------------------------------------------------
def measure_here(subject, way, seconds):
    batches, done = globals()[f"{subject}_{way}"](), 0
    warm = time.perf_counter()
    while time.perf_counter() - warm < seconds / 2 or done == 0:
        done += next(batches)
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        done += next(batches)
    print(json.dumps(done / (time.perf_counter() - begun)), flush=True)
    os._exit(0)  # workers of others that still wait for something


def run(python, subject, way, seconds):
    variables = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "build/python/python"), TF_CPP_MIN_LOG_LEVEL="3")
    command = [python, os.path.abspath(__file__), "--one", subject, way, "--seconds", str(seconds)]
    out = subprocess.run(command, env=variables, capture_output=True, text=True)
    if out.returncode != 0:
        print(f"sources: {subject} {way}: {(out.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return None
    return json.loads(out.stdout.splitlines()[-1])


def measure(python, subjects, rounds, seconds):
    found = {(subject, way): [] for subject in subjects for way in SUBJECTS[subject][1]}
    for _ in range(rounds):
        for key, rates in found.items():
            rates.append(run(python, *key, seconds))
    return {key: None if None in rates else statistics.median(rates) for key, rates in found.items()}


# ---- What the engine promises ------------------------------------------------------------------------
def told(document, *more):
    """What the command says of a run, as JSON."""
    path = path_of("promise.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    command = [os.path.join(ROOT, "build/python/millrace"), "run", path, "--json", "--quiet", "--no-digest"]
    out = subprocess.run([*command, "--threads", str(THREADS), *more], capture_output=True, text=True,
                         check=True)
    return json.loads(out.stdout)


PROMISES = {
    "HDF5": {"hdf5": {"path": path_of("images.h5")}},
    "tar": {"tar": {"path": path_of("records.tar"), "fields": ["bin"], "block_bytes": 1_000_000}},
    "TFRecord": {"tfrecord": {"path": path_of("records.tfrecord"), "fields": ["x:bytes"], "block_bytes": 1_000_000}},
}


def promises():
    """Window shuffle: bytes that are read, and the memory beside what is promised. What is ragged comes on top of the
    latter, so it is told of HDF5 alone, whose rows are all of one size."""
    empty = told({"source": {"synthetic": {"samples": 64, "shape": [4]}}, "batch": 8})["peak_rss_bytes"]
    yield from ("", "## What is promised: a window of 16 blocks in 4 lanes, batches of 64", "",
                "| source | bytes read an epoch, of those in order | blocks alive, of those allowed | memory, of that promised |",
                "|---|---|---|---|")
    for name, source in PROMISES.items():
        in_order = told({"source": source, "batch": 64, "shuffle": False})
        shuffled = told({"source": source, "batch": 64, "epochs": 3, "shuffle": {"window": 16, "lanes": 4}})
        memory = (shuffled["peak_rss_bytes"] - empty) / shuffled["memory_bound"] if name == "HDF5" else None
        yield (f"| {name} | {shuffled['bytes_read'] / 3 / in_order['bytes_read']:.3f} | {shuffled['blocks_most']} of "
               f"{shuffled['blocks_bound']} | {'' if memory is None else f'{memory:.2f}'} |")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next(line.split(": ")[1].strip() for line in lines if line.startswith("model name"))
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def page(found, versions, loads, rounds):
    yield "# Shards, arrays, tokens and HDF5"
    yield ""
    yield (f"Made by `./dev bench sources` on {machine()}: {THREADS} threads or workers each, in turn, medians of "
           f"{rounds}; {', '.join(f'{n} {v}' for n, v in versions.items())}. The machine's load average was "
           f"{loads[0]:.1f} when it began and {loads[1]:.1f} at the end.")
    for subject in dict.fromkeys(key[0] for key in found):
        what, ways = SUBJECTS[subject]
        first = found[subject, ways[0]]
        yield from ("", f"## {subject}: {what}", "", f"| way | a second | {ways[0]} is faster |", "|---|---|---|")
        for way in ways:
            rate = found[subject, way]
            ratio = f"{first / rate:.2f} x" if first and rate else ""
            yield f"| {way.replace('_', ' ')} | {f'{rate:,.0f}' if rate else 'failed'} | {ratio} |"
    yield from promises()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("subjects", nargs="*", default=list(SUBJECTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--into")
    options = parser.parse_args()
    if options.one:
        return measure_here(*options.subjects, options.seconds)
    import environments
    environments.ENVIRONMENTS["sources"] = environments.Environment(
        [["numpy==2.4.6", "h5py==3.14.0", "webdataset==1.0.2", "pillow==13.0.0", "tensorflow-cpu==2.21.0",
          environments.TORCH], ["--no-deps", "torchvision==0.28.0"], ["nvidia-dali-cuda120==2.4.0"]],
        ["h5py", "webdataset", "tensorflow-cpu", "torch", "nvidia-dali-cuda120"])
    made = environments.make("sources", VENVS)
    if "error" in made:
        raise SystemExit(f"sources: {made['error']}")
    python, begun = os.path.join(VENVS, "sources/bin/python"), os.getloadavg()[0]
    subprocess.run([python, "-c", f"import sys; sys.path[:0] = [{ROOT!r} + '/bench']; import sources; "
                    "sources.make_all()"], check=True)
    found = measure(python, options.subjects, options.rounds, options.seconds)
    text = "\n".join(page(found, made["versions"], (begun, os.getloadavg()[0]), options.rounds)) + "\n"
    with open(os.path.join(ROOT, "bench/notes_sources.md"), encoding="utf-8") as notes:
        text += "\n" + notes.read()
    if options.into:
        with open(options.into, "w", encoding="utf-8") as out:
            out.write(text)
    print(text)
    return None


if __name__ == "__main__":
    main()
