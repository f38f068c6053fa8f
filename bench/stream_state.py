# SPDX-License-Identifier: Apache-2.0
"""stream_state.py [SAMPLES...]: how long a program waits for state_dict() while it follows a stream, against a step of
the loader, with so many samples in the rehearsal buffer (20,000 and 200,000). Entries are of 64 bytes, batches of
128, half of them shown again: steps as short as they get. A state is taken after every tenth step, and the steps
between say what a step is. Medians; states are let go as by programs that write them down."""

import statistics
import sys
import tempfile
import time

import millrace as mr
from millrace import streams


def measure(size, rounds=50):
    with tempfile.TemporaryDirectory() as folder:
        with streams.Writer(folder + "/s") as writer:
            for i in range(size + 64 * 10 * (rounds + 20)):
                writer.append(bytes(64), label=i % 10)
        loader = mr.segments(folder + "/s", follow=True).rehearse(size=size, share=0.5).batch(128).loader()
        batches = iter(loader)
        while loader.stream()["kept"] < size:
            next(batches)
        steps, saves = [], []
        for _ in range(rounds):
            for _ in range(9):
                begun = time.perf_counter()
                next(batches)
                steps.append(time.perf_counter() - begun)
            next(batches)
            begun = time.perf_counter()
            state = loader.state_dict()
            saves.append(time.perf_counter() - begun)
        letters = len(state["rehearsal"])
        loader.close()
    step, save = statistics.median(steps), statistics.median(saves)
    print(f"{size} samples: state_dict {1e3 * save:.3f} ms ({letters / 1e6:.2f} MB), a step {1e3 * step:.3f} ms "
          f"(mean {1e3 * statistics.mean(steps):.3f}): {save / step:.2f} of it")


for given in sys.argv[1:] or (20000, 200000):
    measure(int(given))
