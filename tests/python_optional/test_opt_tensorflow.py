# SPDX-License-Identifier: Apache-2.0
"""A loader as a tf.data.Dataset, where TensorFlow is installed: its own program, since TensorFlow and
torch in one process take each other's libraries."""
import os
import subprocess
import sys

import pytest

PHOTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "data", "photos")
PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
import millrace as mr

def pipeline():
    return mr.files(sys.argv[1]).decode_image().random_resized_crop(8).normalize().batch(4)

want = [{k: np.array(v) for k, v in b.items()} for b in pipeline().loader(seed=1, epochs=2).all_epochs()]
dataset = pipeline().loader(seed=1).as_tf_dataset()
assert dataset.element_spec["image"].shape.as_list() == [None, 3, 8, 8]
got = [b for _ in range(2) for b in dataset.prefetch(2)]
assert len(got) == len(want) == 6
for a, b in zip(got, want):
    assert all((a[k].numpy() == b[k]).all() for k in b)
files = mr.files(sys.argv[1]).shuffle(False).fields(["path", "label"]).batch(10)
batch = next(iter(files.loader().as_tf_dataset()))
assert bytes(batch["path"][0].numpy()).decode().startswith("cat/")
for bad, wrong in ((mr.files(sys.argv[1]).decode_image().batch(4).loader(), TypeError),
                   (pipeline().map_batch(dict).loader(), ValueError)):
    try:
        bad.as_tf_dataset()
    except wrong:
        continue
    raise SystemExit("not refused")
"""


def test_as_tf_dataset():
    found = subprocess.run([sys.executable, "-c", "import tensorflow"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("tensorflow is not installed")
    out = subprocess.run([sys.executable, "-c", PROGRAM, PHOTOS], capture_output=True, text=True,
                         check=False)
    assert out.returncode == 0, out.stderr[-3000:]
