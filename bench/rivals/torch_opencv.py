# SPDX-License-Identifier: Apache-2.0
"""torch DataLoader with OpenCV: decode, crop, resize, flip and normalise by hand."""

import random

import harness
import opencv


class Photos:
    def __init__(self, work):
        self.paths = harness.paths(work)
        self.load = opencv.loader(work.workload)

    def __len__(self):
        return 1 << 24

    def __getitem__(self, i):
        return self.load(self.paths[i % len(self.paths)], random.Random(i)), 0


def batches(work):
    from torch.utils.data import DataLoader, SequentialSampler

    photos = Photos(work)
    loader = DataLoader(
        photos, harness.BATCH, sampler=SequentialSampler(photos), num_workers=work.threads
    )
    return (len(images) for images, _ in loader)


if __name__ == "__main__":
    harness.main(batches)
