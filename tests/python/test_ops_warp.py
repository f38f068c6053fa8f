# SPDX-License-Identifier: Apache-2.0
"""rotate, affine, perspective, elastic, letterbox, five_crop and ten_crop against Pillow's Image.rotate,
Image.transform, ImageOps.pad and Image.crop, with torchvision's formulas for what is drawn."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageOps

from mrlib import apply
from test_ops import Draws, KEYS, both, equal, from_pil, noise, refused, to_pil

FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
SIDES = st.integers(1, 90)
CHANNELS = st.sampled_from([1, 3])
NAMES = st.sampled_from(list(FILTERS))


def colour(channels):
    return 9 if channels == 1 else (9, 200, 31)


def fill_of(channels):
    return [9] if channels == 1 else [9, 200, 31]


def check_rotate(array, angle, name, expand=False, center=None, params=None, **key):
    channels = array.shape[2]
    want = to_pil(array).rotate(angle, FILTERS[name], expand, center, fillcolor=colour(channels))
    given_params = {"filter": name, "expand": expand, "fill": fill_of(channels)}
    given_params |= {"center": list(center)} if center else {}
    equal(both("rotate", given_params | (params or {"degrees": [angle, angle]}), array, **key),
          from_pil(want))


@settings(max_examples=200)
@given(SIDES, SIDES, CHANNELS, NAMES, st.floats(-720, 720), st.booleans(), st.integers(0, 9))
def test_rotate_equals_pillow(h, w, channels, name, angle, expand, seed):
    check_rotate(noise(h, w, channels, seed), angle, name, expand)


@pytest.mark.parametrize("angle", [0, 90, 180, 270, 360, -90, 45, 30, 450, 1e-9])
@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4), (1, 1), (1, 9), (30, 31)])
@pytest.mark.parametrize("expand", [False, True])
def test_rotate_by_special_angles(angle, shape, expand):
    for name in FILTERS:
        check_rotate(noise(*shape, 3), angle, name, expand)


@given(SIDES, SIDES, NAMES, st.floats(-180, 180), st.floats(-30, 99), st.floats(-30, 99))
def test_rotate_around_a_point(h, w, name, angle, x, y):
    check_rotate(noise(h, w), angle, name, center=(x, y))


@given(SIDES, SIDES, st.floats(-90, 0), st.floats(0, 90), KEYS)
def test_rotate_draws(h, w, low, high, key):
    angle = Draws(**key).range(0, low, high)
    check_rotate(noise(h, w), angle, "nearest", params={"degrees": [low, high]}, **key)
    check_rotate(noise(h, w), Draws(**key).range(0, -high, high), "nearest",
                 params={"degrees": high}, **key)


def test_rotate_refuses():
    refused("PARAM", "rotate", {"degrees": 10, "expand": True}, noise(4, 4), "one angle")
    refused("PARAM", "rotate", {"degrees": [3, 1]}, noise(4, 4), "ordered")
    refused("PARAM", "rotate", {"degrees": 1, "center": [3]}, noise(4, 4), "center")
    refused("TYPE", "rotate", {"degrees": 1, "fill": [1, 2]}, noise(4, 4), "fill")
    refused("TYPE", "rotate", {"degrees": 1, "fill": [1, 2, 3]}, noise(4, 4, 1), "channel")


def affine_matrix(angle, translate, scale, shear, center):
    """torchvision's inverse affine matrix."""
    rot, sx, sy = (math.radians(v) for v in (angle, *shear))
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    m = [v / scale for v in (d, -b, 0.0, -c, a, 0.0)]
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty)
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty)
    return [m[0], m[1], m[2] + cx, m[3], m[4], m[5] + cy]


def check_affine(array, params, name, key, center=None):
    h, w, channels = array.shape
    draws = Draws(**key)
    degrees, (dx, dy), scale, shear = params
    angle = draws.range(0, *degrees)
    shift = [round(draws.range(1, -dx * w, dx * w)), round(draws.range(2, -dy * h, dy * h))]
    factor = draws.range(3, *scale)
    shears = [draws.range(4, *shear[:2]), draws.range(5, *shear[2:])]
    matrix = affine_matrix(angle, shift, factor, shears, center or (w * 0.5, h * 0.5))
    want = to_pil(array).transform((w, h), Image.Transform.AFFINE, matrix, FILTERS[name],
                                   fillcolor=colour(channels))
    document = {"degrees": list(degrees), "translate": [dx, dy], "scale": list(scale),
                "shear": list(shear), "filter": name, "fill": fill_of(channels),
                "center": list(center or [])}
    equal(both("affine", document, array, **key), from_pil(want))


@settings(max_examples=200)
@given(SIDES, SIDES, CHANNELS, NAMES, KEYS)
def test_affine_equals_torchvision_over_pillow(h, w, channels, name, key):
    check_affine(noise(h, w, channels),
                 ((-40, 60), (0.3, 0.1), (0.5, 2.0), (-20, 20, -10, 30)), name, key)


@given(SIDES, SIDES, NAMES, KEYS)
def test_affine_that_only_scales_and_shifts(h, w, name, key):
    """Pillow has an arithmetic of its own for these."""
    check_affine(noise(h, w), ((0, 0), (0.5, 0.5), (0.3, 3.0), (0, 0, 0, 0)), name, key)


@given(SIDES, SIDES, NAMES, KEYS)
def test_affine_that_shrinks_a_lot(h, w, name, key):
    """Places beyond what 16 bits hold: Pillow adds up doubles then."""
    check_affine(noise(h, w), ((-180, 180), (0, 0), (0.001, 0.004), (0, 0, 0, 0)), name, key,
                 center=(h / 2, 3.0))


def perspective_coefficients(corners, width, height):
    starts = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
    rows, right = [], []
    for (x, y), (u, v) in zip(corners, starts):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return np.linalg.solve(np.array(rows, float), np.array(right, float)).astype(np.float32)


@settings(max_examples=150)
@given(st.integers(4, 90), st.integers(4, 90), CHANNELS, NAMES, st.floats(0, 0.9), KEYS)
def test_perspective_equals_torchvision_over_pillow(h, w, channels, name, distortion, key):
    array, d = noise(h, w, channels), Draws(**key)
    a, b = int(distortion * (w // 2)), int(distortion * (h // 2))
    far_x, far_y = w - a - 1, h - b - 1
    corners = [(d.below(1, a + 1), d.below(2, b + 1)), (far_x + d.below(3, a + 1), d.below(4, b + 1)),
               (far_x + d.below(5, a + 1), far_y + d.below(6, b + 1)),
               (d.below(7, a + 1), far_y + d.below(8, b + 1))]
    try:
        coefficients = perspective_coefficients(corners, w, h)
    except np.linalg.LinAlgError:
        return
    want = to_pil(array).transform((w, h), Image.Transform.PERSPECTIVE, coefficients.tolist(),
                                   FILTERS[name], fillcolor=colour(channels))
    got = both("perspective", {"distortion": distortion, "p": 1, "filter": name,
                               "fill": fill_of(channels)}, array, **key)
    # A coefficient on the border of two float32 values may be the other one; few pixels show it.
    assert np.count_nonzero(np.any(got != from_pil(want), axis=2)) <= 0.02 * h * w


def test_perspective_is_done_as_often_as_asked():
    array = noise(20, 30)
    done = sum(not np.array_equal(apply("perspective", {"p": 0.3}, array, sample=s), array)
               for s in range(500))
    assert 110 < done < 190


# ---- elastic -----------------------------------------------------------------------------------


def moves(draw, h, w, alpha, sigma):
    """As the op's doc says, in double."""
    from test_ops_pixels import gaussian, splitmix
    field = np.array([[(splitmix(draw, y * w + x) >> 40) * 2.0 ** -23 - 1 for x in range(w)]
                      for y in range(h)])
    n = int(8 * sigma + 1) | 1
    pad = np.pad(field, [(n // 2,) * 2, (n // 2,) * 2], mode="reflect")
    down = sum(k * pad[i:i + h] for i, k in enumerate(gaussian(n, sigma)))
    return alpha / 2 * sum(k * down[:, i:i + w] for i, k in enumerate(gaussian(n, sigma)))


@settings(max_examples=20)
@given(st.integers(2, 30), st.integers(2, 30), st.floats(0, 300), st.floats(0.1, 4), KEYS)
def test_elastic(h, w, alpha, sigma, key):
    array, draws = noise(h, w), Draws(**key)
    got = both("elastic", {"alpha": alpha, "sigma": sigma, "fill": 77}, array, **key)
    y, x = np.mgrid[0:h, 0:w] + 0.5
    y, x = y + moves(draws.u64(1), h, w, alpha, sigma), x + moves(draws.u64(0), h, w, alpha, sigma)
    clear = np.min([np.abs(v - np.rint(v)) for v in (x, y)], axis=0) > 1e-3  # not between pixels
    row, column = np.floor(y).astype(int), np.floor(x).astype(int)
    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    want = np.where(inside[..., None], array[row.clip(0, h - 1), column.clip(0, w - 1)], 77)
    equal(got[clear], want[clear].astype(np.uint8))


def test_elastic_without_moves_is_the_image():
    array = noise(20, 31)
    for name in FILTERS:
        equal(apply("elastic", {"alpha": 0, "filter": name}, array), array)


# ---- letterbox and stacks of crops ---------------------------------------------------------------

RESAMPLERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC,
              "nearest": Image.Resampling.NEAREST, "lanczos": Image.Resampling.LANCZOS,
              "box": Image.Resampling.BOX}


@settings(max_examples=200)
@given(SIDES, SIDES, SIDES, SIDES, CHANNELS, st.sampled_from(list(RESAMPLERS)))
def test_letterbox(h, w, height, width, channels, name):
    array = noise(h, w, channels)
    if round(h / w * width) == 0 or round(w / h * height) == 0:
        return  # Pillow has no image without pixels
    want = ImageOps.pad(to_pil(array), (width, height), RESAMPLERS[name], colour(channels))
    equal(both("letterbox", {"size": [height, width], "filter": name, "fill": fill_of(channels)},
               array), from_pil(want))


def five(image, height, width):
    right, bottom = image.width - width, image.height - height
    places = [(0, 0), (right, 0), (0, bottom), (right, bottom),
              (round(right / 2), round(bottom / 2))]
    return [from_pil(image.crop((x, y, x + width, y + height))) for x, y in places]


@given(SIDES, SIDES, CHANNELS, st.data())
def test_five_and_ten_crops(h, w, channels, data):
    height, width = data.draw(st.integers(1, h)), data.draw(st.integers(1, w))
    array = noise(h, w, channels)
    image = to_pil(array)
    equal(both("five_crop", {"size": [height, width]}, array), np.stack(five(image, height, width)))
    for vertical in (False, True):
        turned = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM if vertical
                                 else Image.Transpose.FLIP_LEFT_RIGHT)
        equal(both("ten_crop", {"size": [height, width], "vertical": vertical}, array),
              np.stack(five(image, height, width) + five(turned, height, width)))


def test_crops_refuse_what_is_too_small():
    refused("TYPE", "five_crop", {"size": 5}, noise(4, 9), "smaller", "resize")
    refused("TYPE", "ten_crop", {"size": [4, 10]}, noise(4, 9), "smaller", "resize")


def test_stacks_are_normalised_image_by_image():
    params = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]}
    crops = apply("five_crop", {"size": [6, 7]}, noise(9, 13))
    for layout in ("chw", "hwc"):
        got = apply("normalize", params | {"layout": layout}, crops, layout="hwc")
        equal(got, np.stack([apply("normalize", params | {"layout": layout}, np.ascontiguousarray(
            crop)) for crop in crops]))
