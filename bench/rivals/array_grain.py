# SPDX-License-Identifier: Apache-2.0
"""Grain over the rows of a mapped array, in threads."""

import harness


def batches(work):
    import grain
    import numpy as np

    data = (
        grain.MapDataset.source(np.load(work.data, mmap_mode="r"))
        .seed(1)
        .shuffle()
        .repeat()
        .batch(harness.BATCH)
        .to_iter_dataset(grain.ReadOptions(num_threads=work.threads, prefetch_buffer_size=4))
    )
    return (len(rows) for rows in data)


if __name__ == "__main__":
    harness.main(batches)
