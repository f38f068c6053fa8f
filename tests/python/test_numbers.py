# SPDX-License-Identifier: Apache-2.0
"""The ops on numbers, words and signals against numpy and xxhash, bit for bit."""
import base64
import io

import numpy as np
import pytest
import xxhash
from hypothesis import given, strategies as st

from mrlib import CODES, MrError, apply

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30, 3.4e38, -3.4e38, 1e-45]


def numbers(dtype, n=500, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)
    with np.errstate(over="ignore"):
        return np.concatenate([values, SPECIAL]).astype(dtype)


def equal(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=True)


def refused(code, op, params, array, part=""):
    with pytest.raises(MrError) as caught:
        apply(op, params, array)
    assert caught.value.code == CODES[code], caught.value
    assert part in caught.value.text + caught.value.hint


def url(data):
    return "data:;base64," + base64.b64encode(data).decode()


FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@FLOATS
def test_clip(dtype):
    x = numbers(dtype)
    equal(apply("clip", {"low": -0.1, "high": 2.5}, x),
          np.clip(x, dtype(-0.1), dtype(2.5)))
    refused("PARAM", "clip", {"low": 1, "high": 0}, x)
    refused("TYPE", "clip", {"low": 0, "high": 1}, np.zeros(3, np.int64), "cast")


@FLOATS
def test_fill_null(dtype):
    x = numbers(dtype)
    equal(apply("fill_null", {"value": 7.1}, x), np.where(np.isnan(x), dtype(7.1), x))


@FLOATS
def test_standardize(dtype):
    x = numbers(dtype)[:510].reshape(170, 3)
    mean, std = [0.1, -5, 3e5], [1.1, 0.3, 7]
    with np.errstate(all="ignore"):
        equal(apply("standardize", {"mean": mean, "std": std}, x),
              (x - np.array(mean, dtype)) / np.array(std, dtype))
        equal(apply("standardize", {"mean": 0.1, "std": std}, x),
              (x - dtype(0.1)) / np.array(std, dtype))
    refused("TYPE", "standardize", {"mean": [1, 2], "std": 1}, x, "2 columns")
    refused("PARAM", "standardize", {"mean": 0, "std": 0}, x)


def test_standardize_takes_as_many_columns_as_tables_have():
    x = numbers(np.float32)[:390].reshape(30, 13)
    mean, std = np.arange(13) / 7, 1 + np.arange(13) / 3
    with np.errstate(all="ignore"):
        want = (x - mean.astype(np.float32)) / std.astype(np.float32)
    equal(apply("standardize", {"mean": mean.tolist(), "std": std.tolist()}, x), want)


def test_standardize_pixels():
    x = np.arange(256, dtype=np.uint8).reshape(8, 32)
    equal(apply("standardize", {"mean": 127.5, "std": 127.5}, x),
          (x.astype(np.float32) - np.float32(127.5)) / np.float32(127.5))


def test_log1p():
    x = np.concatenate([numbers(np.float32), np.linspace(-0.999, 50, 5000)]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.log1p(x.astype(np.float64)).astype(np.float32)
    got = apply("log1p", {}, x)
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
    assert np.count_nonzero(got != want) - np.count_nonzero(np.isnan(want)) <= 2
    np.testing.assert_array_max_ulp(got[finite], want[finite], 1)
    wide = np.abs(x[finite].astype(np.float64))
    np.testing.assert_array_max_ulp(apply("log1p", {}, wide), np.log1p(wide), 4)
    equal(apply("log1p", {}, np.arange(5)), np.log1p(np.arange(5.0)).astype(np.float32))


def test_bucketize():
    x = np.concatenate([numbers(np.float64), [-4, -1.5, 0, 2, 2.0000001]])
    bounds = [-4, -1.5, 0, 2]
    for right in (False, True):
        got = apply("bucketize", {"boundaries": bounds, "right": right}, x)
        equal(got, np.searchsorted(bounds, x, "right" if right else "left").astype(np.int64))
    equal(apply("bucketize", {"boundaries": [-3, 2]}, np.arange(-5, 5, dtype=np.int16)),
          np.searchsorted([-3, 2], np.arange(-5, 5)).astype(np.int64))
    refused("PARAM", "bucketize", {"boundaries": [1, 1]}, x, "rise")


def test_one_hot():
    x = np.array([[3, 0], [9, 1]], np.int32)
    for dtype in ("float32", "uint8", "int64"):
        equal(apply("one_hot", {"classes": 10, "dtype": dtype}, x), np.eye(10, dtype=dtype)[x])
    for bad in (-1, 10):
        refused("CORRUPT", "one_hot", {"classes": 10}, np.array([1, bad]), f"is {bad}")


@given(st.binary(max_size=300), st.integers(0, 2 ** 50))
def test_hash_bucket_of_a_word(word, seed):
    got = apply("hash_bucket", {"buckets": 1009, "seed": seed}, word)
    assert got.shape == () and int(got) == xxhash.xxh3_64_intdigest(word, seed) % 1009


def test_hash_bucket_of_tables():
    words = np.array([b"a", b"", b"abcdefgh", b"ab\0c"], "S8")
    table = words.view(np.uint8).reshape(4, 8)
    want = [xxhash.xxh3_64_intdigest(w) % 97 for w in words.tolist()]
    equal(apply("hash_bucket", {"buckets": 97}, table), np.array(want))
    ids = np.array([-5, 0, 2 ** 40])
    want = [xxhash.xxh3_64_intdigest(int(i).to_bytes(8, "little", signed=True)) % 97 for i in ids]
    equal(apply("hash_bucket", {"buckets": 97}, ids), np.array(want))


def test_vocabulary(tmp_path):
    words = [f"word{i}" for i in range(1000)] + ["é", "last"]
    path = tmp_path / "words.txt"
    path.write_bytes("\r\n".join(words).encode())
    table = np.array([w.encode() for w in words[::7] + ["none", "word1000"]], "S12")
    got = apply("vocabulary", {"file": str(path), "unknown": -9},
                table.view(np.uint8).reshape(-1, 12))
    equal(got, np.array(list(range(0, 1002, 7)) + [-9, -9]))
    assert int(apply("vocabulary", {"file": str(path)}, "é".encode())) == 1000
    digest = xxhash.xxh3_128_hexdigest(path.read_bytes())
    assert int(apply("vocabulary", {"file": str(path), "digest": digest}, b"last")) == 1001
    path.write_bytes(b"other\n")
    refused("STATE", "vocabulary", {"file": str(path), "digest": digest}, b"last", digest)
    refused("PARAM", "vocabulary", {"file": url(b"a\nb\na\n")}, b"a", "lines 1 and 3")
    refused("NOT_FOUND", "vocabulary", {"file": str(tmp_path / "absent")}, b"a")


def test_embedding_lookup(tmp_path):
    table = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
    path = tmp_path / "table.npy"
    np.save(path, table)
    ids = np.array([[3, 49], [0, 3]], np.int32)
    equal(apply("embedding_lookup", {"table": str(path)}, ids), table[ids])
    equal(apply("embedding_lookup", {"table": str(path), "width": 7}, ids), table[ids])
    refused("CORRUPT", "embedding_lookup", {"table": str(path)}, np.array([50]), "50 rows")
    refused("PARAM", "embedding_lookup", {"table": str(path), "width": 6}, ids)
    half = io.BytesIO()
    np.save(half, table.astype(np.float16))
    refused("PARAM", "embedding_lookup", {"table": url(half.getvalue())}, ids, "dtype")
    equal(apply("embedding_lookup", {"table": url(half.getvalue()), "dtype": "float16"}, ids),
          table.astype(np.float16)[ids])


def test_slice():
    x = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    equal(apply("slice", {"start": 1, "length": 2}, x), x[1:3])
    equal(apply("slice", {"start": -4, "step": 3, "axis": 1}, x), x[:, -4::3])
    equal(apply("slice", {"start": 1, "length": 3, "step": 2, "axis": -1}, x), x[:, :, 1:7:2])
    equal(apply("slice", {"start": 5}, x), x[5:])
    refused("TYPE", "slice", {"start": 4, "length": 2}, x, "too few")
    refused("TYPE", "slice", {"start": -6}, x)


@pytest.mark.parametrize("period", [128, 5, 100, 129, 1000])
def test_power(period):
    rng = np.random.default_rng(period)
    u, i = rng.standard_normal((2, 4000)) * [[325], [9]]
    n = 4000 // period
    a, b = u[:n * period].reshape(n, period), i[:n * period].reshape(n, period)
    active = np.mean(a * b, axis=1)
    volts, amps = np.sqrt(np.mean(a * a, axis=1)), np.sqrt(np.mean(b * b, axis=1))
    apparent = volts * amps
    reactive = np.sqrt(np.maximum(apparent * apparent - active * active, 0))
    names = ["active", "reactive", "apparent", "rms_voltage", "rms_current"]
    got = apply("power", {"period": period, "outputs": names}, np.stack([u, i]))
    equal(got, np.stack([active, reactive, apparent, volts, amps]))
    equal(apply("power", {"period": period}, np.stack([u, i])), np.stack([active, reactive, amps]))


def test_power_of_equal_signals_has_no_reactive_part():
    for level in (0.1, 0.2, 0.7, 3.3, 1e5):
        x = np.ones((2, 256)) * level
        reactive = apply("power", {"outputs": "reactive"}, x)
        assert np.all(reactive <= 1e-7 * level * level) and np.all(reactive >= 0)
    refused("PARAM", "power", {"outputs": "rms"}, x, "rms_current")
    refused("TYPE", "power", {}, np.ones((3, 256)))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 128, 129, 500, 5000])
def test_cusum(n):
    x = np.random.default_rng(n).standard_normal((3, n))
    equal(apply("cusum", {}, x), np.cumsum(x - x.mean(axis=1, keepdims=True), axis=1))
    one = apply("cusum", {"rows": 1}, x)
    equal(one[[0, 2]], x[[0, 2]])
    equal(one[1], np.cumsum(x[1] - x[1].mean()))


def unit(seed, draw):
    """What the law draws, from the library: test_ops.py checks the generator itself."""
    import mrlib
    return mrlib.lib().mr_draw_unit(mrlib.Key(seed=seed), draw)


def test_random_crop_time():
    x = np.arange(100, dtype=np.float32).reshape(50, 2)
    starts = set()
    for seed in range(200):
        got = apply("random_crop_time", {"length": 47}, x, seed=seed)
        start = int(got[0, 0]) // 2
        equal(got, x[start:start + 47])
        assert start == int(unit(seed, 0) * 4)
        starts.add(start)
    assert starts == {0, 1, 2, 3}
    equal(apply("random_crop_time", {"length": 4, "axis": 1, "pad_if_needed": True}, x),
          np.pad(x, ((0, 0), (0, 2))))
    refused("TYPE", "random_crop_time", {"length": 51}, x, "pad_if_needed")


@pytest.mark.parametrize("op,axis", [("time_mask", 1), ("frequency_mask", 0)])
def test_masks(op, axis):
    x = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)
    for seed in range(50):
        want = x.copy()
        side = x.shape[axis]
        for k in range(2):
            width = unit(seed, 2 * k) * min(25, int(side * 0.5))
            start = int(unit(seed, 2 * k + 1) * (side - width))
            want[(slice(None),) * axis + (slice(start, start + int(width)),)] = -3
        got = apply(op, {"width": 25, "masks": 2, "share": 0.5, "value": -3}, x, seed=seed)
        equal(got, want)
