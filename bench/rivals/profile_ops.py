# SPDX-License-Identifier: Apache-2.0
"""Where our own CPU time goes, as perf sees it: functions of the library count for the folder of the
file they are written in, everything else for its library."""

import os
import re
import subprocess

# The first pattern that is found in "library file" names the group.
GROUPS = [
    ("JPEG decoding (libjpeg-turbo)", r"libjpeg"),
    ("decoding JPEG", r"src/(codecs|kernels)/jpeg"),
    ("resampling", r"src/kernels/resampl"),
    ("normalise, flip, layout", r"src/kernels/"),
    ("decoding, around the libraries", r"src/codecs/"),
    ("ops", r"src/ops/"),
    ("engine", r"libmillrace"),
    ("reading files, the system", r"\[|vdso"),
    ("C library", r"libc|libm\b|ld-linux"),
    ("the rest", r""),
]


def group_of(text):
    return next(name for name, pattern in GROUPS if re.search(pattern, text))


def files_of_symbols(library):
    """{function: source file}, from the debug information. Of two functions with one name, the first."""
    shown = subprocess.run(["nm", "-l", "--defined-only", library], capture_output=True, text=True)
    files = {}
    for line in shown.stdout.splitlines():
        head, _, place = line.partition("\t")
        files.setdefault(head.split()[-1], place.rpartition(":")[0])
    return files


def shares(lines, files):
    found = {name: 0.0 for name, _ in GROUPS}
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 3 and cells[0].endswith("%"):
            symbol = cells[2].split()[-1].partition(".")[0]
            file = files.get(symbol, "") if "libmillrace" in cells[1] else ""
            found[group_of(f"{cells[1]} {file}")] += float(cells[0][:-1])
    return {name: share for name, share in found.items() if share >= 0.05}


def profile(command, folder):
    """{group: percent}, or None where perf is missing or not allowed. The library lies beside the
    command."""
    data = os.path.join(folder, "perf.data")
    record = ["perf", "record", "-q", "-F", "499", "-o", data, "--", *command]
    show = ["perf", "report", "-i", data, "--stdio", "-F", "overhead,dso,sym", "-t", "|"]
    try:
        if subprocess.run(record, capture_output=True).returncode != 0:
            return None
        shown = subprocess.run(show, capture_output=True, text=True, errors="replace").stdout
        files = files_of_symbols(os.path.join(os.path.dirname(command[0]), "libmillrace.so"))
    except FileNotFoundError:
        return None
    found = shares(shown.splitlines(), files)
    return found if sum(found.values()) > 50 else None
