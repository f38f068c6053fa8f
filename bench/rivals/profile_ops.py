# SPDX-License-Identifier: Apache-2.0
"""Where our own CPU time goes, as perf sees it, grouped by what the functions are for."""

import os
import re
import subprocess

# The first pattern that is found in "library symbol" names the group.
GROUPS = [
    ("JPEG: entropy decoding", r"libjpeg.*(decode_mcu|huff|fill_bit)"),
    ("JPEG: inverse transform", r"libjpeg.*idct"),
    ("JPEG: upsampling and colour", r"libjpeg.*(upsample|ycc|rgb|color|merged)"),
    ("JPEG: the rest", r"libjpeg"),
    ("resampling", r"libmillrace.*(resampl|horizontal|vertical|vpass|hpass|weights)"),
    ("normalise, flip, layout", r"libmillrace.*(normali[sz]e|planes|flip|pixels|to_float)"),
    ("reading files, system", r"\[kernel|\[k\]|vdso"),
    ("copying and clearing", r"libc.*mem(cpy|move|set)"),
    ("engine and the rest", r""),
]


def group_of(text):
    return next(name for name, pattern in GROUPS if re.search(pattern, text))


def shares(lines):
    found = {name: 0.0 for name, _ in GROUPS}
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 3 and cells[0].endswith("%"):
            found[group_of(" ".join(cells[1:]))] += float(cells[0][:-1])
    return found


def profile(command, folder):
    """{group: percent}, or None where perf is missing or not allowed."""
    data = os.path.join(folder, "perf.data")
    record = ["perf", "record", "-q", "-F", "499", "-o", data, "--", *command]
    show = ["perf", "report", "-i", data, "--stdio", "-F", "overhead,dso,sym", "-t", "|"]
    try:
        if subprocess.run(record, capture_output=True).returncode != 0:
            return None
        shown = subprocess.run(show, capture_output=True, text=True, errors="replace").stdout
    except FileNotFoundError:
        return None
    found = shares(shown.splitlines())
    return found if sum(found.values()) > 50 else None
