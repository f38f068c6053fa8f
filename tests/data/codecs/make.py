# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny images beside this file and the seeds under fuzz/corpus/decode_*. They are
committed; run it again only to add some:  python tests/data/codecs/make.py"""
import io
import pathlib
import sys

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import test_decode as make  # noqa: E402  (its makers of files; nothing of it runs here)


def pattern(height, width, channels):
    """What tests/unit/test_codecs.c expects to find."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((x * 7 + y * 13 + c * 29) % 256).astype(np.uint8)


def encode(array, format, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, format, **options)
    return file.getvalue()


def unit_files():
    rgb, grey = pattern(6, 9, 3), pattern(6, 9, 1)
    yield "flat.jpg", encode(np.full((8, 8, 3), 128, np.uint8), "JPEG", quality=95)
    yield "colour.jpg", encode(pattern(19, 17, 3), "JPEG", quality=80)
    yield "progressive.jpg", encode(pattern(19, 17, 3), "JPEG", quality=80, progressive=True)
    yield "colour.png", encode(rgb, "PNG")
    yield "interlaced.png", make.png_file(rgb, 8, 2, interlace=True)
    yield "grey16.png", make.png_file(grey, 16, 0)
    yield "palette.png", make.png_file(np.arange(54).reshape(6, 9, 1) % 16, 4, 3,
                                       extra=make.chunk(b"PLTE", bytes(range(48))))
    yield "colour.webp", encode(rgb, "WEBP", lossless=True)
    yield "lossy.webp", encode(pattern(19, 17, 3), "WEBP", quality=70)
    yield "alpha.webp", encode(pattern(19, 17, 4), "WEBP", quality=70)


def seeds():
    """Small members of the families of test_decode.py, one file each."""
    for kind, files in [("jpeg", make.jpeg_files()), ("png", make.png_files()),
                        ("webp", make.webp_files())]:
        kept = [(name, data) for name, data in files if len(data) < 6000]
        step = max(1, len(kept) // 24)
        for name, data in kept[::step]:
            yield kind, name, data
    for name, data in make.oriented_files(6).items():
        if len(data) < 4000:
            yield name.split()[0], name, data


def main():
    for name, data in unit_files():
        (HERE / name).write_bytes(data)
    for kind, name, data in seeds():
        folder = ROOT / "fuzz" / "corpus" / f"decode_{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        file = "".join(c if c.isalnum() else "_" for c in name.lower())
        (folder / f"{file}.{kind}").write_bytes(data)


if __name__ == "__main__":
    main()
