# SPDX-License-Identifier: Apache-2.0
"""FFCV in its raw mode: photos decoded and resized to 256 x 256 beforehand (not counted), then a
random crop of 224, flip, normalise."""

import hashlib
import os

import harness

EPOCH = 1024


class Photos:
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return -(-EPOCH // len(self.names)) * len(self.names)

    def __getitem__(self, i):
        import cv2

        image = cv2.imread(self.names[i % len(self.names)], cv2.IMREAD_COLOR_RGB)
        return (cv2.resize(image, (256, 256)),)


def dataset(work):
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    names = harness.paths(work)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    path = os.path.join(work.cache, f"ffcv-raw-{key}.beton")
    if not os.path.exists(path):
        field = RGBImageField(write_mode="raw")
        writer = DatasetWriter(path + ".part", {"image": field}, page_size=1 << 25, num_workers=2)
        writer.from_indexed_dataset(Photos(names))
        os.rename(path + ".part", path)
    return path


def batches(work):
    import numpy as np
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    mean, std = (np.array([255 * x for x in of]) for of in (harness.MEAN, harness.STD))
    share = (harness.SIZE / 256) ** 2  # a box of exactly 224 x 224, anywhere
    crop = RandomResizedCropRGBImageDecoder(
        (harness.SIZE, harness.SIZE), scale=(share, share), ratio=(1, 1)
    )
    loader = Loader(
        dataset(work),
        batch_size=harness.BATCH,
        num_workers=work.threads,
        order=OrderOption.RANDOM,
        drop_last=True,
        os_cache=True,
        pipelines={
            "image": [
                crop,
                RandomHorizontalFlip(),
                NormalizeImage(mean, std, np.float32),
                ToTensor(),
                ToTorchImage(convert_back_int16=False),
            ]
        },
    )
    return harness.forever(lambda: (len(images) for (images,) in loader))


if __name__ == "__main__":
    harness.main(batches, prepare=dataset)
