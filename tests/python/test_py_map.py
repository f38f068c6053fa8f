# SPDX-License-Identifier: Apache-2.0
"""Python functions and Python datasets in a pipeline: values, types, randomness, errors, processes."""
import os
import subprocess
import sys
import time
import traceback

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def photos(size=16):
    return mr.files(PHOTOS).decode_image().center_crop(size).batch(4)


def digest(pipeline, **options):
    with pipeline.loader(digest=True, **options) as loader:
        for _ in loader:
            pass
        return loader.digest()


# Functions that worker processes can import.
def double(sample):
    sample["image"] = sample["image"].astype(np.int32) * 2
    return sample


def jitter(sample, rng):
    sample["image"] = (sample["image"] * rng.uniform(0.5, 1.5)).astype(np.float32)
    sample["draw"] = rng.integers(0, 1 << 30)
    return sample


def mirror(image):
    return image[:, ::-1]


def lengths(sample):
    return {"n": np.arange(sample["index"] % 5, dtype=np.int32), "index": sample["index"]}


def fail_on_three(sample):
    if sample["index"] == 3:
        raise KeyError("boom")
    return sample


def wrong_shape(sample):
    return {"x": np.zeros(3 if sample["index"] == 7 else 2, np.float32)}


def too_much_later(sample):
    """More than fits into its place, after its neighbours are done."""
    i = int(sample["index"])
    if i == 3:
        time.sleep(0.3)
    return {"x": np.full(16 if i == 3 else 4, i), "index": sample["index"]}


def complain(sample):
    raise ValueError("\u20ac" * 3000)


def complain_badly(sample):
    raise ValueError("\udcff is half a letter")


def leave(sample):
    if sample["index"] == 5:
        os._exit(3)
    return sample


# ---- map ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [0, 2])
def test_map_on_a_sample(processes):
    with photos().shuffle(False).loader() as loader:
        plain = [b["image"].copy() for b in loader]
    with photos().shuffle(False).map(double, processes=processes).loader() as loader:
        for before, batch in zip(plain, loader, strict=True):
            assert (batch["image"] == before.astype(np.int32) * 2).all()
            assert batch["label"].dtype == np.int64 and list(batch) == ["image", "label"]


@pytest.mark.parametrize("processes", [0, 1])
def test_map_on_a_field(processes):
    with photos().shuffle(False).loader() as loader:
        plain = [b["image"].copy() for b in loader]
    mapped = photos().shuffle(False).map(mirror, field="image", processes=processes)
    assert mapped.types["image"] == ("uint8", (16, 16, 3), "hwc")
    with mapped.normalize(dtype="uint8", layout="hwc").loader() as loader:
        for before, batch in zip(plain, loader, strict=True):
            assert (batch["image"] == before[:, :, ::-1]).all()


def test_randomness_comes_from_the_law():
    pipeline = photos().map(jitter)
    digests = {digest(pipeline, seed=5, epochs=2, threads=threads) for threads in (1, 3)}
    digests.add(digest(photos().map(jitter, processes=2), seed=5, epochs=2))
    assert len(digests) == 1
    assert digest(pipeline, seed=6, epochs=2) not in digests
    with pipeline.loader(epochs=2, seed=5) as loader:
        draws = [d for b in loader.all_epochs() for d in b["draw"].tolist()]
    assert len(set(draws)) == 20  # every sample of every epoch draws anew
    with pipeline.loader(epochs=2, seed=5) as loader:
        next(loader)
        state = loader.state_dict()
    with pipeline.loader(epochs=2, seed=5, state=state) as loader:
        assert [d for b in loader.all_epochs() for d in b["draw"].tolist()] == draws[4:]


@pytest.mark.parametrize("processes", [0, 1])
def test_results_whose_size_varies(processes):
    with photos().shuffle(False).map(lengths, processes=processes).loader() as loader:
        for batch in loader:
            for i, index in enumerate(batch.samples):
                assert batch["n"][i].tolist() == list(range(index % 5))


@pytest.mark.parametrize("processes", [0, 1])
def test_declared_types_need_no_trial(processes):
    pipeline = photos().map(lengths, processes=processes,
                            fields={"n": ("int32", (None,)), "index": "int64"})
    assert pipeline.types["n"] == ("int32", (-1,), "")
    with pipeline.fields(["n"]).loader() as loader:
        assert sum(len(b["n"]) for b in loader) == 10


@pytest.mark.parametrize("processes", [0, 1])
def test_an_exception_arrives_with_its_traceback_and_sample(processes):
    with pytest.raises(mr.SampleError) as caught:
        list(photos().map(fail_on_three, processes=processes).loader())
    error = caught.value
    assert error.index == 3 and error.file.endswith("cat/3.png") and error.op == "map"
    assert "KeyError: 'boom'" in str(error)
    told = "".join(traceback.format_exception(error))
    assert 'raise KeyError("boom")' in told and "fail_on_three" in told
    if not processes:
        assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize("processes", [0, 1])
def test_exceptions_can_be_skipped(processes):
    with photos().map(fail_on_three, processes=processes).on_error("skip").loader() as loader:
        list(loader)
        assert [skip["sample"] for skip in loader.skips()] == [3]


@pytest.mark.parametrize("processes", [0, 1])
def test_another_shape_than_the_first_is_said(processes):
    with pytest.raises(mr.SampleError, match=r"float32\[3\], expected float32\[2\]") as caught:
        list(photos().map(wrong_shape, processes=processes).loader())
    assert caught.value.index == 7


def only_image(sample):
    return {"image": sample["image"]}


def renamed(sample):
    return {"image": sample["image"], "target": np.int64(1)}


def no_dictionary(sample):
    return [sample["image"]]


def image_and_label(sample):
    return {"image": sample["image"], "label": np.int64(1)}


@pytest.mark.parametrize("processes", [0, 1])
def test_fields_that_are_missing_or_too_many_are_named(processes):
    image, label = {"image": ("uint8", (16, 16, 3))}, {"label": ("int64", ())}
    for function, fields, said in [
            (image_and_label, image, 'returned one field more, "label"'),
            (only_image, {**image, **label}, 'returned no field "label"'),
            (renamed, {**image, **label}, 'returned no field "label", but "target"'),
            (renamed, {**image, **label, "weight": ("int64", ())}, 'returned no field "label", but "target"'),
            (no_dictionary, image, "did not return a dictionary of fields")]:
        with photos().map(function, fields=fields, processes=processes).loader() as loader:
            with pytest.raises(mr.SampleError, match=said + "(:|\n)") as caught:
                next(loader)
        assert "dictionary" in said or "fields=" in str(caught.value)


class Row:
    """Fields by name, and no dictionary."""

    def __init__(self, **fields):
        self._fields = fields

    def keys(self):
        return self._fields.keys()

    def __getitem__(self, name):
        return self._fields[name]

    def __len__(self):
        return len(self._fields)


def as_row(sample):
    return Row(**double(sample))


def renamed_row(sample):
    return Row(**renamed(sample))


@pytest.mark.parametrize("processes", [0, 1])
def test_fields_come_in_any_mapping(processes):
    plain, rows = photos().map(double), photos().map(as_row, processes=processes)
    assert rows.types == plain.types
    with plain.loader(seed=1) as one, rows.loader(seed=1) as other:
        for wanted, got in zip(one, other, strict=True):
            assert got.keys() == wanted.keys() and all((got[name] == wanted[name]).all() for name in wanted)
    fields = {"image": ("uint8", (16, 16, 3)), "label": ("int64", ())}
    with photos().map(renamed_row, fields=fields, processes=processes).loader() as loader, \
            pytest.raises(mr.SampleError, match='returned no field "label", but "target"'):
        next(loader)


@pytest.mark.parametrize("processes", [0, 2])
def test_too_much_does_not_reach_the_neighbours(processes):
    fields = {"x": ("int64", (4,)), "index": "int64"}
    pipeline = photos().map(too_much_later, fields=fields, processes=processes)
    with pipeline.batch(10).shuffle(False).on_error("skip").loader(threads=2) as loader:
        batch = next(loader)
    assert (batch["x"] == batch.samples[:, None]).all() and batch.samples[3] != 3


@pytest.mark.parametrize("processes", [0, 1])
def test_any_text_of_an_exception_arrives(processes):
    for function, said in ((complain, "ValueError: \u20ac\u20ac"), (complain_badly, "half a letter")):
        pipeline = photos().map(function, fields={"x": "int64"}, processes=processes)
        with pipeline.loader() as loader, pytest.raises(mr.SampleError, match=said):
            next(loader)


def test_a_process_that_dies_is_an_error_not_a_hang():
    with pytest.raises(mr.SampleError, match="ended unexpectedly"):
        list(photos().map(leave, processes=1).loader())


def test_a_loader_that_is_dropped_takes_its_processes_along():
    loader = photos().map(double, processes=1).loader(epochs=1000)
    batch = next(loader)
    process = loader._processes.processes[0]
    image = batch["image"].copy()
    del loader
    process.join(120)
    assert not process.is_alive() and (batch["image"] == image).all()


def test_what_a_function_keeps_stays_valid():
    kept = []

    def keep(sample):
        kept.append((int(sample["index"]), sample["image"]))
        return sample
    with photos(64).map(keep).loader(epochs=3, threads=2) as loader:
        list(loader.all_epochs())
    with photos(64).shuffle(False).batch(10).loader() as loader:
        images = next(loader)["image"]
    assert len(kept) == 32  # two to find the types
    assert all((image == images[index]).all() for index, image in kept)


def test_map_batch():
    pipeline = photos().map_batch(lambda b: {**b, "twice": b["label"] * 2})
    with pipeline.loader() as loader:
        assert all((b["twice"] == b["label"] * 2).all() for b in loader)

    def draw(_, rng):
        return rng.integers(0, 1 << 30)
    runs = []
    for threads in (1, 2):
        with photos().map_batch(draw).loader(seed=2, epochs=2, threads=threads) as loader:
            runs.append(list(loader.all_epochs()))
    assert runs[0] == runs[1] and len(set(runs[0])) == 6


def test_maps_after_maps_and_in_documents():
    pipeline = photos().map(double).map(double).map(mirror, field="image")
    names = [name for name, _, _ in pipeline._compiled.stages]
    assert names == ["files", "decode_image", "center_crop", "map", "map", "map"]
    functions = {op["map"]["function"]: double if "double" in op["map"]["function"] else mirror
                 for op in pipeline.document["ops"] if "map" in op}
    again = mr.Pipeline.from_json(str(pipeline), functions=functions)
    assert digest(again) == digest(pipeline)
    for others in ({"other": double}, None):
        with pytest.raises(ValueError, match="functions="):
            mr.Pipeline.from_json(str(pipeline), functions=others)
    chosen = photos().map(jitter).fields(["draw"])
    again = mr.Pipeline.from_json(chosen.document, functions={"test_py_map:jitter": jitter})
    assert again.fingerprint == chosen.fingerprint
    for bad in ({"source": 3}, {"source": "files", "ops": [3]}, {"source": "files", "ops": 3}, "[]"):
        with pytest.raises(ValueError):
            mr.Pipeline.from_json(bad, functions={"other": double})
    assert photos().map(double, version=2).fingerprint != photos().map(double).fingerprint


def test_bad_functions():
    with pytest.raises(TypeError, match="takes a function"):
        photos().map(3)
    with pytest.raises(TypeError, match="dictionary"):
        photos().map(lambda s: 3)
    with pytest.raises(ZeroDivisionError):
        photos().map(lambda s: 1 / 0)
    with pytest.raises(TypeError, match="cannot hold"):
        photos().map(lambda s: {"x": object()})
    with pytest.raises(TypeError, match="not a lambda"):
        photos().map(lambda s: s, processes=2)
    for processes in (-1, "2", True):
        with pytest.raises(ValueError, match="processes wants a whole number"):
            photos().map(double, processes=processes)
    with pytest.raises(ValueError, match='no field "picture"'):
        photos().map(mirror, field="picture")


# ---- dataset -----------------------------------------------------------------------------------

ELEMENTS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
            "float32", "float64", "bool"]


@settings(max_examples=40)
@given(st.sampled_from(ELEMENTS), st.lists(st.integers(0, 4), max_size=4), st.integers(1, 9),
       st.booleans(), st.integers(0, 99))
def test_datasets_of_arrays_come_back(dtype, shape, n, strided, seed):
    rng = np.random.default_rng(seed)
    values = [(rng.random([*shape, 2] if strided else shape) * 200).astype(dtype) for _ in range(n)]
    values = [v[..., 0] for v in values] if strided else values
    with mr.dataset(values).shuffle(False).batch(n).loader() as loader:
        got = next(loader)["data"]
    want = np.stack(values)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def test_dataset_structures():
    pairs = [(np.full(3, i, np.float32), i) for i in range(10)]
    batch = next(mr.dataset(pairs).shuffle(False).batch(10).loader())
    assert list(batch) == ["item0", "item1"] and batch["item1"].tolist() == list(range(10))
    batch = next(mr.dataset(pairs, names=["x", "y"]).batch(10).loader())
    assert list(batch) == ["x", "y"] and (batch["x"][:, 0] == batch["y"]).all()
    batch = next(mr.dataset([{"a": 0.5, "b": "text"}, {"a": 1, "b": "other"}][:1]).loader())
    assert batch["a"].tolist() == [0.5] and batch["b"].texts() == ["text"]
    batch = next(mr.dataset(np.arange(12).reshape(6, 2)).shuffle(False).batch(6).loader())
    assert batch["data"].tolist() == np.arange(12).reshape(6, 2).tolist()


def test_images_of_a_dataset_meet_the_ops():
    images = [(np.full((20, 30, 3), 7 * i, np.uint8), i) for i in range(5)]
    pipeline = mr.dataset(images, names=["image", "label"]).center_crop(8).normalize()
    with pipeline.loader() as loader:
        assert next(loader)["image"].shape == (5, 3, 8, 8)


def test_dataset_order_and_resume():
    pipeline = mr.dataset(list(range(50))).batch(7)
    with pipeline.loader(epochs=2, seed=9, threads=3) as loader:
        whole = [b["data"].tolist() for b in loader.all_epochs()]
    assert sorted(sum(whole[:8], [])) == list(range(50))
    with pipeline.loader(epochs=2, seed=9) as loader:
        for _ in range(3):
            next(loader)
        state = loader.state_dict()
    with pipeline.loader(epochs=2, seed=9, state=state) as loader:
        assert [b["data"].tolist() for b in loader.all_epochs()] == whole[3:]
    with pytest.raises(mr.StateError, match="50 samples, this one has 51"):
        mr.dataset(list(range(51))).batch(7).loader(seed=9, state=state)
    with pytest.raises(mr.StateError, match="another dataset"):
        mr.dataset(list(range(50)), version="2").batch(7).loader(seed=9, state=state)


class Failing:
    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i == 6:
            raise OSError("disk on fire")
        return i


def test_a_dataset_that_fails():
    with pytest.raises(mr.SampleError, match="OSError: disk on fire") as caught:
        list(mr.dataset(Failing()).loader())
    assert caught.value.index == 6 and caught.value.file == "Failing[6]"
    assert isinstance(caught.value.__cause__, OSError)


def test_texts_and_foreign_byte_orders_of_numpy():
    with mr.dataset(np.array(["a", "bc", "d\u00e9f"])).batch(3).shuffle(False).loader() as loader:
        assert next(loader)["data"].texts() == ["a", "bc", "d\u00e9f"]
    values = np.arange(12, dtype=">i4").reshape(4, 3)
    with mr.dataset(values).batch(4).shuffle(False).loader() as loader:
        data = next(loader)["data"]
    assert data.dtype == np.int32 and (data == values).all()


def test_what_is_no_dataset():
    with pytest.raises(TypeError, match="__getitem__"):
        mr.dataset(iter([1]))
    with pytest.raises(TypeError, match="has keys"):
        mr.dataset({"image": [1], "label": [2]})
    with pytest.raises(ValueError, match="empty"):
        mr.dataset([])
    with pytest.raises(TypeError, match="differ in type"):
        mr.dataset([1, 2.5])


def test_processes_leave_nothing_behind(tmp_path):
    """A program that is killed: its processes go too, and say nothing."""
    code = ("import os, sys, time, millrace as mr\n"
            f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
            "import test_py_map as t\n"
            "if __name__ == '__main__':\n"
            "    loader = t.photos().map(t.double, processes=2).loader(epochs=1000)\n"
            "    next(loader)\n"
            "    print(*[p.pid for p in loader._processes.processes], flush=True)\n"
            "    os.kill(os.getpid(), 9)\n")
    script = tmp_path / "program.py"
    script.write_text(code)
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300,
                         check=False)
    pids = out.stdout.split()
    assert len(pids) == 2, out.stderr
    end = time.monotonic() + 120
    while time.monotonic() < end and any(os.path.exists(f"/proc/{pid}/exe") for pid in pids):
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids)
    assert not out.stderr


class Nested:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return np.zeros(2), i, {"name": f"n{i}"}


def test_what_cannot_be_a_field_is_named():
    with pytest.raises(TypeError, match='field "item2": a sample cannot hold dict') as caught:
        mr.dataset(Nested())
    assert "hint: fields hold numbers" in str(caught.value)
    with pytest.raises(TypeError, match='field "about"'):
        mr.dataset(Nested(), names=["x", "label", "about"])
    with pytest.raises(TypeError, match='field "ragged"'):
        mr.dataset([{"ragged": [[1], [2, 3]]}] * 2)
