# SPDX-License-Identifier: Apache-2.0
"""stream_avalanche.py SIZE UPDATE SECONDS: samples a second that Avalanche's ReservoirSamplingBuffer takes in, in
updates of UPDATE. Samples are of 64 bytes, in memory already."""

import sys
import time

import torch
from avalanche.benchmarks.utils import _make_taskaware_tensor_classification_dataset as make
from avalanche.training.storage_policy import ReservoirSamplingBuffer

size, update, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
torch.manual_seed(1)
labels = torch.arange(update) % 10
buffer = ReservoirSamplingBuffer(max_size=size)
samples = 0


def step():
    values = torch.zeros(update, 64, dtype=torch.uint8)
    buffer.update_from_dataset(make(values, labels, task_labels=0))


for _ in range(5):
    step()
begun = time.perf_counter()
while time.perf_counter() < begun + seconds:
    step()
    samples += update
print(f"{samples / (time.perf_counter() - begun):.0f}")
