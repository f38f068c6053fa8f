# SPDX-License-Identifier: Apache-2.0
"""numpy alone: fancy indexing into a mapped array, one thread."""

import harness


def batches(work):
    import numpy as np

    data, rng = np.load(work.data, mmap_mode="r"), np.random.default_rng(1)

    def epoch():
        order = rng.permutation(len(data))
        for i in range(0, len(data) - harness.BATCH + 1, harness.BATCH):
            yield len(data[order[i : i + harness.BATCH]])

    return harness.forever(epoch)


if __name__ == "__main__":
    harness.main(batches)
