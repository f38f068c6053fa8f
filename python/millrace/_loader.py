# SPDX-License-Identifier: Apache-2.0
"""Loaders and batches: what the engine delivers, as numpy, torch or jax want it."""
import atexit
import json
import operator
import os
import sys
import threading
import time
import warnings
import weakref
from collections import deque

import numpy as np

from . import _accelerate, _classes, _convert, _core, _hints, _host, _policy, _world

_MOST_EPOCHS = 2**32 - 1
_live = weakref.WeakSet()


@atexit.register
def _close_all():
    """Threads that are inside Python functions must be gone before the interpreter is."""
    for loader in list(_live):
        loader.close()


def _filled(values, shape, value, dtype=None):
    """An array of one value, which can be written to: torch's where values is, else numpy's."""
    if type(values).__module__.partition(".")[0] == "torch":
        import torch
        return torch.full(shape, value, dtype=dtype or torch.bool)
    return np.full(shape, value, dtype or bool)


def _as_kind_of(values, array):
    """A numpy array as jax has it, where values is one of its arrays."""
    if type(values).__module__.partition(".")[0] in ("jax", "jaxlib"):
        import jax
        return jax.numpy.asarray(array)
    return array


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

    def to_padded(self, value=0, length=None):
        """(values, mask): one array of all samples, each filled up with `value` to the largest of every
        dimension, or the first dimension to `length`, which cuts what is longer; mask is True where a
        value is a sample's own. Of the kind that values is of: numpy, torch or jax."""
        shapes = np.asarray(self.shapes).reshape(len(self), -1)
        dims = [int(d) for d in shapes.max(axis=0)] if len(self) else [0] * shapes.shape[1]
        if length is not None:
            dims[0] = _whole_number("length", length, 0)
        _check_filling(value, str(self.values.dtype).removeprefix("torch."))
        dense = _filled(self.values, (len(self), *dims), value, self.values.dtype)
        mask = _filled(self.values, dense.shape, False)
        for i, part in enumerate(self):
            place = (i, *(slice(0, min(n, most)) for n, most in zip(part.shape, dims)))
            dense[place] = part[:dims[0]]
            mask[place] = True
        return _as_kind_of(self.values, dense), _as_kind_of(self.values, mask)

    pad = to_padded

    def texts(self):
        """The samples as text: file names, for instance."""
        return [bytes(bytearray(np.asarray(part))).decode(errors="replace") for part in self]

    def __repr__(self):
        return f"Ragged({len(self)} samples, {len(self.values)} values of {self.values.dtype})"


def _check_filling(value, name):
    """A number that the values' type cannot hold would be another one. numpy does not know all floats."""
    if "float" in name:
        return
    dtype = np.dtype(name)
    if int(value) != value or not (dtype.kind == "b" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max):
        raise ValueError(f"the values are {dtype}, which cannot be filled up with {value!r}: choose a whole number "
                         'that fits, or cast them in the pipeline: .cast("float32", field=...)')


class Batch(dict):
    """Fields by name. epoch and step say where in the run it is, size how many samples it has,
    valid how many of them are not padding, samples their indices in the dataset, digest the
    digest of its bytes if the loader was asked for it."""

    __slots__ = ("_raw", "_classes", "__weakref__")

    def __init__(self, fields=(), raw=None, classes=()):
        super().__init__(fields)
        self._raw, self._classes = raw, classes

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


def _as_numpy(array):
    """Also of a tensor that needs a gradient or lies on a device."""
    detach = getattr(array, "detach", None)
    return detach().cpu().numpy() if detach else array


# ---- From the engine's arrays to others ---------------------------------------------------------


def _numpy_bfloat16(array):
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return np.asarray(array)  # the bits, as uint16
    return np.asarray(array).view(bfloat16)


def _to_numpy(array):
    if type(array) is np.ndarray:
        return array
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


def _tf_spec(tf, name, dtype, dims, _):
    """What a field is to TensorFlow."""
    kind = tf.as_dtype(dtype)
    if -1 not in dims:
        return tf.TensorSpec((None, *dims), kind)
    if len(dims) != 1:
        raise TypeError(f"field {name} varies in size and has {len(dims)} dimensions: TensorFlow has no "
                        "tensor for it. Make it one size, with resize or crop for instance")
    return tf.RaggedTensorSpec((None, None), kind, 1, tf.int64)


def _tf_value(tf, value):
    if isinstance(value, Ragged):
        return tf.RaggedTensor.from_row_splits(value.values, value.offsets)
    return value


class _DaliSource:
    """A loader as DALI's external_source iterates over it. DALI's manual leaves it to the source to keep
    what is given without a copy, so the last batches are held here."""

    def __init__(self, loader, names, depth):
        self._loader, self._names, self._kept = loader, names, deque(maxlen=2 * depth + 2)

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        for batch in self._loader:
            fields = tuple(list(value) if isinstance(value, Ragged) else value
                           for value in (batch[name] for name in self._names))
            self._kept.append((batch, fields))
            yield fields


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


def _read_state(core):
    """Where a run stands, as a dictionary of numbers and strings."""
    text, rehearsal = core.state()
    state = json.loads(text)
    return state if rehearsal is None else {**state, "rehearsal": rehearsal}


def _replaced():
    return RuntimeError("another iteration of this loader, or a state, has taken the place of this one: use two loaders")


class _NotHere:
    """An attribute that torch's loader has. Programs that make another loader from it cannot do so from a pipeline's.
    (With __getattr__ an AttributeError within a property would be taken for one of the property's name.)"""

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, loader, owner=None):
        raise AttributeError(
            f"a pipeline's loader has no {self._name}: its order is its own. In place of accelerate's "
            "skip_first_batches() load the state that it had: loader.load_state_dict(state); mr.torch.DataLoader has "
            "torch's attributes")


class Loader(_accelerate.Told):
    """A pipeline at work. Each `for batch in loader` is one epoch: the rest of the one that a state or
    next() is in the middle of, else the next one. There are as many as epochs= says, without it any
    number. One thread may take batches at a time, and there is one iteration at a time."""

    dataset, sampler, batch_sampler = _NotHere(), _NotHere(), _NotHere()

    def __init__(self, pipeline, options):
        self.pipeline, self._options = pipeline, dict(options)
        self._core = self._processes = None
        self._no_names = False  # of a trace
        if options["ragged"] not in ("values", "nested"):
            raise ValueError(f'ragged must be "values" or "nested", not {options["ragged"]!r}')
        self._convert = _converter(options["to"])
        self._nest = options["to"] == "torch" and options["ragged"] == "nested"
        self._calls = [(call, _host.wants_random(call)) for call in pipeline._batch_calls]
        self._options["trace"] = options["trace"] and os.fspath(options["trace"])
        self._range = _torch_range if options["to"] == "torch" else None
        self._rank, self._world = _world.detect(options["rank"], options["world"])
        self._begun, self._inside, self._iteration = False, False, 0
        self._asked = False  # for the rank and world, of which one warning is enough
        self._timeout = 0.0  # seconds that next() waits at most; 0: for ever
        state = self._options.pop("state")
        self._open(json.dumps(state) if state is not None else None)
        self._named = _classes.of(self)
        _classes.compare(self, list(_live))
        _live.add(self)

    # ---- Opening ----

    def _core_options(self):
        o = self._options
        allocator = o["allocator"] or (_pinned if _wants_pinned(o) else None)
        numbers = {"threads": (o["threads"], 0), "world": (self._world, 1), "rank": (self._rank, 0),
                   "reads": (o["reads"], 0), "batches_ahead": (o["batches_ahead"], 0),
                   "read_ahead_bytes": (o["read_ahead_bytes"], 0), "seed": (o["seed"], 0),
                   "batch": (o["batch"], 1), "epochs": (self._epochs(), 1)}
        if o["threads"] == "auto":
            numbers["threads"] = (-1, -1)
        given = {name: _whole_number(name, value, least)
                 for name, (value, least) in numbers.items() if value is not None}
        if o["io"] not in ("auto", "uring", "pread"):
            raise ValueError(f'io cannot be {o["io"]!r}\n  hint: known: auto, uring, pread')
        return {**given, "digest": o["digest"], "io": o["io"], "disable_cpu": o["disable_cpu"],
                "allocator": allocator, "log": _log, "trace": o["trace"], "no_names": self._no_names,
                "journal": o["journal"] and os.fspath(o["journal"]), "fabric": o["fabric"],
                "policy": o["policy"] and _policy.Adapter(o["policy"]),
                "by_epoch": bool(self.pipeline._dataset and self.pipeline._dataset.by_epoch)}

    def _epochs(self):
        """How many there are to be: as given, as the pipeline says, else without end."""
        given = self._options["epochs"]
        return given if given is not None else self.pipeline._settings.get("epochs", _MOST_EPOCHS)

    def _open(self, state=None, first_epoch=0):
        """Replaces what is open, unless it fails."""
        options = self._core_options()
        functions = list(self.pipeline._functions.items())
        wanted = max((f.processes for _, f in functions), default=0)
        processes = _host.Processes(functions, wanted) if wanted else None
        try:
            compiled, host = self._shared()._compile(processes.sockets() if processes else ())
            if processes:
                processes.begin(host, len(functions))
            core = _core.Loader(compiled, state=state, first_epoch=first_epoch, **options)
        except BaseException:
            if processes:
                processes.close()
            raise
        self.close()
        self._core, self._host, self._processes = core, host, processes
        start = _read_state(core)
        self._epoch, self._seed = start["epoch"], start["seed"]
        self._classes = core.classes("label")
        self._started = None
        self._seen = 0

    def _shared(self):
        """The pipeline as this rank runs it. Ranks that wait for each other need as many steps each, so
        where nothing is said of the remainder, several ranks have equally much of it, as by torch's sampler;
        of a stream that ends they leave it out."""
        if self._world > 1 and "remainder" not in self.pipeline._settings:
            return self.pipeline.remainder("drop" if self.pipeline._compiled.is_stream else "even")
        return self.pipeline

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

    # ---- Rank and world ----

    def _settled(self):
        """What is open, for the rank and world of this moment: until the first batch a process group
        may come up. From then on another world is an error: its ranks would overlap."""
        core, options = self._opened(), self._options
        if options["rank"] is not None:
            return core
        found = _world.detect(None, None, warn=not self._asked)
        self._asked = True
        if found != (self._rank, self._world):
            if self._begun:
                raise _world.changed((self._rank, self._world), found)
            self._rank, self._world = found
            state = core.save()
            self.close()  # it may have a trace, which has one writer
            self._open(state)
        return self._core

    @property
    def rank(self):
        """Found anew until the first batch is taken, unless it was given."""
        if self._core is not None and not self._begun:
            self._settled()
        return self._rank

    @property
    def world(self):
        """How many ranks there are."""
        if self._core is not None and not self._begun:
            self._settled()
        return self._world

    def _warn_of_uneven_ranks(self, core):
        """Ranks that wait for each other in every step would wait for ever in the last one. With a plan alone
        they do not: what it keeps, it keeps on purpose."""
        if self._is_stream or (self.pipeline._dataset and self.pipeline._dataset.is_plan):
            return
        settings = json.loads(self._shared().to_json())
        batch = self._options["batch"] or settings["batch"]
        rest = core.n_samples % batch
        if self._world > 1 and settings["remainder"] == "keep" and \
                0 < rest <= batch - batch // self._world:
            warnings.warn(f"the last batch of an epoch has {rest} samples, too few for all "
                          f"{self._world} ranks: some get one step less, and training that waits for "
                          'all of them hangs. Use .remainder("even") or .remainder("drop")',
                          RuntimeWarning, stacklevel=5)

    # ---- Taking batches ----

    @property
    def _is_stream(self):
        """Whether what is delivered is still arriving: then there is one epoch, and nobody knows its end."""
        return self.pipeline._compiled.is_stream

    def __iter__(self):
        core = self._settled()
        if self._is_stream:
            return self.all_epochs()  # from where it is
        if self._inside:
            self._iteration += 1  # a thread that is inside of the other one is to know why that ends
            self._go_to(self._epoch + 1)
            core = self._core
        if core.n_steps and core.steps_left == 0:
            raise self._finished()
        self._iteration += 1
        return self._one_iteration(self._iteration) if core.n_steps else iter(())

    def _last_batch(self):
        """Samples of the last batch, of all ranks; -1 where padding does not come behind them all."""
        settings = json.loads(self._shared().to_json())
        if settings["remainder"] not in ("keep", "even") or "share" in settings:
            return -1
        return self._core.n_samples % (self._options["batch"] or settings["batch"])

    def _one_iteration(self, iteration):
        last = False
        with _accelerate.going_through(self, self._last_batch):
            while not last:
                if iteration != self._iteration:
                    raise _replaced()
                self._inside = True
                try:
                    batch = next(self)
                except Exception:
                    if iteration != self._iteration:  # while another thread was waiting here
                        raise _replaced() from None
                    raise
                self.end_of_dataloader = last = self._core.steps_left % self._core.n_steps == 0
                self._inside = not last
                yield batch

    def _finished(self):
        n = self._epochs()
        said = "epoch is" if n == 1 else "epochs are"
        return RuntimeError(f"the loader's {n} {said} over: pass epochs=... to loader() for more, or "
                            "leave it out (and .epochs() of the pipeline) for as many as are asked for")

    def _go_to(self, epoch):
        """The next iteration is this epoch, from its beginning."""
        if epoch >= self._epochs():
            raise self._finished()
        if self.trace and self._inside and epoch == self._epoch + 1:
            for _ in range(self._steps_left_in_epoch()):
                self._next_raw()  # opening anew would begin the trace anew
        else:
            self._open(first_epoch=epoch)
        self._leave()

    def _leave(self):
        """Ends the iteration that goes on, if there is one."""
        self._inside = False
        self._iteration += 1

    def set_epoch(self, epoch):
        """The next iteration is this epoch: the rest of it after a state that was saved in it. A stream
        that is followed has one epoch alone, and goes on."""
        if self._is_stream:
            return
        if self._inside or self.next_epoch != epoch:
            self._go_to(_whole_number("epoch", epoch, 0))

    def __next__(self):
        """The next batch of the run, in whichever epoch it is; StopIteration after the last one."""
        if not self._begun:
            self._warn_of_uneven_ranks(self._settled())
        raw = self._next_raw()
        if raw is None:
            raise StopIteration
        self._begun = True
        return self._finish(raw)

    def _next_raw(self):
        core = self._opened()
        if self._range is None or not (wait := self._range()):
            return core.next(self._timeout)
        with wait:
            return core.next(self._timeout)

    def _finish(self, raw):
        if self._started is None:
            self._started = time.monotonic()
        self._epoch = raw.epoch
        self._seen += raw.size
        convert = self._convert
        fields = raw.numpy_fields() if convert is _to_numpy else raw.fields()
        for name, value in fields.items():
            if type(value) is not np.ndarray:
                fields[name] = convert(value) if type(value) is not tuple else self._ragged(value)
        batch = Batch(fields, raw, self._classes)
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
        """The batches that are left of the current epoch, also of one that was left early; the next
        call gives the next epoch's."""
        if self._is_stream:
            yield from self.all_epochs()
            return
        for _ in range(self._steps_left_in_epoch()):
            yield next(self)

    def all_epochs(self):
        """The batches of all epochs, from where the loader is; without epochs= they do not end."""
        while True:
            try:
                batch = next(self)
            except StopIteration:
                return
            yield batch

    def _steps_left_in_epoch(self):
        """Of the epoch that the next batch belongs to; a whole epoch where one just ended."""
        core = self._settled()
        left, whole = core.steps_left, core.n_steps
        return 0 if left == 0 else left % whole or whole

    def as_tf_dataset(self):
        """The loader as a tf.data.Dataset of dictionaries of tensors; going through it is one epoch.
        One-dimensional fields whose size varies are tf.RaggedTensor; others cannot be given.
        TensorFlow copies what a Python generator gives it."""
        import tensorflow as tf
        if self.pipeline._batch_calls or self._options["to"] != "numpy":
            raise ValueError("as_tf_dataset() wants a loader of numpy arrays, without map_batch: use the "
                             "dataset's own map")
        signature = {name: _tf_spec(tf, name, *kind) for name, kind in self.pipeline._compiled.fields}

        def epoch():
            for batch in self:
                yield {name: _tf_value(tf, value) for name, value in batch.items()}
        return tf.data.Dataset.from_generator(epoch, output_signature=signature)

    def as_dali_source(self, fields=None, prefetch_queue_depth=2):
        """The loader as the source of DALI's fn.external_source, which gives one output for each of
        `fields` (all of a batch, if they are not named) and an epoch until pipeline.reset():

            image, label = fn.external_source(source=loader.as_dali_source(["image", "label"]),
                                              num_outputs=2, cycle="raise", no_copy=True)

        Fields whose size varies are lists of samples. With no_copy=True DALI works on the engine's own
        memory; prefetch_queue_depth is then the pipeline's, and says how many batches are kept for it.
        DALI asks ahead, so a state is that of the last batch that it has taken."""
        if self.pipeline._batch_calls or self._options["to"] != "numpy":
            raise ValueError("as_dali_source() wants a loader of numpy arrays, without map_batch: use DALI's "
                             "own operators")
        known = dict(self.pipeline._compiled.fields)
        names = list(known) if fields is None else list(fields)
        for name in names:
            if name not in known:
                raise ValueError(f"there is no field {name!r}: a batch has {', '.join(known)}")
            if known[name][0] == "bfloat16":
                raise TypeError(f"field {name} is of bfloat16, which DALI does not take: cast it to float16 or "
                                "float32")
        return _DaliSource(self, names, _whole_number("prefetch_queue_depth", prefetch_queue_depth, 1))

    # ---- Questions ----

    def __len__(self):
        """Batches of a whole epoch, for this rank."""
        return self.steps_per_epoch

    @property
    def epoch(self):
        """The epoch of the last batch that was delivered."""
        return self._epoch

    @property
    def next_epoch(self):
        """The epoch that the next iteration is of: the one that a state is in the middle of, the one behind it
        where the state is that of its last batch. A training loop that goes on from a state counts from it:
        for epoch in range(loader.next_epoch, 90)."""
        if self._is_stream:
            return 0
        if self._inside:
            return self._epoch + 1
        here = self.state_dict()
        return here["epoch"] + (here["position"] == here["samples"])

    @property
    def steps_per_epoch(self):
        """A TypeError where a stream is followed: nobody knows where it ends."""
        steps = (self._opened() if self._begun else self._settled()).n_steps
        if steps < 0:
            raise TypeError("a stream that is followed has no length: take as many batches as you want, "
                            "with itertools.islice(loader, n) or the trainer's max_steps, or let it end with "
                            "until=... of the source")
        return steps

    @property
    def n_samples(self):
        """Samples in the dataset; -1 where a stream is followed."""
        return self._opened().n_samples

    @property
    def classes(self):
        """Names of the classes of label, in the order of their numbers: folders, or names in a list or table.
        Where there is no field label: of the only field that has classes, or of several a dictionary, by
        field. Empty where labels are not names. classes_of() tells of any field."""
        names = self._opened().classes("")
        if not names:
            fields = {name: self._opened().classes(name) for name, _ in self.pipeline._compiled.fields}
            found = {name: classes for name, classes in fields.items() if classes}
            return found if len(found) > 1 else names
        return names

    def classes_of(self, field):
        """The same of a field, label or another."""
        return self._opened().classes(field)

    def digest(self):
        """Digest of all that was delivered; needs digest=True."""
        return self._opened().digest()

    def stats(self):
        """What it did so far: samples, batches, rate, time spent waiting, memory; caches: for each
        cache of the pipeline what it found, and what this process stored and evicted; origins: how
        many blocks and bytes came from where; fabric: what went to and came from it, or None; fsspec:
        what passed through this process's gateway, all its loaders together, or None;
        lines: how often and how long each op ran, and what threads waited for."""
        stats = self._opened().stats()
        stats["caches"] = self._opened().caches()
        stats["origins"] = self._opened().origins()
        stats["fabric"] = self._opened().traffic()
        seconds = time.monotonic() - self._started if self._started else 0.0
        stats["samples_per_second"] = self._seen / seconds if seconds > 0 else 0.0
        stats["wait_seconds"] = stats.pop("wait_ns") / 1e9
        stats["lines"] = self._core.lines()
        gateway = sys.modules.get("millrace.gateway")
        stats["fsspec"] = gateway.stats() if gateway else None
        return stats

    def flush(self):
        """Waits until what the caches keep so far is written; close() does so too."""
        self._opened().flush()

    @property
    def trace(self):
        """The file that spans are written to, or None."""
        return self._options["trace"]

    def _retrace(self, path, names=True):
        """Goes on from where it is with another trace, or with none. Where that fails, as it was; closed, if it
        has ended a trace."""
        state = self._opened().save()
        before = self._options["trace"], self._no_names
        self._options["trace"], self._no_names = path, not names
        self.close()  # a trace has one writer
        try:
            self._open(state)
        except BaseException:
            if before[0] is None:  # the loader goes on as it was; a trace that is whole would be begun anew
                self._options["trace"], self._no_names = before
                self._open(state)
            raise

    def metrics(self):
        """The figures of stats() as text that Prometheus scrapes."""
        return self._opened().metrics()

    def stream(self):
        """How the run stands to the stream that it follows: entries read, those that wait and those that it
        is behind by, samples shown again. None where it follows none."""
        return self._opened().stream()

    def feed_back(self, samples, values=None, extra=None):
        """What a trainer found out about samples that it was given: `samples` is a batch, or its samples
        (batch.samples), or some of them.

        values: for rehearse(policy="priority"), a number for each, 0 to 65535, such as its loss. Those
        of the largest values are kept, and are drawn in proportion to them.
        extra: an array of a row for each, which comes back with a sample when it is shown again, as
        float32 in the field "extra" (logits, as DER wants them).

        It is written to the loader's journal, which must be there, and holds from the next step on that
        is planned, some batches ahead; once after a batch. Nothing is kept of samples that the buffer
        does not have."""
        samples = samples.samples if isinstance(samples, Batch) else samples
        samples = np.ascontiguousarray(samples, dtype=np.int64).reshape(-1)
        if values is not None:
            values = np.ascontiguousarray(_as_numpy(values), dtype=np.float64).reshape(-1)
            if len(values) != len(samples):
                raise ValueError(f"{len(values)} values for {len(samples)} samples")
        width = 0
        if extra is not None:
            extra = np.ascontiguousarray(_as_numpy(extra), dtype=np.float32)
            if extra.ndim == 0 or len(extra) != len(samples):
                raise ValueError(f"extra has a row for each of the {len(samples)} samples, and not the "
                                 f"shape {extra.shape}")
            extra = extra.reshape(len(samples), -1)
            width = extra.shape[1]
        self._opened().feed_back(samples, values, extra, width)

    def skips(self):
        """Bad samples that were replaced (on_error="skip"): a dictionary for each."""
        return self._opened().skips()

    # ---- State ----

    def state_dict(self):
        """The state after the last batch that was delivered: a small dictionary of numbers and
        texts. It fits any number of ranks, threads and any batch size."""
        return _read_state(self._opened())

    def load_state_dict(self, state):
        """Goes on from a state. Raises if it belongs to another pipeline, dataset or seed."""
        if self._options["journal"]:
            self.close()  # it has one writer
        self._open(json.dumps(state))
        self._begun = False
        self._leave()

    def __reduce__(self):
        return Loader, (self.pipeline, {**self._options, "state": self.state_dict()})

    def __repr__(self):
        if self._core is None:
            return "<millrace.Loader, closed>"
        fields = "".join(f"\n  {name:<10} {_type_text(*kind)}"
                         for name, kind in self.pipeline._compiled.fields)
        epochs = self._epochs()
        run = "" if epochs == _MOST_EPOCHS else f" of {epochs}"
        if self._is_stream:
            return f"<millrace.Loader of a stream, rank {self._rank} of {self._world}>"
        return (f"<millrace.Loader of {self.n_samples} samples: {self._core.n_steps} steps per epoch, "
                f"in epoch {self._epoch}{run}, rank {self._rank} of {self._world}, "
                f"{self._core.stats()['threads']} threads, to {self._options['to']}{fields}>")

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
    logging.getLogger("millrace").warning(_hints.in_python(text))
