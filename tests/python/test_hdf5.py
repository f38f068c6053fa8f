# SPDX-License-Identifier: Apache-2.0
"""Source hdf5 against h5py: every layout, index of chunks, filter and type that h5py can write, whole
and damaged; and the law over it."""
import numpy as np
import pytest

import mrlib
from test_sources import as_bytes, law, refused, samples_of

h5py = pytest.importorskip("h5py")

ROWS = 53


def check(values, fields):
    """fields: name -> array; a sample is its row."""
    n = len(next(iter(fields.values())))
    assert len(values) == n
    for i in range(n):
        assert values[i] == {name: as_bytes(rows[i]) for name, rows in fields.items()}


def text(values):
    """Strings of fixed length, as bytes."""
    return values.view(np.uint8).reshape(values.shape + (values.dtype.itemsize,))


def numbers(shape=(ROWS, 6, 5), dtype="float32", seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 100, shape).astype(dtype)


LAYOUTS = {
    "contiguous": {},
    "rows": {"chunks": (8, 6, 5)},
    "tiles": {"chunks": (7, 4, 2)},
    "one": {"chunks": (ROWS, 6, 5)},
    "grows": {"chunks": (3, 6, 5), "maxshape": (None, 6, 5)},
    "grows in two": {"chunks": (3, 2, 5), "maxshape": (None, None, 5)},
    "may grow": {"chunks": (3, 6, 2), "maxshape": (100, 6, 9)},
}
FILTERS = {
    "plain": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "gzip, shuffle": {"compression": "gzip", "shuffle": True},
    "lzf, shuffle, checksum": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "checksum": {"fletcher32": True},
}


@pytest.mark.parametrize("version", ["earliest", "v108", "v110", "latest"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_filters(tmp_path, version, layout):
    for name, how in FILTERS.items():
        if how and layout == "contiguous":
            continue
        path = str(tmp_path / "x.h5")
        x = numbers()
        with h5py.File(path, "w", libver=(version, "latest")) as file:
            file.create_dataset("x", data=x, **LAYOUTS[layout], **how)
        for shuffle in (False, True):
            check(samples_of({"hdf5": {"path": path, "block_bytes": 1000}}, shuffle)[0], {"x": x})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float16", "float32", "float64", "bool", "S7"])
def test_types(tmp_path, dtype):
    path = str(tmp_path / "x.h5")
    x = numbers((ROWS, 3), "int64").astype(dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("plain", data=x)
        file.create_dataset("packed", data=x, chunks=(10, 3), compression="gzip", shuffle=True)
    x = text(x) if dtype == "S7" else x
    for shuffle in (False, True):
        check(samples_of({"hdf5": {"path": path}}, shuffle)[0], {"packed": x, "plain": x})


def test_law(tmp_path):
    x, y, z = numbers(), numbers((ROWS,), "int64", 2), numbers((ROWS, 4), "uint8", 3)
    for k, (a, b) in enumerate([(0, 20), (20, 21), (21, ROWS)]):
        with h5py.File(tmp_path / f"p-{k}.h5", "w") as file:
            file.create_dataset("d/x", data=x[a:b], chunks=(1 if b - a < 8 else 8, 6, 5), compression="gzip")
            file.create_dataset("d/y", data=y[a:b], chunks=(b - a,), compression="lzf")
            file["d/z"] = z[a:b]
            file["note"] = np.arange(3)
    source = {"hdf5": {"path": str(tmp_path / "p-{0..2}.h5"), "block_bytes": 1500}}
    check(law(source), {"d.x": x, "d.y": y, "d.z": z})
    some = {"hdf5": {"path": str(tmp_path / "*.h5"), "fields": ["b=d/z", "/d/y"]}}
    check(law(some, [True]), {"b": z, "d.y": y})
    alone = {"hdf5": {"path": str(tmp_path), "fields": ["d/z"]}}  # contiguous: mapped
    check(law(alone, [True, {"window": 2}]), {"d.z": z})
    values = samples_of(source, True, fields=["d.y", "index"])[0]
    assert all(values[i]["index"] == as_bytes(np.int64(i)) for i in range(ROWS))


def test_many_chunks_and_many_datasets(tmp_path):
    """B-trees of several levels, pages of arrays, super blocks, and groups with a heap of links."""
    path = str(tmp_path / "x.h5")
    x = numbers((5000, 2), "int32")
    ways = {"earliest": {}, "latest": {}, "latest, grows": {"maxshape": (None, 2)},
            "latest, grows in two": {"maxshape": (None, None)}}
    for name, how in ways.items():
        for filters in ({}, {"compression": "lzf"}):
            with h5py.File(path, "w", libver=name.split(",")[0]) as file:
                file.create_dataset("x", data=x, chunks=(1, 2), **how, **filters)
            check(samples_of({"hdf5": {"path": path}}, batch=64)[0], {"x": x})
    for version, n in (("earliest", 300), ("latest", 300), ("latest", 3000)):
        with h5py.File(path, "w", libver=version) as file:
            for i in range(n):
                file[f"group {i % 7}/column number {i}"] = np.full(3, i)
        values = samples_of({"hdf5": {"path": path}})[0]
        assert len(values[0]) == n
        assert all(values[1][f"group {i % 7}.column number {i}"] == as_bytes(np.int64(i)) for i in range(n))


def test_what_was_never_written(tmp_path):
    path = str(tmp_path / "x.h5")
    for version in ("earliest", "latest"):
        with h5py.File(path, "w", libver=version) as file:
            x = file.create_dataset("x", (ROWS, 3), "float32", chunks=(5, 3), fillvalue=2.5)
            x[11:13] = 7
            file.create_dataset("y", (ROWS, 3), "int16")
            file.create_dataset("z", (ROWS, 2), "int16", chunks=(9, 1), compression="gzip")
            expected = {"x": x[:], "y": np.zeros((ROWS, 3), "int16"), "z": np.zeros((ROWS, 2), "int16")}
        for shuffle in (False, True):
            check(samples_of({"hdf5": {"path": path}}, shuffle)[0], expected)


def test_compact_and_user_block(tmp_path):
    path = str(tmp_path / "x.h5")
    x = numbers((ROWS, 3), "int32")
    with h5py.File(path, "w", userblock_size=1024) as file:
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(x.shape)
        h5py.h5d.create(file.id, b"c", h5py.h5t.NATIVE_INT32, space, layout).write(h5py.h5s.ALL, h5py.h5s.ALL, x)
        file["d"] = x
        file.create_dataset("e", data=x, chunks=(9, 3), compression="gzip")
        file["group/self"] = file["/"]  # a way around in a circle
        file["link"] = h5py.SoftLink("/d")
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/d")
    for fields in ([], ["c"], ["c", "d"]):
        for shuffle in (False, True):
            values = samples_of({"hdf5": {"path": path, "fields": fields}}, shuffle)[0]
            check(values, {name: x for name in fields or ["c", "d", "e"]})


def test_rows_of_images_are_images(tmp_path):
    path = str(tmp_path / "x.h5")
    x = numbers((ROWS, 9, 8, 3), "uint8")
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=x, chunks=(10, 9, 8, 3), compression="gzip")
    document = {"source": {"hdf5": {"path": path}}, "ops": [{"center_crop": {"size": 4}}], "batch": 5,
                "epochs": 1, "shuffle": False}
    with mrlib.Loader(document) as loader:
        made = np.concatenate([np.array(b["image"]) for b in loader])
    assert np.array_equal(made, x[:, 2:6, 2:6])


def test_refused(tmp_path):
    path = str(tmp_path / "x.h5")
    kinds = np.dtype([("a", "i4"), ("b", "f4")])
    with h5py.File(path, "w") as file:
        file["ok"] = np.arange(4)
        file["other"] = np.arange(5)
        file["compound"] = np.zeros(4, kinds)
        file["big"] = np.arange(4, dtype=">i4")
        file["text"] = ["a", "bc", "d", "e"]
        file["scalar"] = 3
        file["empty"] = np.zeros((4, 0))
        file["named"] = np.dtype("f4")
        file.create_dataset("of named", (4,), file["named"])
        file.create_dataset("scaled", data=np.arange(4), chunks=(2,), scaleoffset=3)
        layout = h5py.VirtualLayout(shape=(4,), dtype="i8")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (4,), "i4", external=[("raw.bin", 0, 16)])
    check(samples_of({"hdf5": {"path": path, "fields": ["ok"]}})[0], {"ok": np.arange(4)})
    for name, says in (("compound", "compound"), ("big", "big-endian"), ("text", "varying length"),
                       ("scalar", "no rows"), ("of named", "named one"), ("scaled", "scale-offset"),
                       ("virtual", "virtual"), ("outside", "other files")):
        refused({"hdf5": {"path": path, "fields": [name]}}, says, "UNSUPPORTED")
    refused({"hdf5": {"path": path, "fields": ["nothing"]}}, "no dataset 'nothing'", "NOT_FOUND")
    refused({"hdf5": {"path": path, "fields": ["empty"]}}, "no values", "TYPE")
    refused({"hdf5": {"path": path, "fields": ["ok", "other"]}}, "5 rows, and another one 4", "TYPE")
    refused({"hdf5": {"path": path, "fields": ["a=o[kt]*"]}}, "one name for", "PARAM")
    refused({"hdf5": {"path": path, "fields": ["ok", "ok"]}}, "two fields are called", "PARAM")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["ok"] = np.arange(4.0)
    refused({"hdf5": {"path": [path, str(tmp_path / "y.h5")], "fields": ["ok"]}}, "another type", "TYPE")
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("x", (1 << 28, 64), "f8", chunks=(1 << 22, 64), compression="gzip")
    refused({"hdf5": {"path": str(tmp_path / "bomb.h5")}}, "max_unpacked_bytes", "LIMIT")


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_damage(tmp_path, version):
    """Wherever a byte is wrong: the same rows, or an error that names the file; never anything else."""
    path = str(tmp_path / "x.h5")
    x = numbers((ROWS, 30), "int32")
    with h5py.File(path, "w", libver=version) as file:
        file.create_dataset("x", data=x, chunks=(8, 30), compression="gzip", fletcher32=True)
        chunk = file["x"].id.get_chunk_info(3)
    source = {"hdf5": {"path": path, "block_bytes": 1000, "max_unpacked_bytes": 100000}}
    whole = open(path, "rb").read()

    def damage(data):
        with open(path, "wb") as file:
            file.write(data)

    damage(whole[:chunk.byte_offset + 9] + bytes([whole[chunk.byte_offset + 9] ^ 0x55])
           + whole[chunk.byte_offset + 10:])
    refused(source, "dataset x: a chunk is damaged", "CORRUPT", chunk.byte_offset, False)
    with mrlib.Loader({"source": source, "batch": 5, "on_error": "skip", "epochs": 1}) as loader:
        assert set(range(ROWS)) - {s for b in loader for s in b.samples} == set(range(24, 32))
    damage(whole[:-1])
    refused(source, "cut off", "CORRUPT")
    damage(whole[:40])
    refused(source, "cut off", "CORRUPT")
    damage(b"\0" * 4096)
    refused(source, "not an HDF5 file", "CORRUPT")
    damage(b"")
    refused(source, "not an HDF5 file", "CORRUPT")
    rng = np.random.default_rng(4)
    for _ in range(150):
        data = bytearray(whole)
        for at in rng.integers(0, min(len(whole), 6000), 3):
            data[at] ^= int(rng.integers(1, 256))
        damage(bytes(data))
        try:
            values = samples_of(source)[0]
        except mrlib.MrError as error:
            assert path in str(error)
        else:
            assert len(values) > 0 and len(values[0]['x'][2]) <= 100000
