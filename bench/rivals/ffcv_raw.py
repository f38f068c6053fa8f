# SPDX-License-Identifier: Apache-2.0
"""FFCV in its raw mode: its own file, with the pixels of every photo (made once, not counted); nothing is decoded. A list with
more than MOST_BYTES of pixels is cut off there, and photos are made no larger than FFCV's page allows."""

import hashlib
import os

import ffcv_jpeg
import harness

MOST_BYTES = 2 << 30
LARGEST_SIDE = 2048  # of a photo: 12 MB


class Photos:
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        import cv2

        return (cv2.imread(self.names[i], cv2.IMREAD_COLOR_RGB),)


def photos_that_fit(names):
    from PIL import Image

    total = 0
    for n, name in enumerate(names):
        with Image.open(name) as image:
            total += 3 * image.width * image.height
        if total > MOST_BYTES:
            return names[: max(1, n)]
    return names


def dataset(work):
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    names = harness.paths(work)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    path = os.path.join(work.cache, f"ffcv-pixels-{key}.beton")
    if not os.path.exists(path):
        field = RGBImageField(write_mode="raw", max_resolution=LARGEST_SIDE)
        writer = DatasetWriter(path + ".part", {"image": field}, page_size=1 << 25, num_workers=2)
        writer.from_indexed_dataset(Photos(photos_that_fit(names)))
        os.rename(path + ".part", path)
    return path


def batches(work):
    """Each photo is there once; the loader is told its number several times, since it starts anew each epoch."""
    import numpy as np
    from ffcv.reader import Reader

    path = dataset(work)
    n = int(Reader(path).num_samples)
    numbers = np.tile(np.arange(n, dtype="uint64"), -(-ffcv_jpeg.EPOCH // n))
    return ffcv_jpeg.batches_of(work, path, numbers)


if __name__ == "__main__":
    harness.main(batches, prepare=dataset)
