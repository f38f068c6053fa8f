# SPDX-License-Identifier: Apache-2.0
"""PNGs of 16 bits a channel, which Pillow does not write in colour."""
import struct
import zlib

import numpy as np


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png16(pixels, kind):
    """A PNG of 16 bits a channel, its rows by turns with no filter and with the one that takes differences."""
    height, width, channels = pixels.shape
    rows = []
    for y, row in enumerate(pixels.astype(">u2").view(np.uint8).reshape(height, -1)):
        step = 2 * channels
        before = np.concatenate([np.zeros(step, np.uint8), row[:-step]])
        rows.append(bytes([y % 2]) + (row - before if y % 2 else row).astype(np.uint8).tobytes())
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
