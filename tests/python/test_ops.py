# SPDX-License-Identifier: Apache-2.0
"""The image ops against Pillow and numpy, bit for bit. What is drawn at random is drawn again here,
by an independent Philox and the protocols that the ops' docs state."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageEnhance, ImageOps

import mrlib
from mrlib import MrError, apply, apply_typed

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC,
           "nearest": Image.Resampling.NEAREST,
           "lanczos": Image.Resampling.LANCZOS, "box": Image.Resampling.BOX}

# ---- Help ------------------------------------------------------------------------------------


def noise(height, width, channels=3, seed=0):
    """Half of the images are pure noise, half smooth with hard edges; both show mistakes."""
    rng = np.random.default_rng([seed, height, width, channels])
    if (seed + height + width) % 2:
        return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
    ramp = np.linspace(0, 255, height)[:, None, None] + np.linspace(0, 80, width)[None, :, None]
    picture = ramp * rng.uniform(0.2, 1.0, channels)
    picture[height // 3:height // 2] = 255
    return np.clip(picture, 0, 255).astype(np.uint8)


def to_pil(array):
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def from_pil(image):
    array = np.asarray(image)
    return array[:, :, None] if array.ndim == 2 else array


def equal(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    if not np.array_equal(got, want):
        at = tuple(int(i) for i in np.argwhere(got != want)[0])
        raise AssertionError(f"{np.count_nonzero(got != want)} values differ, first at {at}: "
                             f"{got[at]} instead of {want[at]}")


def both(op, params, array, **options):
    """Runs an op with each of the CPU's variants of the kernels, which must agree."""
    best = apply(op, params, array, **options)
    equal(apply(op, params, array, disable_cpu="avx512", **options), best)
    equal(apply(op, params, array, disable_cpu="avx2", **options), best)
    return best


def refused(code, op, params, array, *parts, **options):
    with pytest.raises(MrError) as caught:
        apply(op, params, array, **options)
    error = caught.value
    assert error.code == mrlib.CODES[code], error
    for part in parts:
        assert part in error.text + error.hint


# ---- The law's randomness, again --------------------------------------------------------------

MASK = 0xFFFFFFFF


def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


class Draws:
    """The draws of one (seed, epoch, sample, op)."""

    def __init__(self, seed=0, epoch=0, sample=0, opword=0):
        self.key = (seed & MASK, seed >> 32)
        self.words = (epoch, sample & MASK, opword, (sample >> 32) << 16)

    def u64(self, draw):
        epoch, low, op, high = self.words
        out = philox((epoch, low, op, high | draw), self.key)
        return out[1] << 32 | out[0]

    def unit(self, draw):
        return (self.u64(draw) >> 11) * 2.0 ** -53

    def range(self, draw, low, high):
        return low + (high - low) * self.unit(draw)

    def below(self, draw, n):
        return self.u64(draw) * n >> 64


def test_philox_known_answers():
    """From the Random123 distribution's known-answer file."""
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)
    assert philox((MASK,) * 4, (MASK,) * 2) == (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)
    assert philox((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0)) == \
        (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1)


KEYS = st.fixed_dictionaries({
    "seed": st.integers(0, 2 ** 64 - 1), "epoch": st.integers(0, 2 ** 32 - 1),
    "sample": st.integers(0, 2 ** 48 - 1), "opword": st.integers(0, 2 ** 32 - 1)})


@given(KEYS, st.integers(0, 0xFFFF), st.integers(1, 2 ** 40))
def test_draws_are_the_librarys(key, draw, n):
    ours, theirs = Draws(**key), mrlib.Key(key["seed"], key["epoch"], key["opword"], key["sample"])
    assert mrlib.lib().mr_draw_u64(theirs, draw) == ours.u64(draw)
    assert mrlib.lib().mr_draw_unit(theirs, draw) == ours.unit(draw)
    assert mrlib.lib().mr_draw_range(theirs, draw, -1.5, 7.25) == ours.range(draw, -1.5, 7.25)
    assert mrlib.lib().mr_draw_below(theirs, draw, n) == ours.below(draw, n)


@given(st.floats(-690, 690))
def test_exact_exp_and_log(x):
    got = mrlib.lib().mr_exact_exp(x)
    assert math.isclose(got, math.exp(x), rel_tol=1e-15)
    assert math.isclose(mrlib.lib().mr_exact_log(got), x, rel_tol=2e-15, abs_tol=1e-15)


# ---- resize ------------------------------------------------------------------------------------


def pil_resize(array, height, width, name):
    return from_pil(to_pil(array).resize((width, height), FILTERS[name]))


def check_resize(shape, size, name, seed=0):
    array = noise(*shape, seed=seed)
    equal(both("resize", {"size": list(size), "filter": name}, array),
          pil_resize(array, *size, name))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape,size", [
    ((375, 500), (224, 224)), ((600, 401), (97, 601)), ((1, 1), (1, 1)), ((1, 1), (50, 40)),
    ((50, 40), (1, 1)), ((1, 600), (600, 1)), ((600, 1), (1, 600)), ((2, 3), (599, 577)),
    ((599, 577), (2, 3)), ((64, 64), (64, 64)), ((64, 64), (64, 63)), ((64, 64), (63, 64)),
    ((5, 5000), (5, 7)), ((5000, 3), (9, 4)), ((1, 20000), (1, 1)), ((224, 224), (225, 223)),
    ((33, 11), (32, 10)), ((256, 255), (128, 85))])
def test_resize_equals_pillow(shape, size, channels, name):
    check_resize((*shape, channels), size, name)


SIDES = st.integers(1, 600)


@settings(max_examples=150)
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([1, 3]), st.sampled_from(list(FILTERS)),
       st.integers(0, 99))
def test_resize_equals_pillow_anywhere(h, w, height, width, channels, name, seed):
    check_resize((h, w, channels), (height, width), name, seed)


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000))
def test_nearest_equals_pillow_on_long_rows(n_in, n_out, seed):
    check_resize((1, n_in, 1), (1, n_out), "nearest", seed)


@given(SIDES, SIDES, st.integers(1, 60))
def test_resize_shorter_side(h, w, size):
    """torchvision: the longer side is int(size * longer / shorter)."""
    long = int(size * max(h, w) / min(h, w))
    height, width = (size, long) if h <= w else (long, size)
    array = noise(h, w, 1)
    equal(both("resize", {"size": size}, array), pil_resize(array, height, width, "bilinear"))


def test_resize_refuses():
    refused("LIMIT", "resize", {"size": 60000}, noise(1, 600), "limit")
    refused("PARAM", "resize", {"size": 0}, noise(4, 4), "size")
    refused("PARAM", "resize", {"size": [1, 2, 3]}, noise(4, 4), "size")
    refused("PARAM", "resize", {"size": 3, "filter": "hamming"}, noise(4, 4), "bicubic")
    refused("TYPE", "resize", {"size": 3}, np.zeros((4, 4, 2), np.uint8), "channels")
    refused("TYPE", "resize", {"size": 3}, np.zeros((0, 4, 3), np.uint8), "pixels")
    refused("TYPE", "resize", {"size": 3}, b"12345", "decode_image")


# ---- crops ---------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_crop(h, w, data):
    top, left = data.draw(st.integers(0, h - 1)), data.draw(st.integers(0, w - 1))
    height, width = data.draw(st.integers(1, h - top)), data.draw(st.integers(1, w - left))
    array = noise(h, w)
    params = {"top": top, "left": left, "height": height, "width": width}
    equal(both("crop", params, array), array[top:top + height, left:left + width])


def test_crop_refuses_a_box_outside():
    refused("TYPE", "crop", {"top": 3, "height": 2, "width": 1}, noise(4, 4), "does not lie")
    refused("TYPE", "crop", {"left": 4, "height": 1, "width": 1}, noise(4, 4), "does not lie")


def reference_center_crop(array, height, width):
    """torchvision's center_crop on a Pillow image."""
    image = to_pil(array)
    if width > image.width or height > image.height:
        border = (max(width - image.width, 0) // 2, max(height - image.height, 0) // 2,
                  (max(width - image.width, 0) + 1) // 2, (max(height - image.height, 0) + 1) // 2)
        image = ImageOps.expand(image, border, fill=0)
    top = int(round((image.height - height) / 2.0))
    left = int(round((image.width - width) / 2.0))
    return from_pil(image.crop((left, top, left + width, top + height)))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30),
       st.sampled_from([1, 3]))
def test_center_crop(h, w, height, width, channels):
    array = noise(h, w, channels)
    equal(both("center_crop", {"size": [height, width]}, array),
          reference_center_crop(array, height, width))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), KEYS)
def test_random_crop(h, w, height, width, key):
    """torchvision: a side that lacks k pixels is padded by k at both ends, then cropped."""
    array, draws = noise(h, w), Draws(**key)
    params = {"size": [height, width], "pad_if_needed": True}
    padded = np.pad(array, [(max(height - h, 0),) * 2, (max(width - w, 0),) * 2, (0, 0)])
    top = draws.below(0, padded.shape[0] - height + 1)
    left = draws.below(1, padded.shape[1] - width + 1)
    want = padded[top:top + height, left:left + width]
    equal(both("random_crop", params, array, **key), want)
    if h >= height and w >= width:
        equal(apply("random_crop", {"size": [height, width]}, array, **key), want)
    else:
        refused("TYPE", "random_crop", {"size": [height, width]}, array, "smaller", "resize", **key)


def test_random_crop_reaches_every_place():
    array = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    seen = {int(apply("random_crop", {"size": 1}, array, sample=s)[0, 0, 0]) for s in range(200)}
    assert seen == set(range(12))


# ---- random_resized_crop -------------------------------------------------------------------------


def reference_box(draws, height, width, scale=(0.08, 1.0), ratio=(0.75, 4 / 3), attempts=10):
    """torchvision's get_params, with the draws numbered as the op's doc says."""
    for k in range(attempts):
        area = height * width * draws.range(4 * k, *scale)
        shape = math.exp(draws.range(4 * k + 1, math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            tops, lefts = height - h + 1, width - w + 1
            return draws.below(4 * k + 2, tops), draws.below(4 * k + 3, lefts), h, w
    if width / height < ratio[0]:
        h, w = max(round(width / ratio[0]), 1), width
    elif width / height > ratio[1]:
        h, w = height, max(round(height * ratio[1]), 1)
    else:
        h, w = height, width
    return (height - h) // 2, (width - w) // 2, h, w


def check_random_resized_crop(array, size, name, key, **ranges):
    top, left, h, w = reference_box(Draws(**key), *array.shape[:2], **ranges)
    image = to_pil(array).crop((left, top, left + w, top + h))
    want = from_pil(image.resize((size[1], size[0]), FILTERS[name]))
    params = {"size": list(size), "filter": name} | {k: list(v) for k, v in ranges.items()}
    equal(both("random_resized_crop", params, array, **key), want)


@settings(max_examples=150)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 90), st.integers(1, 90),
       st.sampled_from([1, 3]), st.sampled_from(list(FILTERS)), KEYS)
def test_random_resized_crop(h, w, height, width, channels, name, key):
    check_random_resized_crop(noise(h, w, channels), (height, width), name, key)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 1), st.floats(0.01, 1),
       st.floats(0.05, 20), st.floats(0.05, 20), KEYS)
def test_random_resized_crop_ranges(h, w, s0, s1, r0, r1, key):
    """Ranges that few boxes fit: many attempts fail, and the fallback is used."""
    check_random_resized_crop(noise(h, w), (7, 5), "bilinear", key,
                              scale=(min(s0, s1), max(s0, s1)), ratio=(min(r0, r1), max(r0, r1)))


@pytest.mark.parametrize("shape", [(3, 200), (200, 3), (1, 1), (2, 2)])
def test_random_resized_crop_fallback(shape):
    for sample in range(20):
        check_random_resized_crop(noise(*shape), (4, 4), "bilinear", {"sample": sample},
                                  scale=(1.0, 1.0))


def test_random_resized_crop_tries_ten_times():
    """Samples whose first box that fits is the tenth: one attempt less would be the fallback."""
    array = noise(10, 100)
    late = [s for s in range(300) if reference_box(Draws(sample=s), 10, 100, attempts=9)
            != reference_box(Draws(sample=s), 10, 100)]
    assert late
    for sample in late:
        check_random_resized_crop(array, (5, 5), "bilinear", {"sample": sample})


def drawn_box(height, width, sample, params):
    """The box that the library took, read from an image whose pixels are their coordinates."""
    y, x = np.mgrid[0:height, 0:width].astype(np.uint8)
    params = {"size": [2 * height, 2 * width], "filter": "nearest"} | params
    out = apply("random_resized_crop", params, np.dstack([y, x, x]), seed=11, sample=sample)
    rows, columns = out[:, 0, 0].astype(int), out[0, :, 1].astype(int)
    return rows[0], columns[0], rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1


def ks_distance(values):
    """Largest distance of a sample in [0, 1] from the uniform distribution."""
    values, n = np.sort(values), len(values)
    return max(np.max(np.arange(1, n + 1) / n - values), np.max(values - np.arange(n) / n))


def test_random_resized_crop_distribution():
    """With boxes that always fit, area is uniform and the ratio log-uniform and the place uniform.
    Rounding to whole pixels moves a value by under 1 % here, which the bound includes."""
    n, height, width, scale, ratio = 1500, 200, 210, (0.1, 0.5), (0.75, 4 / 3)
    boxes = np.array([drawn_box(height, width, s, {"scale": list(scale), "ratio": list(ratio)})
                      for s in range(n)], float)
    top, left, h, w = boxes.T
    bound = 1.95 / math.sqrt(n) + 0.01  # one in a thousand, and rounding
    area = (h * w / (height * width) - scale[0]) / (scale[1] - scale[0])
    shape = (np.log(w / h) - math.log(ratio[0])) / math.log(ratio[1] / ratio[0])
    for values in (area, shape, (top + 0.5) / (height - h + 1), (left + 0.5) / (width - w + 1)):
        assert ks_distance(np.clip(values, 0, 1)) < bound
    table = np.histogram2d(area, shape, bins=[4, 4], range=[[0, 1], [0, 1]])[0]
    expected = table.sum() / 16
    assert ((table - expected) ** 2 / expected).sum() < 37.7  # chi-square, 15 degrees, 1 in 1000


def test_random_resized_crop_rejection():
    """Boxes that do not fit are drawn again: against the definition, sampled independently."""
    n, height, width, rng = 1500, 60, 120, np.random.default_rng(5)
    boxes = [drawn_box(height, width, s, {}) for s in range(n)]
    areas = np.sort([h * w / (height * width) for _, _, h, w in boxes])
    want = []
    while len(want) < 40000:
        area = height * width * rng.uniform(0.08, 1)
        shape = math.exp(rng.uniform(math.log(0.75), math.log(4 / 3)))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            want.append(h * w / (height * width))
    want = np.sort(want)
    places = np.searchsorted(want, areas, side="right") / len(want)
    assert ks_distance(places) < 1.95 / math.sqrt(n) + 0.01


def test_random_resized_crop_refuses():
    refused("PARAM", "random_resized_crop", {"size": 4, "scale": [0.5, 0.2]}, noise(9, 9), "scale")
    refused("PARAM", "random_resized_crop", {"size": 4, "ratio": [2, 1]}, noise(9, 9), "ratio")
    refused("PARAM", "random_resized_crop", {"size": 4, "scale": 0.5}, noise(9, 9), "scale")


# ---- flips and borders ---------------------------------------------------------------------------


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([1, 3]), st.floats(0, 1), KEYS,
       st.sampled_from(["horizontal", "vertical"]))
def test_random_flip(h, w, channels, p, key, direction):
    array = noise(h, w, channels)
    turned = Image.Transpose.FLIP_LEFT_RIGHT if direction == "horizontal" else \
        Image.Transpose.FLIP_TOP_BOTTOM
    want = from_pil(to_pil(array).transpose(turned)) if Draws(**key).unit(0) < p else array
    equal(both("random_flip", {"p": p, "direction": direction}, array, **key), want)


def test_random_flip_is_fair():
    array = np.array([[[1], [2]]], np.uint8)
    flipped = sum(int(apply("random_flip", {}, array, sample=s)[0, 0, 0]) == 2 for s in range(1000))
    assert 440 < flipped < 560
    assert all(apply("random_flip", {"p": 0}, array, sample=s)[0, 0, 0] == 1 for s in range(50))
    assert all(apply("random_flip", {"p": 1}, array, sample=s)[0, 0, 0] == 2 for s in range(50))


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 3]),
       st.lists(st.integers(0, 45), min_size=1, max_size=4).filter(lambda v: len(v) != 3),
       st.sampled_from(["constant", "edge", "reflect"]), st.integers(0, 255))
def test_pad(h, w, channels, padding, mode, fill):
    array = noise(h, w, channels)
    left, top, right, bottom = (padding * 4)[:4]
    if mode == "constant":
        colour = fill if channels == 1 else (fill, 255 - fill, 7)
        want = from_pil(ImageOps.expand(to_pil(array), (left, top, right, bottom), fill=colour))
        params = {"padding": padding, "fill": colour if channels == 1 else list(colour)}
    else:
        want = np.pad(array, [(top, bottom), (left, right), (0, 0)], mode=mode)
        params = {"padding": padding, "mode": mode}
    equal(both("pad", params, array), want)


def test_pad_refuses():
    refused("PARAM", "pad", {"padding": [1, 2, 3]}, noise(4, 4), "padding", "4")
    refused("PARAM", "pad", {"padding": -1}, noise(4, 4), "padding")
    refused("TYPE", "pad", {"padding": 1, "fill": [1, 2, 3]}, noise(4, 4, 1), "fill")
    refused("LIMIT", "pad", {"padding": 60000}, noise(4, 4), "limit")


# ---- colour --------------------------------------------------------------------------------------


def all_colours(step):
    """An image of all colours whose channels are multiples of step, or 255."""
    values = np.unique(np.append(np.arange(0, 256, step), 255)).astype(np.uint8)
    grid = np.stack(np.meshgrid(values, values, values, indexing="ij"), -1)
    return grid.reshape(len(values), -1, 3)


def test_grayscale():
    array = all_colours(3)
    grey = from_pil(to_pil(array).convert("L"))
    equal(both("grayscale", {}, array), grey)
    equal(both("grayscale", {"channels": 3}, array), np.repeat(grey, 3, axis=2))
    one = noise(9, 8, 1)
    equal(both("grayscale", {}, one), one)
    equal(both("grayscale", {"channels": 3}, one), np.repeat(one, 3, axis=2))
    refused("PARAM", "grayscale", {"channels": 2}, one, "1 or 3")


def reference_hue(image, factor):
    """torchvision's adjust_hue on a Pillow image."""
    if image.mode == "L":
        return image
    hsv = np.asarray(image.convert("HSV")).copy()
    hsv[:, :, 0] += np.int32(factor * 255).astype(np.uint8)
    planes = [Image.fromarray(np.ascontiguousarray(hsv[:, :, i])) for i in range(3)]
    return Image.merge("HSV", planes).convert("RGB")


PARTS = ["brightness", "contrast", "saturation", "hue"]
ADJUST = {"brightness": lambda image, f: ImageEnhance.Brightness(image).enhance(f),
          "contrast": lambda image, f: ImageEnhance.Contrast(image).enhance(f),
          "saturation": lambda image, f: ImageEnhance.Color(image).enhance(f),
          "hue": reference_hue}


def check_part(part, factor, array):
    want = from_pil(ADJUST[part](to_pil(array), factor))
    equal(both("color_jitter", {part: [factor, factor]}, array), want)


@pytest.mark.parametrize("factor", [0, 1e-3, 0.1, 0.25, 0.4999, 0.5, 2 / 3, 0.999, 1.001, 1.3,
                                    1.4142135, 2, 7.77, 300])
@pytest.mark.parametrize("part", ["brightness", "contrast", "saturation"])
def test_color_jitter_blends(part, factor):
    check_part(part, factor, all_colours(9))
    for channels in (1, 3):
        check_part(part, factor, noise(37, 23, channels))


@pytest.mark.parametrize("factor", [-0.5, -0.3, -1 / 255, -0.001, 0.001, 1 / 255, 0.1, 0.25, 0.5])
def test_color_jitter_hue(factor):
    check_part("hue", factor, all_colours(5))
    check_part("hue", factor, noise(12, 13, 1))


def test_color_jitter_hue_of_every_colour():
    """All 2^24 colours through the conversion to HSV and back, with a shift."""
    low = np.arange(65536, dtype=np.uint32)
    for red in range(0, 256, 16):
        reds = np.repeat(np.arange(red, red + 16, dtype=np.uint8), 65536)
        rest = np.tile(low, 16)
        array = np.stack([reds, (rest >> 8).astype(np.uint8), rest.astype(np.uint8)], -1)
        array = array.reshape(1024, 1024, 3)
        got = apply("color_jitter", {"hue": [0.1, 0.1]}, array)
        equal(got, from_pil(reference_hue(to_pil(array), 0.1)))


def span(part, f):
    return (-f, f) if part == "hue" else (max(0.0, 1.0 - f), 1.0 + f)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]), KEYS,
       st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2), st.floats(0, 0.5)))
def test_color_jitter_draws(h, w, channels, key, strengths):
    array, draws = noise(h, w, channels, seed=1), Draws(**key)
    order = list(PARTS)
    for draw, i in zip((4, 5, 6), (3, 2, 1)):
        j = draws.below(draw, i + 1)
        order[i], order[j] = order[j], order[i]
    image = to_pil(array)
    for part in order:
        low, high = span(part, strengths[PARTS.index(part)])
        if (low, high) != ((0, 0) if part == "hue" else (1, 1)):
            image = ADJUST[part](image, draws.range(PARTS.index(part), low, high))
    equal(both("color_jitter", dict(zip(PARTS, strengths)), array, **key), from_pil(image))


def test_color_jitter_left_out_is_identity():
    array = noise(30, 30)
    equal(both("color_jitter", {}, array), array)
    equal(both("color_jitter", {"hue": [0, 0], "contrast": [1, 1]}, array), array)


def test_color_jitter_refuses():
    refused("PARAM", "color_jitter", {"hue": 0.6}, noise(4, 4), "hue")
    refused("PARAM", "color_jitter", {"brightness": -0.1}, noise(4, 4), "brightness")
    refused("PARAM", "color_jitter", {"contrast": [1.5, 0.5]}, noise(4, 4), "contrast")


# ---- numbers -------------------------------------------------------------------------------------


def bfloat16(values):
    """Bits of float32 values rounded to nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


CONVERT = {"float32": lambda v: v.astype(np.float32), "float16": lambda v: v.astype(np.float16),
           "bfloat16": bfloat16}


def same_bits(got, want):
    kind = {2: np.uint16, 4: np.uint32}[want.itemsize]
    equal(got.view(kind), np.ascontiguousarray(want).view(kind))


def reference_normalize(array, mean, std):
    """torch in float32: to(float32).div(255), sub(mean), div(std)."""
    unit = array.astype(np.float32) / np.float32(255)
    return (unit - np.array(mean, np.float32)) / np.array(std, np.float32)


@pytest.mark.parametrize("dtype", CONVERT)
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("mean,std,channels", [
    ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], 3), ([0.5], [0.5], 3), ([0.1307], [0.3081], 1),
    ([0], [1], 3), ([-3, 1000, 0.1], [1e-6, 1e6, 7], 3), ([0.2, 0.3, 0.4], [0.9], 3)])
def test_normalize(mean, std, channels, layout, dtype):
    every = np.arange(256, dtype=np.uint8).repeat(channels).reshape(16, 16, channels)
    array = np.concatenate([every, noise(3, 16, channels)])
    params = {"mean": mean, "std": std, "dtype": dtype, "layout": layout}
    with np.errstate(over="ignore"):
        want = CONVERT[dtype](reference_normalize(array, mean, std))
    want = want.transpose(2, 0, 1) if layout == "chw" else want
    got, (name, number) = apply_typed("normalize", params, array)
    assert (name, number) == (dtype, mrlib.LAYOUTS[layout])
    same_bits(got, want)
    same_bits(apply("normalize", params, array, disable_cpu="avx2"), want)


@given(st.integers(1, 70), st.integers(1, 20), st.sampled_from([1, 3]),
       st.sampled_from(["chw", "hwc"]))
def test_normalize_sizes(h, w, channels, layout):
    array = noise(h, w, channels)
    turn = (lambda v: v.transpose(2, 0, 1)) if layout == "chw" else (lambda v: v)
    for dtype in CONVERT:
        got = apply("normalize", {"dtype": dtype, "layout": layout, "mean": 0.3, "std": 0.7}, array)
        same_bits(got, turn(CONVERT[dtype](reference_normalize(array, [0.3], [0.7]))))
    equal(both("normalize", {"dtype": "uint8", "layout": layout}, array), turn(array))


def test_normalize_refuses():
    refused("PARAM", "normalize", {"std": 0}, noise(4, 4), "std")
    refused("PARAM", "normalize", {"std": 1e-60}, noise(4, 4), "std")
    refused("PARAM", "normalize", {"mean": [1, 2]}, noise(4, 4), "mean")
    refused("PARAM", "normalize", {"mean": 0.5, "dtype": "uint8"}, noise(4, 4), "uint8", "float32")
    refused("TYPE", "normalize", {"mean": [1, 2, 3]}, noise(4, 4, 1), "channels")
    refused("TYPE", "normalize", {}, np.zeros((4, 4, 3), np.float32), "uint8")


@pytest.mark.parametrize("dtype", CONVERT)
@pytest.mark.parametrize("scale", [False, True])
def test_cast_from_bytes(dtype, scale):
    array = np.arange(256, dtype=np.uint8)
    value = array.astype(np.float32) / np.float32(255 if scale else 1)
    same_bits(apply("cast", {"dtype": dtype, "scale": scale}, array), CONVERT[dtype](value))
    picture, (name, layout) = apply_typed("cast", {"dtype": dtype, "scale": scale}, noise(5, 7))
    assert (name, layout, picture.shape) == (dtype, mrlib.HWC, (5, 7, 3))


def test_cast_between_floats():
    rng = np.random.default_rng(3)
    values = rng.integers(0, 2 ** 32, 20000, dtype=np.uint32).view(np.float32)
    values = np.append(values[~np.isnan(values)], np.float32([0, -0.0, 65519, 65520, 1e-8, 6e-8]))
    with np.errstate(over="ignore"):
        same_bits(apply("cast", {"dtype": "float16"}, values), values.astype(np.float16))
    same_bits(apply("cast", {"dtype": "bfloat16"}, values), bfloat16(values))
    half = np.arange(65536, dtype=np.uint16)
    numbers = half.view(np.float16)
    keep = ~np.isnan(numbers)
    same_bits(apply("cast", {"dtype": "float32"}, numbers[keep]), numbers[keep].astype(np.float32))
    finite = half[(half & 0x7FFF) <= 0x7F80]
    same_bits(apply("cast", {"dtype": "float32"}, finite, dtype="bfloat16"),
              (finite.astype(np.uint32) << 16).view(np.float32))
    nan = apply("cast", {"dtype": "float16"}, np.float32([np.nan]))
    assert np.isnan(nan).all()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "bool"])
def test_cast_whole_numbers(dtype):
    values = np.array([0, 1, 100] if dtype == "bool" else [0, 1, 100, np.iinfo(dtype).max, np.iinfo(dtype).min]).astype(dtype)
    equal(apply("cast", {"dtype": "int64"}, values, dtype=dtype), values.astype(np.int64))
    same_bits(apply("cast", {"dtype": "float32"}, values, dtype=dtype), values.astype(np.float32))
    small = values if values.astype(np.int64).max() < 2 ** 31 else values[:3]
    equal(apply("cast", {"dtype": "int32"}, small, dtype=dtype), small.astype(np.int32))


def test_cast_of_what_does_not_fit():
    refused("TYPE", "cast", {"dtype": "int32"}, np.array([1, 2 ** 31]), "number 1", "2147483648", "int32")
    refused("TYPE", "cast", {"dtype": "int64"}, np.array([2 ** 64 - 1], np.uint64), "does not fit")
    refused("TYPE", "cast", {"dtype": "int64"}, np.float32([1]), "whole numbers")
    refused("TYPE", "cast", {"dtype": "int64", "scale": True}, np.uint8([1]), "scale")
    same_bits(apply("cast", {"dtype": "float32"}, np.array([0.1, 1e300])), np.array([0.1, np.inf], np.float32))


def test_cast_to_bytes():
    values = np.float32([-1, 0, 0.49, 0.5, 1.5, 2.5, 254.5, 255, 300, np.inf, -np.inf, np.nan])
    equal(apply("cast", {"dtype": "uint8"}, values),
          np.array([0, 0, 0, 0, 2, 2, 254, 255, 255, 255, 0, 0], np.uint8))
    unit = np.arange(256, dtype=np.float32) / np.float32(255)
    equal(apply("cast", {"dtype": "uint8", "scale": True}, unit), np.arange(256, dtype=np.uint8))
    refused("TYPE", "cast", {"dtype": "uint8", "scale": True}, noise(3, 3), "scale")


# ---- all ops ---------------------------------------------------------------------------------


def test_misspelt_parameter_suggests():
    refused("PARAM", "resize", {"size": 4, "fliter": "bilinear"}, noise(4, 4), "filter")
