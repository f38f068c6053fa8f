# SPDX-License-Identifier: Apache-2.0
"""stream_millrace.py SIZE NEW BYTES ENTRIES: samples a second that a loader takes in from a stream of ENTRIES entries of
BYTES, and that it delivers: batches of NEW new ones and as many from a reservoir of SIZE. The stream is in files."""

import sys
import tempfile
import time

import millrace as mr
from millrace import streams

size, new, room, entries = map(int, sys.argv[1:5])
with tempfile.TemporaryDirectory() as folder:
    with streams.Writer(folder + "/s") as writer:
        for i in range(entries):
            writer.append(bytes(room), label=i % 10)
    pipeline = mr.segments(folder + "/s", follow=True, until=entries).rehearse(size=size, share=0.5).batch(2 * new)
    delivered = 0
    with pipeline.loader() as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        begun = time.perf_counter()
        for batch in batches:
            delivered += len(batch["label"])
        taken = time.perf_counter() - begun
print(f"{(entries - 5 * new) / taken:.0f} {delivered / taken:.0f}")
