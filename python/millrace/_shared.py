# SPDX-License-Identifier: Apache-2.0
"""Named values that are made once and used by many: threads, processes, nodes, later runs."""
import functools
import json
import os
import pickle
import struct

from . import _core
from . import _errors as _errors  # it says how errors are raised


def shared(store=None, fabric=None, *, space="default", ttl=0.0, timeout=0.5, patience=60.0,
           allow_pickle=False):
    """A place for named values that are made once, and found by all who know their names.

        tokens = mr.shared(fabric="redis://node1", space="tokens v2")
        ids = tokens.get_or_make(name, lambda: tokenize(read(name)))

    `store` is a folder on this machine, or a dict of the parameters of the op cache; its values
    outlive the process. `fabric` is the URL of Redis servers (docs/fabric.md), for several nodes.
    Both: the store is asked first, and gets what the fabric has. Neither: the user's own store.

    Values are bytes, numbers, text, None, numpy arrays, and tuples, lists and dicts of them, and
    come back as what they were. Other objects need allow_pickle=True; unpickling runs code, so it
    is for stores and servers that nobody else can write to.

    A key stands for one value for ever: when what it stands for changes (other parameters, another
    version of the function), change the key or `space`.

    `patience`: seconds to wait for somebody who is making a value, before making it here too.
    `ttl`: seconds that the fabric keeps values, 0 as its URL says, or for no end. `timeout`: seconds that an answer of
    the fabric may take. Servers that are down, slow or full, and stores that are full, only mean
    that values are made again.

    The object may be used by threads, forked and pickled; every process opens its own.
    """
    return Shared(store, fabric, space, ttl, timeout, patience, allow_pickle)


class Shared:
    """See millrace.shared."""

    def __init__(self, store, fabric, space, ttl, timeout, patience, allow_pickle):
        if isinstance(store, (str, os.PathLike)):
            store = {"path": os.fspath(store)}
        self._arguments = (store, fabric, space, ttl, timeout, patience, allow_pickle)
        self._allow_pickle = allow_pickle
        self._open = None
        self._core()  # what is wrong is told now

    def _core(self):
        if self._open is None or self._open[0] != os.getpid():
            store, fabric, space, ttl, timeout, patience, _ = self._arguments
            text = None if store is None else json.dumps(store)
            core = _core.Shared(text, fabric, space, ttl, timeout, patience)
            # Children of multiprocessing leave without freeing anything, but they do this. It is
            # imported here because importing millrace is to be light.
            from multiprocessing import util
            finalize = util.Finalize(self, core.close, exitpriority=1)
            self._open = os.getpid(), core, finalize
        return self._open[1]

    def __reduce__(self):
        return Shared, self._arguments

    def get(self, key, default=None):
        """The value of a key (text or bytes), or `default` where nobody has it."""
        value = self._core().get(_key(key))
        return default if value is None else decode(value, self._allow_pickle)

    def put(self, key, value):
        """Keeps a value, as far as there is room. One that is there already stays."""
        self._core().put(_key(key), encode(value, self._allow_pickle))

    def get_or_make(self, key, function):
        """The value of a key. Where nobody has it, one of all who ask calls function(), and the
        others wait for it. What function raises is raised here, and nobody waits for it."""
        make = functools.partial(_make, function, self._allow_pickle)
        return decode(self._core().get_or_make(_key(key), make), self._allow_pickle)

    def stats(self):
        """A dict: values from_store, from_fabric and made, waits for others, and the trouble that
        a server has, in words."""
        return self._core().stats()

    def close(self):
        """Waits until what was made is written. A closed object opens itself when it is used."""
        if self._open is not None and self._open[0] == os.getpid():
            self._open[2]()
        self._open = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _make(function, allow_pickle):
    return encode(function(), allow_pickle)


def _key(key):
    if isinstance(key, str):
        return b"s" + key.encode()
    if isinstance(key, (bytes, bytearray, memoryview)):
        return b"b" + bytes(key)
    raise TypeError(f"a key is text or bytes, not {type(key).__name__}")


# ---- Values as bytes: a JSON skeleton, then the bytes that it points at ------------------------
#
#     "MRV1"  length of the skeleton (8 bytes)  skeleton  bytes
#
# A skeleton is null, true, false, a number or text as themselves, else a list of a letter and what
# it needs: ["t", ...] tuple, ["l", ...] list, ["d", [key, value], ...] dict, ["b", offset, size]
# bytes, ["a", dtype, shape, offset, size] array, "n" in its place one of numpy's numbers,
# ["i", digits] and ["f", hex] numbers that JSON does not carry exactly, ["p", offset, size]
# pickled.

_MAGIC = b"MRV1"
_EXACT = 1 << 53


def encode(value, allow_pickle=False):
    """Bytes that decode() makes the value of."""
    parts = []
    skeleton = json.dumps(_take_apart(value, parts, [0], allow_pickle), separators=(",", ":"))
    text = skeleton.encode()
    return b"".join([_MAGIC, struct.pack("<Q", len(text)), text, *parts])


def _add(parts, at, data):
    start = at[0]
    parts.append(data)
    at[0] += len(data)
    return [start, len(data)]


def _take_apart(value, parts, at, allow_pickle):
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if -_EXACT <= value <= _EXACT else ["i", str(value)]
    if kind is float:
        return ["f", value.hex()]
    if kind in (bytes, bytearray, memoryview):
        return ["b", *_add(parts, at, bytes(value))]
    if kind in (tuple, list):
        return ["t" if kind is tuple else "l",
                *(_take_apart(item, parts, at, allow_pickle) for item in value)]
    if kind is dict:
        return ["d", *([_take_apart(key, parts, at, allow_pickle),
                        _take_apart(item, parts, at, allow_pickle)]
                       for key, item in value.items())]
    array = _as_array(value)
    if array is not None:
        letter = "a" if kind is type(array) else "n"
        return [letter, array.dtype.str, list(array.shape), *_add(parts, at, array.tobytes())]
    if allow_pickle:
        return ["p", *_add(parts, at, pickle.dumps(value, protocol=5))]
    raise TypeError(f"a shared value cannot hold {kind.__module__}.{kind.__qualname__}: make numpy "
                    "arrays, numbers, text, bytes, tuples, lists or dicts of it, or pass "
                    "allow_pickle=True to millrace.shared")


def _as_array(value):
    """The value as an array whose bytes say all, or None: it is none of numpy's, or holds
    objects."""
    numpy = _numpy()
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    array = numpy.asarray(value)
    plain = type(value) is numpy.ndarray or isinstance(value, numpy.generic)
    return array if plain and array.dtype.kind in "biufcSUMm" else None


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def decode(data, allow_pickle=False):
    """The value of bytes that encode() made. Bytes that it did not make are a ValueError."""
    view = memoryview(data)
    try:
        if bytes(view[:4]) != _MAGIC:
            raise ValueError("no mark")
        (length,) = struct.unpack("<Q", view[4:12])
        skeleton = json.loads(bytes(view[12:12 + length]))
        return _put_together(skeleton, view[12 + length:], allow_pickle)
    except (ValueError, KeyError, IndexError, TypeError, struct.error, RecursionError) as error:
        raise ValueError(f"not a value that millrace.shared made: {error}") from error


def _piece(view, start, size):
    if not (0 <= start and 0 <= size and start + size <= len(view)):
        raise ValueError("bytes are missing")
    return view[start:start + size]


def _array_of(view, dtype, shape, start, size):
    numpy = _numpy()
    kind = numpy.dtype(dtype)
    if kind.kind not in "biufcSUMm":
        raise ValueError(f"no array of {dtype}")
    array = numpy.frombuffer(_piece(view, start, size), kind).reshape(shape)
    return array.copy()  # it may be written to, as what the function made


def _put_together(node, view, allow_pickle):
    if not isinstance(node, list):
        return node
    letter, *rest = node
    if letter in ("t", "l"):
        items = [_put_together(item, view, allow_pickle) for item in rest]
        return tuple(items) if letter == "t" else items
    if letter == "d":
        return {_put_together(key, view, allow_pickle): _put_together(item, view, allow_pickle)
                for key, item in rest}
    if letter == "b":
        return bytes(_piece(view, *rest))
    if letter in ("a", "n"):
        array = _array_of(view, *rest)
        return array if letter == "a" else array[()]
    if letter == "i":
        return int(rest[0])
    if letter == "f":
        return float.fromhex(rest[0])
    if letter == "p" and allow_pickle:
        return pickle.loads(_piece(view, *rest))
    raise ValueError("it is pickled; allow_pickle=True would unpickle it" if letter == "p"
                     else f"unknown kind {letter!r}")
