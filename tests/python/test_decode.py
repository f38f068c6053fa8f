# SPDX-License-Identifier: Apache-2.0
"""decode_image against Pillow, bit for bit: files of every kind made here, and the photographs and
hostile corpora of ../shared where they lie beside the repository."""
import io
import itertools
import pathlib
import re
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

import mrlib

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"
MODES = {"rgb": "RGB", "grey": "L"}


# ---- Both sides ------------------------------------------------------------------------------


def ours(data, **params):
    return mrlib.apply("decode_image", params, data)


def pillow(data, mode="rgb", orient=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        image = ImageOps.exif_transpose(image) if orient else image
        array = np.asarray(image.convert(MODES[mode]))
    return array.reshape(array.shape[0], array.shape[1], -1)


def assert_equal(data, **params):
    expected, actual = pillow(data, **params), ours(data, **params)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def assert_refused(data, *codes, **params):
    with pytest.raises(mrlib.MrError) as caught:
        ours(data, **params)
    error = caught.value
    assert error.code in [mrlib.CODES[c] for c in codes or ("CORRUPT",)], str(error)
    assert error.text
    return error


# ---- Files -----------------------------------------------------------------------------------


def picture(height, width, channels=3, seed=0):
    """Smooth colours with noise: every table and both ends of the range get used."""
    random = np.random.default_rng(seed)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    wave = 128 + 160 * np.sin((y * (c + 2) + x * (3 - c)) / 9.0)
    return np.clip(wave + random.normal(0, 12, wave.shape), 0, 255).astype(np.uint8)


def encode(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def colour(height=53, width=71):
    return Image.fromarray(picture(height, width))


def exif_with(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


XMP = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'


def jpeg_files():
    for (h, w), s in itertools.product([(1, 1), (7, 9), (16, 16), (53, 71)],
                                       ["4:4:4", "4:2:2", "4:2:0"]):
        yield f"{h}x{w} {s}", encode(colour(h, w), "JPEG", subsampling=s, quality=90)
    for quality in (1, 50, 100):
        yield f"quality {quality}", encode(colour(), "JPEG", quality=quality)
    for s in ("4:4:4", "4:2:2", "4:2:0"):
        yield f"progressive {s}", encode(colour(), "JPEG", progressive=True, subsampling=s)
    for (h, w), quality in itertools.product([(1, 1), (9, 7), (64, 48)], [1, 30, 75, 95, 100]):
        yield f"progressive {h}x{w} {quality}", encode(colour(h, w), "JPEG", progressive=True,
                                                       quality=quality)
    yield "optimised", encode(colour(), "JPEG", optimize=True)
    yield "restart blocks", encode(colour(), "JPEG", restart_marker_blocks=3)
    yield "restart rows", encode(colour(), "JPEG", restart_marker_rows=1)
    yield "progressive restart", encode(colour(), "JPEG", progressive=True, restart_marker_rows=1)
    yield "stored as RGB", encode(colour(), "JPEG", keep_rgb=True)
    grey = Image.fromarray(picture(40, 33, 1)[:, :, 0])
    yield "grey", encode(grey, "JPEG")
    yield "grey progressive", encode(grey, "JPEG", progressive=True)
    cmyk = encode(Image.fromarray(picture(40, 33, 4), "CMYK"), "JPEG")
    yield "CMYK", cmyk
    at = cmyk.index(b"Adobe")
    yield "YCCK", cmyk[:at + 11] + b"\2" + cmyk[at + 12:]
    yield "CMYK without Adobe", cmyk[:at - 4] + cmyk[at + 12:]
    yield "comment", encode(colour(), "JPEG", comment=b"c" * 60000)
    yield "colour profile", encode(colour(), "JPEG", icc_profile=bytes(200000))
    yield "bytes after the end", encode(colour(), "JPEG") + b"\xff\xd8 more \xff\xda"
    yield from resampled_jpeg_files()


def resampled_jpeg_files():
    """Sampling factors that Pillow does not write. Blocks are grouped the same way under another
    name, so a file with as many groups can be renamed."""
    for factors, (old_h, old_w), (h, w), s in [(0x12, (16, 32), (32, 16), "4:2:2"),
                                               (0x41, (32, 64), (16, 128), "4:2:0"),
                                               (0x14, (32, 64), (128, 16), "4:2:0")]:
        data = encode(colour(old_h, old_w), "JPEG", subsampling=s, quality=95)
        at = data.index(b"\xff\xc0") + 5
        assert data[at + 6] == {"4:2:2": 0x21, "4:2:0": 0x22}[s]
        yield (f"sampling {factors:#x}", data[:at] + struct.pack(">HHBBB", h, w, 3, 1, factors)
               + data[at + 7:])


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_head(width, height, depth=8, colour_type=2, interlace=0):
    return b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, interlace))


def packed(values, depth):
    """Rows of samples (height x n) as PNG rows without filters."""
    if depth == 16:
        rows = values.astype(">u2").tobytes()
        step = values.shape[1] * 2
        return b"".join(b"\0" + rows[i * step:(i + 1) * step] for i in range(len(values)))
    bits = (values[:, :, None] >> np.arange(depth)[::-1]) & 1
    return b"".join(b"\0" + np.packbits(row.reshape(-1)).tobytes() for row in bits)


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
         (1, 0, 2, 1)]


def png_file(samples, depth, colour_type, interlace=False, extra=b"", tail=b""):
    """samples: height x width x channels."""
    height, width, channels = samples.shape
    passes = [samples]
    if interlace:
        passes = [samples[y::dy, x::dx] for y, x, dy, dx in ADAM7]
    data = b"".join(packed(p.reshape(p.shape[0], -1).astype(np.uint16), depth) for p in passes
                    if p.size)
    return (png_head(width, height, depth, colour_type, int(interlace)) + extra
            + chunk(b"IDAT", zlib.compress(data)) + tail + chunk(b"IEND", b""))


def png_kinds():
    """Every colour type and depth, with what must or may stand before the image."""
    for depth in (1, 2, 4, 8, 16):
        yield f"grey {depth}", 1, depth, 0, b""
        yield f"grey {depth} tRNS", 1, depth, 0, chunk(b"tRNS", b"\0\1")
    for depth in (8, 16):
        yield f"colour {depth}", 3, depth, 2, b""
        yield f"colour {depth} tRNS", 3, depth, 2, chunk(b"tRNS", bytes(6))
        yield f"grey alpha {depth}", 2, depth, 4, b""
        yield f"colour alpha {depth}", 4, depth, 6, b""
    for depth in (1, 2, 4, 8):
        colours = np.random.default_rng(depth).bytes(3 << depth)
        yield f"palette {depth}", 1, depth, 3, chunk(b"PLTE", colours)
        yield (f"palette {depth} tRNS", 1, depth, 3,
               chunk(b"PLTE", colours) + chunk(b"tRNS", b"\7\xff"))


def png_files():
    random = np.random.default_rng(5)
    for name, channels, depth, colour_type, extra in png_kinds():
        for interlace, (h, w) in itertools.product((False, True),
                                                   [(1, 1), (5, 3), (29, 35), (3, 5000)]):
            samples = random.integers(0, 1 << depth, (h, w, channels))
            yield (f"{name} {h}x{w}{' interlaced' * interlace}",
                   png_file(samples, depth, colour_type, interlace, extra))
    low = random.integers(0, 256, (9, 9, 1))
    yield "grey 16, small values", png_file(low, 16, 0)
    samples = picture(20, 30)
    metadata = b"".join(chunk(n, d) for n, d in [
        (b"gAMA", struct.pack(">I", 10000)), (b"pHYs", struct.pack(">IIB", 1, 1, 1)),
        (b"sBIT", b"\5\5\5"), (b"bKGD", bytes(6)), (b"tIME", bytes([7, 230, 1, 1, 1, 1, 1])),
        (b"tEXt", b"Title\0x"), (b"zTXt", b"Title\0\0" + zlib.compress(b"y" * 1000)),
        (b"iTXt", b"Title\0\0\0en\0Title\0z"), (b"abCd", b"private")])
    yield "metadata", png_file(samples, 8, 2, extra=metadata, tail=chunk(b"tEXt", b"End\0x"))
    repeated = zlib.compress(packed(np.tile(samples, (3, 4, 1)).reshape(60, -1), 8))
    yield ("window larger than announced", png_head(120, 60)
           + chunk(b"IDAT", b"\x08\x1d" + repeated[2:]) + chunk(b"IEND", b""))
    yield "grey with a palette", png_file(low, 8, 0, extra=chunk(b"PLTE", bytes(30)))
    yield "broken profile", png_file(samples, 8, 2, extra=chunk(b"iCCP", b"bad\0\0no zlib"))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        yield f"Pillow's {mode}", encode(colour().convert(mode), "PNG")
    sixteen = random.integers(0, 65536, (12, 17), dtype=np.uint16)
    yield "Pillow's I;16", encode(Image.fromarray(sixteen), "PNG")
    yield "Pillow's P with transparency", encode(colour().convert("P"), "PNG", transparency=3)
    frames = [Image.fromarray(picture(20, 30, 4, seed)) for seed in range(3)]
    for first in (False, True):
        yield f"animated {first}", encode(frames[0], "PNG", save_all=True, default_image=first,
                                          append_images=frames[1:])


def webp_files():
    with_alpha = Image.fromarray(picture(53, 71, 4))
    for h, w in ((1, 1), (7, 9), (53, 71)):
        yield f"lossy {h}x{w}", encode(colour(h, w), "WEBP", quality=80)
        yield f"lossless {h}x{w}", encode(colour(h, w), "WEBP", lossless=True)
    for quality in (0, 50, 100):
        yield f"quality {quality}", encode(colour(), "WEBP", quality=quality, method=6)
    yield "lossy alpha", encode(with_alpha, "WEBP", quality=60)
    yield "lossy poor alpha", encode(with_alpha, "WEBP", quality=60, alpha_quality=10)
    yield "lossless alpha", encode(with_alpha, "WEBP", lossless=True)
    yield "lossless exact", encode(with_alpha, "WEBP", lossless=True, exact=True)
    few = Image.fromarray(picture(30, 40) & 0xC0)
    yield "few colours", encode(few, "WEBP", lossless=True)
    for lossless, alpha in itertools.product((False, True), repeat=2):
        frames = [Image.fromarray(picture(30, 40, 3 + alpha, seed)) for seed in range(3)]
        yield (f"animated{' lossless' * lossless}{' alpha' * alpha}",
               encode(frames[0], "WEBP", save_all=True, append_images=frames[1:],
                      lossless=lossless))
    yield "frame inside the canvas", webp_animation(encode(colour(14, 18), "WEBP"), 40, 30, 6, 4)
    yield ("frame with alpha inside the canvas",
           webp_animation(encode(Image.fromarray(picture(14, 18, 4)), "WEBP", lossless=True),
                          40, 30, 6, 4))


def riff(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) & 1)


def webp_animation(still, width, height, x, y):
    """An animation of one frame (a still WebP without extras) on a larger canvas."""
    def three(n):
        return struct.pack("<I", n)[:3]
    image = Image.open(io.BytesIO(still))
    frame = (three(x // 2) + three(y // 2) + three(image.width - 1) + three(image.height - 1)
             + three(100) + b"\0" + still[12:])
    body = (b"WEBP" + riff(b"VP8X", b"\x12\0\0\0" + three(width - 1) + three(height - 1))
            + riff(b"ANIM", b"\x20\x40\x60\xff\0\0") + riff(b"ANMF", frame))
    return b"RIFF" + struct.pack("<I", len(body)) + body


def all_files():
    for kind, files in (("jpeg", jpeg_files()), ("png", png_files()), ("webp", webp_files())):
        for name, data in files:
            yield pytest.param(data, id=f"{kind}: {name}")


# ---- Equal to Pillow ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data", list(all_files()))
def test_equals_pillow(data, mode):
    assert_equal(data, mode=mode)


def raw_profile(orientation, compressed):
    exif = exif_with(orientation).tobytes()
    text = b"\nexif\n%8d\n" % len(exif) + re.sub(b"(.{72})", b"\\1\n", exif.hex().encode()) + b"\n"
    key = b"Raw profile type exif\0"
    return chunk(b"zTXt", key + b"\0" + zlib.compress(text)) if compressed else \
        chunk(b"tEXt", key + text)


def oriented_files(n):
    image, exif, xmp = colour(19, 31), exif_with(n), (XMP % n).encode()
    samples = picture(19, 31)
    jpeg_xmp = b"http://ns.adobe.com/xap/1.0/\0" + xmp
    plain = encode(image, "JPEG")
    return {
        "jpeg exif": encode(image, "JPEG", exif=exif),
        "jpeg exif, grey": encode(image.convert("L"), "JPEG", exif=exif),
        "jpeg xmp": plain[:2] + b"\xff\xe1" + struct.pack(">H", len(jpeg_xmp) + 2) + jpeg_xmp
        + plain[2:],
        "jpeg exif before xmp": encode(image, "JPEG", exif=exif, xmp=(XMP % 3).encode()),
        "png eXIf": encode(image, "PNG", exif=exif),
        "png eXIf after the image": png_file(samples, 8, 2,
                                             tail=chunk(b"eXIf", exif.tobytes()[6:])),
        "png xmp": png_file(samples, 8, 2, extra=chunk(
            b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)),
        "png compressed xmp": png_file(samples, 8, 2, extra=chunk(
            b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp))),
        "png raw profile": png_file(samples, 8, 2, extra=raw_profile(n, False)),
        "png compressed raw profile": png_file(samples, 8, 2, extra=raw_profile(n, True)),
        "webp exif": encode(image, "WEBP", exif=exif),
        "webp xmp": encode(image, "WEBP", xmp=xmp),
    }


@pytest.mark.parametrize("orientation", range(0, 10))
@pytest.mark.parametrize("name", oriented_files(1))
def test_orientation(name, orientation):
    data = oriented_files(orientation)[name]
    for mode in MODES:
        assert_equal(data, mode=mode, orient=True)
    assert_equal(data, orient=False)
    turned = ours(data, orient=True).shape[:2]
    assert turned == ((31, 19) if 5 <= orientation <= 8 else (19, 31))


def exif_bytes(endian, entries, offset=8):
    """A TIFF directory: (tag, type, count, value as 4 bytes)."""
    head = (b"II*\0" if endian == "<" else b"MM\0*") + struct.pack(endian + "I", offset)
    body = b"".join(struct.pack(endian + "HHI", *e[:3]) + e[3] for e in entries)
    return b"Exif\0\0" + head + struct.pack(endian + "H", len(entries)) + body + bytes(4)


def test_webp_metadata_counts_only_where_it_is_announced():
    data = encode(colour(19, 31), "WEBP", exif=exif_with(6))
    at = data.index(b"VP8X") + 8
    assert_equal(data, orient=True)
    assert_equal(data[:at] + bytes([data[at] & ~8]) + data[at + 1:], orient=True)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("exif", [
    lambda e: exif_bytes(e, [(0x0112, 3, 1, struct.pack(e + "HH", 6, 0))]),
    lambda e: exif_bytes(e, [(0x0112, 4, 1, struct.pack(e + "I", 6))]),
    lambda e: exif_bytes(e, [(0x0100, 3, 1, struct.pack(e + "HH", 9, 0)),
                             (0x0112, 3, 1, struct.pack(e + "HH", 8, 0))]),
    lambda e: exif_bytes(e, [(0x0112, 3, 1, struct.pack(e + "HH", 600, 0))]),
    lambda e: exif_bytes(e, [(0x0112, 3, 2, struct.pack(e + "HH", 6, 6))]),
    lambda e: exif_bytes(e, [(0x0112, 1, 1, b"\6\0\0\0")]),
    lambda e: exif_bytes(e, [(0x0112, 3, 1, struct.pack(e + "HH", 6, 0))] * 2),
    lambda e: exif_bytes(e, [])])
def test_exif_forms(exif, endian):
    assert_equal(encode(colour(19, 31), "JPEG", exif=exif(endian)), orient=True)


@pytest.mark.parametrize("exif", [
    b"Exif\0\0", b"Exif\0\0II*\0", b"Exif\0\0XX*\0\10\0\0\0\1\0",
    exif_bytes("<", [(0x0112, 3, 1, b"\6\0\0\0")], offset=4000000000),
    exif_bytes("<", [(0x0112, 3, 1, b"\6\0\0\0")])[:-10]])
def test_damaged_exif_is_upright(exif):
    data = encode(colour(19, 31), "JPEG", exif=exif)
    np.testing.assert_array_equal(ours(data, orient=True), pillow(data))


# ---- Damage ------------------------------------------------------------------------------------

SMALL = {
    "jpeg": encode(colour(20, 24), "JPEG"),
    "progressive": encode(colour(20, 24), "JPEG", progressive=True),
    "png": encode(colour(12, 9), "PNG"),
    "palette": png_file(np.arange(16).reshape(4, 4, 1) % 16, 4, 3,
                        extra=chunk(b"PLTE", bytes(range(48))) + chunk(b"tEXt", b"a\0b")),
    "webp": encode(colour(20, 24), "WEBP"),
    "webp lossless": encode(colour(12, 9), "WEBP", lossless=True),
    "webp alpha": encode(Image.fromarray(picture(20, 24, 4)), "WEBP", exif=exif_with(1)),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_is_refused(name):
    data = SMALL[name]
    for size in range(len(data)):
        assert_refused(data[:size], "CORRUPT", "UNSUPPORTED")


@pytest.mark.parametrize("name", ["png", "palette"])
def test_every_flipped_bit_of_a_png_is_refused(name):
    data = SMALL[name]
    for at, bit in itertools.product(range(len(data)), (0, 3, 7)):
        broken = bytearray(data)
        broken[at] ^= 1 << bit
        assert_refused(bytes(broken), "CORRUPT", "UNSUPPORTED", "LIMIT")


@pytest.mark.parametrize("name", SMALL)
def test_flipped_bits_are_refused_or_as_pillow_sees_them(name):
    data = SMALL[name]
    random = np.random.default_rng(3)
    for at in random.integers(0, len(data), 400):
        broken = bytearray(data)
        broken[at] ^= 1 << random.integers(0, 8)
        try:
            actual = ours(bytes(broken))
        except mrlib.MrError:
            continue
        np.testing.assert_array_equal(actual, pillow(bytes(broken)))


def test_nothing_is_kept_from_the_file_before():
    """libjpeg keeps tables between files if it is let; a file without them must not find any."""
    data = SMALL["jpeg"]
    at = data.index(b"\xff\xdb")
    size = struct.unpack(">H", data[at + 2:at + 4])[0]
    without = data[:at] + data[at + 2 + size:]
    while b"\xff\xdb" in without:
        at = without.index(b"\xff\xdb")
        without = without[:at] + without[at + 2 + size:]
    ours(data)
    assert_refused(without)


def test_jpeg_warnings_that_guess_no_pixel_are_none():
    data = encode(colour(), "JPEG")
    for marker in (b"\xff\xdb", b"\xff\xc0", b"\xff\xc4", b"\xff\xda"):
        at = data.index(marker)
        junk = data[:at] + b"junk" + data[at:]
        np.testing.assert_array_equal(pillow(junk), pillow(data))
        np.testing.assert_array_equal(ours(junk), pillow(data))
    at = data.index(b"JFIF\0") + 5
    other = data[:at] + b"\x07" + data[at + 1:]
    np.testing.assert_array_equal(ours(other), pillow(other))


def test_jpeg_warning_is_damage_unless_lenient():
    data = encode(colour(), "JPEG")
    at = data.rindex(b"\xff\xd9")
    junk = data[:at] + b"junk" + data[at:]
    error = assert_refused(junk)
    assert "extraneous bytes before marker 0xd9" in error.text and "lenient" in error.hint
    assert at <= error.offset <= at + 6
    np.testing.assert_array_equal(ours(junk, lenient=True), pillow(data))
    half = data[:len(data) // 2]
    assert "Premature end" in assert_refused(half).text
    assert ours(half, lenient=True).shape == (53, 71, 3)


def test_progressive_jpeg_without_its_last_scans_is_refused():
    data = encode(colour(), "JPEG", progressive=True)
    scans = [m.start() for m in re.finditer(b"\xff\xda", data)]
    tables = [max(m.start() for m in re.finditer(b"\xff\xc4", data) if m.start() < s)
              for s in scans]
    for start in tables[2:]:
        short = data[:start] + b"\xff\xd9"
        assert "scans" in assert_refused(short).text
        assert ours(short, lenient=True).shape == (53, 71, 3)


def test_png_palette_index_out_of_range():
    data = png_file(np.array([[[0], [3]]]), 8, 3, extra=chunk(b"PLTE", b"\1\2\3"))
    assert "palette" in assert_refused(data).text
    np.testing.assert_array_equal(ours(data, lenient=True), pillow(data))


def test_png_image_data_that_ends_early():
    whole = zlib.compress(packed(picture(30, 30).reshape(30, -1), 8))
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        data = png_head(30, 30) + chunk(b"IDAT", whole[:cut]) + chunk(b"IEND", b"")
        assert_refused(data)
    short = zlib.compress(packed(picture(29, 30).reshape(29, -1), 8))
    assert_refused(png_head(30, 30) + chunk(b"IDAT", short) + chunk(b"IEND", b""))


def test_damaged_webp_alpha_is_refused():
    data = encode(Image.fromarray(picture(20, 24, 4)), "WEBP")
    at = data.index(b"ALPH") + 8
    broken = data[:at] + b"\x01" + b"\xff" * 8 + data[at + 9:]
    with pytest.raises(Exception):
        pillow(broken)
    assert_refused(broken)


# ---- Foreign bytes -----------------------------------------------------------------------------


@pytest.mark.parametrize("data, name", [
    (b"", "an empty file"), (b"GIF89a" + bytes(20), "a GIF image"), (bytes(50), "zero bytes"),
    (b"BM" + bytes(20), "a BMP image"), (b"\n<!DOCTYPE HTML><p>", "an HTML page"),
    (b"\0\0\0\x1cftypavif", "an AVIF image"), (b"hello", "68 65 6C 6C 6F")])
def test_foreign_bytes_are_named(data, name):
    error = assert_refused(data, "UNSUPPORTED")
    assert name in error.text
    assert "jpeg" in error.text and "png" in error.text and "webp" in error.text


def test_only_bytes_are_decoded():
    with pytest.raises(mrlib.MrError) as caught:
        ours(np.zeros((4, 4, 3), np.uint8))
    assert caught.value.code == mrlib.CODES["TYPE"]


# ---- Bombs -------------------------------------------------------------------------------------


def with_jpeg_size(data, width, height):
    at = re.search(b"\xff[\xc0\xc2]\0\x11\x08", data).end()
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4:]


def repeated_scans(count, size):
    data = encode(Image.new("RGB", size), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + data[-2:]


def test_max_pixels():
    for data in (SMALL["jpeg"], SMALL["png"], SMALL["webp"]):
        height, width, _ = ours(data).shape
        assert ours(data, max_pixels=height * width).shape == (height, width, 3)
        error = assert_refused(data, "LIMIT", max_pixels=height * width - 1)
        assert "max_pixels" in error.hint


def test_headers_of_huge_images():
    assert_refused(with_jpeg_size(SMALL["jpeg"], 65500, 65500), "LIMIT")
    assert_refused(with_jpeg_size(SMALL["jpeg"], 65535, 65535), "LIMIT", "CORRUPT")
    assert_refused(png_head(65535, 65535) + SMALL["png"][33:], "LIMIT")
    assert_refused(png_head(0x7fffffff, 0x7fffffff) + SMALL["png"][33:], "LIMIT")
    assert_refused(webp_animation(SMALL["webp lossless"], 16384, 16384, 0, 0), "LIMIT")


def test_small_files_cannot_hold_large_images():
    assert "do not fit" in assert_refused(with_jpeg_size(SMALL["jpeg"], 9000, 9000)).text
    assert "do not fit" in assert_refused(with_jpeg_size(SMALL["progressive"], 9000, 9000)).text
    assert "do not fit" in assert_refused(png_head(9000, 9000) + SMALL["png"][33:]).text


def test_scan_bombs():
    assert "scans" in assert_refused(repeated_scans(1000, (8, 8)), "LIMIT").text
    assert "scans" in assert_refused(repeated_scans(300, (2000, 1500)), "LIMIT").text
    few = repeated_scans(20, (64, 64))
    np.testing.assert_array_equal(ours(few, lenient=True), pillow(few))


def test_png_image_data_that_does_not_end():
    zeros = zlib.compress(bytes(40 << 20), 9)
    for interlace in (0, 1):
        data = png_head(4, 4, interlace=interlace) + chunk(b"IDAT", zeros) + chunk(b"IEND", b"")
        assert "too much image data" in assert_refused(data).text.lower()


def test_metadata_bombs():
    jpeg, png = SMALL["jpeg"], SMALL["png"]
    comments = b"\xff\xfe\xff\xff" + bytes(65533)
    assert_refused(jpeg[:2] + comments * 300 + jpeg[2:], "LIMIT")
    assert ours(jpeg[:2] + comments * 30 + jpeg[2:]).shape == (20, 24, 3)
    zeros = zlib.compress(bytes(40 << 20), 9)
    for name, prefix in [(b"zTXt", b"a\0\0"), (b"iCCP", b"a\0\0"), (b"iTXt", b"a\0\1\0\0\0")]:
        assert_refused(png[:33] + chunk(name, prefix + zeros) + png[33:], "LIMIT")
    assert_refused(png[:33] + chunk(b"abCd", bytes(20 << 20)) + png[33:], "LIMIT")
    assert_refused(png[:33] + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"")) * 20000 + png[33:],
                   "LIMIT")
    webp = SMALL["webp alpha"]
    body = webp[8:] + riff(b"junk", bytes(20 << 20))
    assert_refused(b"RIFF" + struct.pack("<I", len(body)) + body, "LIMIT")


# ---- Real material -----------------------------------------------------------------------------


def shared_files(folder, pattern="*"):
    files = sorted(p for p in (SHARED / folder).rglob(pattern) if p.is_file())
    if not files:
        pytest.skip(f"left out: {SHARED / folder} is not there")
    return files


def accepts(path):
    """Compares in both modes, oriented or not; False where the file is refused."""
    data = path.read_bytes()
    for mode, orient in itertools.product(MODES, (False, True)):
        try:
            actual = ours(data, mode=mode, orient=orient)
        except mrlib.MrError as error:
            assert error.code in [mrlib.CODES[c] for c in ("CORRUPT", "LIMIT", "UNSUPPORTED")]
            return False
        assert np.array_equal(actual, pillow(data, mode, orient)), f"{path} {mode} {orient}"
    return True


def test_photos():
    assert all([accepts(path) for path in shared_files("photos")])


def test_png_corpus():
    for path in shared_files("corpora/png"):
        assert accepts(path) == (not path.name.startswith("x")), path


def test_webp_corpus():
    for path in shared_files("corpora/webp"):
        try:
            pillow(path.read_bytes())
            healthy = True
        except Exception:
            healthy = False
        assert accepts(path) == healthy, path


def test_jpeg_corpus():
    accepted = sum(accepts(path) for path in shared_files("corpora/jpeg"))
    assert accepted > 0
