# SPDX-License-Identifier: Apache-2.0
"""Python functions and datasets inside a pipeline: what they give, and where they run."""
import inspect
import os
import weakref

import numpy as np

from . import _convert, _core


class Function:
    """A function of .map(): fields is what it gives, [(name, dtype, dims, layout), ...]."""

    __slots__ = ("call", "fields", "random", "one_field", "processes")

    def __init__(self, call, fields, random, one_field, processes):
        self.call, self.fields, self.random = call, fields, random
        self.one_field, self.processes = one_field, processes

    def __reduce__(self):
        return Function, (self.call, self.fields, self.random, self.one_field, self.processes)


class Dataset:
    """What mr.dataset() wraps. structure: one, tuple, dict or object. is_plan: nothing is asked of
    the object but its length; batches have samples' numbers and no values. by_epoch: nothing of an
    epoch is asked for before the epoch begins."""

    __slots__ = ("object", "name", "fields", "structure", "version", "is_plan", "by_epoch")

    def __init__(self, object, name, fields, structure, version, is_plan=False, by_epoch=False):
        self.object, self.name, self.fields = object, name, fields
        self.structure, self.version, self.is_plan = structure, version, is_plan
        self.by_epoch = by_epoch

    def __reduce__(self):
        return Dataset, (self.object, self.name, self.fields, self.structure, self.version,
                         self.is_plan, self.by_epoch)

    def host_values(self):
        from hashlib import blake2b
        length = len(self.object)
        said = repr((self.name, length, self.fields, self.structure, self.version)).encode()
        digest = blake2b(said, digest_size=16).digest()
        return (self.object, length, self.fields, self.structure,
                int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little"),
                bool(self.version), self.is_plan)


def name_of(call):
    """module:name, which is how a document names a function."""
    inner = getattr(call, "func", call)  # functools.partial
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"{getattr(inner, '__module__', None) or type(inner).__module__}:{name}"


def wants_random(call):
    """Whether a function takes a second argument, the generator."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
              and p.default is p.empty]
    return len(needed) >= 2 or any(p.name == "rng" for p in parameters)


def check_importable(call):
    """What other processes shall run, they must be able to import."""
    import pickle
    try:
        pickle.dumps(call)
    except Exception as error:
        raise TypeError(f"{name_of(call)} cannot run in other processes: {error}. It must be a "
                        "function of a module, not a lambda or a local function") from None


def make_host(functions, dataset, sockets=()):
    """functions: [(name, Function), ...]"""
    rows = [(name, f.call, f.fields, f.random, f.one_field, bool(f.processes and sockets))
            for name, f in functions]
    return _core.Host(rows, dataset.host_values() if dataset else None, np.asarray,
                      _convert.to_array, _convert.make_random, list(sockets))


# ---- What a dataset gives -----------------------------------------------------------------------


def _parts(sample, names):
    """A sample's structure and its parts, [(name, value), ...]."""
    if isinstance(sample, dict):
        return "dict", list(sample.items())
    if isinstance(sample, (tuple, list)) and not all(isinstance(x, (int, float)) for x in sample):
        names = names or [f"item{i}" for i in range(len(sample))]
        if len(names) != len(sample):
            raise ValueError(f"{len(names)} names for a sample of {len(sample)} parts")
        return "tuple", list(zip(names, sample))
    return "one", [((names or ["data"])[0], sample)]


def _types(parts):
    return {name: _convert.type_of_part(name, value) for name, value in parts}


def _join(first, second):
    if first.keys() != second.keys():
        raise TypeError(f"the first two samples have different fields: {', '.join(first)} and "
                        f"{', '.join(second)}")
    return [(name, *_convert.join_types(first[name], second[name])) for name in first]


def look_at(object, names):
    """Structure and fields of a dataset, from its first two samples."""
    structure, parts = _parts(object[0], names)
    first = _types(parts)
    second = _types(_parts(object[1], names)[1]) if len(object) > 1 else first
    return structure, _join(first, second)


# ---- What a function gives ----------------------------------------------------------------------


def _result_types(function, result, name):
    if function.one_field:
        return {name: _convert.type_of(result)}
    if not _convert.is_mapping(result):
        raise TypeError(f"the function of map() returned {type(result).__name__}: it takes and "
                        "returns a dictionary of fields. For one field alone use map(fn, field=...)")
    return _types((name, result[name]) for name in result.keys())


def run_once(function, values, key):
    if function.random:
        return function.call(values, _convert.make_random(*key))
    return function.call(values)


def probe(function, samples, name):
    """Fields that a function gives for samples, [(name, dtype, dims, layout), ...]."""
    types = [_result_types(function, run_once(function, values, (0, 0, index, 0)), name)
             for index, values in samples]
    return _join(types[0], types[-1])


# ---- Processes ----------------------------------------------------------------------------------


_running = weakref.WeakSet()


def _forget_in_child():
    for processes in list(_running):
        processes.forget()


os.register_at_fork(after_in_child=_forget_in_child)


class Processes:
    """Worker processes for the functions of a pipeline, started fresh (spawn)."""

    def __init__(self, functions, n):
        import multiprocessing

        from . import _worker
        context = multiprocessing.get_context("spawn")
        calls = [(f.call, f.random, f.one_field, [row[0] for row in f.fields])
                 for _, f in functions]
        self.connections, self.processes = [], []
        for _ in range(n):
            ours, theirs = context.Pipe()
            process = context.Process(target=_worker.main, args=(theirs, os.getpid(), calls),
                                      daemon=True)
            process.start()
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)
        _running.add(self)

    def sockets(self):
        return [connection.fileno() for connection in self.connections]

    def begin(self, host, n_functions):
        names = [host.inputs(i)[0] for i in range(n_functions)]
        for connection in self.connections:
            connection.send(names)

    def forget(self):
        """In a forked child: they are the parent's, and multiprocessing must not end them."""
        from multiprocessing import process
        process._children.difference_update(self.processes)
        for connection in self.connections:
            connection.close()
        self.connections, self.processes = [], []

    def close(self):
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()
        self.connections, self.processes = [], []
