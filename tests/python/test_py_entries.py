# SPDX-License-Identifier: Apache-2.0
"""What entries of a stream can be besides bytes: JSON with a schema that is checked, and arrays with a header."""
import io
import json
import time

import numpy as np
import pytest

import millrace as mr
from millrace import streams

SCHEMA = ["price: float32", "pixels: uint8[2,3]", "tokens: int32[]", "title: string", "good: bool",
          "label: int64", "exact: float64", "far: int64[2]"]


def entry(i, **changes):
    random = np.random.default_rng(i)
    values = {"price": float(random.normal()), "pixels": random.integers(0, 256, (2, 3)).tolist(),
              "tokens": random.integers(-2**31, 2**31, i % 5).tolist(), "title": f"Straße {i} \u2603",
              "good": bool(i % 3), "label": i % 7, "exact": float(random.normal()),
              "far": [2**63 - 1 - i, -2**63 + i], "not wanted": [None, {}]}
    return {**values, **changes}


def write(folder, entries, partitions=1):
    for p in range(partitions):
        with streams.Writer(folder, p, sync="never") as stream:
            for value in entries[p::partitions]:
                stream.append(value if isinstance(value, bytes) else json.dumps(value).encode(), key="k")


def test_members_are_fields(tmp_path):
    write(tmp_path / "s", [entry(i) for i in range(100)], 2)
    pipeline = mr.segments(str(tmp_path / "s"), follow=True, until=50, schema=SCHEMA).batch(10)
    n = 0
    for batch in pipeline.loader():
        for row in range(len(batch.samples)):
            want = entry(n)
            assert batch["price"][row] == np.float32(want["price"]) and batch["exact"][row] == want["exact"]
            assert batch["price"].dtype == np.float32 and batch["good"][row] == want["good"]
            assert np.array_equal(batch["pixels"][row], np.array(want["pixels"], np.uint8))
            assert list(batch["tokens"][row]) == want["tokens"]
            assert bytes(batch["title"][row]).decode() == want["title"]
            assert list(batch["far"][row]) == want["far"] and batch["label"][row] == want["label"]
            n += 1
    assert n == 100


@pytest.mark.skipif(not hasattr(mr, "redis_stream"), reason="this build has no hiredis")
def test_members_of_entries_in_redis_are_fields(redis, say):
    """As in segments; a bad one is named by its id, or skipped."""
    for i in range(60):
        value = b"[]" if i == 33 else json.dumps(entry(i)).encode()
        assert say("XADD", f"clicks{i % 2}", f"{i + 1}-0", "value", value).startswith(b"$")
    source = mr.redis_stream(url=redis, keys=["clicks0", "clicks1"], until=30, schema=SCHEMA).batch(10)
    with pytest.raises(Exception, match="34-0"):
        list(source.loader())
    seen = []
    with source.on_error("skip").loader() as loader:
        for batch in loader:
            assert batch["tokens"][0].dtype == np.int32 and batch["pixels"].shape[1:] == (2, 3)
            for row in range(len(batch.samples)):
                number = int(bytes(batch["title"][row]).decode().split()[1])
                want = entry(number)
                assert batch["exact"][row] == want["exact"] and list(batch["tokens"][row]) == want["tokens"]
                seen.append(number)
        assert [str(skip) for skip in loader.skips()][0].count("34-0") == 1 and len(loader.skips()) == 1
    assert set(seen) == set(range(60)) - {33} and len(seen) == 60  # another one in its place
    assert seen[:33] == list(range(33)) and seen[34:] == list(range(34, 60))


WRONG = [
    (b"{", "it is no JSON"),
    (b"[1]", "it is a list, not an object"),
    (b"\xff\xfe", "it is no JSON"),
    (entry(0, price="much"), "the member price is a string, not float32"),
    (entry(0, price=None), "the member price is null, not float32"),
    (entry(0, pixels=[[1, 2, 3]]), "the member pixels has a list of 1, not 2"),
    (entry(0, pixels=[[1, 2, 3], [1, 2]]), "the member pixels has a list of 2, not 3"),
    (entry(0, pixels=[[1, 2, 3], [1, 2, 256]]), "pixels has a number that does not fit, not uint8"),
    (entry(0, tokens=[2**31]), "tokens has a number that does not fit, not int32"),
    (entry(0, tokens=[1.5]), "the member tokens is a number, not int32"),
    (entry(0, tokens=7), "the member tokens is a number, not a list"),
    (entry(0, good=1), "the member good is a number, not bool"),
    (entry(0, title=5), "the member title is a number, not a string"),
    (entry(0, label=1.5), "the member label is a number, not a whole number"),
    ({"price": 1}, "the member pixels is missing"),
]


@pytest.mark.parametrize("wrong, why", WRONG)
def test_a_bad_entry_ends_the_run(tmp_path, wrong, why):
    write(tmp_path / "s", [entry(0), entry(1), wrong, entry(3)])
    pipeline = mr.segments(str(tmp_path / "s"), follow=True, until=4, schema=SCHEMA).batch(4)
    with pytest.raises(Exception) as caught:
        list(pipeline.loader())
    assert why in str(caught.value) and "partition 0, entry 2" in str(caught.value)


def test_bad_entries_are_skipped_and_listed(tmp_path):
    entries = [entry(i) for i in range(64)]
    for i in (5, 20, 41):
        entries[i] = {"price": 1}
    write(tmp_path / "s", entries, 2)
    pipeline = (mr.segments(str(tmp_path / "s"), follow=True, until=32, schema=SCHEMA).batch(16).on_error("skip")
                .rehearse(size=30, share=0.5))
    with pipeline.loader() as loader:
        seen = np.concatenate([batch.samples[batch["is_replay"] == 0] for batch in loader])
        skips = [str(skip) for skip in loader.skips()]
    assert not {5, 20, 41} & set(seen) and len(set(seen)) == 61
    assert len(skips) == 3 and all("the member pixels is missing" in skip for skip in skips)
    assert any("partition 1, entry 2" in skip for skip in skips)
    assert any("partition 0, entry 10" in skip for skip in skips)


def test_bad_entries_at_the_end_of_a_spill_hold_nothing_up(tmp_path):
    write(tmp_path / "s", [{"n": i, "text": "x" * 500} for i in range(2007)] + [b"{"] * 3)
    pipeline = (mr.segments(str(tmp_path / "s"), follow=True, until=2010, schema=["n: int64"]).batch(10)
                .on_error("skip").pace(early="spill", spill=str(tmp_path / "spill"), spill_bytes=10**7))
    with pipeline.loader(threads=1, batches_ahead=2, read_ahead_bytes=20000) as loader:
        while loader.stream()["spilled"] + loader.stream()["entries"] < 2007:
            time.sleep(0.001)
        seen = [n for batch in loader for n in batch["n"].tolist()]
        skips = loader.skips()
    assert seen[:2007] == list(range(2007)) and len(seen) == 2010 and len(skips) == 3


@pytest.mark.parametrize("schema, why", [
    (["price float32"], "no name and type"), (["price: float"], "no type"), (["a: int32[0]"], "no type"),
    (["a: int32[2"], "no type"), (["a: int32[2,]"], "no type"), (["a: string[3]"], "no type"),
    (["value: int32"], "field of this name"), (["a: int32", "a: int64"], "twice"), (["label: int32"], "int64"),
    (["label: int64"], "besides the label"), ([": int32"], "no name"), (["a: int32[1,1,1,1,1,1,1,1,1,1]"], "no type"),
])
def test_schemas_that_make_no_sense(tmp_path, schema, why):
    write(tmp_path / "s", [entry(0)])
    with pytest.raises(Exception, match=why):
        mr.segments(str(tmp_path / "s"), follow=True, schema=schema)


def test_another_schema_is_another_stream(tmp_path):
    write(tmp_path / "s", [entry(i) for i in range(8)])
    make = lambda schema: mr.segments(str(tmp_path / "s"), follow=True, until=8, schema=schema).batch(4)
    with make(["price: float32"]).loader() as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pytest.raises(Exception, match="state|fingerprint|fit"):
        make(["exact: float64"]).loader(state=state)


def test_arrays_with_a_header(tmp_path):
    """What numpy.save writes; a bad one is skipped and listed."""
    arrays = [np.random.default_rng(i).normal(size=(i % 4, 3)).astype(np.float32) for i in range(24)]
    with streams.Writer(tmp_path / "s") as stream:
        for i, array in enumerate(arrays):
            stream.append_array(array.astype(np.float64) if i == 9 else array, label=i)
    pipeline = (mr.segments(str(tmp_path / "s"), follow=True, until=24).decode_npy("float32", [-1, 3]).batch(8)
                .on_error("skip"))
    with pipeline.loader() as loader:
        for batch in loader:
            for row, sample in enumerate(batch.samples):
                assert np.array_equal(batch["value"][row], arrays[sample]) and sample != 9
        skips = [str(skip) for skip in loader.skips()]
    assert len(skips) == 1 and "entry 9" in skips[0] and "float64" in skips[0]
    buffer = io.BytesIO()
    np.save(buffer, arrays[5])
    with streams.Writer(tmp_path / "t") as stream:
        stream.append(buffer.getvalue())
        stream.append_array(arrays[5])
    values = [bytes(b["value"].values) for b in mr.segments(str(tmp_path / "t")).batch(1).loader(epochs=1)]
    assert values[0] == values[1]
