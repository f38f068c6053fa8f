# SPDX-License-Identifier: Apache-2.0
"""DALI on the CPU: its own reader, decoder of random crops, resize and normalisation."""

import harness


def train(fn, types, encoded):
    images = fn.decoders.image_random_crop(
        encoded, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
    )
    images = fn.resize(
        images, size=[harness.SIZE, harness.SIZE], interp_type=types.INTERP_LINEAR, antialias=True
    )
    return images, fn.random.coin_flip()


def val(fn, types, encoded):
    images = fn.decoders.image(encoded, device="cpu")
    images = fn.resize(
        images, resize_shorter=256, interp_type=types.INTERP_LINEAR, antialias=True
    )
    return images, 0


def batches(work):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=harness.BATCH, num_threads=work.threads, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=harness.paths(work), random_shuffle=True)
        images, mirror = (train if work.workload == "train" else val)(fn, types, encoded)
        return fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            crop=[harness.SIZE, harness.SIZE],
            mean=[255 * m for m in harness.MEAN],
            std=[255 * s for s in harness.STD],
            mirror=mirror,
        )

    running = pipeline()
    running.build()

    def epoch():
        while True:
            (images,) = running.run()
            yield len(images)

    return epoch()


if __name__ == "__main__":
    harness.main(batches)
