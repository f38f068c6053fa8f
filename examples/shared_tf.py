# SPDX-License-Identifier: Apache-2.0
"""tf.data with a step whose results are made once among all processes and nodes.

    python examples/shared_tf.py photos [redis://node1:6379]
"""
import os
import sys

import numpy as np
import tensorflow as tf

import millrace as mr

SIZE = 4096


def prepare(path: str) -> np.ndarray:
    values = np.fromfile(path, np.uint8)[:SIZE]
    return np.abs(np.fft.rfft(values, SIZE)).astype(np.float32)


def main(folder: str, fabric: str | None = None) -> None:
    shared = mr.shared({"path": "spectra", "size": "1GB"}, fabric, space="spectra v1")

    def look_up(path: tf.Tensor) -> np.ndarray:
        name = path.numpy().decode()
        info = os.stat(name)
        key = f"{name} {info.st_size} {info.st_mtime_ns}"
        return shared.get_or_make(key, lambda: prepare(name))

    def spectrum(path: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(look_up, [path], tf.float32), [SIZE // 2 + 1])

    files = sorted(os.path.join(place, name)
                   for place, _, names in os.walk(folder) for name in names)
    dataset = tf.data.Dataset.from_tensor_slices(files)
    dataset = dataset.map(spectrum, num_parallel_calls=2).batch(4).prefetch(2)
    for _ in range(2):
        for _ in dataset:
            pass
    print(f"{len(files)} samples, made here: {shared.stats()['made']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
