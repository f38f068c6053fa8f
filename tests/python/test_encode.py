# SPDX-License-Identifier: Apache-2.0
"""encode_jpeg against Pillow: the same image for the same quality and subsampling."""
import io
import json

import numpy as np
import pytest
from PIL import Image

import mrlib

SAMPLINGS = {"4:2:0": 2, "4:2:2": 1, "4:4:4": 0}


def picture(height, width, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    wave = 128 + 90 * np.sin((y * (c + 2) + x * (3 - c)) / 9.0) + np.random.default_rng(1).normal(0, 9, y.shape)
    return np.clip(wave, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("quality", [1, 50, 90, 100])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("shape", [(31, 47, 3), (16, 16, 1), (1, 1, 3)])
def test_equal_to_pillow(quality, sampling, shape):
    pixels = picture(*shape)
    ours = mrlib.apply("encode_jpeg", {"quality": quality, "subsampling": sampling}, pixels).tobytes()
    file = io.BytesIO()
    Image.fromarray(pixels if shape[2] == 3 else pixels[..., 0]).save(
        file, "JPEG", quality=quality, **({"subsampling": SAMPLINGS[sampling]} if shape[2] == 3 else {}))
    seen, wanted = (np.asarray(Image.open(io.BytesIO(data))) for data in (ours, file.getvalue()))
    np.testing.assert_array_equal(seen, wanted)


def test_smaller_in_a_pipeline(tmp_path):
    """There and back: what a later decode_image gives is what Pillow reads from the same bytes."""
    (tmp_path / "a").mkdir()
    Image.fromarray(picture(60, 80, 3)).save(tmp_path / "a" / "x.png")
    ops = [{"decode_image": {}}, {"resize": {"size": [30, 40]}}, {"encode_jpeg": {"quality": 60}}]
    document = {"source": {"files": {"path": str(tmp_path / "a")}}, "batch": 1, "ops": ops}
    with mrlib.Loader(json.dumps({**document, "ops": [*ops, {"decode_image": {}}]})) as loader:
        seen = np.asarray(next(iter(loader))["image"]).reshape(30, 40, 3)
    small = mrlib.apply("resize", {"size": [30, 40]}, picture(60, 80, 3))
    encoded = mrlib.apply("encode_jpeg", {"quality": 60}, small).tobytes()
    np.testing.assert_array_equal(seen, np.asarray(Image.open(io.BytesIO(encoded))))


def test_what_is_refused():
    for array in (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 4), np.uint8)):
        with pytest.raises(mrlib.MrError):
            mrlib.apply("encode_jpeg", {}, array)
    with pytest.raises(mrlib.MrError):
        mrlib.apply("encode_jpeg", {}, np.zeros((1, 65501, 3), np.uint8))
