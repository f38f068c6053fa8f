# SPDX-License-Identifier: Apache-2.0
"""A torch DataLoader, or dataset, as a millrace pipeline that does the same.

    print(mr.torch.translate(loader))

Datasets are known by what they keep: files and labels (ImageFolder and those like it), arrays (CIFAR and
those like it, TensorDataset), tables (Hugging Face's). What has no equal stays a Python function, or the
whole dataset does; every part is listed with how equal it is."""
from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ._convert import NoField
from ._pipeline import Pipeline, dataset as python_dataset
from ._sweep import rows_of
from ._tables import TABLES
from ._translate_ops import (COST, DIFFERS, DRAWN, EQUAL, MEANING, NEAR, PYTHON, Chain, NoRule, Note, cost_of, flat,
                             follow, name_of)

_DECODED = (".jpg", ".jpeg", ".png", ".webp")
_NUMBERS = {"uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool", "float16", "float32",
            "float64"}


# ---- What stays Python ----
class Rest:
    """Transforms that have no op, on an image that ours have prepared: given what they were given."""

    def __init__(self, transforms: list[Any], kind: str) -> None:
        self.transforms, self.kind = transforms, kind
        self.__name__ = "_then_".join(name_of(one) for one in transforms)
        self.__qualname__ = self.__name__

    def __call__(self, image: Any) -> Any:
        value = self._given(image)
        for transform in self.transforms:
            value = transform(value)
        return self._made(value)

    def _given(self, image: Any) -> Any:
        if self.kind == "pil":
            from PIL import Image
            return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
        import torch
        tensor = torch.from_numpy(np.array(image))
        return tensor.permute(2, 0, 1).contiguous() if self.kind == "bytes" else tensor

    @staticmethod
    def _made(value: Any) -> Any:
        if hasattr(value, "getbands"):
            array = np.asarray(value)
            return array[..., None] if array.ndim == 2 else array
        return value


class Label:
    """A target_transform."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform
        self.__name__ = self.__qualname__ = name_of(transform)

    def __call__(self, label: Any) -> Any:
        return np.asarray(self.transform(label.item()))


class Collate:
    """A collate_fn, on the samples of a batch."""

    def __init__(self, collate: Callable[[Any], Any], names: list[str]) -> None:
        self.collate, self.names = collate, names
        self.__name__ = self.__qualname__ = name_of(collate)

    def __call__(self, batch: Any) -> Any:
        n = rows_of(batch)
        fields = [batch[name] for name in self.names]
        return self.collate([tuple(field[i] for field in fields) for i in range(n)])


# ---- Steps, as values and as lines of Python ----
class _Steps:
    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.pipeline: Any = None  # none where a part of a sample cannot be a field
        self.lines: list[str] = []
        self.fields: list[str] = []
        self.draws = False
        self.has_python = False
        self.wrote: list[str] = []

    def source(self, pipeline: Pipeline, line: str) -> None:
        self.pipeline, self.lines = pipeline, [line]

    def op(self, name: str, values: dict[str, Any], field: str | None = None) -> None:
        values = {**_without_defaults(name, values), **({"field": field} if field else {})}
        self.pipeline = self.pipeline._add(name, values)
        self.lines.append(f".{name}({_arguments(values)})")

    def setting(self, name: str, value: Any) -> None:
        self.pipeline = self.pipeline and self.pipeline._set(name, value)
        self.lines.append(f".{name}({value!r})")

    def function(self, call: Any, field: str, note: Note) -> None:
        self.pipeline = self.pipeline.map(call, field=field)
        self.lines.append(f".map({_identifier(call)}, field={field!r})")
        self.has_python = True
        self.notes.append(note)

    def note(self, part: str, how: str, text: str) -> None:
        self.notes.append(Note(part, how, text))


def _without_defaults(name: str, values: dict[str, Any]) -> dict[str, Any]:
    rows = next(table["params"] for table in TABLES["ops"] if table["name"] == name)
    defaults = {row["name"]: json.loads(row["default"]) for row in rows if row["default"] is not None}
    return {key: value for key, value in values.items() if key not in defaults or defaults[key] != value}


def _identifier(call: Any) -> str:
    return call.__name__ if call.__name__.isidentifier() else "function"


def _arguments(values: dict[str, Any]) -> str:
    first = next(iter(values), None)
    alone = first in ("size", "padding", "degrees", "path")
    return ", ".join(repr(value) if name == first and alone else f"{name}={value!r}"
                     for name, value in values.items())


# ---- Transforms of an image ----
def _image_steps(steps: _Steps, transform: Any, field: str | None, has_pil: bool = True) -> None:
    chain = Chain()
    chain.kind = "pil" if has_pil else "bytes"
    transforms = flat(transform) if transform is not None else []
    rest: list[Any] = []
    why = ""
    for i, one in enumerate(transforms):
        try:
            follow(one, chain)
        except NoRule as reason:
            rest, why = transforms[i:], str(reason)
            break
    if not rest or chain.kind == "numbers":  # a function may follow numbers, not bytes in planes
        chain.finish()
    for name, values in chain.ops:
        steps.op(name, values, field)
    steps.notes += chain.notes
    steps.draws = steps.draws or chain.draws
    if rest:
        steps.draws = True  # nobody knows
        call = Rest(rest, chain.kind)
        steps.function(call, field or "image", Note(", ".join(name_of(one) for one in rest), PYTHON, why))
    elif not transforms:
        steps.note("no transform", EQUAL, "images as arrays, with channels last")


def _label_step(steps: _Steps, transform: Any) -> None:
    if transform is not None:
        steps.function(Label(transform), "label", Note(f"target_transform {name_of(transform)}", PYTHON, "on labels"))


# ---- Files: ImageFolder, DatasetFolder and those like them ----
def _is_files(dataset: Any) -> bool:
    samples = getattr(dataset, "samples", None)
    return callable(getattr(dataset, "loader", None)) and isinstance(samples, list) and bool(samples) and \
        isinstance(samples[0], (tuple, list)) and len(samples[0]) == 2 and isinstance(samples[0][0], str)


def _decodes(loader: Any) -> bool:
    return getattr(loader, "__module__", "") == "torchvision.datasets.folder" and \
        getattr(loader, "__name__", "") in ("default_loader", "pil_loader")


def _listed(root: str) -> list[tuple[str, int]]:
    """As mr.files(root) lists them."""
    classes = sorted((e.name for e in os.scandir(root) if e.is_dir() and not e.name.startswith(".")),
                     key=os.fsencode)
    found = []
    for label, name in enumerate(classes):
        for folder, below, names in os.walk(os.path.join(root, name), followlinks=True):
            below[:] = [one for one in below if not one.startswith(".")]
            found += [(os.path.join(folder, one), label) for one in names
                      if not one.startswith(".") and one.lower().endswith(_DECODED)]
    return sorted(found, key=lambda one: os.fsencode(os.path.relpath(one[0], root)))


def _files_source(steps: _Steps, dataset: Any, indices: list[int] | None, folder: str) -> None:
    from . import files
    samples = [dataset.samples[i] for i in indices] if indices is not None else dataset.samples
    root = getattr(dataset, "root", None)
    if indices is None and isinstance(root, str) and os.path.isdir(root) and _listed(root) == \
            [(str(path), label) for path, label in samples]:
        steps.source(files(root), f"mr.files({root!r})")
        steps.note(type(dataset).__name__, EQUAL, "files: the same samples in the same order, with the same labels")
        return
    if any("\n" in path or "\t" in path for path, _ in samples):
        raise NoRule("names with tabs or ends of lines")
    path = os.path.join(folder, "samples.txt")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{os.path.abspath(name)}\t{label}\n" for name, label in samples)
    steps.wrote.append(path)
    steps.source(files(list=path), f"mr.files(list={path!r})")
    steps.note(type(dataset).__name__, EQUAL, f"files: its {len(samples):,} samples, listed in {path}")


def _from_files(steps: _Steps, dataset: Any, indices: list[int] | None, folder: str) -> None:
    other = sorted({os.path.splitext(path)[1].lower() for path, _ in dataset.samples} - set(_DECODED))
    if other:
        raise NoRule(f"files that end in {', '.join(other)} are not decoded")
    if not _decodes(dataset.loader):
        raise NoRule(f"files are read by {name_of(dataset.loader)}")
    if not all(isinstance(label, (int, np.integer)) for _, label in dataset.samples):
        raise NoRule("labels that are no whole numbers")
    _files_source(steps, dataset, indices, folder)
    steps.op("decode_image", {})
    steps.note(f"loader {name_of(dataset.loader)}", EQUAL, "decode_image; damaged files are refused, also where "
                                                           "Pillow guesses pixels")
    _image_steps(steps, dataset.transform, None)
    _label_step(steps, dataset.target_transform)
    steps.fields = ["image", "label"]


# ---- Arrays in memory: CIFAR and those like it ----
def _array_of(value: Any) -> Any:
    array = value.numpy() if hasattr(value, "numpy") and not isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.name not in _NUMBERS:
        raise NoRule(f"elements of type {array.dtype}")
    return array


def _is_images(dataset: Any) -> bool:
    module = type(dataset).__module__
    labels = getattr(dataset, "targets", getattr(dataset, "labels", None))
    return module.startswith("torchvision.datasets.") and labels is not None and \
        getattr(getattr(dataset, "data", None), "shape", None) is not None


_LAST, _PLANES = ("CIFAR10", "CIFAR100"), ("SVHN", "STL10")
_GREY = ("MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "USPS")


def _save(folder: str, name: str, array: Any, steps: _Steps) -> str:
    path = os.path.join(folder, name)
    np.save(path, np.ascontiguousarray(array))
    steps.wrote.append(path)
    return path


def _from_images(steps: _Steps, dataset: Any, indices: list[int] | None, folder: str) -> None:
    from . import array as array_source
    name, data = type(dataset).__name__, _array_of(dataset.data)
    labels = _array_of(getattr(dataset, "targets", getattr(dataset, "labels", None))).astype(np.int64)
    if data.dtype != np.uint8 or name not in _LAST + _PLANES + _GREY:
        raise NoRule(f"how {name} makes images of its data is not known")
    data = data.transpose(0, 2, 3, 1) if name in _PLANES else data[..., None] if data.ndim == 3 else data
    if indices is not None:
        data, labels = data[indices], labels[indices]
    paths = _save(folder, "images.npy", data, steps), _save(folder, "labels.npy", labels, steps)
    steps.source(array_source(paths[0], labels=paths[1]), f"mr.array({paths[0]!r}, labels={paths[1]!r})")
    steps.note(name, EQUAL, f"array: {len(data):,} images, written to {paths[0]}")
    _image_steps(steps, dataset.transform, "data")
    _label_step(steps, dataset.target_transform)
    steps.fields = ["data", "label"]


# ---- TensorDataset ----
def _is_tensors(dataset: Any) -> bool:
    return type(dataset).__name__ == "TensorDataset" and isinstance(getattr(dataset, "tensors", None), tuple)


def _from_tensors(steps: _Steps, dataset: Any, indices: list[int] | None, folder: str) -> None:
    from . import array as array_source
    arrays = {f"x{i}": _array_of(tensor.detach().cpu()) for i, tensor in enumerate(dataset.tensors)}
    arrays = {name: np.ascontiguousarray(array if indices is None else array[indices])
              for name, array in arrays.items()}
    path = os.path.join(folder, "tensors.npz")
    np.savez(path, **arrays)
    steps.wrote.append(path)
    steps.source(array_source(path, layout="plain"), f"mr.array({path!r}, layout='plain')")
    steps.note("TensorDataset", EQUAL, f"array: {len(arrays)} tensors, written to {path}")
    steps.fields = list(arrays)


# ---- Tables: Hugging Face's datasets ----
def _is_table(dataset: Any) -> bool:
    return type(dataset).__module__.startswith("datasets.") and hasattr(dataset, "features") and \
        hasattr(dataset, "to_parquet")


def _table_transform(dataset: Any) -> Any:
    kind = getattr(dataset, "_format_type", None)
    return getattr(dataset, "_format_kwargs", {}).get("transform") if kind == "custom" else None


def _from_table(steps: _Steps, dataset: Any, indices: list[int] | None, folder: str) -> None:
    from . import parquet
    if _table_transform(dataset) is not None:
        raise NoRule(f"set_transform({name_of(_table_transform(dataset))}) takes whole rows")
    kinds = {name: getattr(feature, "_type", type(feature).__name__) for name, feature in dataset.features.items()}
    dtypes = {name: str(getattr(feature, "dtype", "")) for name, feature in dataset.features.items()}
    wanted = dataset.column_names if getattr(dataset, "_format_columns", None) is None else dataset._format_columns
    for name in wanted:
        if kinds[name] not in ("Image", "ClassLabel") and dtypes[name] not in _NUMBERS:
            raise NoRule(f"column {name} is of type {dtypes[name] or kinds[name]}")
    if indices is not None:
        dataset = dataset.select(indices)
    path = os.path.join(folder, "rows.parquet")
    rows = dataset.with_format(None).select_columns(list(wanted))
    if any(kinds[name] == "Image" for name in wanted):  # files that only their paths are kept of
        from datasets.table import embed_table_storage
        rows = rows.with_format("arrow").map(embed_table_storage, batched=True, batch_size=100,
                                             keep_in_memory=True).with_format(None)
    rows.to_parquet(path)
    steps.wrote.append(path)
    steps.source(parquet(path), f"mr.parquet({path!r})")
    steps.note(type(dataset).__name__, EQUAL, f"parquet: {len(dataset):,} rows, written to {path}")
    for name in wanted:
        if kinds[name] == "Image":
            steps.op("decode_image", {}, name)
            steps.note(f"column {name}", NEAR, "decode_image: always RGB, where the column has each file's own mode")
    steps.fields = list(wanted)


_KINDS: list[tuple[Callable[[Any], bool], Callable[[_Steps, Any, Any, str], None]]] = [
    (_is_files, _from_files), (_is_images, _from_images), (_is_tensors, _from_tensors), (_is_table, _from_table)]


# ---- Any dataset ----
def _unwrapped(dataset: Any) -> tuple[Any, list[int] | None]:
    """Behind Subsets, which choose."""
    indices: list[int] | None = None
    while type(dataset).__name__ == "Subset" and type(dataset).__module__.startswith("torch.utils.data"):
        own = [int(i) for i in dataset.indices]
        indices = own if indices is None else [own[i] for i in indices]
        dataset = dataset.dataset
    return dataset, indices


def _dataset_steps(dataset: Any, folder: Callable[[], str]) -> _Steps:
    inner, indices = _unwrapped(dataset)
    why = "how it makes its samples is not known"
    for is_kind, translate_kind in _KINDS:
        if not is_kind(inner):
            continue
        steps = _Steps()
        try:
            translate_kind(steps, inner, indices, folder())
            return steps
        except NoRule as reason:
            why = str(reason)
    steps = _Steps()
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise TypeError(f"{type(dataset).__name__} cannot be translated: it has no __getitem__ and __len__; "
                        "what is iterated over has an order of its own")
    steps.draws, steps.has_python = True, True
    steps.note(type(dataset).__name__, PYTHON, f"all of it: {why}")
    try:
        steps.source(python_dataset(dataset), "mr.dataset(dataset)")
        steps.fields = list(steps.pipeline.types)
    except NoField as error:
        steps.note(f"its part {error.part}", DIFFERS, f"not translated: {error.kind} cannot be a field. Let the dataset give what "
                   "it holds as numbers, arrays or text of their own, or leave it out; mr.torch.DataLoader(dataset, ...) "
                   "takes samples as they are")
    return steps


# ---- Loaders ----
def _order(steps: _Steps, loader: Any) -> None:
    sampler = loader.sampler
    kind = type(sampler).__name__
    shuffles = kind == "RandomSampler" and not sampler.replacement and sampler._num_samples is None or \
        kind == "DistributedSampler" and sampler.shuffle
    plain = kind == "SequentialSampler" or kind == "DistributedSampler" and not sampler.shuffle
    if plain:
        steps.setting("shuffle", False)
    if shuffles:
        steps.note(kind, DRAWN, "shuffle: another order in each epoch, from the seed")
    elif plain:
        steps.note(kind, EQUAL, "shuffle(False)")
    else:
        steps.note(kind, DIFFERS, "not translated: every sample once in an epoch, in a shuffled order")


def _batches(steps: _Steps, loader: Any) -> None:
    world = int(getattr(loader.sampler, "num_replicas", 1))
    size = getattr(loader.batch_sampler, "batch_size", None) or loader.batch_size or 1
    steps.setting("batch", size * world)
    if getattr(loader.batch_sampler, "drop_last", loader.drop_last):
        steps.setting("remainder", "drop")
    if type(loader.batch_sampler).__name__ not in ("BatchSampler", "NoneType"):
        steps.note(type(loader.batch_sampler).__name__, DIFFERS, "not translated: batches of one size")
    if world > 1:
        steps.note("DistributedSampler", EQUAL, f"batch counts over all {world} ranks; rank and world are found")


def _is_default_collate(loader: Any) -> bool:
    return getattr(loader.collate_fn, "__module__", "").startswith("torch.utils.data") and \
        getattr(loader.collate_fn, "__name__", "") in ("default_collate", "default_convert")


def _loader_steps(steps: _Steps, loader: Any) -> None:
    _order(steps, loader)
    _batches(steps, loader)
    if steps.pipeline is None:
        return
    if _is_default_collate(loader):
        names = ", ".join(f'batch["{name}"]' for name in steps.fields)
        steps.note("default_collate", EQUAL, f"the same tensors, by name: {names}")
    else:
        call = Collate(loader.collate_fn, steps.fields)
        steps.pipeline = steps.pipeline.map_batch(call)
        steps.lines.append(f".map_batch({_identifier(call)})")
        steps.has_python = True
        steps.note(f"collate_fn {call.__name__}", PYTHON, "on the samples of each batch")


# ---- An outlook for a profile: nothing is written, no folder is listed ----
class Outlook:
    """What each step of a dataset of files would cost as an op, against what it costs; and the pipeline, as
    a document, where nothing of it stays Python."""

    def __init__(self, loader: Any) -> None:
        dataset, _ = _unwrapped(loader.dataset)
        if not _is_files(dataset) or not _decodes(dataset.loader) or \
                not str(dataset.samples[0][0]).lower().endswith(_DECODED):
            raise NoRule("not a dataset of images")
        self.costs = {id(dataset.loader): COST["decode"]}
        chain = Chain()
        whole = dataset.target_transform is None and _is_default_collate(loader)
        for one in flat(dataset.transform) if dataset.transform is not None else []:
            try:
                follow(one, chain)
                self.costs[id(one)] = cost_of(one)
            except NoRule:
                whole = False
                break
        chain.finish()
        root = getattr(dataset, "root", None)
        self.document: dict[str, Any] | None = None
        if whole and isinstance(root, str):
            ops = [{name: _without_defaults(name, values)} for name, values in [("decode_image", {}), *chain.ops]]
            self.document = {"source": {"files": {"path": os.path.abspath(root)}}, "ops": ops,
                             "batch": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1}


class Translation:
    """What mr.torch.translate() made. print() shows which parts are equal and how, and the lines to put in
    place of the old ones. `pipeline` is the pipeline, loader() opens it, `notes` has a (part, how, text)
    for each part, `wrote` the files that were made for it. Where a part of a sample cannot be a field there
    is no pipeline, and the list says which part."""

    def __init__(self, dataset: Any, steps: _Steps, threads: int) -> None:
        self.dataset, self.pipeline, self.notes = dataset, steps.pipeline, steps.notes
        self.fields, self.draws, self.has_python = steps.fields, steps.draws, steps.has_python
        self.wrote, self.threads, self._lines = steps.wrote, threads, steps.lines

    @property
    def is_equal(self) -> bool:
        """Every part is bit for bit what it was, draws and order aside."""
        return all(note.how in (EQUAL, DRAWN) for note in self.notes)

    def loader(self, **options: Any) -> Any:
        """The pipeline's loader, with torch's tensors and as many threads as there were workers."""
        if self.pipeline is None:
            raise TypeError("there is no pipeline: " + next(f"{note.part}: {note.text}" for note in self.notes
                                                            if note.part.startswith("its part ")))
        return self.pipeline.loader(**{"to": "torch", "threads": self.threads, **options})

    @property
    def code(self) -> str:
        """The lines to put in place of the old ones."""
        if self.pipeline is None:
            return "# no lines yet: see above which part of a sample cannot be a field\n"
        threads = f", threads={self.threads}" if self.threads else ""
        lines = [self._lines[0], *self._lines[1:], f'.loader(seed=1, to="torch"{threads})']
        pad = " " * len("loader = (")
        return "import millrace as mr\n\nloader = (" + f"\n{pad}   ".join(lines) + ")\n" + \
            "for batch in loader:\n    " + self._unpacking() + "\n"

    def _unpacking(self) -> str:
        if self.pipeline._batch_calls:
            return "..."
        return ", ".join(self.fields) + " = " + ", ".join(f'batch["{name}"]' for name in self.fields)

    def compare(self, samples: int = 4) -> dict[str, float]:
        """The largest difference of each field from the dataset's own, over the first samples. Only where
        nothing is drawn."""
        if self.draws:
            raise ValueError("samples that are drawn cannot be compared one by one")
        most = dict.fromkeys(self.fields, 0.0)
        n = min(samples, len(self.dataset))
        document = {**self.pipeline.document, "shuffle": False, "batch": 1}
        document.pop("remainder", None)
        plain = Pipeline.from_json(document) if not self.has_python else \
            self.pipeline._with(settings={"shuffle": False, "batch": 1}, batch_calls=())
        with plain.loader(to="numpy", epochs=1, world=1, rank=0) as loader:
            for i, batch in zip(range(n), loader):
                for name, theirs in zip(self.fields, _values(self.dataset[i], self.fields)):
                    most[name] = max(most[name], _difference(np.asarray(batch[name])[0], theirs))
        return most

    def measure(self, seconds: float = 2.0) -> float:
        """Samples a second of the pipeline here and now, from its first batch on."""
        samples, begun = 0, 0.0
        with self.loader() as loader:
            while not begun or time.perf_counter() - begun < seconds:
                for batch in loader:
                    samples += rows_of(batch) if begun else 0
                    begun = begun or time.perf_counter()
                    if time.perf_counter() - begun >= seconds:
                        break
        return samples / (time.perf_counter() - begun)

    def __str__(self) -> str:
        width = max(len(note.part) for note in self.notes)
        lines = [f"  {note.part:<{width}}  {MEANING[note.how].partition(';')[0]}: {note.text}" for note in self.notes]
        return "\n".join(lines) + "\n\n" + self.code

    def __repr__(self) -> str:
        return f"<millrace.torch.Translation of {type(self.dataset).__name__}>"


def _values(sample: Any, names: list[str]) -> list[Any]:
    if isinstance(sample, dict):
        return [sample[name] for name in names]
    return list(sample) if isinstance(sample, (tuple, list)) else [sample]


def _difference(ours: Any, theirs: Any) -> float:
    """The largest; infinity where shapes differ."""
    if hasattr(theirs, "convert"):
        theirs = theirs.convert("L" if ours.shape[-1:] == (1,) else "RGB")
    theirs = np.asarray(theirs)
    theirs = theirs[..., None] if theirs.ndim == ours.ndim - 1 and ours.shape[-1] == 1 else theirs
    if ours.shape != theirs.shape:
        return float("inf")
    return float(np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0))


def translate(loader: Any, folder: "str | os.PathLike[str] | None" = None) -> Translation:
    """The millrace pipeline that does what a torch DataLoader, or dataset, does, as far as it can.

    Known are ImageFolder, DatasetFolder, CIFAR and others that keep arrays, TensorDataset, Subsets of these,
    Hugging Face datasets of images and numbers; torchvision's transforms (v1 and v2) that have an equal op;
    default_collate. Anything else stays a Python function, and is listed as one; where the dataset itself is
    not known, all of it does.

    folder: where files are written that the pipeline reads (a list of samples, arrays, a Parquet file);
    otherwise a new folder for temporary files. Nothing is written for an ImageFolder that is taken whole."""
    made: list[str] = []

    def place() -> str:
        if not made:
            made.append(os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="millrace-"))
            os.makedirs(made[0], exist_ok=True)
        return made[0]

    is_loader = hasattr(loader, "batch_sampler") and hasattr(loader, "dataset")
    dataset = loader.dataset if is_loader else loader
    steps = _dataset_steps(dataset, place)
    if made and not steps.wrote and folder is None:
        shutil.rmtree(made[0], ignore_errors=True)
    if is_loader:
        _loader_steps(steps, loader)
    return Translation(dataset, steps, int(getattr(loader, "num_workers", 0)))
