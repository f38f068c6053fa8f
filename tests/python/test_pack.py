# SPDX-License-Identifier: Apache-2.0
"""millrace pack: what it writes, read by tarfile and numpy; parts, kills and a full disk end in the
same bytes; what is loaded again is what the pipeline as a whole delivers."""
import io
import json
import os
import random
import subprocess
import tarfile
import time

import numpy as np
import pyarrow
import pytest
from PIL import Image

import mrlib
from test_law_matrix import SOURCES

FIXED = {"array", "npz", "tokens", "corpus", "hdf5"}  # of them every field has one size
IN_BLOCKS = {"packed_tar", "lines", "hdf5", "parquet"}  # shuffled block by block: docs/tune.md
COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")
SAMPLES = 23


def millrace(*arguments, check=True):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done


def document(folder, ops, **more):
    path = folder / f"p{len(list(folder.glob('p*.json')))}.json"
    path.write_text(json.dumps({"source": {"files": {"path": str(folder / "photos")}}, "ops": ops,
                                "batch": 4, "seed": 3, **more}))
    return path


def contents(folder):
    """The pack as bytes; pipeline.json names the folder, so it is not compared."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "pipeline.json"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    rng = np.random.default_rng(7)
    for i in range(SAMPLES):
        label = folder / "photos" / ("cat", "dog")[i % 2]
        label.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (20 + i, 40 - i, 3), np.uint8)
        Image.fromarray(pixels).save(label / f"{i:03}.{'png' if i % 5 == 0 else 'jpg'}")
    time.sleep(0.1)  # files as new as the clock's steps have no identity, which a pack notes where there is one
    return folder


DECODE = {"decode_image": {}}
RESIZE = {"resize": {"size": [18, 22]}}
CROP = {"random_crop": {"size": 16}}


def reference(data, ops):
    """Samples in the source's order, by the loader alone."""
    text = json.loads(document(data, ops).read_text()) | {"shuffle": False}
    with mrlib.Loader(text) as loader:
        return [(batch["image"][i], int(batch["label"][i]))
                for batch in loader for i in range(batch.size)]


def tar_samples(folder):
    """By Python's tarfile: {key: {extension: bytes}}, in order."""
    found = {}
    for shard in sorted(folder.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, extension = member.name.split(".", 1)
                found.setdefault(key, {})[extension] = tar.extractfile(member).read()
    return found


def check_index(folder):
    """Every line of DALI's index leads to the bytes that tarfile finds."""
    for shard in sorted(folder.glob("shard-*.tar")):
        raw = shard.read_bytes()
        lines = shard.with_suffix(".idx").read_text().splitlines()
        with tarfile.open(shard) as tar:
            members = [(m.name, m.offset_data, m.size) for m in tar]
        listed = []
        for line in lines[1:]:
            words = line.split(" ")
            for at in range(0, len(words), 4):
                extension, offset, size, name = words[at:at + 4]
                assert name.split(".", 1)[1] == extension
                listed.append((name, int(offset), int(size)))
        assert lines[0] == f"v1.2 {len(lines) - 1}"
        assert listed == members
        assert len(raw) % 512 == 0


@pytest.mark.parametrize("ops", [[DECODE, CROP], [DECODE, RESIZE, CROP]])
def test_tarfile_and_numpy_read_it(data, tmp_path, ops):
    out = tmp_path / "out"
    millrace("pack", document(data, ops), "-o", out, "--shard", 5)
    check_index(out)
    wanted = reference(data, ops[:-1])
    found = tar_samples(out)
    assert list(found) == [f"{i:09}" for i in range(SAMPLES)]
    for (image, label), parts in zip(wanted, found.values()):
        assert set(parts) == {"npy", "cls"}
        array = np.load(io.BytesIO(parts["npy"]))
        assert array.dtype == image.dtype and np.array_equal(array, image)
        assert parts["cls"] == str(label).encode()


def test_files_as_they_are(data, tmp_path):
    """Cut before all ops: the files themselves, as WebDataset's users have them."""
    out = tmp_path / "out"
    millrace("pack", document(data, [DECODE, CROP]), "-o", out, "--upto", "source")
    files = sorted((data / "photos").rglob("*.*"))
    found = list(tar_samples(out).values())
    images = [next(v for k, v in parts.items() if k != "cls") for parts in found]
    assert images == [f.read_bytes() for f in files]
    assert [p["cls"] for p in found] == [b"0" if f.parent.name == "cat" else b"1" for f in files]


def test_mapped_files_are_told_beside_the_peak(tmp_path):
    """Their pages count as the process's own; of files in memory (tmpfs) the kernel says so by another name."""
    if subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout == "tmpfs\n":
        pytest.skip("the folder is a tmpfs")
    said = []
    for name, rows in (("small", 10), ("large", 8000)):
        np.save(tmp_path / f"{name}.npy", np.zeros((rows, 10_000), np.uint8))
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"source": {"array": {"path": str(tmp_path / f"{name}.npy")}}, "batch": 10}))
        said.append("mapped files come on top" in millrace("run", path).stdout)
    assert said == [False, True]


def test_arrays_and_the_document(data, tmp_path):
    """One .npy file for each field; the document that is printed delivers what the whole does."""
    out = tmp_path / "out"
    pipeline = document(data, [DECODE, RESIZE, CROP, "random_flip"], epochs=2)
    said = json.loads(millrace("pack", pipeline, "-o", out, "--format", "npy", "--json").stdout)
    wanted = reference(data, [DECODE, RESIZE])
    images = np.load(out / "shard-000000.image.npy")
    labels = np.load(out / "shard-000000.label.npy")
    assert np.array_equal(images, [image for image, _ in wanted])
    assert list(labels) == [label for _, label in wanted]
    assert said["document"] == json.loads((out / "pipeline.json").read_text())
    again = millrace("pack", pipeline, "-o", out, "--format", "npy")
    assert json.loads(again.stdout) == said["document"] and said["digest"] in again.stderr
    for threads in 1, 2:
        digests = [millrace("run", path, "--quiet", "--threads", threads).stdout
                   for path in (pipeline, out / "pipeline.json")]
        assert digests[0] == digests[1] and len(digests[0].strip()) == 32


@pytest.mark.parametrize("upto", ["source", "decode_image", "resize"])
def test_tar_document_delivers_the_same(data, tmp_path, upto):
    if "tar" not in {s["name"] for s in json.loads(millrace("ops", "--json").stdout)["sources"]}:
        pytest.skip("this build has no source tar")
    pipeline = document(data, [DECODE, RESIZE, CROP, "random_flip"], epochs=2)
    millrace("pack", pipeline, "-o", tmp_path / "out", "--upto", upto, "--shard", 4)
    digests = [millrace("run", path, "--quiet").stdout
               for path in (pipeline, tmp_path / "out" / "pipeline.json")]
    assert digests[0] == digests[1] and len(digests[0].strip()) == 32


def run_digests(*documents):
    return [millrace("run", path, "--quiet").stdout for path in documents]


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_compressed_shards(data, tmp_path, kind):
    """Another program unpacks them to the very tar; the document delivers what the whole does."""
    pipeline = document(data, [DECODE, RESIZE, CROP, "random_flip"], epochs=2)
    common = ["pack", pipeline, "--shard", 5]
    millrace(*common, "-o", tmp_path / "plain")
    done = millrace(*common, "-o", tmp_path / "out", "--compress", kind, check=False)
    if "built without" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    shards = sorted(p.name for p in (tmp_path / "out").glob("shard-*"))
    assert shards == [f"shard-{i:06}.tar.{'zst' if kind == 'zstd' else 'lz4'}" for i in range(5)]
    for name in shards:
        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(tmp_path / "out" / name)), kind) as file:
            assert file.read() == (tmp_path / "plain" / name.rsplit(".", 1)[0]).read_bytes()
    digests = run_digests(pipeline, tmp_path / "plain" / "pipeline.json",
                          tmp_path / "out" / "pipeline.json")
    assert digests[0] == digests[1] == digests[2] and len(digests[0].strip()) == 32
    again = millrace(*common, "-o", tmp_path / "out", check=False)
    assert again.returncode == 5 and "compressed in another way" in again.stderr
    done = millrace(*common, "-o", tmp_path / "a", "--compress", kind, "--format", "npy", check=False)
    assert done.returncode == 2 and "only tar shards" in done.stderr


@pytest.mark.parametrize("cut", ["resize", "normalize"])
def test_arrays_of_many_files(data, tmp_path, cut):
    """Also of floats that are images still, for the crop behind the cut."""
    normalize = {"normalize": {"mean": 0.5, "std": 0.5, "layout": "hwc"}}
    pipeline = document(data, [DECODE, RESIZE, normalize, CROP], epochs=2)
    millrace("pack", pipeline, "-o", tmp_path / "out", "--format", "npy", "--shard", 4, "--upto", cut)
    assert len(list((tmp_path / "out").glob("shard-*.npy"))) == 12
    digests = run_digests(pipeline, tmp_path / "out" / "pipeline.json")
    assert digests[0] == digests[1] and len(digests[0].strip()) == 32


def test_arrays_of_several_fields(data, tmp_path):
    ops = [{"rename": {"fields": ["index"], "names": ["place"]}}, DECODE, RESIZE]
    pipeline = document(data, ops, fields=["image", "place", "label"], epochs=2)
    millrace("pack", pipeline, "-o", tmp_path / "out", "--format", "npy", "--shard", 9)
    digests = run_digests(pipeline, tmp_path / "out" / "pipeline.json")
    assert digests[0] == digests[1] and len(digests[0].strip()) == 32


@pytest.mark.parametrize("form", ["tar", "npy"])
@pytest.mark.parametrize("name", SOURCES)
def test_packs_of_every_source(tmp_path, name, form):
    """What is packed delivers the whole's bytes, shuffled too where samples do not lie in blocks; .npy shards are
    refused for sizes that vary."""
    path, out = tmp_path / "p.json", tmp_path / "out"
    path.write_text(json.dumps({"source": SOURCES[name](tmp_path), "batch": 9, "epochs": 2, "seed": 4,
                                "shuffle": name not in IN_BLOCKS}))
    done = millrace("pack", path, "-o", out, "--format", form, "--shard", 7, "--quiet", check=False)
    if form == "npy" and name not in FIXED:
        assert done.returncode == 2 and "its size varies" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    whole, packed = run_digests(path, out / "pipeline.json")
    assert whole == packed and len(whole.strip()) == 32


@pytest.mark.parametrize("form", ["tar", "npy"])
def test_parts_are_the_same(data, tmp_path, form):
    pipeline = document(data, [DECODE, RESIZE, CROP])
    common = [pipeline, "--format", form, "--shard", 4]
    millrace("pack", *common, "-o", tmp_path / "whole")
    parts = [subprocess.Popen([COMMAND, "pack", *map(str, common), "-o", str(tmp_path / "parts"),
                               "--part", f"{i}/3", "--quiet"]) for i in range(3)]
    assert [part.wait() for part in parts] == [0, 0, 0]
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    millrace("pack", *common, "-o", tmp_path / "late", "--part", "2/3")
    said = json.loads(millrace("pack", *common, "-o", tmp_path / "late", "--part", "0/3",
                               "--json").stdout)
    assert said["left"] == 2 and said["part_left"] == 0 and said["digest"] == ""
    assert not (tmp_path / "late" / "manifest.json").exists()
    millrace("pack", *common, "-o", tmp_path / "late", "--part", "1/3", "--threads", 1)
    assert contents(tmp_path / "whole") == contents(tmp_path / "late")


def test_killed_at_any_moment(data, tmp_path):
    pipeline = document(data, [DECODE, RESIZE, CROP])
    arguments = ["pack", pipeline, "--shard", 2, "--quiet", "--threads", 1]
    began = time.monotonic()
    millrace(*arguments, "-o", tmp_path / "whole")
    took = time.monotonic() - began  # moments are drawn from a whole run, however fast the machine
    whole = contents(tmp_path / "whole")
    rng = random.Random(11)
    out, kills, packs = tmp_path / "killed0", 0, 0
    for _ in range(400):
        process = subprocess.Popen([COMMAND, *map(str, arguments), "-o", str(out)])
        time.sleep(rng.uniform(0, took))
        process.kill()
        if process.wait() == 0:
            assert contents(out) == whole
            packs += 1
            if packs >= 4 and kills >= 8:
                break
            out = tmp_path / f"killed{packs}"
            continue
        kills += 1
        there = contents(out) if out.exists() else {}
        for name, raw in there.items():
            assert name.split("/")[-1].startswith(".") or raw == whole[name], name
    assert packs >= 4 and kills >= 8, f"{packs} packs, {kills} kills"


def test_a_lost_shard_is_made_again(data, tmp_path):
    out = tmp_path / "out"
    arguments = ["pack", document(data, [DECODE, RESIZE]), "-o", out, "--shard", 6]
    millrace(*arguments)
    whole = contents(out)
    (out / "shard-000001.tar").unlink()
    with open(out / "shard-000002.tar", "ab") as shard:
        shard.write(b"more")
    said = json.loads(millrace(*arguments, "--json").stdout)
    assert (said["made"], said["found"]) == (2, 2)
    assert contents(out) == whole


def test_what_is_refused(data, tmp_path):
    pipeline = document(data, [DECODE, CROP, RESIZE])
    done = millrace("pack", pipeline, "-o", tmp_path / "a", "--upto", "resize", check=False)
    assert done.returncode == 2 and "random_crop is random" in done.stderr
    assert not (tmp_path / "a").exists()
    done = millrace("pack", pipeline, "-o", tmp_path / "a", "--upto", "sharpen", check=False)
    assert done.returncode == 2 and "no op 'sharpen'" in done.stderr
    done = millrace("pack", pipeline, "-o", tmp_path / "a", "--format", "npy", check=False)
    assert done.returncode != 0 and "its size varies" in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    done = millrace("pack", pipeline, "-o", tmp_path / "full", check=False)
    assert done.returncode == 2 and "other files" in done.stderr
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["letter.txt"]
    for part in "3/3", "1", "-1/2", "a/b", "0/0":
        assert millrace("pack", pipeline, "-o", tmp_path / "a", "--part", part,
                        check=False).returncode == 2
    shrunk = document(data, [{"decode_image": {"dct_scale": True}}, RESIZE])
    done = millrace("pack", shrunk, "-o", tmp_path / "b", "--upto", "decode_image", check=False)
    assert done.returncode == 2 and "one step" in done.stderr


def test_a_changed_source_is_refused(tmp_path):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    for i in range(6):
        Image.new("RGB", (8 + i, 9)).save(tmp_path / "photos" / "cat" / f"{i}.png")
    pipeline = document(tmp_path, [DECODE])
    common = ["pack", pipeline, "-o", tmp_path / "out", "--shard", 2]
    millrace(*common, "--part", "0/2")
    before = contents(tmp_path / "out")
    os.rename(tmp_path / "photos" / "cat" / "5.png", tmp_path / "photos" / "cat" / "50.png")
    done = millrace(*common, "--part", "1/2", check=False)
    assert done.returncode == 5 and "the source has changed" in done.stderr
    done = millrace("pack", document(tmp_path, [DECODE, RESIZE]), *common[2:], check=False)
    assert done.returncode == 5
    assert contents(tmp_path / "out") == before


def test_changed_contents_are_refused(tmp_path):
    """Names are the same, a picture is another one. A copy of the dataset is no change."""
    photos = tmp_path / "photos" / "cat"
    photos.mkdir(parents=True)
    for i in range(6):
        Image.new("RGB", (8 + i, 9)).save(photos / f"{i}.png")
    time.sleep(0.1)  # what was changed this moment has no identity yet
    common = ["pack", document(tmp_path, [DECODE]), "-o", tmp_path / "out", "--shard", 2]
    millrace(*common)
    before = {k: v for k, v in contents(tmp_path / "out").items() if not k.endswith(".source")}
    raw = (photos / "3.png").read_bytes()
    (photos / "3.png").write_bytes(raw)
    time.sleep(0.1)
    assert json.loads(millrace(*common, "--json").stdout)["made"] == 1
    Image.new("RGB", (8, 9), (1, 2, 3)).save(photos / "3.png")
    time.sleep(0.1)
    done = millrace(*common, check=False)
    assert done.returncode == 5 and "has other samples now" in done.stderr
    after = {k: v for k, v in contents(tmp_path / "out").items() if not k.endswith(".source")}
    assert after == before


def test_a_bad_sample_leaves_whole_shards(tmp_path):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    for i in range(6):
        Image.new("RGB", (8 + i, 9)).save(tmp_path / "photos" / "cat" / f"{i}.png")
    good = (tmp_path / "photos" / "cat" / "4.png").read_bytes()
    (tmp_path / "photos" / "cat" / "4.png").write_bytes(good[:30])
    common = ["pack", document(tmp_path, [DECODE], on_error="skip"), "-o", tmp_path / "out",
              "--shard", 2, "--threads", 1]
    done = millrace(*common, check=False)
    assert done.returncode == 3 and "4.png" in done.stderr and "of 3 shards" in done.stderr
    (tmp_path / "photos" / "cat" / "4.png").write_bytes(good)
    millrace(*common)
    assert len(tar_samples(tmp_path / "out")) == 6


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "none", disk],
                                           capture_output=True).returncode != 0:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_leaves_whole_shards(data, tmp_path, small_disk):
    arguments = ["pack", document(data, [DECODE, RESIZE, CROP]), "--shard", 4]
    millrace(*arguments, "-o", tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    out = small_disk / "out"
    done = millrace(*arguments, "-o", out, check=False)
    assert done.returncode == 4
    assert "of 6 shards of this part are whole" in done.stderr and "make room" in done.stderr
    there = contents(out)
    assert 1 <= len(list(out.glob("shard-*.tar"))) < 6
    assert all(whole[name] == raw for name, raw in there.items())
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    millrace(*arguments, "-o", out)
    assert contents(out) == whole


NPY = [np.arange(6, dtype=t).reshape(2, 3) for t in
       ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8")]
NPY += [np.array(5, np.int16), np.zeros((0, 3), np.float32), np.array([True, False])]


@pytest.mark.parametrize("array", NPY, ids=str)
def test_decode_npy_is_numpys(array):
    file = io.BytesIO()
    np.save(file, array)
    raw = np.frombuffer(file.getvalue(), np.uint8)
    shape = [-1 if i == 0 else n for i, n in enumerate(array.shape)]
    if not array.size:
        shape = list(array.shape)
    got = mrlib.apply("decode_npy", {"dtype": array.dtype.name, "shape": shape}, raw)
    assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)
    with pytest.raises(mrlib.MrError):
        mrlib.apply("decode_npy", {"dtype": array.dtype.name, "shape": [9, *array.shape]}, raw)
    with pytest.raises(mrlib.MrError):
        mrlib.apply("decode_npy", {"dtype": array.dtype.name, "shape": shape}, raw[:-1])


def test_row_index(tmp_path):
    """Photos with an index behind them: other readers do not see it, ours decodes parts to the same pixels."""
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(3)
    for i in range(8):
        image = Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).resize((320, 240))
        image.save(tmp_path / "photos" / f"{i}.jpg", quality=90, progressive=i == 7)
    (tmp_path / "photos" / "8.png").write_bytes(b"")
    image.save(tmp_path / "photos" / "8.png")
    path, out = tmp_path / "p.json", tmp_path / "packed"
    path.write_text(json.dumps({"source": {"files": {"path": str(tmp_path / "photos")}}, "batch": 3, "seed": 4, "epochs": 2,
                                "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 32}}]}))
    millrace("pack", path, "-o", out, "--row-index", "--quiet")
    assert millrace("run", path, "--quiet").stdout == millrace("run", out / "pipeline.json", "--quiet").stdout
    with tarfile.open(out / "shard-000000.tar") as tar:
        members = [m for m in tar.getmembers() if m.name.split(".", 1)[1] not in ("cls", "label.cls")]
        stored = [tar.extractfile(m).read() for m in members]
    names = sorted(os.listdir(tmp_path / "photos"))
    files = [(tmp_path / "photos" / name).read_bytes() for name in names]
    assert len(stored) == len(files)
    for name, before, after in zip(names, files, stored):
        assert after.startswith(before) and (len(after) > len(before)) == (name not in ("7.jpg", "8.png")), name
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(after))), np.asarray(Image.open(io.BytesIO(before))))
    # An index of another file, or a damaged one, is not used: the pixels are the same.
    swapped = files[0] + stored[1][len(files[1]):]
    broken = bytearray(stored[0])
    broken[len(files[0]) + 30] ^= 1
    whole = mrlib.apply("decode_image", {}, files[0])
    for data in (stored[0], swapped, bytes(broken)):
        np.testing.assert_array_equal(mrlib.apply("decode_image", {}, data), whole)
    done = millrace("pack", path, "-o", tmp_path / "x", "--row-index", "--upto", "decode_image", check=False)
    assert done.returncode == 2 and "--row-index" in done.stderr
