# SPDX-License-Identifier: Apache-2.0
"""Every op through the package, on arrays of a Python dataset, against Pillow and numpy. What an op
draws is checked in test_ops.py; here its parameters leave nothing to chance, or any outcome that the
op may give is accepted."""
import io

import numpy as np
from hypothesis import given, strategies as st
from PIL import Image, ImageOps

import millrace as mr
from test_ops import (ADJUST, CONVERT, FILTERS, equal, from_pil, noise, pil_resize,
                      reference_center_crop, reference_normalize, same_bits, to_pil)

SIDE = st.integers(1, 60)
CHANNELS = st.sampled_from([1, 3])


def through(build, *images, seed=0, field="data"):
    """What a pipeline makes of images: the samples, in order."""
    pipeline = build(mr.dataset(list(images))).shuffle(False).batch(len(images))
    with pipeline.loader(seed=seed) as loader:
        return list(next(loader)[field])


def one(build, image, **options):
    return through(build, image, **options)[0]


@given(SIDE, SIDE, SIDE, SIDE, CHANNELS, st.sampled_from(list(FILTERS)))
def test_resize(h, w, height, width, channels, name):
    image = noise(h, w, channels)
    equal(one(lambda p: p.resize([height, width], name), image),
          pil_resize(image, height, width, name))


@given(SIDE, SIDE, st.data())
def test_crop(h, w, data):
    top, left = data.draw(st.integers(0, h - 1)), data.draw(st.integers(0, w - 1))
    height, width = data.draw(st.integers(1, h - top)), data.draw(st.integers(1, w - left))
    image = noise(h, w)
    equal(one(lambda p: p.crop(top=top, left=left, height=height, width=width), image),
          image[top:top + height, left:left + width])


@given(SIDE, SIDE, SIDE, SIDE, CHANNELS)
def test_center_crop(h, w, height, width, channels):
    image = noise(h, w, channels)
    equal(one(lambda p: p.center_crop([height, width]), image),
          reference_center_crop(image, height, width))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 999), st.data())
def test_random_crop(h, w, seed, data):
    height, width = data.draw(st.integers(1, h)), data.draw(st.integers(1, w))
    image = np.arange(h * w, dtype=np.uint8).reshape(h, w, 1)
    got = one(lambda p: p.random_crop([height, width]), image, seed=seed)
    top, left = divmod(int(got[0, 0, 0]), w)
    equal(got, image[top:top + height, left:left + width])


@given(SIDE, SIDE, CHANNELS, st.integers(0, 99), st.sampled_from(["horizontal", "vertical"]))
def test_random_flip(h, w, channels, seed, direction):
    image = noise(h, w, channels)
    flipped = image[:, ::-1] if direction == "horizontal" else image[::-1]
    equal(one(lambda p: p.random_flip(1, direction), image, seed=seed), flipped)
    equal(one(lambda p: p.random_flip(0, direction), image, seed=seed), image)


@given(st.integers(2, 60), SIDE, SIDE, st.sampled_from(list(FILTERS)), st.integers(0, 99))
def test_random_resized_crop(side, height, width, name, seed):
    """Of a square, scale 1 and ratio 1 leave one box: all of it."""
    image = noise(side, side)
    equal(one(lambda p: p.random_resized_crop([height, width], scale=[1, 1], ratio=[1, 1],
                                              filter=name), image, seed=seed),
          pil_resize(image, height, width, name))


@given(SIDE, SIDE, st.sampled_from(list(ADJUST)), st.floats(0, 0.5), st.integers(0, 99))
def test_color_jitter(h, w, part, factor, seed):
    image = noise(h, w)
    equal(one(lambda p: p.color_jitter(**{part: [factor, factor]}), image, seed=seed),
          from_pil(ADJUST[part](to_pil(image), factor)))


@given(SIDE, SIDE, st.sampled_from([1, 3]))
def test_grayscale(h, w, channels):
    image = noise(h, w)
    grey = from_pil(to_pil(image).convert("L"))
    equal(one(lambda p: p.grayscale(channels), image), np.repeat(grey, channels, axis=2))


@given(SIDE, SIDE, st.integers(0, 9), st.integers(0, 255))
def test_pad(h, w, border, fill):
    image = noise(h, w, 1)
    equal(one(lambda p: p.pad(border, fill=fill), image),
          from_pil(ImageOps.expand(to_pil(image), border, fill=fill)))


@given(SIDE, SIDE, CHANNELS, st.sampled_from(["float32", "float16"]), st.floats(0, 1),
       st.floats(0.1, 3), st.sampled_from(["chw", "hwc"]))
def test_normalize(h, w, channels, dtype, mean, std, layout):
    image = noise(h, w, channels)
    want = CONVERT[dtype](reference_normalize(image, [mean], [std]))
    got = one(lambda p: p.normalize(mean, std, dtype, layout), image)
    same_bits(got, want.transpose(2, 0, 1) if layout == "chw" else want)


@given(SIDE, SIDE, st.booleans())
def test_cast(h, w, scale):
    image = noise(h, w)
    want = image.astype(np.float32) / np.float32(255) if scale else image.astype(np.float32)
    same_bits(one(lambda p: p.cast("float32", scale), image), want)


@given(SIDE, SIDE, st.sampled_from(["JPEG", "PNG", "WEBP"]))
def test_decode_image(h, w, kind):
    file = io.BytesIO()
    to_pil(noise(h, w)).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    data = np.frombuffer(file.getvalue(), np.uint8)
    got = through(lambda p: p.decode_image(), data, np.append(data, np.uint8(0))[:-1])[0]
    equal(got, np.asarray(Image.open(file).convert("RGB")))


def test_every_op_is_tested_here():
    """Says which op has no test in this file."""
    names = {name[5:] for name in globals() if name.startswith("test_")}
    ops = {op["name"] for op in mr._core.tables()["ops"]}
    known = {"cast", "center_crop", "color_jitter", "crop", "decode_image", "grayscale", "normalize",
             "pad", "random_crop", "random_flip", "random_resized_crop", "resize"}
    assert known <= ops and known <= names
