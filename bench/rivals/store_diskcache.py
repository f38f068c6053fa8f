# SPDX-License-Identifier: Apache-2.0
"""diskcache.FanoutCache: reading values (values BYTES FOLDER), and a cache of decoded photos that
several processes share (trial LIST FOLDER). One JSON line is printed."""

import json
import random
import statistics
import sys
import time

import diskcache

TOTAL = 64 << 20


def values(size, folder):
    cache = diskcache.FanoutCache(folder, shards=8, size_limit=1 << 34)
    n = TOTAL // size
    for i in range(n):
        cache.set(i, bytes([i & 255]) * size)
    order, times = list(range(n)), []
    random.Random(1).shuffle(order)
    for _ in range(5):
        start = time.perf_counter()
        for i in order:
            cache.get(i)
        times.append((time.perf_counter() - start) / n * 1e6)
    return {"bytes": size, "diskcache": statistics.median(times[1:])}


def trial(names, folder):
    import cv2

    cv2.setNumThreads(1)
    cache = diskcache.FanoutCache(folder, shards=8, size_limit=1 << 34)
    start, decoded = time.monotonic(), 0
    for name in names:
        if cache.get(name) is None:
            decoded += 1
            image = cv2.resize(cv2.imread(name, cv2.IMREAD_COLOR_RGB), (256, 256))
            cache.set(name, image.tobytes())
    return {"decoded": decoded, "seconds": time.monotonic() - start}


if __name__ == "__main__":
    if sys.argv[1] == "values":
        print(json.dumps(values(int(sys.argv[2]), sys.argv[3])))
    else:
        with open(sys.argv[2], encoding="utf-8") as lines:
            names = [line.rstrip("\n") for line in lines]
        random.Random(1).shuffle(names)
        print(json.dumps(trial(names, sys.argv[3])))
