# SPDX-License-Identifier: Apache-2.0
"""A torch Dataset whose samples are prepared once, by whichever worker of whichever job or node
comes first; all others, and all later epochs and runs, find them.

    python examples/shared_torch.py photos                        # workers and jobs of this machine
    python examples/shared_torch.py photos redis://node1:6379     # of several nodes
"""
import os
import sys
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import millrace as mr

Sample = tuple[torch.Tensor, int]


class Spectra(Dataset[Sample]):
    """Something slow, of each file below a folder: the magnitudes of its bytes' Fourier
    transform."""

    def __init__(self, folder: str, shared: mr.Shared) -> None:
        self.files = sorted(os.path.join(place, name)
                            for place, _, names in os.walk(folder) for name in names)
        self.shared = shared  # it can be forked and pickled: every worker opens its own

    def prepare(self, path: str) -> np.ndarray[Any, Any]:
        values = np.fromfile(path, np.uint8)[:4096]
        return np.abs(np.fft.rfft(values, 4096)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        path = self.files[index]
        info = os.stat(path)  # another file under the same name is another value
        key = f"{path} {info.st_size} {info.st_mtime_ns}"
        value = self.shared.get_or_make(key, lambda: self.prepare(path))
        return torch.from_numpy(value), index


def main(folder: str, fabric: str | None = None) -> None:
    shared = mr.shared({"path": "spectra", "size": "1GB"}, fabric, space="spectra v1")
    loader = DataLoader(Spectra(folder, shared), batch_size=4, num_workers=2)
    first = [batch.clone() for batch, _ in loader]
    again = [batch.clone() for batch, _ in loader]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    dataset = Spectra(folder, shared)
    for i in range(len(dataset)):
        dataset[i]
    print(f"{len(dataset)} samples, made here: {shared.stats()['made']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
