# SPDX-License-Identifier: Apache-2.0
"""stream_reverb.py SIZE SECONDS [insert]: samples of 4 KB a second out of a Reverb table of SIZE, as batches of 128 of
its dataset; with "insert" a thread of the server's process adds new ones meanwhile, as many as it can."""

import sys
import threading
import time

import numpy as np
import reverb
import tensorflow as tf

size, seconds, inserts = int(sys.argv[1]), float(sys.argv[2]), "insert" in sys.argv[3:]
signature = tf.TensorSpec((1, 4096), tf.uint8)
server = reverb.Server([reverb.Table("t", reverb.selectors.Uniform(), reverb.selectors.Fifo(), size,
                                     reverb.rate_limiters.MinSize(1), signature=signature)])
client = reverb.Client(f"localhost:{server.port}")
value = np.arange(4096).astype(np.uint8)
stopping = threading.Event()
inserted = 0


def insert(n):
    global inserted
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        while inserted < n and not stopping.is_set():
            writer.append(value)
            writer.create_item("t", 1.0, writer.history[-1:])
            inserted += 1
            if inserted % 1000 == 0:
                writer.flush()


insert(size)
dataset = reverb.TrajectoryDataset.from_table_signature(client.server_address, "t", max_in_flight_samples_per_worker=256)
batches = iter(dataset.batch(128).prefetch(4))
for _ in range(20):
    next(batches)
thread = threading.Thread(target=insert, args=(10**9,))
if inserts:
    thread.start()
before, samples, begun = inserted, 0, time.perf_counter()
while time.perf_counter() < begun + seconds:
    samples += next(batches).data.shape[0]
taken = time.perf_counter() - begun
stopping.set()
print(f"{samples / taken:.0f} {(inserted - before) / taken:.0f}")
if inserts:
    thread.join()
