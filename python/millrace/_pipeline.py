# SPDX-License-Identifier: Apache-2.0
"""Pipelines as Python values. Every step is checked by the library as it is added."""
import contextlib
import datetime
import decimal
import difflib
import errno
import json
import math
import os
import re
from collections.abc import Mapping

import numpy as np

from . import _convert, _core, _host, _tables


def _json_value(value):
    """What json.dumps does not know. Anything else becomes null, which no parameter takes: then the
    library says what it should have been."""
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, np.ndarray) or isinstance(value, np.generic):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None


def _in_json(value):
    """Numbers that JSON has not become texts: NaN, the infinities, whole numbers beyond 64 bits with a sign."""
    if isinstance(value, dict):
        return {key: _in_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_json(one) for one in value]
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        return _in_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -2 ** 63 <= value < 2 ** 63:
        return str(value)
    return value


def _dumps(document, **options):
    return json.dumps(_in_json(document), default=_json_value, **options)


# Schemes of addresses that the library reads itself, or that are none of objects.
_KNOWN = {"http", "https", "s3", "file", "local", "redis", "rediss", "redis+unix", "kafka", "mpi"}


def _serve_foreign(document):
    """Addresses in the source that only fsspec may know are read by way of a gateway (gateway.py);
    where there is no fsspec, the library says that it does not read them."""
    source = document.get("source") if isinstance(document, dict) else None
    if set(re.findall(r'"([a-z][a-z0-9+-]+)://', json.dumps(source, default=str))) - _KNOWN:
        from . import gateway
        with contextlib.suppress(ImportError):
            gateway.serve()


class Pipeline:
    """A dataset and what is done to its samples: an immutable value. Every method gives a new one.

    Made by a source, millrace.files(...) for instance, or by Pipeline.from_json. print() shows the
    document that the command reads."""

    __slots__ = ("_source", "_ops", "_settings", "_functions", "_dataset", "_batch_calls",
                 "_compiled", "_unmet", "__weakref__")

    def __init__(self, source, ops=(), settings=None, functions=None, dataset=None,
                 batch_calls=()):
        self._source, self._ops, self._settings = source, tuple(ops), dict(settings or {})
        self._functions, self._dataset = dict(functions or {}), dataset
        self._batch_calls = tuple(batch_calls)
        self._unmet = ()  # kinds of fields that a further op may make
        self._compiled = self._compile_so_far()

    # ---- Documents ----

    @classmethod
    def from_json(cls, text, functions=None):
        """Reads a document, as text, bytes or an already parsed dictionary. functions: name to
        function, for the document's map ops."""
        document = text if isinstance(text, dict) else None
        if document is None:
            try:
                document = json.loads(text)
            except ValueError:
                _core.Pipeline(text)  # says where, as the command does
                raise
        if not _has_functions(document):
            _serve_foreign(document)
            _core.Pipeline(_dumps(document))  # all of it is checked before any part is used
        return cls._from_parts(document, functions or {})

    @classmethod
    def _from_parts(cls, document, functions):
        settings = dict(document)
        source, ops = settings.pop("source"), settings.pop("ops", [])
        fields = settings.pop("fields", None)  # which a function may have made
        self = cls(_call(source), (), settings)
        for op in ops:
            name, values = _call(op)
            if name == "map":
                call = functions.get(values.get("function"))
                if call is None:
                    raise ValueError(f"there is no function \"{values.get('function')}\": pass "
                                     "functions={name: function}")
                self = self.map(call, field=values.get("field"), version=values.get("version"))
            else:
                self = self._add(name, values)
        return self if fields is None else self._set("fields", fields)

    @property
    def document(self):
        """The pipeline as it was written, as a dictionary."""
        ops = [{name: values} for name, values in self._ops]
        return {"source": {self._source[0]: self._source[1]}, "ops": ops, **self._settings}

    def to_json(self):
        """The document with every default written out: the same text for the same pipeline."""
        return self._compiled.json

    @property
    def fingerprint(self):
        """32 digits that name all that determines a sample's bytes."""
        return self._compiled.fingerprint

    @property
    def types(self):
        """Fields of a sample as delivered: {name: (dtype, dims, layout)}; -1 is a dimension that
        varies."""
        return dict(self._compiled.fields)

    def __str__(self):
        document = json.loads(_dumps(self.document))
        ops = ",\n".join("    " + json.dumps(op) for op in document.pop("ops"))
        lines = [f'  "source": {json.dumps(document.pop("source"))}']
        lines.append(f'  "ops": [\n{ops}\n  ]' if ops else '  "ops": []')
        lines += [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
        return "{\n" + ",\n".join(lines) + "\n}"

    def __repr__(self):
        stages = "".join(f"\n  {name:<20} {field:<10} {out}"
                         for name, field, out in self._compiled.stages)
        return f"<millrace.Pipeline {self.fingerprint}{stages}>"

    def _repr_html_(self):
        from html import escape
        rows = "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td><td>{escape(c)}</td></tr>"
                       for a, b, c in self._compiled.stages)
        return ("<table><tr><th>stage</th><th>field</th><th>what comes out</th></tr>"
                f"{rows}</table>")

    def __eq__(self, other):
        return isinstance(other, Pipeline) and self.to_json() == other.to_json() and \
            self._functions.keys() == other._functions.keys()

    __hash__ = None

    def __reduce__(self):
        return Pipeline, (self._source, self._ops, self._settings, self._functions, self._dataset,
                          self._batch_calls)

    # ---- Steps ----

    def __getattr__(self, name):
        """Only for names that do not exist: says which one may have been meant."""
        if name.startswith("_"):
            raise AttributeError(name)
        known = sorted(other for other in dir(Pipeline) if not other.startswith("_"))
        near = _tables.known_as(name, "ops", _STEPS) or next(iter(difflib.get_close_matches(name, known, 1)), None)
        meant = f"; did you mean {near}?" if near else ""
        raise AttributeError(f"a pipeline has no {name}{meant}\n  known: {', '.join(known)}",
                             name=name, obj=None)

    def _with(self, **changes):
        values = {"source": self._source, "ops": self._ops, "settings": self._settings,
                  "functions": self._functions, "dataset": self._dataset,
                  "batch_calls": self._batch_calls, **changes}
        return Pipeline(**values)

    def _add(self, name, values):
        return self._with(ops=(*self._ops, (name, values)))

    def _set(self, name, value):
        return self._with(settings={**self._settings, name: value})

    def _compile(self, sockets=(), document=None):
        host = None
        if self._functions or self._dataset:
            host = _host.make_host(list(self._functions.items()), self._dataset, sockets)
        document = document or self.document
        _serve_foreign(document)
        return _core.Pipeline(_dumps(document), host), host

    def _compile_so_far(self):
        """Kinds may be said before the op that makes the field: a loader wants all fields to be there."""
        while True:
            try:
                return self._compile(document=self._document_so_far())[0]
            except ValueError as error:
                name = getattr(error, "where", "").removeprefix("$.kinds.")
                if "no such field" not in str(error) or name not in self._settings.get("kinds", {}):
                    raise
                self._unmet = (*self._unmet, name)

    def _document_so_far(self):
        document = self.document
        if self._unmet:
            document["kinds"] = {name: kind for name, kind in document["kinds"].items() if name not in self._unmet}
        return document

    # ---- Python functions ----

    def map(self, function, *, field=None, fields=None, processes=0, version=None):
        """Runs a Python function on every sample.

        function(sample) takes a dictionary of numpy arrays, of all fields, and returns one; with
        field="image" it takes and returns that field alone. function(sample, rng) gets a numpy
        Generator that depends on seed, epoch and sample and on nothing else.

        fields: what it returns, {"image": ("float32", (3, 224, 224)), "tokens": ("int32", (None,))}
        (with field: one such tuple), all fields of it; None is a dimension that varies. Otherwise the function is
        tried on the first two samples: dimensions in which they differ vary.

        processes: run it in so many worker processes instead of in threads under the GIL; arrays
        go through shared memory. The function must then be importable (no lambda).
        version: a text or number to be changed when the function gives other values; part of the
        fingerprint. Only what a function with a version made can be kept by .cache()."""
        if not callable(function):
            raise TypeError(f"map() takes a function, not {type(function).__name__}")
        if isinstance(processes, bool) or not isinstance(processes, int) or processes < 0:
            raise ValueError(f"processes wants a whole number of at least 0, not {processes!r}")
        if processes:
            _host.check_importable(function)
        name, entry = self._name_for(function), _host.Function(
            function, None, _host.wants_random(function), field is not None, processes)
        values = {"function": name}
        if version is not None and version != "":
            values["version"] = str(version)
        if field is not None:
            values["field"] = field
        entry.fields = self._declared(field, fields) if fields is not None else \
            self._probe(entry, name, values)
        return self._with(ops=(*self._ops, ("map", values)),
                          functions={**self._functions, name: entry})

    def _name_for(self, function):
        name, n = _host.name_of(function), 2
        unique = name
        while unique in self._functions:
            unique, n = f"{name}#{n}", n + 1
        return unique

    @staticmethod
    def _declared(field, fields):
        if field is not None:
            return [_convert.declared(field, fields)]
        return [_convert.declared(name, given) for name, given in fields.items()]

    def _probe(self, entry, name, values):
        """Asks the engine what the function will be given, then gives it two such samples."""
        one = _host.Function(entry.call, [("any", "uint8", (), "")], False, entry.one_field, 0)
        host = _host.make_host([*self._functions.items(), (name, one)], self._dataset)
        document = {**self._document_so_far(), "batch": 1, "shuffle": False, "fields": []}
        document.pop("cache", None)  # nothing is kept for a try
        document["ops"] = [op for op in document["ops"] if "cache" not in op] + [{"map": values}]
        _core.Pipeline(_dumps(document), host)
        names = list(host.inputs(len(self._functions))[0])
        document["ops"] = document["ops"][:-1]
        document["fields"] = names
        samples = self._first_samples(document, names, entry.one_field)
        return _host.probe(entry, samples, values.get("field"))

    def _first_samples(self, document, names, one_field):
        from ._loader import sample_values
        name, values = _call(document["source"])
        if values.get("follow"):  # what is there will do
            document = {**document, "source": {name: {**values, "follow": False}}}
            document = {k: v for k, v in document.items() if k not in ("rehearse", "pace")}
        host = _host.make_host(list(self._functions.items()), self._dataset) \
            if self._functions or self._dataset else None
        loader = _core.Loader(_core.Pipeline(_dumps(document), host), threads=1, epochs=1)
        try:
            samples = []
            while len(samples) < 2 and (batch := loader.next()) is not None:
                values = sample_values(batch, names)
                samples.append((int(np.asarray(batch.samples())[0]),
                                values[names[0]] if one_field else values))
            return samples
        finally:
            loader.close()

    # ---- Fields ----

    def shuffle(self, shuffle=True, *, window=None, lanes=None):
        """A new order each epoch (True), or the source's own order (False).

        For what lies in shards and tables, a shuffle by blocks: .shuffle(window="1GB", lanes=8). window:
        bytes, a number of blocks, or "all"; lanes: interleaved orders (docs/shuffle.md)."""
        given = {name: value for name, value in (("window", window), ("lanes", lanes)) if value is not None}
        if given and not isinstance(shuffle, Mapping) and shuffle is not True:
            raise TypeError(f"shuffle({shuffle!r}) has no {' and '.join(given)}")
        return self._set("shuffle", {**(shuffle if isinstance(shuffle, Mapping) else {}), **given} if given else shuffle)

    def kinds(self, kinds=None, /, **named):
        """Says what fields are to ops that change an image's geometry: .kinds(mask="mask",
        objects="boxes", corners="points"), or a dictionary of them, for names that no keyword can be. Masks are resized by nearest; boxes ([n, 4]: left, top,
        right, bottom; "boxes_xywh": left, top, width, height; "boxes_cxcywh": middle, width, height) and points
        ([n, 2]: x, y) follow the image that stands beside them in an op's field=["image", ...]. Ops about colours
        leave all of them as they are."""
        if kinds is not None and not isinstance(kinds, Mapping):
            raise TypeError(f'kinds() takes {{"mask": "mask"}} or mask="mask", not {kinds!r}')
        return self._set("kinds", {**self._settings.get("kinds", {}), **(kinds or {}), **named})

    # ---- Stores ----

    def auto_cache(self, **parameters):
        """A cache that finds its own place: before the first op whose result cannot be kept, or at
        the end. parameters: those of cache(). The document has it as "cache"."""
        return self._set("cache", parameters or "auto")

    # ---- Streams ----

    def rehearse(self, size=0, **parameters):
        """Shows samples of a stream again: each batch is mixed with some of a buffer of `size` of those
        seen before. parameters: those of "rehearse" in the document (docs/streams.md), share=0.5,
        policy="class_balanced" for instance. Batches have two more fields: is_replay, and weight."""
        return self._set("rehearse", {"size": size, **parameters})

    def pace(self, **parameters):
        """What becomes of a stream that is slower or faster than training. parameters: those of "pace"
        in the document (docs/streams.md), late="fill", patience=0.2 for instance. Decisions of the clock
        need a journal: loader(journal=...)."""
        return self._set("pace", parameters)

    def map_batch(self, function):
        """Runs a Python function on every batch as it is taken: function(batch), or
        function(batch, rng) with a generator that depends on seed, epoch and step. What it returns
        is delivered."""
        if not callable(function):
            raise TypeError(f"map_batch() takes a function, not {type(function).__name__}")
        return self._with(batch_calls=(*self._batch_calls, function))

    # ---- Views: what of the source takes part, and how often ----

    def _view(self, step, /, **values):
        return self._set("view", [*self._settings.get("view", ()), {step: values}])

    def take(self, count):
        """The first `count` samples alone. Steps of a view follow one another: .skip(10).take(5)."""
        return self._view("take", count=count)

    def skip(self, count):
        """All but the first `count` samples."""
        return self._view("skip", count=count)

    def every(self, step, offset=0):
        """One sample in `step`, from `offset` on."""
        return self._view("every", step=step, offset=offset)

    def split(self, name, parts, salt=""):
        """One part of a split by the samples' names: split("train", {"train": 0.9, "val": 0.1}).
        Samples that are added move no other from one part to another."""
        return self._view("split", name=name, parts=dict(parts), salt=salt)

    def where(self, condition):
        """Samples for which a condition on numbers of the source holds: "label < 10". Classes also have names:
        "label != 'hot dog' and weight > 0"."""
        return self._view("where", condition=condition)

    def repeat(self, times):
        """Each sample so many times an epoch."""
        return self._view("repeat", times=times)

    def weights(self, field, count=0):
        """Draws samples, with replacement, by the weights in a field of the source."""
        return self._view("weights", field=field, count=count)

    def balance(self, field="label", count=0):
        """Draws samples so that the classes in a field of the source come equally often."""
        return self._view("balance", field=field, count=count)

    def bucket(self, field=None, *, size=0, groups=100, lanes=False):
        """Batches of samples of like length, so that padding them wastes little.

        field: of the source, that says how long a sample is: by its value where it is a number, else
        by its length; otherwise the first. size: samples that come together; otherwise a batch.
        groups: how many times as many are sorted together. lanes: each lane of the shuffle by itself, so that
        ranks read their own blocks alone, and padding wastes more. docs/shuffle.md tells the rest."""
        return self._set("bucket", {"field": field or "", "size": size, "groups": groups, "lanes": lanes})

    # ---- At work ----

    @_tables.suggesting
    def loader(self, *, seed=None, epochs=None, batch=None, to="numpy", threads=0, rank=None,
               world=None, digest=False, ragged="values", pin=None, state=None, batches_ahead=0,
               reads=0, read_ahead_bytes=0, io="auto", disable_cpu=None, allocator=None,
               trace=None, journal=None, fabric=None, policy=None):
        """Opens the dataset and starts the threads; iterate over what it returns.

        seed, batch: instead of the pipeline's. batch counts over all ranks together.
        epochs: how many times one may iterate over it; else as often as the pipeline's epochs() says,
        else without end.
        to: "numpy", "torch" or "jax": what batches are made of, without a copy.
        threads: that compute; 0 is one for each CPU this process may use, "auto" as many as are of
        use: they, reads and batches ahead follow what is measured, the batches are the same.
        rank, world: otherwise from torch.distributed, RANK and WORLD_SIZE, Slurm's or Open MPI's
        variables, else 0 of 1; found anew until the first batch is taken.
        state: go on from a state_dict().
        digest: compute digests of batches and of the run.
        ragged: fields whose size varies as "values" (values and offsets) or, for torch, "nested".
        pin: batches in pinned memory; by default for torch where there is a CUDA device.
        batches_ahead, reads, read_ahead_bytes, io, disable_cpu: as the command's options.
        allocator: size -> object with a writable buffer, for batch memory.
        trace: write what every thread does to this file, for millrace.report().
        journal: a folder for what the clock decides about a stream (docs/streams.md).
        policy: an object that decides what rehearse(policy="custom") keeps and shows again, by its methods
        insert(kept, samples, labels, keys) and draw(kept, keys) (docs/streams.md). Needs a journal.
        fabric: "redis://HOST": take from there what other runs and nodes have read or made, and
        offer them ours; the batches are the same whatever happens to it. "mpi": ranks that mpirun
        started send each other what they keep, so that storage is read once (docs/fabric.md)."""
        from ._loader import Loader
        options = {name: value for name, value in locals().items()
                   if name not in ("self", "Loader")}
        return Loader(self, options)


def _is_call(item):
    return isinstance(item, str) or (isinstance(item, dict) and len(item) == 1 and
                                     isinstance(next(iter(item.values())), dict))


def _has_functions(document):
    """Whether a document is a proper one with map ops, which the library alone cannot read."""
    ops = document.get("ops", []) if isinstance(document, dict) else None
    return isinstance(ops, list) and all(map(_is_call, [document.get("source"), *ops])) and \
        any(_call(op)[0] == "map" for op in ops)


def _call(item):
    """{"name": {...}} or "name": the name and the parameters."""
    if isinstance(item, str):
        return item, {}
    (name, values), = item.items()
    return name, values


# ---- Mixes --------------------------------------------------------------------------------------

_OF_A_CHILD = ("view", "shuffle", "cache", "kinds")


def _unique(name, entry, functions):
    unique, n = name, 2
    while unique in functions and functions[unique] is not entry:
        unique, n = f"{name}#{n}", n + 1
    return unique


def _child(pipeline, weight, functions):
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"mix() takes pipelines, not {type(pipeline).__name__}")
    if pipeline._compiled.is_stream:
        raise ValueError("a stream that is followed cannot be in a mix: its end is not known; "
                         "follow=False reads it as it is now")
    stray = [name for name in pipeline._settings if name not in _OF_A_CHILD]
    if stray or pipeline._batch_calls:
        raise ValueError(f"{stray[0] if stray else 'map_batch'} belongs to the mix, not to one of its "
                         "pipelines: mix(...)." + (f"{stray[0]}(...)" if stray else "map_batch(...)"))
    names = {}
    for name, entry in pipeline._functions.items():
        names[name] = _unique(name, entry, functions)
        functions[names[name]] = entry
    document = pipeline.document
    for op in document["ops"]:
        if "map" in op:
            op["map"] = {**op["map"], "function": names[op["map"]["function"]]}
    return {"weight": weight, **document}


def mix(pipelines, weights=None, *, round=1000, length=0):
    """Several pipelines in one, each with ops, view and shuffle of its own; what follows is common to
    all: mix([a, b], [3, 1]).normalize(...).batch(64).

    weights: how often samples of each come, against the others; otherwise equally often. round: so
    many samples hold each pipeline exactly by its weight. length: samples of an epoch; 0: as many
    as all pipelines together have. A pipeline that is at its end begins its next epoch by itself.
    All must give the same fields."""
    pipelines = list(pipelines)
    weights = [1] * len(pipelines) if weights is None else list(weights)
    if len(weights) != len(pipelines):
        raise ValueError(f"{len(pipelines)} pipelines and {len(weights)} weights")
    datasets = [p._dataset for p in pipelines if isinstance(p, Pipeline) and p._dataset]
    if len(datasets) > 1:
        raise ValueError("only one pipeline of a mix may have a Python object as its source")
    functions = {}
    children = [_child(p, weight, functions) for p, weight in zip(pipelines, weights)]
    return Pipeline(("mix", {"children": children, "round": round, "length": length}),
                    functions=functions, dataset=datasets[0] if datasets else None)


# ---- Methods from the tables --------------------------------------------------------------------


def _as_type_error(error):
    """For a name that a function does not have, as Python's own functions raise."""
    other = TypeError(str(error))
    other.hint = getattr(error, "hint", "")
    return other


def _op_method(table):
    names = _tables.positional_names(table)
    known = {*names, "field"}

    def method(self, *args, **keywords):
        values = _tables.bind(table["name"], names, args, keywords)
        if values.get("field", "") is None:
            del values["field"]
        try:
            return self._add(table["name"], values)
        except ValueError as error:
            if known.issuperset(values):
                raise
            raise _as_type_error(error) from None
    signature = _tables.signature_of(table, "Pipeline", extra=(_tables.FIELD,))
    return _tables.dress(method, table, signature, "Pipeline.")


def _setting_method(row):
    table = {"name": row["name"], "summary": row["doc"], "doc": None, "params": [row]}

    def method(self, *args, **keywords):
        values = _tables.bind(row["name"], [row["name"]], args, keywords)
        if set(values) != {row["name"]}:
            raise TypeError(f"{row['name']}() takes one argument")
        return self._set(row["name"], values[row["name"]])
    required = {**table, "params": [{**row, "default": None}]}
    return _tables.dress(method, table, _tables.signature_of(required, "Pipeline"), "Pipeline.")


def _look_for_files(table, values):
    """A path that is not there is told where it is written, not when the loader opens."""
    for row in table["params"]:
        path = values.get(row["name"])
        if not isinstance(path, (str, os.PathLike)) or \
                (row["kind"] == "strings" and set("*?[{") & set(os.fspath(path))):
            continue  # several files, or a pattern: the source tells what it did not find
        if row["name"] in ("path", "list", "labels", "classes") and os.fspath(path) and \
                "://" not in os.fspath(path) and not os.path.exists(path):
            raise FileNotFoundError(
                errno.ENOENT, f"{table['name']}({row['name']}=...): there is no such file or folder, "
                f"looked for from {os.getcwd()}", os.fspath(path))


def source_function(table):
    names = _tables.positional_names(table)

    def function(*args, **keywords):
        values = _tables.bind(table["name"], names, args, keywords)
        _look_for_files(table, values)
        try:
            return Pipeline((table["name"], values))
        except ValueError as error:
            if set(names).issuperset(values):
                raise
            raise _as_type_error(error) from None
    signature = _tables.signature_of(table, "Pipeline", first=())
    return _tables.dress(function, table, signature)


def load_plugin(path):
    """Opens a shared library with ops (see examples/plugin): they become methods of Pipeline. Returns
    their names. It stays open; a process that is given such a pipeline must load it too."""
    path = os.path.abspath(os.fspath(path))
    known = {table["name"] for table in _tables.TABLES["ops"]}
    tables = _loaded.get(os.path.realpath(path))
    if tables is None:
        tables = _loaded[os.path.realpath(path)] = _core.load_plugin(path)
    for table in tables:
        if table["name"] not in known:
            _tables.TABLES["ops"].append(table)
            setattr(Pipeline, table["name"], _op_method(table))
    return [table["name"] for table in tables]


_loaded = {}

# What other libraries call methods that are no ops.
_STEPS = (("filter", "where"), ("limit", "take"), ("head", "take"), ("apply", "map"), ("transform", "map"), ("with_transform", "map"),
          ("batch_size", "batch"), ("dataloader", "loader"), ("data_loader", "loader"), ("interleave", "mix"), ("shard", "split"))

for _table in _tables.TABLES["ops"]:
    setattr(Pipeline, _table["name"], _op_method(_table))
for _row in _tables.TABLES["settings"]:
    if _row["name"] not in vars(Pipeline):
        setattr(Pipeline, _row["name"], _setting_method(_row))


def dataset(object, fields=None, *, names=None, version=""):
    """Any object with __getitem__ and __len__ as a source: a torch Dataset, a list, an array.

    A sample that is a dictionary gives its fields by name; a tuple gives item0, item1 and so on, or
    `names`; anything else is one field, data. fields: their types, as for Pipeline.map; otherwise
    the first two samples are looked at. The object is used by several threads at once, under the
    GIL. version: names what the object holds, and is to be changed when it gives other values: saved
    states notice, and only samples of an object with a version can be kept by .cache(). Two objects
    of one class, length, types and version count as the same."""
    if not hasattr(object, "__getitem__") or not hasattr(object, "__len__"):
        raise TypeError(f"{type(object).__name__} has no __getitem__ and __len__: an iterable alone "
                        "has no order to repeat and no place to resume at")
    if isinstance(object, Mapping):
        raise TypeError(f"{type(object).__name__} has keys, not samples from 0 to n - 1")
    if len(object) < 1:
        raise ValueError("the dataset is empty")
    if fields is not None:
        structure = _host._parts(object[0], list(fields))[0]
        rows = [_convert.declared(name, given) for name, given in fields.items()]
    else:
        structure, rows = _host.look_at(object, names)
    name = type(object).__name__
    return Pipeline(("dataset", {"object": name}),
                    dataset=_host.Dataset(object, name, rows, structure, version))
