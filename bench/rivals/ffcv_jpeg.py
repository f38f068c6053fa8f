# SPDX-License-Identifier: Apache-2.0
"""FFCV in its jpg mode: its own file, for which every photo was encoded anew at quality 90 (made
once, not counted)."""

import hashlib
import os

import harness

EPOCH = 1024  # the list is repeated up to here: its loader starts anew each epoch


class Photos:
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return -(-EPOCH // len(self.names)) * len(self.names)

    def __getitem__(self, i):
        import cv2

        return (cv2.imread(self.names[i % len(self.names)], cv2.IMREAD_COLOR_RGB),)


def dataset(work):
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    names = harness.paths(work)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    path = os.path.join(work.cache, f"ffcv-{key}.beton")
    if not os.path.exists(path):
        field = RGBImageField(write_mode="jpg", jpeg_quality=90)
        writer = DatasetWriter(path + ".part", {"image": field}, page_size=1 << 25, num_workers=2)
        writer.from_indexed_dataset(Photos(names))
        os.rename(path + ".part", path)
    return path


def batches(work):
    return batches_of(work, dataset(work))


def batches_of(work, path, indices=None):
    import numpy as np
    from ffcv.fields.rgb_image import (
        CenterCropRGBImageDecoder,
        RandomResizedCropRGBImageDecoder,
    )
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    mean, std = (np.array([255 * x for x in of]) for of in (harness.MEAN, harness.STD))
    size = (harness.SIZE, harness.SIZE)
    if work.workload == "train":
        head = [RandomResizedCropRGBImageDecoder(size), RandomHorizontalFlip()]
    else:
        head = [CenterCropRGBImageDecoder(size, ratio=harness.SIZE / 256)]
    tail = [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(convert_back_int16=False)]
    loader = Loader(
        path,
        batch_size=harness.BATCH,
        num_workers=work.threads,
        indices=indices,
        order=OrderOption.RANDOM,
        drop_last=True,
        os_cache=True,
        pipelines={"image": head + tail},
    )
    return harness.forever(lambda: (len(images) for (images,) in loader))


if __name__ == "__main__":
    harness.main(batches, prepare=dataset)
