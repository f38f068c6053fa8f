# SPDX-License-Identifier: Apache-2.0
"""Shared values from Python: what comes back is what was made, by whomever it was made, once."""
import importlib.util
import multiprocessing
import os
import pickle
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

import millrace as mr
from millrace._shared import decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() |
    st.binary(), lambda inner: st.lists(inner) | st.lists(inner).map(tuple) |
    st.dictionaries(st.text() | st.integers(), inner), max_leaves=12)


@pytest.fixture
def store(tmp_path):
    return {"path": str(tmp_path / "store"), "size": "50MB"}


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    back = decode(encode(value))
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize("value", [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((0, 3)), np.array(7), np.float16(1.5),
    np.array(["a", "bc"]), np.array([True, False]), np.arange(5, dtype=">i4"),
    np.datetime64("2020-01-01")])
def test_arrays_come_back_as_they_were(value):
    back = decode(encode({"x": value}))["x"]
    assert type(back) is type(value) and back.dtype == value.dtype
    assert np.array_equal(back, value)
    if isinstance(back, np.ndarray):
        assert back.flags.writeable


def test_what_cannot_be_kept_is_told(store):
    with mr.shared(store) as shared:
        with pytest.raises(TypeError, match="allow_pickle=True"):
            shared.put("a", {1, 2})
        with pytest.raises(TypeError, match="allow_pickle=True"):
            shared.get_or_make("a", lambda: np.array([object()]))
        with pytest.raises(TypeError, match="a key is text or bytes, not int"):
            shared.get(1)
        assert shared.get("a") is None and shared.get("a", 5) == 5


def test_pickles_are_read_only_where_allowed(store):
    with mr.shared(store, allow_pickle=True) as shared:
        assert shared.get_or_make("a", lambda: {1, 2}) == {1, 2}
        shared.close()
        assert shared.get("a") == {1, 2}
    with mr.shared(store) as careful:
        with pytest.raises(ValueError, match="allow_pickle=True would unpickle it"):
            careful.get("a")


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_damaged_bytes_are_a_value_error(tail, at, byte):
    good = bytearray(encode((1, "a", np.arange(3), b"xyz", {"k": [2.5]})))
    good[at % len(good)] = byte
    for data in (bytes(good), b"MRV1" + tail, tail):
        try:
            decode(data)
        except ValueError:
            pass


def test_wrong_parameters_are_told_at_once():
    with pytest.raises(ValueError, match="sise"):
        mr.shared({"sise": 1})
    with pytest.raises(Exception, match="redis://"):
        mr.shared(fabric="http://example")


def test_an_exception_comes_through_and_nobody_waits_for_it(store):
    with mr.shared(store) as shared:
        with pytest.raises(KeyError, match="day"):
            shared.get_or_make("a", lambda: {}["day"])
        assert shared.get_or_make("a", lambda: 3) == 3
        assert shared.get_or_make("a", lambda: 4) == 3
        assert shared.stats()["made"] == 1


def make_slowly(folder, key):
    time.sleep(0.002)
    with open(os.path.join(folder, "made"), "a") as file:
        file.write(f"{key}\n")
    return {"key": key, "values": np.full(100, key)}


def use(shared, folder):
    for key in range(20):
        value = shared.get_or_make(f"k{key}", lambda: make_slowly(folder, key))
        assert value["key"] == key and (value["values"] == key).all()


def made(folder):
    return sorted(int(line) for line in open(os.path.join(folder, "made")))


def test_threads_make_each_value_once(store, tmp_path):
    with mr.shared(store) as shared:
        threads = [threading.Thread(target=use, args=(shared, tmp_path)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert made(tmp_path) == list(range(20))


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_make_each_value_once(store, tmp_path, how):
    context = multiprocessing.get_context(how)
    with mr.shared(store) as shared:
        shared.put("before", 1)
        processes = [context.Process(target=use, args=(shared, tmp_path)) for _ in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
        assert shared.get("before") == 1
    assert made(tmp_path) == list(range(20))


def test_nodes_make_each_value_once(redis, tmp_path):
    """Two stores are two nodes."""
    context = multiprocessing.get_context("spawn")
    nodes = [mr.shared({"path": str(tmp_path / name), "size": "50MB"}, redis, timeout=60)
             for name in "ab"]
    processes = [context.Process(target=use, args=(node, tmp_path)) for node in nodes]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert made(tmp_path) == list(range(20))
    with mr.shared(fabric=redis, timeout=60) as third:
        use(third, tmp_path)
        assert third.stats() == {"from_store": 0, "from_fabric": 20, "made": 0, "waits": 0,
                                 "kept": 0, "trouble": ""}


def test_the_callable_for_dali_gives_each_sample_once(store, tmp_path):
    """What DALI would call; it needs no DALI itself."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "shared_dali.py")
    spec = importlib.util.spec_from_file_location("shared_dali", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for i in range(8):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{i}").write_bytes(bytes([i + 1]) * 5000)
    with mr.shared(store) as shared:
        source = example.Spectra(str(tmp_path / "data"), 4, shared)
        for _ in range(2):
            infos = [SimpleNamespace(iteration=i // 4, idx_in_epoch=i) for i in range(8)]
            values = [source(info) for info in infos]
            assert all(v[0] == 4096 * (i + 1) for i, v in enumerate(values))
        with pytest.raises(StopIteration):
            source(SimpleNamespace(iteration=2, idx_in_epoch=8))
        assert shared.stats()["made"] == 8


def test_it_can_be_pickled(store):
    shared = mr.shared(store)
    shared.put("a", 1)
    again = pickle.loads(pickle.dumps(shared))
    assert again.get("a") == 1
    again.close()
    shared.close()


# ---- Loaders with a fabric ----------------------------------------------------------------------

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def digest_of(**options):
    pipeline = mr.files(PHOTOS).decode_image().random_resized_crop(16).remainder("pad").batch(4)
    with pipeline.loader(seed=3, epochs=2, digest=True, **options) as loader:
        for _ in loader.all_epochs():
            pass
        loader.flush()
        return loader.digest(), loader.stats()


def undisturbed(redis, use):
    """What use(url) gives, in a database of its own, once the server answered in time throughout: on a
    busy machine it may not, and then what it has is read and made here."""
    for database in range(16):
        result, runs = use(f"{redis}/{database}")
        if all(run["fabric"]["failures"] == run["fabric"]["dropped"] == 0 for run in runs):
            break
    return result


def test_a_loader_takes_what_another_one_read(redis):
    without, plain = digest_of()
    assert plain["fabric"] is None and [o["name"] for o in plain["origins"]] == ["files"]

    def cold_and_warm(url):
        (cold, first), (warm, second) = digest_of(fabric=url), digest_of(fabric=url)
        assert without == cold == warm
        return (first, second), (first, second)
    first, second = undisturbed(redis, cold_and_warm)
    assert first["fabric"]["kept"] > 0 and first["bytes_read"] > 0
    assert second["bytes_read"] == 0
    assert second["origins"] == [
        {"name": "fabric", "asked": 24, "found": 24, "bytes": plain["bytes_read"]},
        {"name": "files", "asked": 0, "found": 0, "bytes": 0}]


def test_ranks_of_different_worlds_share_what_is_warm(redis):
    def all_ranks(url):
        runs = [digest_of(fabric=url)[1]]
        for world in (2, 4):
            runs += [digest_of(fabric=url, rank=rank, world=world)[1] for rank in range(world)]
        return [run["bytes_read"] for run in runs[1:]], runs
    assert undisturbed(redis, all_ranks) == [0] * 6


def test_a_fabric_that_is_not_there_changes_nothing(caplog):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{free.getsockname()[1]}"
    digest, _ = digest_of(fabric=url)
    assert digest == digest_of()[0]
    assert [r.message for r in caplog.records if "the fabric: 127.0.0.1" in r.message]


def test_a_wrong_url_is_told():
    with pytest.raises(Exception, match="redis://"):
        digest_of(fabric="nfs://server")
