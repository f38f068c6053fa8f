# SPDX-License-Identifier: Apache-2.0
"""Writing streams that the source `segments` reads: a folder of segment files (docs/streams.md).

    with millrace.streams.Writer("clicks") as stream:
        stream.append(image_bytes, label=3, key="user 17")
"""
import io
import os
import threading
import time as clock
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from . import _core
from . import _errors as _errors  # it says how errors are raised

_SYNC = {"segment": 0, "flush": 1, "never": 2}


class Writer:
    """Appends entries to one partition of a stream, which has one writer at a time.

    What was appended is acknowledged once flush() or close() returns: from then on a killed process
    does not lose it. `sync` says when to wait for the disk as well: "segment" (for each full segment
    and at the end), "flush" (at every flush) or "never". `segment_bytes` is the size at which a new
    file is begun. `id` names a stream that does not exist yet; 0 gives it a random one.
    """

    def __init__(self, folder: str | os.PathLike[str], partition: int = 0, *,
                 segment_bytes: int = 256 << 20, sync: str = "segment", id: int = 0) -> None:
        if sync not in _SYNC:
            raise ValueError(f'sync is "segment", "flush" or "never", not {sync!r}')
        self._writer = _core.StreamWriter(os.fspath(folder), partition, segment_bytes,
                                           _SYNC[sync], id)

    def append(self, value: bytes | bytearray | memoryview, *, label: int = 0,
               key: str | bytes = b"", time: int | None = None) -> int:
        """Copies an entry and returns its number in the partition. `value` may be anything that
        lies in memory in one piece, a numpy array say. `time` is in nanoseconds since 1970; None is
        now."""
        return self._writer.append(value, label, key.encode() if isinstance(key, str) else key,
                                   clock.time_ns() if time is None else time)

    def append_array(self, array: Any, **values: Any) -> int:
        """An array with its type and shape, as numpy.save writes it; decode_npy() reads it."""
        file = io.BytesIO()
        np.save(file, np.asarray(array), allow_pickle=False)
        return self.append(file.getvalue(), **values)

    @property
    def next_number(self) -> int:
        """The number that the next entry will have: how many the partition has seen."""
        return self._writer.next_number()

    def flush(self) -> None:
        """What was appended is written, and acknowledged."""
        self._writer.flush()

    def close(self) -> None:
        """Flushes and gives the partition free; again does nothing."""
        self._writer.close()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Recorder:
    """Writes what an iterator gives to a stream, in a thread, so that a pipeline can follow it:

        with streams.Recorder("clicks", lambda n: itertools.islice(camera(), n, None)) as recorder:
            for batch in mr.segments("clicks", follow=True).batch(64).loader():
                ...

    An iterator cannot be asked for the same thing twice; the stream can. `source` is called with the
    number of entries that the partition has already, and returns an iterable of what comes after them:
    bytes, or a dictionary of append()'s arguments ({"value": ..., "label": ...}). Entries are flushed
    every `flush` seconds at most, and at the end. An error of the iterator is raised by close(), and
    by check().
    """

    def __init__(self, folder: str | os.PathLike[str],
                 source: Callable[[int], Iterable[bytes | Mapping[str, Any]]], partition: int = 0, *,
                 flush: float = 0.05, **options: Any) -> None:
        self._writer = Writer(folder, partition, **options)
        self._source, self._flush = source, flush
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="millrace-recorder", daemon=True)
        self._flusher = threading.Thread(target=self._flush_often, name="millrace-flusher", daemon=True)
        self._thread.start()
        self._flusher.start()

    def _run(self) -> None:
        try:
            for item in self._source(self._writer.next_number):
                values = dict(item) if isinstance(item, Mapping) else {"value": item}
                with self._lock:
                    if self._stop.is_set():
                        break
                    self._writer.append(values.pop("value"), **values)
            with self._lock:
                if not self._stop.is_set():
                    self._writer.flush()  # nobody else does once this thread has ended
        except BaseException as error:  # for check() and close() to raise
            self._error = error

    def _flush_often(self) -> None:
        while self._thread.is_alive() and not self._stop.wait(self._flush):
            try:
                with self._lock:
                    self._writer.flush()
            except OSError as error:
                self._error = self._error or error
                return

    def check(self) -> None:
        """Raises what went wrong so far."""
        if self._error is not None:
            raise self._error

    def join(self, timeout: float | None = None) -> None:
        """Waits until the iterator has ended."""
        self._thread.join(timeout)

    def close(self) -> None:
        """Ends after the entry at hand; what was written is flushed. An iterator that gives nothing for
        a second is not waited for: what it gives later is not written."""
        self._stop.set()
        self._thread.join(1)
        self._flusher.join()
        with self._lock:
            self._writer.close()
        self.check()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
