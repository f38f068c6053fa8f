# SPDX-License-Identifier: Apache-2.0
"""An external source of NVIDIA DALI whose samples are made once among all processes and nodes.

    python examples/shared_dali.py photos [redis://node1:6379]

DALI's parallel external source pickles the callable to its worker processes; each opens its own
connection to store and fabric.
"""
import os
import sys

import numpy as np

import millrace as mr

SIZE = 4096


class Spectra:
    """What fn.external_source calls for each sample: sample_info says which."""

    def __init__(self, folder: str, batch: int, shared: mr.Shared) -> None:
        self.files = sorted(os.path.join(place, name)
                            for place, _, names in os.walk(folder) for name in names)
        self.batch = batch
        self.shared = shared

    def __call__(self, sample_info):
        if sample_info.iteration >= len(self.files) // self.batch:
            raise StopIteration
        path = self.files[sample_info.idx_in_epoch]
        info = os.stat(path)
        key = f"{path} {info.st_size} {info.st_mtime_ns}"
        return self.shared.get_or_make(key, lambda: self.prepare(path))

    def prepare(self, path: str) -> np.ndarray:
        values = np.fromfile(path, np.uint8)[:SIZE]
        return np.abs(np.fft.rfft(values, SIZE)).astype(np.float32)


def main(folder: str, fabric: str | None = None) -> None:
    from nvidia.dali import fn, pipeline_def, types

    shared = mr.shared({"path": "spectra", "size": "1GB"}, fabric, space="spectra v1")
    source = Spectra(folder, 4, shared)

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=2,
                  py_start_method="spawn")
    def spectra():
        return fn.external_source(source=source, batch=False, parallel=True, dtype=types.FLOAT)

    pipeline = spectra()
    pipeline.build()
    for _ in range(len(source.files) // 4):
        pipeline.run()
    print(f"{len(source.files)} samples")


if __name__ == "__main__":
    main(*sys.argv[1:])
