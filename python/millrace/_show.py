# SPDX-License-Identifier: Apache-2.0
"""Batches as pictures."""
import os
import tempfile


class Sheet:
    """A contact sheet: notebooks draw it; `png` is the file's bytes."""

    def __init__(self, png, path):
        self.png, self.path = png, path

    def _repr_png_(self):
        return self.png

    def __repr__(self):
        return f"<millrace.Sheet {self.path or ''}{len(self.png)} bytes of PNG>"


def show(batch, path=None, *, columns=0, cell=0):
    """Draws a batch as a labelled contact sheet: its images as the model gets them, numbers other
    than bytes spread over black to white. Written to `path` if given; a notebook shows it."""
    if getattr(batch, "_raw", None) is None:
        raise TypeError("show() takes a batch as a loader delivered it")
    target = path or tempfile.mkstemp(suffix=".png")[1]
    try:
        batch._raw.sheet(os.fspath(target), columns, cell)
        with open(target, "rb") as file:
            return Sheet(file.read(), path)
    finally:
        if path is None:
            os.unlink(target)
