# SPDX-License-Identifier: Apache-2.0
"""decode_image with 16 bits a channel: PNGs written here, number by number, and Pillow where it knows."""
import io
import json

import numpy as np
import pytest
from PIL import Image

import mrlib
from png16 import chunk, png16

KINDS = {0: 1, 2: 3, 4: 2, 6: 4}  # PNG's colour types: channels


def numbers(height, width, channels):
    return np.random.default_rng(channels).integers(0, 65536, (height, width, channels), np.uint16)


def luma(rgb):
    weighed = rgb.astype(np.uint64) @ np.array([19595, 38470, 7471], np.uint64) + np.uint64(0x8000)
    return (weighed >> np.uint64(16)).astype(np.uint16)[..., None]


def ours(data, **params):
    return mrlib.apply("decode_image", params, data)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_given(kind):
    pixels = numbers(7, 11, KINDS[kind])
    data = png16(pixels, kind)
    colour = pixels[..., :3] if kind & 2 else pixels[..., :1].repeat(3, axis=2)
    grey = luma(colour) if kind & 2 else pixels[..., :1]
    for mode, expected in (("rgb16", colour), ("grey16", grey)):
        seen = ours(data, mode=mode)
        assert seen.dtype == np.uint16
        np.testing.assert_array_equal(seen, expected)


def test_pillow_reads_the_same():
    pixels = numbers(5, 6, 1)
    data = png16(pixels, 0)
    np.testing.assert_array_equal(ours(data, mode="grey16")[..., 0], np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_eight_bits_are_spread(form, mode):
    if form != "PNG" and mode in "P1":
        pytest.skip("has no such images")
    file = io.BytesIO()
    Image.fromarray((numbers(9, 10, 3) >> 8).astype(np.uint8)).convert(mode).save(file, form, lossless=True)
    eight = ours(file.getvalue(), mode="rgb")
    np.testing.assert_array_equal(ours(file.getvalue(), mode="rgb16"), eight.astype(np.uint16) * 257)


def test_turned_and_cut(tmp_path):
    """Orientation, and ops behind it, fused or not."""
    pixels = numbers(12, 20, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    data = png16(pixels, 2)
    data = data[:33] + chunk(b"eXIf", exif.tobytes()[6:]) + data[33:]
    np.testing.assert_array_equal(ours(data, mode="rgb16", orient=True), np.rot90(pixels, -1))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(data)
    digests = set()
    for fuse in (True, False):
        document = {"source": {"files": {"path": str(tmp_path / "a")}}, "fuse": fuse, "batch": 1,
                    "ops": [{"decode_image": {"mode": "rgb16"}}, {"cast": {"dtype": "float32"}}]}
        with mrlib.Loader(json.dumps(document)) as loader:
            batch = next(iter(loader))
            np.testing.assert_array_equal(np.asarray(batch["image"]).reshape(12, 20, 3), pixels.astype(np.float32))
            digests.add(np.asarray(batch["image"]).tobytes())
    assert len(digests) == 1


def test_cast():
    pixels = numbers(6, 5, 3)
    scaled = pixels.astype(np.float32) / np.float32(65535)
    for dtype, scale, expected in (("float32", False, pixels.astype(np.float32)), ("float32", True, scaled),
                                   ("float16", True, scaled.astype(np.float16)),
                                   ("uint8", True, np.rint(scaled * np.float32(255)).astype(np.uint8)),
                                   ("uint8", False, np.minimum(pixels, 255).astype(np.uint8))):
        seen = mrlib.apply("cast", {"dtype": dtype, "scale": scale}, pixels, dtype="uint16")
        np.testing.assert_array_equal(seen, expected)


def test_damage_is_refused():
    data = bytearray(png16(numbers(7, 11, 3), 2))
    for at in range(40, len(data) - 16, 37):
        broken = bytes(data[:at]) + bytes([data[at] ^ 0x55]) + bytes(data[at + 1:])
        with pytest.raises(mrlib.MrError):
            ours(broken, mode="rgb16")
    with pytest.raises(mrlib.MrError):
        ours(bytes(data[:60]), mode="rgb16")
    with pytest.raises(mrlib.MrError):
        ours(png16(numbers(7, 11, 3), 2), mode="rgb16", max_pixels=76)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_palettes_numbers_are_given_as_they_are_stored(bits):
    numbers_ = np.random.default_rng(bits).integers(0, 2 ** bits, (13, 17), np.uint8)
    image = Image.fromarray(numbers_, "P")
    image.putpalette(np.random.default_rng(1).integers(0, 256, 3 * 2 ** bits, np.uint8).tobytes())
    out = io.BytesIO()
    image.save(out, "png", bits=bits)
    stored = np.asarray(Image.open(io.BytesIO(out.getvalue())))
    np.testing.assert_array_equal(stored, numbers_)  # as numpy sees it through Pillow
    np.testing.assert_array_equal(ours(out.getvalue(), mode="index")[..., 0], numbers_)
    grey = np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("L"))
    np.testing.assert_array_equal(ours(out.getvalue(), mode="grey")[..., 0], grey)


def test_what_has_no_palette_is_grey_in_mode_index():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    np.testing.assert_array_equal(ours(out.getvalue(), mode="index")[..., 0], pixels)
