# SPDX-License-Identifier: Apache-2.0
"""torch DataLoader over an LMDB file of photos that were decoded and resized to 256 x 256 beforehand
(not counted): a random crop of 224, flip, normalise."""

import hashlib
import os
import random

import harness


def dataset(work):
    import cv2
    import lmdb

    names = harness.paths(work)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    path = os.path.join(work.cache, f"lmdb-{key}")
    if not os.path.exists(path):
        env = lmdb.open(path + ".part", map_size=1 << 34)
        with env.begin(write=True) as txn:
            for i, name in enumerate(names):
                image = cv2.resize(cv2.imread(name, cv2.IMREAD_COLOR_RGB), (256, 256))
                txn.put(b"%d" % i, image.tobytes())
        env.close()
        os.rename(path + ".part", path)
    return path, len(names)


class Photos:
    def __init__(self, work):
        self.path, self.n = dataset(work)
        self.env = None

    def __len__(self):
        return 1 << 24

    def __getitem__(self, i):
        import lmdb
        import numpy as np

        if self.env is None:  # one per worker
            self.env = lmdb.open(self.path, readonly=True, lock=False, readahead=False)
            self.scale = np.float32([1 / (255 * s) for s in harness.STD])
            self.shift = np.float32([-m / s for m, s in zip(harness.MEAN, harness.STD)])
        rng = random.Random(i)
        with self.env.begin(buffers=True) as txn:
            value = txn.get(b"%d" % rng.randrange(self.n))
            image = np.frombuffer(value, np.uint8).reshape(256, 256, 3)
            x, y = rng.randint(0, 256 - harness.SIZE), rng.randint(0, 256 - harness.SIZE)
            pixels = image[y : y + harness.SIZE, x : x + harness.SIZE]
            pixels = pixels[:, ::-1] if rng.random() < 0.5 else pixels
            return np.ascontiguousarray((pixels * self.scale + self.shift).transpose(2, 0, 1))


def batches(work):
    from torch.utils.data import DataLoader, SequentialSampler

    photos = Photos(work)
    loader = DataLoader(
        photos, harness.BATCH, sampler=SequentialSampler(photos), num_workers=work.threads
    )
    return (len(images) for images in loader)


if __name__ == "__main__":
    harness.main(batches, prepare=dataset)
