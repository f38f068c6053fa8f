# SPDX-License-Identifier: Apache-2.0
"""Packs in tar shards, for others to read, and what this project's loader reads from them."""
import json
import os
import subprocess
import sys

import numpy as np

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "data", "photos")


def make(folder, pipeline, *more):
    """The paths of the shards."""
    document = folder / "whole.json"
    document.write_text(json.dumps(pipeline.document))
    out = folder / "pack"
    subprocess.run([sys.executable, "-m", "millrace", "pack", document, "-o", out, "--shard", "4", "--quiet", *more],
                   check=True)
    return sorted(str(path) for path in out.glob("shard-*.tar"))


def photos(folder):
    """Files as they are, with their classes."""
    return make(folder, mr.files(PHOTOS).batch(4).shuffle(False), "--upto", "source")


def arrays(folder):
    """Pixels of one size."""
    return make(folder, mr.files(PHOTOS).decode_image().resize((12, 10)).batch(4).shuffle(False))


def ours(shards):
    """Sample by sample, by the document of the pack."""
    with open(os.path.join(os.path.dirname(shards[0]), "pipeline.json"), encoding="utf-8") as text:
        pipeline = mr.Pipeline.from_json(text.read())
    with pipeline.shuffle(False).batch(4).loader(epochs=1) as loader:
        return [{name: np.array(value[i]) for name, value in batch.items()}
                for batch in loader for i in range(batch.valid)]


def columns(folder):
    """A table's numbers, lists and texts."""
    import tables
    tables.write(folder / "a.parquet")
    names = ["int64", "float32", "dense", "ragged", "text"]
    return make(folder, mr.parquet(str(folder / "a.parquet"), columns=names).batch(4).shuffle(False))
