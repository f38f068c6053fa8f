# SPDX-License-Identifier: Apache-2.0
"""One photo through OpenCV, for the loaders that leave that to their users."""

import harness


def loader(workload):
    """A function (path, rng) -> float32 array of 3 planes."""
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    scale = np.float32([1 / (255 * s) for s in harness.STD])
    shift = np.float32([-m / s for m, s in zip(harness.MEAN, harness.STD)])

    def finish(pixels):
        return np.ascontiguousarray((pixels * scale + shift).transpose(2, 0, 1))

    def train(path, rng):
        image = cv2.imread(path, cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
        x, y, w, h = harness.crop_box(image.shape[1], image.shape[0], rng)
        pixels = cv2.resize(image[y : y + h, x : x + w], (harness.SIZE, harness.SIZE))
        return finish(cv2.flip(pixels, 1) if rng.random() < 0.5 else pixels)

    def val(path, _):
        image = cv2.imread(path, cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
        height, width = image.shape[:2]
        short = min(height, width)
        image = cv2.resize(image, (round(width * 256 / short), round(height * 256 / short)))
        y, x = (image.shape[0] - harness.SIZE) // 2, (image.shape[1] - harness.SIZE) // 2
        return finish(image[y : y + harness.SIZE, x : x + harness.SIZE])

    return train if workload == "train" else val
