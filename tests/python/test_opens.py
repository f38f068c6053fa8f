# SPDX-License-Identifier: Apache-2.0
"""A shard is opened once for all reads of a run, counted by the kernel (inotify), which sees what io_uring opens too."""
import ctypes
import os
import struct

import pytest

import mrlib
from test_law_matrix import hdf5, lines, parquet, tar, tfrecord

ACCESS, CLOSE, OPEN = 0x1, 0x10, 0x20
SHARDED = {f.__name__: f for f in (tar, tfrecord, lines, parquet, hdf5)}


class Watch:
    """Counts how often files are opened. Equal events in a row are one to the kernel, so reads and closings, which
    stand between two openings, are watched as well."""

    def __init__(self, paths):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        if self.fd < 0:
            pytest.skip("no inotify here")
        self.opened = {libc.inotify_add_watch(self.fd, os.fsencode(path), OPEN | ACCESS | CLOSE): 0 for path in paths}

    def counts(self):
        """Since the last time."""
        try:
            while data := os.read(self.fd, 1 << 16):
                at = 0
                while at < len(data):
                    watch, mask, _, size = struct.unpack_from("iIII", data, at)
                    self.opened[watch] += bool(mask & OPEN)  # -1, events were lost: a KeyError
                    at += 16 + size
        except BlockingIOError:
            counts, self.opened = list(self.opened.values()), dict.fromkeys(self.opened, 0)
            return counts


@pytest.mark.parametrize("io", ["pread", "uring"])
@pytest.mark.parametrize("name", SHARDED)
def test_a_shard_is_opened_once_whatever_is_read_of_it(tmp_path, name, io):
    source = SHARDED[name](tmp_path)
    watch = Watch(sorted(path for path in tmp_path.iterdir() if path.is_file()))
    found = {}
    for epochs in (1, 6):
        document = {"source": source, "shuffle": {"window": 2, "lanes": 1}, "batch": 8, "epochs": epochs, "seed": 1}
        try:
            with mrlib.Loader(document, io=io, reads_in_flight=1) as loader:
                assert sum(batch.size for batch in loader) == 40 * epochs
                assert loader.stats()["bytes_read"] > 0
        except mrlib.MrError as error:
            if io == "uring" and error.code == mrlib.CODES["UNSUPPORTED"]:
                pytest.skip("no io_uring here")
            raise
        found[epochs] = watch.counts()
    assert found[1] == found[6]  # to look at it, and to read it
    assert all(1 <= n <= 3 for n in found[1])
