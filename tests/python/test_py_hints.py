# SPDX-License-Identifier: Apache-2.0
"""Errors for people who write Python: hints in Python, both styles of arguments, names that were nearly right."""
import glob
import gzip
import inspect
import io
import os
import re
import struct
import tarfile

import numpy as np
import pytest

import millrace as mr
from millrace import _hints

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
PHOTOS = os.path.join(TOP, "tests", "cli", "data", "photos")

# ---- Hints ---------------------------------------------------------------------------------------


def hints_of_the_library():
    """Of the sources, as they stand in the C files."""
    for path in sorted(glob.glob(os.path.join(TOP, "src", "**", "*.c"), recursive=True)):
        text = open(path, encoding="utf-8").read()
        for call in re.finditer(r'mr_hint\(\s*[^,]+,\s*((?:\s*(?:"(?:[^"\\]|\\.)*"|PRI\w+))+)', text):
            hint = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"|PRI\w+', call[1])).replace('\\"', '"')
            hint = re.sub(r"%[-0-9.*]*(?:l*[di]|z?u)|%$", "7", hint)
            yield os.path.relpath(path, TOP), hint.replace("%s", "true" if "shuffle" in hint else "x")


# Verbs of the command, and what only a document can have: nothing of Python writes it.
AS_THEY_ARE = re.compile(r'\bmillrace (?:ops|cache|append|parquet|fabric)\b|"share": |"servers": |\{"name": |--upto|--part')


def test_every_hint_of_the_library_speaks_python():
    hints = list(hints_of_the_library())
    assert len(hints) > 200
    left = [(path, hint, said) for path, hint in hints if not AS_THEY_ARE.search(hint)
            for said in [_hints.in_python(hint)] if re.search(r'--[a-z]|"[a-z_]+": (?!\d+\.)|\btrue\b|\bfalse\b|`', said)]
    assert not left


@pytest.mark.parametrize("hint,want", [
    ("pass --seed 7", "pass seed=7"),
    ('"on_error": "skip" takes another sample in its place', '.on_error("skip") takes another sample in its place'),
    ('write "shuffle": {"window": "1GB", "lanes": 8}', 'write .shuffle(window="1GB", lanes=8)'),
    ('set "shuffle": false in the pipeline', "set .shuffle(False) in the pipeline"),
    ('write "kinds": {"mask": "mask"}', 'write .kinds(mask="mask")'),
    ('name both: "field": ["image", "mask"]', 'name both: field=["image", "mask"]'),
    ('write {"files": {"path": "photos"}}', 'write mr.files(path="photos")'),
    ('add "source": {"files": {"path": "photos"}}', 'add mr.files(path="photos")'),
    ('{"split": {"name": "train", "parts": {"train": 0.9}}}', '.split(name="train", parts={"train": 0.9})'),
    ('write {"take": 1000}', "write .take(1000)"),
    ('add {"cache": {}} to its ops, or "cache": "auto" to the document',
     "add .cache() to its ops, or .auto_cache() to the document"),
    ('name the columns that you want: "columns": [...]', "name the columns that you want: columns=[...]"),
    ('give it once: {"resize": {"field": ["a", "b"], ...}}', 'give it once: .resize(field=["a", "b"], ...)'),
    ('"lenient": true allows it', "lenient=True allows it"),
    ("choose some with `columns`", "choose some with columns="),
    ('compares text too: "where": ["==", "country", "text"]',
     'compares text too: mr.parquet(..., where=["==", "country", "text"])'),
    ("clear it (`millrace cache clear --path x`)", "clear it (`millrace cache clear --path x`)"),
    ("nothing to see", "nothing to see")])
def test_hints_in_python(hint, want):
    assert _hints.in_python(hint) == want


def test_a_module_of_mpi_that_is_not_there(tmp_path, monkeypatch):
    for name, value in (("RANK", "0"), ("SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    monkeypatch.setenv("MILLRACE_MODULES", str(tmp_path))
    with pytest.raises(ValueError, match="cannot load millrace_mpi_openmpi.so") as caught:
        mr.files(PHOTOS).loader(fabric="mpi")
    assert "./dev build" in caught.value.hint and "MILLRACE_MODULES=FOLDER" in caught.value.hint


def test_what_a_required_parameter_may_be_is_listed():
    with pytest.raises(ValueError, match="decode_npy needs dtype") as caught:
        mr.files(PHOTOS).decode_npy()
    assert caught.value.hint.startswith('dtype is one of "uint8", "int8", ') and caught.value.hint.endswith('"bool"')
    with pytest.raises(ValueError, match="resize needs size") as caught:
        mr.files(PHOTOS).decode_image().resize()
    assert not caught.value.hint


def test_errors_have_hints_in_python(tmp_path):
    with mr.files(PHOTOS).loader(seed=3) as loader:
        state = loader.state_dict()
    with pytest.raises(mr.StateError, match="hint: pass seed=3") as caught:
        mr.files(PHOTOS).loader(seed=4, state=state)
    assert caught.value.hint == "pass seed=3"
    with pytest.raises(mr.StateError, match="state_dict"):
        mr.files(PHOTOS).loader(seed=3, state={"x": 1})
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(mr.SampleError) as caught:
        with mr.files(tmp_path).decode_image().batch(1).loader() as loader:
            next(loader)
    assert '"on_error"' not in str(caught.value) and "--" not in str(caught.value)


# ---- Damage ---------------------------------------------------------------------------------------


def tar_of(n):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for i in range(n):
            entry = tarfile.TarInfo(f"{i}.bin")
            entry.size = 600
            file.addfile(entry, io.BytesIO(bytes(600)))
    return out.getvalue()


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("cut,byte", [(5 * 1536 + 100, 5 * 1536), (5 * 1536 + 700, 5 * 1536), (100, 0)])
def test_a_tar_that_is_cut_off_names_the_byte(cut, byte, shuffle, pack, tmp_path):
    """Entries of 600 bytes take 1,536; the byte is that of the entry that is not whole."""
    path = tmp_path / ("a.tar.gz" if pack else "a.tar")
    path.write_bytes(gzip.compress(tar_of(20)[:cut]) if pack else tar_of(20)[:cut])
    with pytest.raises(RuntimeError) as caught:
        mr.tar(path, fields=["bin"]).shuffle(shuffle).loader()
    assert f"{path.name} (byte {byte})" in str(caught.value) and caught.value.offset == byte


@pytest.mark.parametrize("cut", [516 * 3 + 5, 516 * 3 + 300, 516 * 4 - 2])
def test_a_tfrecord_that_is_cut_off_names_the_byte(cut, tmp_path):
    """Records of 500 bytes take 516."""
    length = struct.pack("<Q", 500)
    sums = [mask(crc32c(length)), mask(crc32c(bytes(500)))]
    record = length + struct.pack("<I", sums[0]) + bytes(500) + struct.pack("<I", sums[1])
    (tmp_path / "a.tfrecord").write_bytes((record * 20)[:cut])
    with pytest.raises(RuntimeError, match=r"a.tfrecord \(byte 1548\)") as caught:
        mr.tfrecord(tmp_path / "a.tfrecord").loader()
    assert caught.value.offset == 3 * 516


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mask(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- Both styles ---------------------------------------------------------------------------------


def test_shuffle_takes_keywords_a_dictionary_or_a_truth():
    start = mr.files(PHOTOS)
    want = start.shuffle({"window": 4, "lanes": 2})
    assert start.shuffle(window=4, lanes=2) == want == start.shuffle({"window": 4}, lanes=2)
    assert want.document["shuffle"] == {"window": 4, "lanes": 2}
    assert start.shuffle(window="1GB").document["shuffle"] == {"window": "1GB"}
    assert start.shuffle().document["shuffle"] is True and start.shuffle(False).document["shuffle"] is False
    with pytest.raises(TypeError, match="has no window"):
        start.shuffle(False, window=4)
    with pytest.raises(ValueError, match="lanes"):
        start.shuffle(lanes=0)


def test_kinds_take_keywords_or_a_dictionary():
    class Two:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return {"image": np.zeros((8, 8, 3), np.uint8), "a mask": np.zeros((8, 8, 1), np.uint8),
                    "m": np.zeros((8, 8, 1), np.uint8)}
    start = mr.dataset(Two())
    assert start.kinds({"m": "mask"}) == start.kinds(m="mask")
    both = start.kinds({"a mask": "mask"}, m="mask")
    assert both.document["kinds"] == {"a mask": "mask", "m": "mask"}
    with pytest.raises(TypeError, match="kinds\\(\\) takes"):
        start.kinds("mask")


# ---- Names that were nearly right ------------------------------------------------------------------


@pytest.mark.parametrize("document,hint", [
    ({"ops": ["decode_image", {"random_flip": {"prob": 0.5}}]}, 'did you mean "p"?'),
    ({"ops": ["decode_image", {"random_flip": {"probability": 0.5}}]}, 'did you mean "p"?'),
    ({"ops": ["decode_image", {"random_flip": {"feild": "image"}}]}, 'did you mean "field"?'),
    ({"ops": ["decode_image", {"normalize": {"zzzzzz": 0.5}}]}, "known: mean, std"),
    ({"shuffle": {"windw": 3}}, 'did you mean "window"?'),
    ({"shuffle": {"lane": 3}}, 'did you mean "lanes"?'),
    ({"veiw": []}, 'did you mean "view"?'),
    ({"kind": {}}, 'did you mean "kinds"?'),
    ({"view": [{"split": {"name": "a", "part": {"a": 1}}}]}, 'did you mean "parts"?'),
    ({"bucket": {"feild": "image"}}, 'did you mean "field"?')])
def test_the_nearest_name(document, hint):
    with pytest.raises(ValueError) as caught:
        mr.Pipeline.from_json({"source": {"files": {"path": PHOTOS}}, **document})
    assert caught.value.hint.startswith(hint)


def test_the_nearest_name_of_a_method():
    with pytest.raises(TypeError, match='did you mean "p"') as caught:
        mr.files(PHOTOS).decode_image().random_flip(prob=0.5)
    assert caught.value.hint == 'did you mean "p"?'


# ---- Kinds of fields that are not there --------------------------------------------------------------


def test_a_kind_of_no_field_is_an_error():
    pipeline = mr.files(PHOTOS).decode_image().kinds(msk="mask").resize(8)
    with pytest.raises(ValueError, match='kinds has "msk", but there is no such field') as caught:
        pipeline.loader()
    assert caught.value.hint.startswith("fields: image, label")
    with pytest.raises(ValueError, match='kinds has "msk"'):
        mr.Pipeline.from_json(pipeline.document)


def test_a_kind_may_be_said_before_its_field_is_made():
    def with_mask(sample):
        return {**sample, "mask": sample["image"][..., :1].copy()}
    pipeline = (mr.files(PHOTOS).kinds(mask="mask").decode_image().map(with_mask)
                .random_resized_crop(16, field=["image", "mask"]).batch(2))
    with pipeline.loader() as loader:
        assert next(loader)["mask"].shape == (2, 16, 16, 1)


# ---- Names of other libraries --------------------------------------------------------------------


@pytest.mark.parametrize("theirs,ours", [
    ("random_rotate", "rotate"), ("RandomRotation", "rotate"), ("horizontal_flip", "random_flip"),
    ("RandomHorizontalFlip", "random_flip"), ("RandomResizedCrop", "random_resized_crop"), ("CoarseDropout", "erasing"),
    ("ToTensor", "to_float"), ("filter", "where"), ("resze", "resize")])
def test_names_of_others_say_what_is_meant(theirs, ours):
    with pytest.raises(AttributeError, match=f"has no {theirs}; did you mean {ours}\\?") as error:
        getattr(mr.files(PHOTOS), theirs)
    assert {"balance", "bucket", "map", "take", "where", "loader", "kinds"} <= set(re.findall(r"\w+", str(error.value).split("known:")[1]))
    if ours != "where":
        with pytest.raises(ValueError, match=f'unknown op "{theirs}"') as error:
            mr.Pipeline.from_json({"source": {"files": {"path": PHOTOS}}, "ops": [theirs]})
        assert f'did you mean "{ours}"?' in error.value.hint


@pytest.mark.parametrize("theirs,ours", [("image_folder", "files"), ("ImageFolder", "files"), ("WebDataset", "tar")])
def test_names_of_other_sources(theirs, ours):
    with pytest.raises(AttributeError, match=f"did you mean {ours}\\?"):
        getattr(mr, theirs)


def test_what_others_call_it_is_nothing_of_ours():
    """An alias that is another's own name would send people the wrong way."""
    from millrace import _tables
    for kind in ("ops", "sources"):
        names = [table["name"] for table in _tables.TABLES[kind]]
        also = [word for table in _tables.TABLES[kind] for word in table["also"].split()]
        assert len(set(also)) == len(also) and not {w.replace("_", "") for w in also} & {n.replace("_", "") for n in names}


def test_means_of_bytes_are_told(caplog):
    images = mr.files(PHOTOS).decode_image().resize([8, 8])
    with caplog.at_level("WARNING", "millrace"):
        images.normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]).loader().close()
        images.normalize().loader().close()
        assert "normalize" not in caplog.text
        images.normalize(mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4]).loader().close()
    assert "normalize: mean and std seem to be of values from 0 to 255" in caplog.text


def test_a_keyword_of_loader_that_was_nearly_right():
    with pytest.raises(TypeError, match="loader\\(\\) has no 'see'; did you mean 'seed'\\?\n  known: seed, epochs"):
        mr.files(PHOTOS).loader(see=1)
    with pytest.raises(TypeError, match="has no 'zzzzz'\n  known"):
        mr.files(PHOTOS).loader(zzzzz=1)
    assert "seed" in inspect.signature(mr.Pipeline.loader).parameters
