# SPDX-License-Identifier: Apache-2.0
"""Packs as WebDataset and Hugging Face's datasets read them: what our own loader reads, byte for byte."""
import os

import numpy as np
import pytest

import packs


@pytest.fixture
def wds():
    return pytest.importorskip("webdataset", reason="webdataset is not installed")


def by_datasets(shards, **features):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.load_dataset("webdataset", data_files=shards, split="train", streaming=True)
    for name, kind in features.items():
        rows = rows.cast_column(name, kind(datasets))
    return list(rows)


def test_webdataset_reads_files_as_they_are(tmp_path, wds):
    shards = packs.photos(tmp_path)
    ours, theirs = packs.ours(shards), list(wds.WebDataset(shards, shardshuffle=False))
    assert len(ours) == len(theirs) == 10
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert {name for name in b if name[:2] != "__"} == {"jpg", "cls"} and b["__key__"] == f"{i:09}"
        assert b["jpg"] == a["image"].tobytes() and b["cls"] == str(a["label"]).encode()
        assert os.path.samefile(b["__url__"], shards[i // 4])


def test_webdataset_decodes_arrays(tmp_path, wds):
    shards = packs.arrays(tmp_path)
    ours, theirs = packs.ours(shards), list(wds.WebDataset(shards, shardshuffle=False).decode())
    assert len(ours) == len(theirs) == 10
    for a, b in zip(ours, theirs):
        assert b["npy"].dtype == np.uint8 and b["npy"].shape == (12, 10, 3)
        assert np.array_equal(a["image"], b["npy"]) and a["label"] == b["cls"]


def test_webdataset_decodes_columns(tmp_path, wds):
    """Fields of one kind have their names before it; texts are as they were."""
    shards = packs.columns(tmp_path)
    ours, theirs = packs.ours(shards), list(wds.WebDataset(shards, shardshuffle=False).decode())
    assert len(ours) == len(theirs) == 50
    for a, b in zip(ours, theirs):
        assert b["cls"] == a["int64"] and b["txt"].encode() == a["text"].tobytes()
        for name, member in (("float32", "npy"), ("dense", "dense.npy"), ("ragged", "ragged.npy")):
            assert b[member].dtype == np.float32 and np.array_equal(a[name], b[member])


def test_webdatasets_workers_have_each_sample_once(tmp_path, wds):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    shards = packs.arrays(tmp_path)
    rows = wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("__key__", "cls")
    loaded = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2)
    assert sorted(key for key, _ in loaded) == [f"{i:09}" for i in range(10)]


def test_datasets_reads_files_as_they_are(tmp_path):
    shards = packs.photos(tmp_path)
    ours, theirs = packs.ours(shards), by_datasets(shards, jpg=lambda d: d.Image(decode=False))
    assert len(ours) == len(theirs) == 10
    for a, b in zip(ours, theirs):
        assert b["jpg"]["bytes"] == a["image"].tobytes() and b["cls"] == a["label"]


def test_datasets_reads_arrays(tmp_path):
    shards = packs.arrays(tmp_path)
    ours, theirs = packs.ours(shards), by_datasets(shards)
    assert len(ours) == len(theirs) == 10
    for a, b in zip(ours, theirs):
        assert np.array_equal(a["image"], b["npy"]) and a["label"] == b["cls"]
