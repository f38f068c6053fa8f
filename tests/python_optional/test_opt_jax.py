# SPDX-License-Identifier: Apache-2.0
"""jax: batches without a copy, as trees."""
import gc
import os

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import millrace as mr  # noqa: E402

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def photos():
    return mr.files(PHOTOS).decode_image().center_crop(16).normalize().batch(5).shuffle(False)


def test_arrays_share_the_batchs_memory():
    with photos().loader(to="jax") as loader:
        batch = next(loader)
    raw = np.asarray(batch._raw.fields()["image"])
    assert batch["image"].unsafe_buffer_pointer() == raw.ctypes.data
    assert batch["image"].shape == (5, 3, 16, 16) and batch["image"].dtype == np.float32
    with photos().loader() as loader:
        plain = next(loader)
    assert (np.asarray(batch["image"]) == plain["image"]).all()
    assert batch["label"].tolist() == plain["label"].tolist()


def test_arrays_outlive_everything():
    loader = photos().loader(to="jax")
    image = next(loader)["image"]
    before = np.asarray(image).copy()
    loader.close()
    del loader
    gc.collect()
    for _ in range(5):
        with photos().loader(to="jax") as other:
            list(other)
    assert (np.asarray(image) == before).all()


def test_batches_are_trees():
    with photos().loader(to="jax") as loader:
        batch = next(loader)
    doubled = jax.jit(lambda b: jax.tree.map(lambda x: x * 2, b))(batch)
    assert (np.asarray(doubled["label"]) == 2 * np.asarray(batch["label"])).all()
    with mr.files(PHOTOS).batch(4).loader(to="jax") as loader:
        ragged = next(loader)["image"]
    assert len(jax.tree.leaves(ragged)) == 3 and len(ragged[0]) > 0


def test_bfloat16():
    pipeline = mr.files(PHOTOS).decode_image().center_crop(4).normalize(dtype="bfloat16").batch(4)
    with pipeline.loader(to="jax") as loader:
        assert next(loader)["image"].dtype == jax.numpy.bfloat16


def test_ragged_fields_are_padded():
    rows = [{"x": np.arange(i % 3 + 1, dtype=np.float32)} for i in range(4)]
    with mr.dataset(rows, {"x": ("float32", (None,))}).shuffle(False).batch(4).loader(to="jax") as loader:
        values, mask = next(loader)["x"].to_padded(-1)
    assert isinstance(values, jax.Array) and isinstance(mask, jax.Array)
    assert values.tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, -1, -1]]
    assert mask.tolist() == [[v >= 0 for v in row] for row in values.tolist()]


def test_columns_of_parquet(tmp_path):
    """Lists of one length are arrays, those that vary are ragged; whole numbers of 64 bits are what jax has."""
    pytest.importorskip("pyarrow")
    import tables
    columns = tables.write(tmp_path / "a.parquet")
    seen = []
    with mr.parquet(tmp_path / "a.parquet").batch(8).loader(to="jax", seed=3, threads=2, epochs=1) as loader:
        for batch in loader:
            rows = np.asarray(batch.samples)[:batch.valid].tolist()
            seen += rows
            for name in (*tables.NUMBERS, "dense"):
                got = batch[name]
                assert isinstance(got, jax.Array) and got.dtype == jax.numpy.asarray(columns[name][:1]).dtype
                assert (np.asarray(got)[:batch.valid] == columns[name][rows]).all(), name
            for name in ("ragged", "text"):
                for part, row in zip(batch[name], rows):
                    assert isinstance(part, jax.Array) and part.tolist() == columns[name][row].tolist()
    assert sorted(seen) == list(range(tables.ROWS))
