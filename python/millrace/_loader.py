# SPDX-License-Identifier: Apache-2.0
"""Loaders and batches: what the engine delivers, as numpy, torch or jax want it."""
import atexit
import json
import operator
import os
import sys
import threading
import time
import weakref

import numpy as np

from . import _convert, _core, _host, _world

_live = weakref.WeakSet()


@atexit.register
def _close_all():
    """Threads that are inside Python functions must be gone before the interpreter is."""
    for loader in list(_live):
        loader.close()


class Ragged:
    """A field whose size varies from sample to sample: sample i is values[offsets[i]:offsets[i+1]],
    of shape shapes[i]. len(), indexing and iteration give the samples."""

    __slots__ = ("values", "offsets", "shapes")

    def __init__(self, values, offsets, shapes):
        self.values, self.offsets, self.shapes = values, offsets, shapes

    def __len__(self):
        return len(self.shapes)

    def __getitem__(self, i):
        if not -len(self) <= operator.index(i) < len(self):
            raise IndexError(i)
        i = i % len(self)
        part = self.values[int(self.offsets[i]):int(self.offsets[i + 1])]
        return part.reshape(tuple(int(d) for d in self.shapes[i]))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def texts(self):
        """The samples as text: file names, for instance."""
        return [bytes(bytearray(np.asarray(part))).decode(errors="replace") for part in self]

    def __repr__(self):
        return f"Ragged({len(self)} samples, {len(self.values)} values of {self.values.dtype})"


class Batch(dict):
    """Fields by name. epoch and step say where in the run it is, size how many samples it has,
    valid how many of them are not padding, samples their indices in the dataset, digest the
    digest of its bytes if the loader was asked for it."""

    __slots__ = ("_raw", "__weakref__")

    def __init__(self, fields=(), raw=None):
        super().__init__(fields)
        self._raw = raw

    epoch = property(lambda self: self._raw.epoch)
    step = property(lambda self: self._raw.step)
    size = property(lambda self: self._raw.size)
    valid = property(lambda self: self._raw.valid)
    digest = property(lambda self: self._raw.digest)

    @property
    def samples(self):
        return np.asarray(self._raw.samples())

    def __reduce__(self):
        return dict, (dict(self),)


# ---- From the engine's arrays to others ---------------------------------------------------------


def _numpy_bfloat16(array):
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return np.asarray(array)  # the bits, as uint16
    return np.asarray(array).view(bfloat16)


def _to_numpy(array):
    return _numpy_bfloat16(array) if array.dtype == "bfloat16" else np.asarray(array)


def _converter(to):
    if to == "numpy":
        return _to_numpy
    if to == "torch":
        from torch import from_dlpack
        return from_dlpack
    if to == "jax":
        import jax
        _register_with_jax(jax)
        return jax.dlpack.from_dlpack
    raise ValueError(f'to must be one of "numpy", "torch", "jax", not {to!r}')


def _register_with_jax(jax):
    """Batches and ragged fields are trees of arrays."""
    try:
        jax.tree_util.register_pytree_node(
            Batch, lambda b: (tuple(b[k] for k in sorted(b)), tuple(sorted(b))),
            lambda keys, values: Batch(zip(keys, values)))
        jax.tree_util.register_pytree_node(
            Ragged, lambda r: ((r.values, r.offsets, r.shapes), None),
            lambda _, parts: Ragged(*parts))
    except ValueError:
        pass  # done before


def _dense_or_ragged(parts, convert):
    """Samples that happen to have one shape need no offsets."""
    values, offsets, shapes = (convert(part) for part in parts)
    return Ragged(values, offsets, shapes)


def _nested(ragged):
    import torch
    if ragged.shapes.shape[1] == 1:
        return torch.nested.nested_tensor_from_jagged(ragged.values, ragged.offsets)
    return torch.nested.as_nested_tensor(list(ragged))


def sample_values(raw, names):
    """The only sample of a batch as numpy arrays, copied."""
    values = {}
    for name, part in raw.fields().items():
        if isinstance(part, tuple):
            shape = np.asarray(part[2])[0]
            values[name] = np.asarray(part[0]).reshape(tuple(int(d) for d in shape)).copy()
        else:
            values[name] = np.asarray(part)[0].copy()
    return {name: np.asarray(values[name]) for name in names}


def _pinned(size):
    import torch
    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def _whole_number(name, value, least):
    """What is too much, the library knows."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} wants a whole number of at least {least}, not {value!r}") from None
    if number < least or number >= 2**63:
        raise ValueError(f"{name} wants a whole number of at least {least}, not {number}")
    return number


def _wants_pinned(options):
    if options["pin"] is not None:
        return options["pin"]
    if options["to"] != "torch":
        return False
    import torch
    return torch.cuda.is_available()


# ---- Loader -------------------------------------------------------------------------------------


class Loader:
    """A pipeline at work. Iterating gives the batches of all epochs, from where it is; one_epoch()
    those of the current epoch. One thread may take batches at a time."""

    def __init__(self, pipeline, options):
        self.pipeline, self._options = pipeline, dict(options)
        self._core = self._processes = None
        if options["ragged"] not in ("values", "nested"):
            raise ValueError(f'ragged must be "values" or "nested", not {options["ragged"]!r}')
        self._convert = _converter(options["to"])
        self._nest = options["to"] == "torch" and options["ragged"] == "nested"
        self._calls = [(call, _host.wants_random(call)) for call in pipeline._batch_calls]
        self._options["trace"] = options["trace"] and os.fspath(options["trace"])
        self._range = _torch_range if options["to"] == "torch" else None
        self.rank, self.world = _world.detect(options["rank"], options["world"])
        state = self._options.pop("state")
        self._open(json.dumps(state) if state is not None else None)
        self._total = self._core.steps_left
        _live.add(self)

    # ---- Opening ----

    def _core_options(self):
        o = self._options
        allocator = o["allocator"] or (_pinned if _wants_pinned(o) else None)
        numbers = {"threads": (o["threads"], 0), "world": (self.world, 1), "rank": (self.rank, 0),
                   "reads": (o["reads"], 0), "batches_ahead": (o["batches_ahead"], 0),
                   "read_ahead_bytes": (o["read_ahead_bytes"], 0), "seed": (o["seed"], 0),
                   "batch": (o["batch"], 1), "epochs": (o["epochs"], 1)}
        given = {name: _whole_number(name, value, least)
                 for name, (value, least) in numbers.items() if value is not None}
        if o["io"] not in ("auto", "uring", "pread"):
            raise ValueError(f'io cannot be {o["io"]!r}\n  hint: known: auto, uring, pread')
        return {**given, "digest": o["digest"], "io": o["io"], "disable_cpu": o["disable_cpu"],
                "allocator": allocator, "log": _log, "trace": o["trace"]}

    def _open(self, state=None, first_epoch=0):
        """Replaces what is open, unless it fails."""
        options = self._core_options()
        functions = list(self.pipeline._functions.items())
        wanted = max((f.processes for _, f in functions), default=0)
        processes = _host.Processes(functions, wanted) if wanted else None
        try:
            compiled, host = self.pipeline._compile(processes.sockets() if processes else ())
            if processes:
                processes.begin(host, len(functions))
            core = _core.Loader(compiled, state=state, first_epoch=first_epoch, **options)
        except BaseException:
            if processes:
                processes.close()
            raise
        self.close()
        self._core, self._host, self._processes = core, host, processes
        self._epoch = json.loads(core.save())["epoch"]
        self._seed = json.loads(core.save())["seed"]
        self._started = None
        self._seen = 0

    def _opened(self):
        if self._core is None:
            raise ValueError("the loader is closed")
        return self._core

    def close(self):
        """Ends threads and processes. Batches that were delivered stay valid."""
        core, self._core = self._core, None
        processes, self._processes = self._processes, None
        if core is None:
            return
        if core.is_inside():  # the collector, or a function, in a thread that has to end
            threading.Thread(target=_end, args=(core, processes)).start()
        else:
            _end(core, processes)

    def __del__(self):
        if getattr(self, "_core", None) is not None:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- Taking batches ----

    def __iter__(self):
        return self

    def __next__(self):
        raw = self._next_raw()
        if raw is None:
            raise StopIteration
        return self._finish(raw)

    def _next_raw(self):
        core = self._opened()
        if self._range is None or not (wait := self._range()):
            return core.next()
        with wait:
            return core.next()

    def _finish(self, raw):
        if self._started is None:
            self._started = time.monotonic()
        self._epoch = raw.epoch
        self._seen += raw.size
        convert, fields = self._convert, raw.fields()
        for name, value in fields.items():
            fields[name] = convert(value) if type(value) is not tuple else self._ragged(value)
        batch = Batch(fields, raw)
        for call, random in self._calls:
            batch = call(batch, self._batch_random(raw)) if random else call(batch)
        return batch

    def _ragged(self, parts):
        ragged = _dense_or_ragged(parts, self._convert)
        return _nested(ragged) if self._nest else ragged

    def _batch_random(self, raw):
        op = int.from_bytes(b"map_batch"[:4], "little")
        return _convert.make_random(self._seed, raw.epoch, raw.step, op)

    def one_epoch(self):
        """The batches that are left of the current epoch; the next call gives the next epoch's."""
        steps = self._steps_left_in_epoch()
        for _ in range(steps):
            yield next(self)

    def _steps_left_in_epoch(self):
        """Of the epoch that the next batch belongs to; a whole epoch where one just ended."""
        core = self._opened()
        left, whole = core.steps_left, core.n_steps
        return 0 if left == 0 else left % whole or whole

    # ---- Questions ----

    def __len__(self):
        """Batches of the whole run, from where this loader was when it was made. load_state_dict()
        does not change it."""
        return self._total

    @property
    def epoch(self):
        """The epoch of the last batch that was delivered."""
        return self._epoch

    @property
    def steps_per_epoch(self):
        return self._opened().n_steps

    @property
    def n_samples(self):
        """Samples in the dataset."""
        return self._opened().n_samples

    def digest(self):
        """Digest of all that was delivered; needs digest=True."""
        return self._opened().digest()

    def stats(self):
        """What it did so far: samples, batches, rate, time spent waiting, memory; caches: for each
        cache of the pipeline what it found, and what this process stored and evicted; lines: how
        often and how long each op ran, and what threads waited for."""
        stats = self._opened().stats()
        stats["caches"] = self._opened().caches()
        seconds = time.monotonic() - self._started if self._started else 0.0
        stats["samples_per_second"] = self._seen / seconds if seconds > 0 else 0.0
        stats["wait_seconds"] = stats.pop("wait_ns") / 1e9
        stats["lines"] = self._core.lines()
        return stats

    def flush(self):
        """Waits until what the caches keep so far is written; close() does so too."""
        self._opened().flush()

    @property
    def trace(self):
        """The file that spans are written to, or None."""
        return self._options["trace"]

    def metrics(self):
        """The figures of stats() as text that Prometheus scrapes."""
        return self._opened().metrics()

    def skips(self):
        """Bad samples that were replaced (on_error="skip"): a dictionary for each."""
        return self._opened().skips()

    # ---- State ----

    def state_dict(self):
        """The state after the last batch that was delivered: a small dictionary of numbers and
        texts. It fits any number of ranks, threads and any batch size."""
        return json.loads(self._opened().save())

    def load_state_dict(self, state):
        """Goes on from a state. Raises if it belongs to another pipeline, dataset or seed."""
        self._open(json.dumps(state))

    def __reduce__(self):
        options = {**self._options, "rank": self.rank, "world": self.world,
                   "state": self.state_dict()}
        return Loader, (self.pipeline, options)

    def __repr__(self):
        if self._core is None:
            return "<millrace.Loader, closed>"
        fields = "".join(f"\n  {name:<10} {_type_text(*kind)}"
                         for name, kind in self.pipeline._compiled.fields)
        return (f"<millrace.Loader of {self.n_samples} samples: {self._core.steps_left} of "
                f"{len(self)} steps left, {self.steps_per_epoch} per epoch, rank {self.rank} of "
                f"{self.world}, {self._core.stats()['threads']} threads, to {self._options['to']}"
                f"{fields}>")

    def _repr_html_(self):
        from html import escape
        return f"<pre>{escape(repr(self))}</pre>"


def _torch_range():
    """A range that torch's profiler shows around the wait for a batch, or None while it is off."""
    torch = sys.modules["torch"]
    if not torch.autograd._profiler_enabled():
        return None
    return torch.profiler.record_function("millrace: next batch")


def _type_text(dtype, dims, layout):
    shape = ", ".join("?" if d < 0 else str(d) for d in dims)
    return f"{dtype}[{shape}] {layout}".rstrip()


def _end(core, processes):
    """Threads before the processes they talk to."""
    core.close()
    if processes is not None:
        processes.close()


def _log(text):
    import logging
    logging.getLogger("millrace").warning(text)
