# SPDX-License-Identifier: Apache-2.0
"""SPDL: its pipeline of threads, FFmpeg's decoder and filters for crop, resize and flip, then numpy
for the normalisation of a batch."""

import random

import harness


def filters(width, height, workload, rng):
    if workload == "train":
        x, y, w, h = harness.crop_box(width, height, rng)
        flip = "hflip," if rng.random() < 0.5 else ""
    else:
        (x, y, w, h), flip = map(int, harness.center_box(width, height)), ""
    size = f"{harness.SIZE}:{harness.SIZE}"
    return f"crop={w}:{h}:{x}:{y}:exact=1,scale={size}:flags=bilinear,{flip}format=pix_fmts=rgb24"


def batches(work):
    import numpy as np
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    names = harness.paths(work)
    scale = np.float32([1 / (255 * s) for s in harness.STD])
    shift = np.float32([-m / s for m, s in zip(harness.MEAN, harness.STD)])

    def order():
        rng = random.Random(1)
        while True:
            yield rng.choice(names), rng.getrandbits(32)

    def decode(item):
        path, seed = item
        packets = spdl.io.demux_image(path)
        chain = filters(packets.width, packets.height, work.workload, random.Random(seed))
        return spdl.io.decode_packets(packets, filter_desc=chain)

    def finish(frames):
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return np.ascontiguousarray((pixels * scale + shift).transpose(0, 3, 1, 2))

    pipeline = (
        PipelineBuilder()
        .add_source(order())
        .pipe(decode, concurrency=work.threads, output_order="input")
        .aggregate(harness.BATCH)
        .pipe(finish)
        .add_sink(2)
        .build(num_threads=work.threads)
    )
    pipeline.start()
    return (len(images) for images in pipeline)


if __name__ == "__main__":
    harness.main(batches)
