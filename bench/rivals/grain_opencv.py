# SPDX-License-Identifier: Apache-2.0
"""Grain with OpenCV, in threads: OpenCV lets go of the interpreter while it works."""

import random

import harness
import opencv


def batches(work):
    import grain

    load = opencv.loader(work.workload)
    data = (
        grain.MapDataset.source(harness.paths(work))
        .seed(1)
        .shuffle()
        .repeat()
        .random_map(lambda path, rng: load(path, random.Random(int(rng.integers(1 << 62)))))
        .to_iter_dataset(grain.ReadOptions(num_threads=work.threads, prefetch_buffer_size=256))
        .batch(harness.BATCH)
    )
    return (len(images) for images in data)


if __name__ == "__main__":
    harness.main(batches)
