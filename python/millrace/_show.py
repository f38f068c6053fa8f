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
        place = f"{os.fspath(self.path)}, " if self.path is not None else ""
        return f"<millrace.Sheet {place}{len(self.png)} bytes of PNG>"


def show(batch, path=None, *, columns=0, cell=0):
    """Draws a batch as a labelled contact sheet: its images as the model gets them, numbers other
    than bytes spread over black to white. Written to `path` if given; a notebook shows it."""
    if getattr(batch, "_raw", None) is None:
        raise TypeError("show() takes a batch as a loader delivered it")
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            sheet = show(batch, os.path.join(folder, "sheet.png"), columns=columns, cell=cell)
            return Sheet(sheet.png, None)
    batch._raw.sheet(os.fspath(path), columns, cell, batch._classes)
    with open(path, "rb") as file:
        return Sheet(file.read(), path)
