# SPDX-License-Identifier: Apache-2.0
"""rand_augment, trivial_augment and auto_augment against Pillow, with the changes and magnitudes that
torchvision defines and the draws that the ops' docs state."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageEnhance, ImageOps

from test_ops import Draws, KEYS, both, equal, from_pil, noise, refused, to_pil
from test_ops_warp import CHANNELS, FILTERS, NAMES, SIDES, affine_matrix, colour, fill_of

KINDS = ["identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness",
         "color", "contrast", "sharpness", "posterize", "solarize", "autocontrast", "equalize",
         "invert"]
ENHANCERS = {"brightness": ImageEnhance.Brightness, "color": ImageEnhance.Color,
             "contrast": ImageEnhance.Contrast, "sharpness": ImageEnhance.Sharpness}


def linspace(low, high, i, n):
    """torch.linspace in float32: from the nearer end, rounded once."""
    step = float((np.float32(high) - np.float32(low)) / np.float32(n - 1))
    return float(np.float32(float(np.float32(low)) + step * i if i < n // 2
                            else float(np.float32(high)) - step * (n - 1 - i)))


def warp(image, name, fill, angle=0.0, translate=(0, 0), shear=(0.0, 0.0), center=None):
    center = center or (image.width * 0.5, image.height * 0.5)
    matrix = affine_matrix(angle, translate, 1.0, shear, center)
    return image.transform(image.size, Image.Transform.AFFINE, matrix, FILTERS[name],
                           fillcolor=fill)


def change(image, kind, level, bins, negative, wide, name, fill):
    """One of torchvision's changes."""
    sign = -1.0 if negative else 1.0

    def amount(most):
        return sign * linspace(0.0, most, level, bins)

    if kind in ("shear_x", "shear_y"):
        angle = math.degrees(math.atan(amount(0.99 if wide else 0.3)))
        shear = (angle, 0.0) if kind == "shear_x" else (0.0, angle)
        return warp(image, name, fill, shear=shear, center=(0, 0))
    if kind in ("translate_x", "translate_y"):
        side = image.width if kind == "translate_x" else image.height
        shift = int(amount(32.0 if wide else 150.0 / 331.0 * side))
        return warp(image, name, fill, translate=(shift, 0) if kind == "translate_x" else (0, shift))
    if kind == "rotate":
        return image.rotate(amount(135.0 if wide else 30.0), FILTERS[name], fillcolor=fill)
    if kind in ENHANCERS:
        return ENHANCERS[kind](image).enhance(1.0 + amount(0.99 if wide else 0.9))
    if kind == "posterize":
        lost = np.rint(np.float32(level) / np.float32((bins - 1) / (6 if wide else 4)))
        return ImageOps.posterize(image, 8 - int(lost))
    if kind == "solarize":
        return ImageOps.solarize(image, linspace(255.0, 0.0, level, bins))
    return {"identity": lambda i: i, "autocontrast": ImageOps.autocontrast,
            "equalize": ImageOps.equalize, "invert": ImageOps.invert}[kind](image)


@settings(max_examples=300)
@given(SIDES, SIDES, CHANNELS, NAMES, st.integers(1, 4), st.integers(0, 30), KEYS)
def test_rand_augment(h, w, channels, name, num_ops, magnitude, key):
    array, draws = noise(h, w, channels), Draws(**key)
    image = to_pil(array)
    for i in range(num_ops):
        kind, negative = KINDS[draws.below(2 * i, 14)], draws.below(2 * i + 1, 2) == 1
        image = change(image, kind, magnitude, 31, negative, False, name, colour(channels))
    got = both("rand_augment", {"num_ops": num_ops, "magnitude": magnitude, "filter": name,
                                "fill": fill_of(channels)}, array, **key)
    equal(got, from_pil(image))


@settings(max_examples=300)
@given(SIDES, SIDES, CHANNELS, NAMES, st.integers(2, 40), KEYS)
def test_trivial_augment(h, w, channels, name, bins, key):
    array, draws = noise(h, w, channels), Draws(**key)
    want = change(to_pil(array), KINDS[draws.below(0, 14)], draws.below(1, bins), bins,
                  draws.below(2, 2) == 1, True, name, colour(channels))
    got = both("trivial_augment", {"bins": bins, "filter": name, "fill": fill_of(channels)}, array,
               **key)
    equal(got, from_pil(want))


# The pairs of AutoAugment's policies: a letter for the change, tenths of its probability, its level.
LETTERS = {"P": "posterize", "R": "rotate", "S": "solarize", "A": "autocontrast", "E": "equalize",
           "C": "color", "K": "contrast", "I": "invert", "H": "sharpness", "X": "shear_x",
           "Y": "shear_y", "T": "translate_x", "U": "translate_y", "B": "brightness"}
POLICIES = {
    "imagenet": "P4 8 R6 9|S6 5 A6 -|E8 - E6 -|P6 7 P6 6|E4 - S2 4|E4 - R8 8|S6 3 E6 -|P8 5 E10 -|"
                "R2 3 S6 8|E6 - P4 6|R8 8 C4 0|R4 9 E6 -|E0 - E8 -|I6 - E10 -|C6 4 K10 8|"
                "R8 8 C10 2|C8 8 S8 7|H4 7 I6 -|X6 5 E10 -|C4 0 E6 -|E4 - S2 4|S6 5 A6 -|"
                "I6 - E10 -|C6 4 K10 8|E8 - E6 -",
    "cifar10": "I1 - K2 6|R7 2 T3 9|H8 1 H9 3|Y5 8 U7 9|A5 - E9 -|Y2 7 P3 7|C4 3 B6 7|H3 9 B7 9|"
               "E6 - E5 -|K6 7 H6 5|C7 7 T5 8|E3 - A4 -|U4 3 H2 6|B9 6 C2 8|S5 2 I0 -|E2 - A6 -|"
               "E2 - E6 -|C9 9 E6 -|A8 - S2 8|B1 3 C7 0|S4 5 A9 -|U9 9 U7 9|A9 - S8 3|E8 - I1 -|"
               "U7 9 A9 -",
    "svhn": "X9 4 I2 -|Y9 8 I7 -|E6 - S6 6|I9 - E6 -|E6 - R9 3|X9 4 A8 -|Y9 8 I4 -|Y9 5 S2 6|"
            "I9 - A8 -|E6 - R9 3|X9 4 S3 3|Y8 8 I7 -|E9 - U6 6|I9 - E6 -|K3 3 R8 4|I8 - U0 2|"
            "Y7 6 S4 8|I6 - R8 4|Y3 7 T9 3|X1 6 I6 -|S7 2 U6 7|Y8 4 I8 -|X7 9 U8 3|Y8 5 A7 -|"
            "X7 2 I1 -"}


def parts(policy, pair):
    words = POLICIES[policy].split("|")[pair].split()
    return [(LETTERS[words[i][0]], int(words[i][1:]) / 10,
             0 if words[i + 1] == "-" else int(words[i + 1])) for i in (0, 2)]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=150)
@given(h=SIDES, w=SIDES, channels=CHANNELS, name=NAMES, key=KEYS)
def test_auto_augment(policy, h, w, channels, name, key):
    array, draws = noise(h, w, channels), Draws(**key)
    image = to_pil(array)
    for i, (kind, p, level) in enumerate(parts(policy, draws.below(0, 25))):
        if draws.unit(1 + i) < p:
            image = change(image, kind, level, 10, draws.below(3 + i, 2) == 0, False, name,
                           colour(channels))
    got = both("auto_augment", {"policy": policy, "filter": name, "fill": fill_of(channels)}, array,
               **key)
    equal(got, from_pil(image))


def test_rand_augment_refuses():
    refused("PARAM", "rand_augment", {"magnitude": 31}, noise(4, 4), "bins")
