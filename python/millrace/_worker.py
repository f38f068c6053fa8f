# SPDX-License-Identifier: Apache-2.0
"""A worker process: gets numbers through a socket and samples through shared memory (_process.c
has the other side and the layout of the messages)."""
import mmap
import os
import signal
import traceback
from collections import OrderedDict

import numpy as np

from . import _convert

_WORDS, _REQUEST_HEAD, _ANSWER_HEAD, _DIMS, _NOWHERE = 160, 10, 8, 6, -1
_VIEW, _PLACE = _DIMS + 3, 4
_DTYPES = ("uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "int8", "int16",
           "uint16", "uint32", "uint64", "bool")
_NUMPY = [np.dtype("uint16" if name == "bfloat16" else name) for name in _DTYPES]


class _Memory:
    """Shared memory of the parent, mapped as needed."""

    def __init__(self, parent):
        self.parent, self.maps = parent, OrderedDict()

    def _open(self, fd):
        file = os.open(f"/proc/{self.parent}/fd/{fd}", os.O_RDWR)
        try:
            return mmap.mmap(file, 0)
        finally:
            os.close(file)

    def segment(self, number, fd):
        """Batch memory; numbers are never used again, descriptors are."""
        if number not in self.maps:
            self.maps[number] = self._open(fd)
            if len(self.maps) > 64:
                self.maps.popitem(last=False)
        return self.maps[number]

    def own(self, fd, size):
        """This process's region, at least so large."""
        region = self.maps.pop("own", None)
        if region is None or len(region) < size:
            region = self._open(fd)
        if len(region) < size:
            path = f"/proc/{self.parent}/fd/{fd}"
            os.truncate(path, max(size, 2 * len(region)))
            region = self._open(fd)
        self.maps["own"] = region
        return region


def _aligned(size):
    return (size + 63) & ~63


def _read(connection):
    data = bytearray()
    while len(data) < 8 * _WORDS:
        piece = os.read(connection.fileno(), 8 * _WORDS - len(data))
        if not piece:
            return None
        data += piece
    return np.frombuffer(data, np.int64)


def _write(connection, words):
    data = memoryview(words).cast("B")
    while data:
        data = data[os.write(connection.fileno(), data):]


def _input(region, view):
    dtype, n_dims, offset = _NUMPY[view[0]], int(view[1]), int(view[_VIEW - 1])
    shape = tuple(int(d) for d in view[2:2 + n_dims])
    count = int(np.prod(shape)) if shape else 1
    return np.frombuffer(region, dtype, count, offset).reshape(shape).copy()


class _Server:
    def __init__(self, connection, parent, calls):
        self.connection, self.memory, self.calls = connection, _Memory(parent), calls
        self.names = connection.recv()

    def sample(self, words):
        region = self.memory.own(int(words[8]), int(words[7]))
        views = [words[_REQUEST_HEAD + i * _VIEW:_REQUEST_HEAD + (i + 1) * _VIEW]
                 for i in range(int(words[5]))]
        arrays = [_input(region, view) for view in views]
        function = int(words[0])
        return arrays[0] if self.calls[function][2] else dict(zip(self.names[function], arrays))

    def call(self, words):
        function, random, _ = self.calls[int(words[0])]
        sample = self.sample(words)
        if not random:
            return function(sample)
        seed, epoch, index, op = (int(w) & 0xFFFFFFFFFFFFFFFF for w in words[1:5])
        return function(sample, _convert.make_random(seed, epoch, index, op))

    def values(self, words, result, fields):
        if self.calls[int(words[0])][2]:
            return [result]
        if not _convert.is_mapping(result):
            raise TypeError("the function did not return a dictionary of fields")
        names = dict.fromkeys(result.keys())
        missing = [name for name in fields if name not in names]
        surplus = [name for name in names if name not in fields]
        if missing or surplus:
            said = f'no field "{missing[0]}"' if missing else f'one field more, "{surplus[0]}"'
            said += f', but "{surplus[0]}"' if missing and surplus else ""
            raise TypeError(f"the function returned {said}: every sample needs the same fields as the first, or those "
                            "of fields=, which lists all that are returned")
        return [result[name] for name in fields]

    def place(self, words, i, array, used):
        """Writes an output where it belongs; returns its offset in our region, or nowhere."""
        target = words[_REQUEST_HEAD + int(words[5]) * _VIEW + _PLACE * i:][:_PLACE]
        if target[0] != _NOWHERE and array.nbytes == target[3]:
            _copy(self.memory.segment(int(target[0]), int(target[1])), int(target[2]), array)
            return _NOWHERE, used
        region = self.memory.own(int(words[8]), used + array.nbytes)
        _copy(region, used, array)
        return used, used + _aligned(array.nbytes)

    def answer(self, words, fields):
        reply = np.zeros(_WORDS, np.int64)
        result = self.call(words)
        values, used = self.values(words, result, fields), int(words[7])
        for i, value in enumerate(values):
            name, _, _ = _convert.type_of(value)
            array = _convert.to_array(value)
            offset, used = self.place(words, i, array, used)
            at = _ANSWER_HEAD + i * _VIEW
            reply[at:at + 2] = _DTYPES.index(name), array.ndim
            reply[at + 2:at + 2 + array.ndim] = array.shape
            reply[at + _VIEW - 1] = offset
        return reply

    def report(self, words, error):
        """The exception and its traceback, as text in our region."""
        said = f"{type(error).__name__}: {error}".rstrip(": ").encode(errors="replace")
        told = traceback.format_exc().encode(errors="replace")
        region = self.memory.own(int(words[8]), len(said) + len(told))
        region[:len(said)] = said
        region[len(said):len(said) + len(told)] = told
        reply = np.zeros(_WORDS, np.int64)
        reply[:3] = 1, len(said), len(told)
        return reply


def _copy(memory, offset, array):
    target = np.frombuffer(memory, np.uint8, array.nbytes, offset)
    target[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _serve(connection, parent, calls):
    server = _Server(connection, parent, [c[:3] for c in calls])
    fields = [c[3] for c in calls]
    while (words := _read(connection)) is not None:
        try:
            reply = server.answer(words, fields[int(words[0])])
        except Exception as error:  # pylint: disable=broad-except
            reply = server.report(words, error)
        _write(connection, reply)


def main(connection, parent, calls):
    """A parent that was killed leaves no word: its end of the socket is reset, its memory not to be found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        _serve(connection, parent, calls)
    except (ConnectionError, EOFError):
        pass
    except OSError:
        if os.getppid() == parent:
            raise
