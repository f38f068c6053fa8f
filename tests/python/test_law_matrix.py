# SPDX-License-Identifier: Apache-2.0
"""The law over every source, order, view, mix and share: one stream of samples, whatever the
threads, the world, the restarts, the batch after a restart, and whether a store is cold, warm or
not there."""
import itertools
import json
import random
import time
from collections import Counter

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mrlib
from test_sources import make_tars, make_tfrecords, megatron, pack

N, BATCH = 40, 24  # 24 is divided by every world below

ORDERS = {"in order": False, "shuffled": True, "window": {"window": 2, "lanes": 1},
          "lanes": {"window": 4, "lanes": 2}}
VIEWS = {"all": [], "part": [{"skip": 3}, {"take": 31}], "every": [{"every": {"step": 2, "offset": 1}}],
         "split": [{"split": {"name": "a", "parts": {"a": 0.7, "b": 0.3}}}], "repeat": [{"repeat": 2}],
         "some again": [{"skip": 5}, {"repeat": 2}, {"take": 50}]}


# ---- Sources: small, but of several files and blocks ----


def files(folder):
    for i in range(N):
        path = folder / "files" / f"c{i % 3}" / f"{i:03}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(i).randbytes(1 + 7 * i))
    return {"files": {"path": str(folder / "files"), "extensions": ["bin"]}}


def tar(folder):
    return {"tar": {"path": make_tars(folder, 2, N // 2)[1], "block_bytes": 9000, "numbers": ["cls"]}}


def packed_tar(folder):
    make_tars(folder, 2, N // 2)
    names = [pack(str(path), ".gz") for path in sorted(folder.glob("*.tar"))]
    return {"tar": {"path": names, "numbers": ["cls"]}}


def tfrecord(folder):
    return {"tfrecord": {"path": make_tfrecords(folder, 2, N // 2)[1], "block_bytes": 2000,
                         "fields": ["image:bytes", "label:int64"]}}


def array(folder):
    np.save(folder / "x.npy", np.random.default_rng(1).integers(0, 256, (N, 5), np.uint8))
    return {"array": {"path": str(folder / "x.npy")}}


def npz(folder):
    rng = np.random.default_rng(2)
    for k in range(2):
        np.savez(folder / f"{k}.npz", x=rng.random((N // 2, 3), np.float32), y=rng.integers(0, 9, N // 2))
    return {"array": {"path": str(folder / "*.npz")}}


def corpus(folder):
    tokens_of = np.random.default_rng(3).integers(0, 30000, 8 * N)
    megatron(str(folder / "corpus"), [[part] for part in np.split(tokens_of, [13, 100])], "uint16", 8)
    return {"tokens": {"path": str(folder / "corpus.bin"), "length": 8}}


def tokens(folder):
    np.arange(8 * N, dtype=np.uint16).tofile(folder / "t.bin")
    return {"tokens": {"path": str(folder / "t.bin"), "length": 8, "dtype": "uint16"}}


def lines(folder):
    for k in range(2):
        rows = [json.dumps({"a": i, "text": "x" * (i % 11)}) for i in range(k * N // 2, (k + 1) * N // 2)]
        (folder / f"l{k}.jsonl").write_text("\n".join(rows) + "\n")
    return {"lines": {"path": str(folder / "l{0..1}.jsonl"), "block_bytes": 300}}


def hdf5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(3 * N).reshape(N, 3), chunks=(8, 3), compression="gzip")
        file.create_dataset("n", data=np.arange(N) % 4, chunks=(8,))
    return {"hdf5": {"path": str(folder / "x.h5"), "block_bytes": 200}}


def parquet(folder):
    rows = pa.table({"a": np.arange(N), "list": [list(range(i % 5)) for i in range(N)]})
    pq.write_table(rows, folder / "x.parquet", row_group_size=7)
    return {"parquet": {"path": str(folder / "x.parquet")}}


SOURCES = {f.__name__: f for f in (files, tar, packed_tar, tfrecord, array, npz, tokens, corpus, lines, hdf5, parquet)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    made = {}
    for name, make in SOURCES.items():
        folder = tmp_path_factory.mktemp(name)
        made[name] = make(folder)
    time.sleep(0.2)  # what has just been written may change once more unseen: it is not stored
    return made


# ---- Runs ----


def steps_of(document, steps=None, **options):
    """What each step delivers, sample by sample: its number and its bytes; the digest; the state."""
    out = []
    with mrlib.Loader(document, digest=True, **options) as loader:
        while steps is None or len(out) < steps:
            batch = next(loader, None)
            if batch is None:
                break
            out.append([(int(sample), *(np.asarray(batch[name][i]).tobytes() for name in sorted(batch)))
                        for i, sample in enumerate(batch.samples)])
        stats = loader.stats()
        assert stats["blocks_most"] <= stats["blocks_bound"], (stats, document, options)
        return out, loader.digest(), loader.save()


def joined(steps):
    return list(itertools.chain.from_iterable(steps))


def world_of(document, world, **options):
    """Rank by rank; a step is a set, which ranks share by lane or by place."""
    found = Counter()
    for rank in range(world):
        found.update(joined(steps_of(document, world=world, rank=rank, threads=1 + rank % 2, **options)[0]))
    return found


def check(document, worlds=(2, 3, 4, 8), threads=(2, 3, 8)):
    whole, digest, last = steps_of(document, threads=1)
    assert whole
    for n in threads:
        assert steps_of(document, threads=n)[1] == digest
    for world in worlds:
        assert world_of(document, world) == Counter(joined(whole))
    for at in range(len(whole) + 1):
        head, _, state = steps_of(document, at, threads=2)
        assert head == whole[:at]
        tail, _, end = steps_of(document, threads=3, state=state)
        assert tail == whole[at:] and end == last
        other = steps_of(document, threads=2, state=state, batch=7)[0]
        assert joined(other) == joined(whole[at:])
        assert world_of(document, worlds[at % len(worlds)], state=state) == Counter(joined(whole[at:]))
    return whole


def document_of(source, shuffle, view=None, **more):
    return {"source": source, "shuffle": shuffle, "batch": BATCH, "epochs": 2, "seed": 11,
            **({"view": view} if view else {}), **more}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_source_and_order(sources, name, order):
    whole = check(document_of(sources[name], ORDERS[order]))
    for features in ("avx512", "avx2,neon"):
        assert steps_of(document_of(sources[name], ORDERS[order]), disable_cpu=features)[0] == whole
    seen = Counter(sample for sample, *_ in joined(whole))
    assert set(seen) == set(range(N)) and set(seen.values()) == {2}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("view", [v for v in VIEWS if VIEWS[v]])
def test_every_source_and_view(sources, name, view):
    order = ORDERS["lanes" if len(name) % 2 else "window"]
    document = document_of(sources[name], order, VIEWS[view])
    whole = check(document)
    assert 0 < len(joined(whole)) <= 4 * N


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", ["shuffled", "lanes"])
def test_every_source_in_a_mix(sources, name, order):
    """With itself, and another part of it: children have epochs, orders and seeds of their own."""
    child = {"source": sources[name], "shuffle": ORDERS[order]}
    mix = {"mix": {"round": 10, "children": [{"weight": 2, **child},
                                             {"weight": 1, "view": VIEWS["part"], **child}]}}
    check({"source": mix, "batch": BATCH, "epochs": 2, "seed": 11})


# A field of each source that is a number below 10, or may be made one
NUMBERS = {"files": "label", "tar": "cls", "tfrecord": "label", "lines": "a", "hdf5": "n", "parquet": "a"}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("view", ["weights", "balance"])
def test_every_source_drawn(sources, name, order, view):
    """Samples come as often as weights or classes say, in whatever way they are read."""
    steps = [{"where": f"{NUMBERS[name]} >= 1"}, {view: {"field": NUMBERS[name], "count": 60}}]
    document = document_of(sources[name], ORDERS[order], steps)
    whole = check(document, worlds=(2, 3), threads=(3,))
    numbers = dict(numbers_of(sources[name], NUMBERS[name]))
    seen = Counter(sample for sample, *_ in joined(whole))
    assert sum(seen.values()) == 2 * 60 and all(numbers[sample] >= 1 for sample in seen)
    if view == "balance":
        of_class = Counter()
        for sample, times in seen.items():
            of_class[numbers[sample]] += times
        assert set(of_class) == {n for n in numbers.values() if n >= 1}
        assert max(of_class.values()) - min(of_class.values()) <= 2


def numbers_of(source, field):
    document = {"source": source, "shuffle": False, "batch": N, "fields": [field]}
    with mrlib.Loader(document) as loader:
        batch = next(loader)
        return list(zip(map(int, batch.samples), map(int, np.asarray(batch[field]).reshape(-1))))


# A field of each source whose length differs, or that is a number
LENGTHS = {"files": "image", "tar": "", "tfrecord": "image", "lines": "text", "parquet": "list",
           "array": "", "tokens": "", "hdf5": "", "packed_tar": "", "npz": "", "corpus": ""}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [0, 5])
def test_every_source_by_length(sources, name, order, size):
    """Groups of a batch, in which lanes fit, and of 5, in which they do not."""
    plain = document_of(sources[name], ORDERS[order])
    terms = {"field": LENGTHS[name], "size": size, "groups": 3 if size else 1}
    for lanes in (False, True)[:1 if size else 2]:
        whole = check({**plain, "bucket": {**terms, "lanes": lanes}}, worlds=(2, 3, 8), threads=(3,))
        assert Counter(joined(whole)) == Counter(joined(steps_of(plain)[0]))


@pytest.mark.parametrize("name", ["files", "tar", "lines", "parquet"])
def test_a_mix_by_length(sources, name):
    child = {"source": sources[name], "shuffle": ORDERS["lanes"]}
    mix = {"mix": {"round": 10, "children": [{"weight": 2, **child}, {"weight": 1, **child}]}}
    document = {"source": mix, "batch": BATCH, "epochs": 2, "seed": 11,
                "bucket": {"field": LENGTHS[name], "size": 8, "groups": 4, "lanes": True}}
    check(document, worlds=(2, 4), threads=(2, 8))
    document["bucket"]["lanes"] = False
    check(document, worlds=(2, 4), threads=(2, 8))


# ---- Shares: who makes a sample of a step, and nothing else ----

SHARES = {"strict": "strict", "local": {"mode": "local", "ranks_per_node": 2}}


def by_step(document, world=1, rank=0, **options):
    """What a rank delivers, by epoch and step; and the state behind it."""
    found = {}
    with mrlib.Loader(document, world=world, rank=rank, **options) as loader:
        for batch in loader:
            found[batch.epoch, batch.step] = [
                (int(sample), *(np.asarray(batch[name][i]).tobytes() for name in sorted(batch)))
                for i, sample in enumerate(batch.samples)]
        return found, loader.save()


def of_world(document, world, **options):
    return [by_step(document, world, rank, threads=1 + rank % 2, **options)[0] for rank in range(world)]


def together(ranks):
    """The global batches as sets."""
    steps = {key: Counter() for rank in ranks for key in rank}
    for rank in ranks:
        for key, samples in rank.items():
            steps[key].update(samples)
    return steps


def sizes(ranks, whole):
    """Of whole batches: a short last one is shared otherwise where ranks have lanes."""
    full = [key for key in whole if whole[key].total() == BATCH]
    return [[len(rank[key]) for key in full] for rank in ranks]


def state_after(document, steps, world, rank):
    with mrlib.Loader(document, world=world, rank=rank) as loader:
        for _ in range(steps):
            next(loader)
        return loader.save()


def check_resumed(shared, whole, world):
    """All ranks have one state after the first step; from there with this world and with others."""
    first = min(whole)
    rest = {key: samples for key, samples in whole.items() if key != first}
    states = {state_after(shared, 1, world, rank) for rank in range(world)}
    state, = states
    for other in {world, 1, 3}:
        assert together(of_world(shared, other, state=state)) == rest


def check_shared(document, worlds=(1, 2, 3, 4)):
    whole = together([by_step(document)[0]])
    assert len(whole) > 2
    for name, share in SHARES.items():
        shared = {**document, "share": share}
        assert by_step(shared, threads=3) == by_step(shared, threads=1)
        for world in worlds:
            plain, ranks = of_world(document, world), of_world(shared, world)
            assert together(ranks) == whole and sizes(ranks, whole) == sizes(plain, whole)
            assert ranks == plain if name == "strict" else world < 3 or ranks != plain
            assert by_step(shared, world, world - 1, threads=8)[0] == ranks[-1]
        check_resumed(shared, whole, 2)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", ["shuffled", "lanes"])
def test_every_source_shared(sources, name, order):
    check_shared(document_of(sources[name], ORDERS[order]))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["files", "tar"])
def test_a_view_shared(sources, name, order):
    check_shared(document_of(sources[name], ORDERS[order], VIEWS["some again"]), worlds=(3, 4))


@pytest.mark.parametrize("order", ["shuffled", "lanes"])
def test_a_mix_shared(sources, order):
    child = {"shuffle": ORDERS[order]}
    mix = {"mix": {"round": 10, "children": [{"weight": 2, "source": sources["tar"], **child},
                                             {"weight": 1, "source": sources["tar"], "view": VIEWS["part"], **child}]}}
    check_shared({"source": mix, "batch": BATCH, "epochs": 2, "seed": 11}, worlds=(2, 3, 4))


@pytest.mark.parametrize("lanes", [False, True])
def test_a_bucket_shared(sources, lanes):
    bucket = {"field": LENGTHS["files"], "size": 0, "groups": 1, "lanes": lanes}
    check_shared(document_of(sources["files"], ORDERS["lanes"], bucket=bucket), worlds=(2, 3, 4))


@pytest.mark.parametrize("order", ORDERS)
def test_bad_samples_shared(tmp_path, order):
    check_shared(document_of(bad_lines(tmp_path), ORDERS[order], on_error="skip"), worlds=(2, 3, 4))


# ---- Stores ----

@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", ["in order", "lanes"])
@pytest.mark.parametrize("view", ["all", "some again"])
def test_stores_change_nothing(sources, tmp_path, name, order, view):
    document = document_of(sources[name], ORDERS[order], VIEWS[view])
    kept = {**document, "ops": [{"cache": {"path": str(tmp_path / "store")}}]}
    plain, _, _ = steps_of(document, threads=2)
    cold, warm = steps_of(kept, threads=3)[0], steps_of(kept, threads=2)[0]
    assert cold == plain and warm == plain
    assert world_of(kept, 3) == Counter(joined(plain))


@pytest.mark.parametrize("name", ["tar", "parquet"])
def test_stores_of_children_change_nothing(sources, tmp_path, name):
    def document(*ops):
        child = {"source": sources[name], "shuffle": ORDERS["lanes"], "ops": list(ops)}
        mix = {"mix": {"round": 10, "children": [{"weight": 2, **child}, {"weight": 1, **child}]}}
        return {"source": mix, "batch": BATCH, "epochs": 2, "seed": 11}

    plain = steps_of(document(), threads=2)[0]
    kept = document({"cache": {"path": str(tmp_path / "store")}})
    for threads in (3, 1):  # cold, then warm
        assert steps_of(kept, threads=threads)[0] == plain
    assert world_of(kept, 4) == Counter(joined(plain))


# ---- Bad samples in blocks ----


def bad_lines(folder):
    for k in range(3):
        rows = [f"{'x' if i % 7 == 3 else i},{i % 5}" for i in range(20 * k, 20 * k + 20)]
        (folder / f"l{k}.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    return {"lines": {"path": str(folder / "l*.csv"), "fields": ["a:int64", "b:int64"], "block_bytes": 60}}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("view", ["all", "repeat", "part"])
def test_bad_samples_in_blocks(tmp_path, order, view):
    document = document_of(bad_lines(tmp_path), ORDERS[order], VIEWS[view], on_error="skip")
    whole = check(document)
    assert not {sample for sample, *_ in joined(whole) if sample % 7 == 3}
    assert len(joined(whole)) == 2 * {"all": 60, "repeat": 120, "part": 31}[view]


# ---- Orders that workers list: many samples that need no reading ----

MANY = 70_001


def many_of(remainder, **options):
    """Numbers from 0 to 255, of which those from 250 on are bad. The batches' samples, the steps that were padded,
    what was skipped, and the digest."""
    document = {"source": {"synthetic": {"samples": MANY, "shape": [1]}}, "ops": [{"one_hot": {"classes": 250}}],
                "on_error": "skip", "batch": 1000, "epochs": 2, "seed": 4, "remainder": remainder}
    batches, valid = [], []
    with mrlib.Loader(document, digest=True, **options) as loader:
        for batch in loader:
            assert np.all(np.asarray(batch["data"]).reshape(batch.size, -1).sum(axis=1) == 1)
            batches.append(list(batch.samples))
            valid.append(batch.valid)
        return batches, valid, loader.stats()["skipped"], loader.digest()


def bad_numbers():
    with mrlib.Loader({"source": {"synthetic": {"samples": MANY, "shape": [1]}}, "batch": MANY, "shuffle": False,
                       "seed": 4}) as loader:
        return set(np.flatnonzero(np.asarray(next(loader)["data"]).reshape(-1) >= 250).tolist())


@pytest.mark.parametrize("remainder", ["keep", "pad", "drop"])
def test_bad_samples_and_padding_where_workers_list(remainder):
    batches, valid, skipped, digest = many_of(remainder, threads=1)
    bad = bad_numbers()
    assert MANY / 60 < len(bad) < MANY / 30 and skipped >= 2 * len(bad) * 0.98
    for n in (2, 3, 8):
        assert many_of(remainder, threads=n)[2:] == (skipped, digest)
    steps = len(batches) // 2
    assert steps == (70 if remainder == "drop" else 71)
    assert valid == [1000] * 70 + [1] * (remainder != "drop") + [1000] * 70 + [1] * (remainder != "drop")
    assert len(batches[steps - 1]) == (1 if remainder == "keep" else 1000)
    for epoch in (batches[:steps], batches[steps:]):
        seen = Counter(itertools.chain(*(b[:v] for b, v in zip(epoch, valid))))
        assert not bad & set(seen) and sum(times - 1 for times in seen.values()) <= len(bad)
        assert len(seen) >= MANY - len(bad) - (MANY % 1000 if remainder == "drop" else 0)
        if remainder == "pad":  # from the epoch's beginning
            assert epoch[-1][1:] == epoch[0][:999]
    for world in (2, 4):
        ranks = [many_of(remainder, world=world, rank=rank, threads=2) for rank in range(world)]
        if remainder != "keep":  # the last step of an epoch is shared as it comes
            assert [sorted(itertools.chain(*(r[0][i] for r in ranks))) for i in range(len(batches))] == \
                   [sorted(b) for b in batches]
        assert Counter(itertools.chain(*(s for r in ranks for s in r[0]))) == Counter(itertools.chain(*batches))
