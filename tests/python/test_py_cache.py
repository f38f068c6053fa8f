# SPDX-License-Identifier: Apache-2.0
"""The store of prepared samples: the same bytes with and without it, what may be kept, statistics."""
import inspect
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")

pytestmark = pytest.mark.skipif(not hasattr(mr.Pipeline, "cache"),
                                reason="this build has no store")


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "millrace" / "store"


@pytest.fixture
def photos(tmp_path):
    shutil.copytree(PHOTOS, tmp_path / "photos")
    settle()
    return tmp_path / "photos"


def settle():
    """Files younger than this cannot be told from changed ones."""
    time.sleep(0.1)


def prefix(folder):
    return mr.files(folder).decode_image().resize((24, 20))


def rest(pipeline):
    return pipeline.random_crop(16).random_flip().batch(4).seed(1)


def run(pipeline, **options):
    """Digest and caches of a run."""
    with pipeline.loader(digest=True, **{"epochs": 1, **options}) as loader:
        for _ in loader.all_epochs():
            pass
        loader.flush()
        return loader.digest(), loader.stats()["caches"]


def figures(cache):
    return cache["hits"], cache["misses"], cache["stored"]


# ---- The same bytes -------------------------------------------------------------------------------


def test_digest_is_the_same_off_cold_warm_and_half_warm(photos, own_store):
    off, none = run(rest(prefix(photos)), epochs=3)
    assert none == []
    cached = rest(prefix(photos).cache("64MB"))
    with cached.loader(batch=5, epochs=1) as loader:
        next(loader)
        loader.flush()
        half = loader.stats()["caches"][0]["stored"]
    assert 5 <= half <= 10
    digest, (cache,) = run(cached, epochs=3)
    assert digest == off
    assert cache["stored"] == 10 - half and cache["hits"] + cache["misses"] == 30
    digest, (cache,) = run(cached, epochs=3)
    assert digest == off and figures(cache) == (30, 0, 0)
    shutil.rmtree(own_store)
    digest, (cache,) = run(cached, epochs=3)
    assert digest == off and cache["stored"] == 10 and cache["hits"] >= 20


def test_digest_is_the_same_while_evicting(photos, tmp_path):
    """Stores that hold a part of what is asked for, by pipelines that take turns."""
    # 40 x 60 KB do not fit into 1 MB.
    def wide(value):
        data = np.arange(40 * 60000, dtype=np.int64).astype(np.uint8).reshape(40, 60000) + value
        return mr.dataset(data.astype(np.uint8), version=f"v{value}").batch(8).seed(2)
    path = tmp_path / "small"
    evicted = refused = 0
    for turn in range(3):
        for value in (0, 7):
            plain = wide(value)
            off, _ = run(plain, epochs=3)
            digest, (cache,) = run(plain.cache("1MB", path), epochs=3)
            assert digest == off
            evicted, refused = evicted + cache["evicted"], refused + cache["refused"]
    assert evicted > 0 and refused > 0
    assert sum(f.stat().st_blocks * 512 for f in path.iterdir()) < 2_000_000


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_digest_is_the_same_compressed(photos, compression):
    off, _ = run(rest(prefix(photos)))
    cached = rest(prefix(photos).cache("64MB", compression=compression))
    assert run(cached)[0] == off
    digest, (cache,) = run(cached)
    assert digest == off and cache["hits"] == 10


def test_two_caches(photos):
    off, _ = run(rest(prefix(photos)))
    both = rest(mr.files(photos).cache("64MB").decode_image().resize((24, 20)).cache("64MB"))
    digest, (raw, ready) = run(both)
    assert digest == off
    assert (raw["after"], ready["after"]) == ("files", "resize")
    assert (raw["misses"], ready["misses"], ready["stored"]) == (10, 10, 20)
    other = mr.files(photos).cache("64MB").decode_image().resize((10, 10)).cache("64MB").batch(4)
    (raw, ready) = run(other)[1]
    assert (raw["hits"], raw["misses"], ready["misses"]) == (10, 0, 10)


def test_damage_is_noticed_and_made_again(tmp_path, caplog):
    texts = [f"needle-{i} and its thread" for i in range(6)]
    folder, path = tmp_path / "texts", tmp_path / "store"
    folder.mkdir()
    for i, text in enumerate(texts):
        (folder / f"{i}.txt").write_text(text)
    settle()
    pipeline = mr.files(folder, extensions=[".txt"]).batch(3)
    off, _ = run(pipeline)
    cached = pipeline.cache("8MB", path)
    assert run(cached)[0] == off
    file, = path.glob("*.seg")
    content = file.read_bytes()
    assert b"needle-3 " in content
    file.write_bytes(content.replace(b"needle-3 ", b"noodle-3 "))
    with caplog.at_level(logging.WARNING, logger="millrace"):
        digest, (cache,) = run(cached)
    assert digest == off
    assert cache["hits"] == 5 and cache["misses"] == 1
    assert cache["damaged"] == 1 and cache["stored"] == 1  # one damaged value costs one value
    assert len([r for r in caplog.records if "damaged" in r.getMessage()]) == 1


# ---- What shares entries, and what does not -------------------------------------------------------


def test_pipelines_that_begin_alike_share_entries(photos):
    run(rest(prefix(photos).cache("64MB")))
    other = prefix(photos).cache("64MB").normalize().batch(3).seed(9)
    assert figures(run(other)[1][0]) == (10, 0, 0)
    different = mr.files(photos).decode_image().resize((24, 21)).cache("64MB").batch(3)
    assert figures(run(different)[1][0]) == (0, 10, 10)


def test_a_changed_file_is_made_again(photos):
    cached = rest(prefix(photos).cache("64MB"))
    before, _ = run(cached)
    shutil.copyfile(photos / "cat" / "1.jpg", photos / "cat" / "2.jpg")
    settle()
    digest, (cache,) = run(cached)
    assert digest != before and digest == run(rest(prefix(photos)))[0]
    assert figures(cache) == (9, 1, 1)


def test_a_change_of_the_same_size_and_time_is_seen(tmp_path):
    """Whoever sets the time of change back does not set the file system's own."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_text("before")
    settle()
    pipeline = mr.files(folder, extensions=[".txt"]).batch(4)
    cached = pipeline.cache("8MB")
    before, _ = run(cached)
    stat = (folder / "2.txt").stat()
    (folder / "2.txt").write_text("behind")
    os.utime(folder / "2.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    settle()
    digest, (cache,) = run(cached)
    assert digest == run(pipeline)[0] != before
    assert figures(cache) == (3, 1, 1)


SHARER = """
import sys, json
import millrace as mr
folder = sys.argv[1]
pipeline = mr.files(folder).decode_image().resize((24, 20)).cache("64MB").random_crop(16).batch(4)
with pipeline.loader(epochs=20, digest=True) as loader:
    for _ in loader.all_epochs():
        pass
    loader.flush()
    print(json.dumps([loader.digest(), loader.stats()["caches"][0]]))
"""


def test_processes_share_the_work(photos):
    """Each sample is made once, by whichever process comes first."""
    started = [subprocess.Popen([sys.executable, "-c", SHARER, str(photos)],
                                stdout=subprocess.PIPE) for _ in range(4)]
    results = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    assert len({digest for digest, _ in results}) == 1
    assert sum(cache["stored"] for _, cache in results) == 10
    assert all(cache["hits"] + cache["misses"] == 200 for _, cache in results)


# ---- What may be kept -----------------------------------------------------------------------------


def test_a_random_op_before_a_cache_is_named(photos):
    with pytest.raises(ValueError, match="comes after random_crop, which is random"):
        mr.files(photos).decode_image().random_crop(16).random_flip().cache()


def double(sample):
    sample["image"] = sample["image"].astype(np.int32) * 2
    return sample


def noisy(sample, rng):
    sample["image"] = sample["image"] + rng.integers(0, 2, dtype=np.uint8)
    return sample


def test_a_function_needs_a_version(photos):
    with pytest.raises(ValueError, match="after map, which is a function.*nobody can see") as e:
        prefix(photos).map(double).cache()
    assert "version=" in str(e.value)
    with pytest.raises(ValueError, match="comes after map, which is random"):
        prefix(photos).map(noisy, version="1").cache()
    off, _ = run(prefix(photos).map(double).batch(4))
    first = prefix(photos).map(double, version="1").cache("64MB").batch(4)
    assert run(first)[0] == off
    assert figures(run(first)[1][0]) == (10, 0, 0)
    second = prefix(photos).map(double, version=2).cache("64MB").batch(4)
    assert first.fingerprint != second.fingerprint
    assert figures(run(second)[1][0]) == (0, 10, 10)


def test_functions_with_and_without_version_in_one_pipeline(photos):
    pipeline = prefix(photos).map(double, version="1").cache("64MB").map(double).batch(4)
    off, _ = run(prefix(photos).map(double).map(double).batch(4))
    assert run(pipeline)[0] == off
    digest, (cache,) = run(pipeline)
    assert digest == off and figures(cache) == (10, 0, 0)
    with pytest.raises(ValueError, match="comes after map"):
        pipeline.cache()


def test_trying_a_function_keeps_nothing(photos, own_store):
    calls = []

    def count(sample):
        calls.append(1)
        return sample
    prefix(photos).cache().map(count)
    mr.files(photos).auto_cache().decode_image().resize((24, 20)).map(count)
    assert calls and not own_store.exists()


def test_a_version_survives_the_document(photos):
    pipeline = prefix(photos).map(double, version="x").cache("64MB").batch(4)
    name = f"{__name__}:double"
    assert pipeline.document["ops"][2]["map"] == {"function": name, "version": "x"}
    again = mr.Pipeline.from_json(pipeline.to_json(), functions={name: double})
    assert again.fingerprint == pipeline.fingerprint
    run(pipeline)
    assert figures(run(again)[1][0]) == (10, 0, 0)


def test_a_dataset_needs_a_version():
    data = np.arange(600, dtype=np.int32).reshape(20, 30)
    with pytest.raises(ValueError, match="source dataset cannot be told apart") as e:
        mr.dataset(data).cache()
    assert "version=" in str(e.value)
    off, _ = run(mr.dataset(data).batch(4))
    cached = mr.dataset(data, version="v1").cache("64MB").batch(4)
    assert run(cached)[0] == off
    digest, (cache,) = run(cached)
    assert digest == off and figures(cache) == (20, 0, 0)
    # The version is what says whether it is the same: the content is not looked at.
    stale = mr.dataset(data + 1, version="v1").cache("64MB").batch(4)
    assert run(stale)[0] == off
    fresh = mr.dataset(data + 1, version="v2").cache("64MB").batch(4)
    digest, (cache,) = run(fresh)
    assert digest == run(mr.dataset(data + 1).batch(4))[0] != off
    assert figures(cache) == (0, 20, 20)


def test_fields_of_a_dataset_are_all_kept():
    samples = [{"x": np.full(i % 4, i, np.float32), "y": i} for i in range(12)]
    plain = mr.dataset(samples, {"x": ("float32", (None,)), "y": ("int64", ())}, version="1").batch(5)
    off, _ = run(plain)
    run(plain.cache("64MB"))
    digest, (cache,) = run(plain.cache("64MB"))
    assert digest == off and cache["hits"] == 12


# ---- Placement ------------------------------------------------------------------------------------


def test_auto_cache_comes_before_the_first_random_op(photos):
    pipeline = rest(prefix(photos)).auto_cache(size="64MB")
    names = [next(iter(op)) for op in json.loads(pipeline.to_json())["ops"]]
    assert names == ["decode_image", "resize", "cache", "random_crop", "random_flip"]
    assert run(pipeline)[0] == run(rest(prefix(photos)))[0]
    assert run(pipeline)[1][0]["hits"] == 10


def test_auto_cache_comes_before_a_function_without_a_version(photos):
    def names(pipeline):
        return [next(iter(op)) for op in json.loads(pipeline.to_json())["ops"]]
    start = mr.files(photos).decode_image().resize((24, 20))
    assert names(start.auto_cache().map(double)) == ["decode_image", "resize", "cache", "map"]
    assert names(start.auto_cache().map(double, version="1")) == \
        ["decode_image", "resize", "map", "cache"]
    assert names(start.auto_cache().map(noisy, version="1")) == \
        ["decode_image", "resize", "cache", "map"]


def test_auto_cache_goes_through_documents(photos):
    for pipeline, shown in ((prefix(photos).auto_cache(), "auto"),
                            (prefix(photos).auto_cache(size="1GB"), {"size": "1GB"})):
        assert pipeline.document["cache"] == shown
        again = mr.Pipeline.from_json(str(pipeline))
        assert again == pipeline and str(again) == str(pipeline)
    with pytest.raises(ValueError, match=r"\$.cache.sise"):
        prefix(photos).auto_cache(sise="1GB")


def test_a_cache_is_no_part_of_the_fingerprint(photos):
    assert rest(prefix(photos)).fingerprint == rest(prefix(photos).cache()).fingerprint
    with rest(prefix(photos)).loader() as loader:
        next(loader)
        state = loader.state_dict()
    with rest(prefix(photos).cache("64MB")).loader(state=state) as loader:
        next(loader)


# ---- The rest -------------------------------------------------------------------------------------


def test_the_memory_tier_is_gone_after_the_last_loader(photos):
    folder = f"/dev/shm/millrace-test-{os.getpid()}"
    cached = rest(prefix(photos).cache("64MB", folder, tier="memory"))
    off, _ = run(rest(prefix(photos)))
    with cached.loader(digest=True, epochs=1) as first:
        for _ in first:
            pass
        assert first.digest() == off
        assert os.path.isdir(folder)
        digest, (cache,) = run(cached)  # another loader beside it
        assert digest == off and cache["hits"] == 10
    assert not os.path.exists(folder)
    assert figures(run(cached)[1][0]) == (0, 10, 10)
    assert not os.path.exists(folder)


def test_stats(photos, own_store):
    with rest(prefix(photos).cache("64MB")).loader(epochs=1) as loader:
        for _ in loader:
            pass
        loader.flush()
        (cache,) = loader.stats()["caches"]
    assert cache == {"after": "resize", "stage": 3, "path": str(own_store), "kept": "samples", "hits": 0,
                     "misses": 10, "waits": 0, "bytes_read": 0, "stored": 10,
                     "bytes_stored": cache["bytes_stored"], "evicted": 0, "refused": 0,
                     "damaged": 0}
    assert cache["bytes_stored"] >= 10 * 24 * 20 * 3
    with pytest.raises(ValueError, match="closed"):
        loader.flush()


def test_a_store_that_cannot_be_opened_is_logged(photos, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cached = rest(prefix(photos).cache("64MB", tmp_path / "file"))
    with caplog.at_level(logging.WARNING, logger="millrace"):
        digest, (cache,) = run(cached)
    assert digest == run(rest(prefix(photos)))[0]
    assert cache["path"] is None and cache["hits"] == cache["misses"] == 0
    assert ["no store" in r.getMessage() for r in caplog.records] == [True]


def test_warm_then_run_has_only_hits(photos, tmp_path):
    command = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")
    cached = rest(prefix(photos).cache("64MB"))
    document = tmp_path / "p.json"
    document.write_text(str(cached))
    subprocess.run([command, "cache", "warm", document], check=True, stdout=subprocess.DEVNULL)
    digest, (cache,) = run(cached, epochs=2)
    assert digest == run(rest(prefix(photos)), epochs=2)[0]
    assert figures(cache) == (20, 0, 0)


def test_the_method_comes_from_the_table():
    signature = inspect.signature(mr.Pipeline.cache)
    assert list(signature.parameters) == ["self", "size", "path", "tier", "compression", "group",
                                          "keep", "field"]
    assert signature.parameters["size"].default == "20GB"
    assert "Everything before it must be deterministic" in mr.Pipeline.cache.__doc__


@pytest.mark.parametrize("kind", ["parquet", "hdf5"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_of_blocks_are_kept_whole(kind, shuffle, tmp_path):
    """All columns, not the first alone: whoever finds a row in the store has no block to fill the others from."""
    columns = {"a": np.arange(60), "b": np.arange(60) * 2.5}
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        texts = {"s": [f"row {i}" for i in range(60)]}
        parquet.write_table(arrow.table({**columns, **texts}), path, row_group_size=8)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file.create_dataset(name, data=values, chunks=(8,), compression="gzip")
    settle()
    plain = getattr(mr, kind)(str(path)).shuffle(shuffle).batch(7).seed(1)
    kept = getattr(mr, kind)(str(path)).cache("20MB").shuffle(shuffle).batch(7).seed(1)
    wanted = run(plain, epochs=2)[0]
    assert run(kept, epochs=2)[0] == wanted
    digest, caches = run(kept, epochs=2)
    assert digest == wanted
    assert caches[0]["hits"] == 120


@pytest.mark.parametrize("shuffle", [False, True, {"window": 2, "lanes": 1}])
def test_shards(tmp_path, shuffle):
    """Photos in tar shards: decoded once; those of a shard that is written anew are made again."""
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(PHOTOS)
                   for name in names)

    def write(shard, own):
        with tarfile.open(tmp_path / f"s{shard}.tar", "w") as tar:
            for name in own:
                tar.add(name, f"{os.path.basename(name).split('.')[0]}.jpg")
    half = len(files) // 2
    write(0, files[:half])
    write(1, files[half:])

    def made(cached):
        pipeline = mr.tar(str(tmp_path / "s{0..1}.tar"), block_bytes=20000).decode_image()
        pipeline = pipeline.resize((24, 20))
        pipeline = (pipeline.cache() if cached else pipeline).batch(4).shuffle(shuffle).seed(1)
        digest, caches = run(pipeline)
        return digest, [c["hits"] for c in caches]
    settle()
    plain = made(False)[0]
    assert made(True)[0] == plain
    assert made(True) == (plain, [len(files)])
    write(1, files[half:][::-1])
    settle()
    digest, hits = made(True)
    assert digest == made(False)[0] != plain and hits == [half]
