# SPDX-License-Identifier: Apache-2.0
"""Ops on values (posterize, solarize, invert, equalize, autocontrast, sharpness, gaussian_blur,
gaussian_noise, erasing) against Pillow's ImageOps and ImageEnhance and torchvision's formulas."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageEnhance, ImageOps

from mrlib import apply
from test_ops import Draws, KEYS, both, equal, from_pil, noise, refused, to_pil

SIDES = st.integers(1, 60)
CHANNELS = st.sampled_from([1, 3])


def narrow(h, w, channels, seed):
    """Few values, so that histograms have gaps."""
    rng = np.random.default_rng([seed, h, w])
    low = rng.integers(0, 200)
    return rng.integers(low, low + rng.integers(1, 56), (h, w, channels), dtype=np.uint8)


IMAGES = st.builds(lambda make, *a: make(*a), st.sampled_from([noise, narrow]), SIDES, SIDES,
                   CHANNELS, st.integers(0, 99))


@given(IMAGES, st.integers(1, 8))
def test_posterize(array, bits):
    equal(both("posterize", {"bits": bits}, array),
          from_pil(ImageOps.posterize(to_pil(array), bits)))


@given(IMAGES, st.floats(0, 256))
def test_solarize(array, threshold):
    equal(both("solarize", {"threshold": threshold}, array),
          from_pil(ImageOps.solarize(to_pil(array), threshold)))


@given(IMAGES)
def test_invert(array):
    equal(both("invert", {}, array), from_pil(ImageOps.invert(to_pil(array))))


@given(IMAGES)
def test_equalize(array):
    equal(both("equalize", {}, array), from_pil(ImageOps.equalize(to_pil(array))))


@given(IMAGES, st.floats(0, 50), st.floats(0, 50))
def test_autocontrast(array, low, high):
    equal(both("autocontrast", {}, array), from_pil(ImageOps.autocontrast(to_pil(array))))
    equal(both("autocontrast", {"cutoff": [low, high]}, array),
          from_pil(ImageOps.autocontrast(to_pil(array), (low, high))))


@pytest.mark.parametrize("op", ["posterize", "solarize", "invert", "equalize", "autocontrast",
                                "sharpness"])
@given(key=KEYS, p=st.floats(0, 1))
@settings(max_examples=20)
def test_probability(op, key, p):
    array = narrow(20, 30, 3, 1) // 2 + 90
    done = Draws(**key).unit(0) < p
    equal(apply(op, {"p": p}, array, **key), apply(op, {}, array) if done else array)
    assert not np.array_equal(apply(op, {}, array), array)


# ---- filters -----------------------------------------------------------------------------------


@given(IMAGES, st.floats(0, 8))
def test_sharpness(array, factor):
    equal(both("sharpness", {"factor": factor}, array),
          from_pil(ImageEnhance.Sharpness(to_pil(array)).enhance(factor)))


@given(IMAGES, st.floats(0, 2), st.floats(2, 4), KEYS)
def test_sharpness_draws(array, low, high, key):
    factor = Draws(**key).range(1, low, high)
    equal(both("sharpness", {"factor": [low, high]}, array, **key),
          from_pil(ImageEnhance.Sharpness(to_pil(array)).enhance(factor)))


def gaussian(n, sigma):
    weights = np.exp(-0.5 * ((np.arange(n) - (n - 1) / 2) / sigma) ** 2)
    return weights / weights.sum()


def blurred(array, rows, columns, sigma):
    """torchvision's definition, in double."""
    pad = np.pad(array.astype(float), [(rows // 2,) * 2, (columns // 2,) * 2, (0, 0)],
                 mode="reflect")
    h, w = array.shape[:2]
    down = sum(k * pad[i:i + h] for i, k in enumerate(gaussian(rows, sigma)))
    return sum(k * down[:, i:i + w] for i, k in enumerate(gaussian(columns, sigma)))


@given(IMAGES, st.sampled_from([1, 3, 5, 23]), st.sampled_from([1, 3, 9, 31]),
       st.floats(0.05, 6), KEYS)
def test_gaussian_blur(array, rows, columns, sigma, key):
    drawn = Draws(**key).range(0, 0.05, sigma)
    got = both("gaussian_blur", {"size": [rows, columns], "sigma": [0.05, sigma]}, array, **key)
    exact = blurred(array, rows, columns, drawn)
    assert np.max(np.abs(got - exact)) <= 0.5 + 1e-3
    clear = np.abs(exact - np.floor(exact) - 0.5) > 1e-3  # not between two bytes
    equal(got[clear], np.rint(exact).astype(np.uint8)[clear])


def test_gaussian_blur_refuses():
    refused("PARAM", "gaussian_blur", {"size": 4}, noise(4, 4), "odd")
    refused("PARAM", "gaussian_blur", {"size": 3, "sigma": [2, 1]}, noise(4, 4), "sigma")


# ---- noise and boxes ---------------------------------------------------------------------------

M64 = 2 ** 64 - 1


def splitmix(draw, index):
    z = (draw + (index + 1) * 0x9E3779B97F4A7C15) & M64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def test_gaussian_noise_is_what_its_doc_says():
    from statistics import NormalDist
    array, key = noise(9, 13), {"seed": 5, "epoch": 2, "sample": 11, "opword": 3}
    draws = Draws(**key)
    sigma = draws.range(1, 0.05, 0.3)
    got = both("gaussian_noise", {"mean": 0.02, "sigma": [0.05, 0.3]}, array, **key)
    for i, (before, after) in enumerate(zip(array.ravel(), got.ravel())):
        k = (splitmix(draws.u64(0), i // 4) >> (16 * (i % 4)) & 0xFFFF) >> 4
        want = before + 255 * (0.02 + sigma * NormalDist().inv_cdf((k + 0.5) / 4096))
        assert abs(min(max(want, 0), 255) - after) <= 0.5 + 1e-3


def test_gaussian_noise_is_normal():
    got = apply("gaussian_noise", {"sigma": 0.1}, np.full((300, 300, 3), 128, np.uint8)) - 128.0
    assert abs(got.mean()) < 0.2 and abs(got.std() / 25.5 - 1) < 0.01
    assert abs((got ** 4).mean() / got.std() ** 4 - 3) < 0.06
    lag = (got[:, 1:] * got[:, :-1]).mean() / got.var()
    assert abs(lag) < 0.01 and abs((got[1:] * got[:-1]).mean() / got.var()) < 0.01


def erased_boxes(draws, height, width, count, scale, ratio):
    """torchvision's get_params, with the draws numbered as the op's doc says."""
    for box in range(count):
        for k in range(10):
            d = 1 + 40 * box + 4 * k
            area = height * width * draws.range(d, *scale)
            shape = math.exp(draws.range(d + 1, math.log(ratio[0]), math.log(ratio[1])))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if h < height and w < width:
                yield draws.below(d + 2, height - h + 1), draws.below(d + 3, width - w + 1), h, w
                break


@given(SIDES, SIDES, CHANNELS, st.integers(1, 5), st.floats(0, 1), st.floats(0, 1), KEYS,
       st.floats(0, 1))
def test_erasing(h, w, channels, count, s0, s1, key, p):
    array, draws = noise(h, w, channels), Draws(**key)
    scale, want = (min(s0, s1), max(s0, s1)), array.copy()
    fill = [7] if channels == 1 else [7, 8, 9]
    if draws.unit(0) < p:
        for top, left, rows, columns in erased_boxes(draws, h, w, count, scale, (0.3, 3.3)):
            want[top:top + rows, left:left + columns] = fill
    equal(both("erasing", {"p": p, "scale": list(scale), "count": count, "fill": fill}, array,
               **key), want)


# ---- types ---------------------------------------------------------------------------------------


@given(IMAGES, st.floats(1, 1000))
def test_to_float(array, most):
    want = array.astype(np.float32) / np.float32(most)
    equal(both("to_float", {"max": most}, array), want)
    equal(both("to_float", {"max": most, "dtype": "float16"}, array), want.astype(np.float16))


@given(IMAGES)
def test_permute(array):
    planes = both("permute", {}, array)
    equal(planes, np.ascontiguousarray(array.transpose(2, 0, 1)))
    equal(both("permute", {"layout": "hwc"}, array), array)
    equal(apply("permute", {"layout": "hwc"}, planes, layout="chw"), array)
    floats = apply("to_float", {}, array)
    equal(apply("permute", {}, floats, layout="hwc"),
          np.ascontiguousarray(floats.transpose(2, 0, 1)))
