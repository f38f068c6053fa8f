# SPDX-License-Identifier: Apache-2.0
"""torch DataLoader over the rows of a mapped array. --threads is its number of workers; 0 is its
default, which loads in the program itself."""

import harness


class Rows:
    def __init__(self, path):
        import numpy as np

        self.data = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        import torch

        return torch.from_numpy(self.data[i].copy())


def batches(work):
    from torch.utils.data import DataLoader

    loader = DataLoader(
        Rows(work.data),
        harness.BATCH,
        shuffle=True,
        num_workers=work.threads,
        persistent_workers=work.threads > 0,
    )
    return harness.forever(lambda: (len(rows) for rows in loader))


if __name__ == "__main__":
    harness.main(batches)
