# SPDX-License-Identifier: Apache-2.0
"""Sources of shards against readers we did not write: Python's tarfile, csv, json and numpy. And the
law over each of them: threads, worlds and a restart change nothing, and a sample has the same bytes
whether it is taken alone or out of a block."""
import csv
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mrlib

ORDERS = [False, True, {"window": 3, "lanes": 1}, {"window": 4, "lanes": 2}, {"window": "all"}]


def as_bytes(value):
    return (value.dtype.str, value.shape, value.tobytes())


def samples_of(source, shuffle=False, batch=7, epochs=1, fields=None, **options):
    """sample -> {field: its bytes}, and the order of samples, and the digest of all."""
    document = {"source": source, "batch": batch, "epochs": epochs, "seed": 5, "shuffle": shuffle}
    if fields:
        document["fields"] = fields
    out, order = {}, []
    with mrlib.Loader(document, digest=True, **options) as loader:
        for b in loader:
            for i, sample in enumerate(b.samples):
                values = {name: as_bytes(np.asarray(b[name][i])) for name in b}
                assert out.setdefault(sample, values) == values
                order.append(sample)
        digest, stats = loader.digest(), loader.stats()
    assert stats["blocks_most"] <= stats["blocks_bound"], stats
    return out, order, digest


def resumed(source, shuffle, steps, **options):
    document = {"source": source, "batch": 7, "epochs": 2, "seed": 5, "shuffle": shuffle}
    order, values = [], []
    state = None
    for part in range(2):
        with mrlib.Loader(document, state=state, **options) as loader:
            for n, b in enumerate(loader, 1):
                order += b.samples
                values += [as_bytes(np.asarray(b[name][i])) for i in range(b.size) for name in b]
                if part == 0 and n == steps:
                    break
            state = loader.save()
    return order, values


def law(source, orders=None):
    """Every order gives each sample once and with the same bytes; threads, worlds and a restart
    change nothing."""
    first, order, _ = samples_of(source)
    assert order == list(range(len(first)))
    for shuffle in orders or ORDERS:
        values, order, digest = samples_of(source, shuffle, threads=1, epochs=2)
        assert values == first
        n = len(first)
        assert sorted(order[:n]) == sorted(order[n:]) == list(range(n))
        for threads in (2, 3, 8):
            assert samples_of(source, shuffle, threads=threads, epochs=2)[2] == digest
        for world in (2, 7):
            found = []
            for rank in range(world):
                found += samples_of(source, shuffle, batch=14, epochs=2, world=world, rank=rank,
                                    threads=2)[1]
            assert sorted(found) == sorted(order)
        whole = resumed(source, shuffle, 10**6, threads=1)
        for steps in (1, 3):
            assert resumed(source, shuffle, steps, threads=2) == whole
    return first


def pack(path, ending):
    """Compresses a file, by a tool we did not write; returns the new path."""
    if ending == ".gz":
        with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as out:
            shutil.copyfileobj(file, out)
    else:
        if not shutil.which("zstd"):
            pytest.skip("the command zstd is not installed")
        subprocess.run(["zstd", "-q", "--rm", "-f", path], check=True)
        return path + ".zst"
    os.remove(path)
    return path + ".gz"


def refused(source, says, code=None, at=None, shuffle=True):
    with pytest.raises(mrlib.MrError) as caught:
        samples_of(source, shuffle)
    assert says in str(caught.value), str(caught.value)
    assert code is None or caught.value.code == mrlib.CODES[code]
    assert at is None or caught.value.offset == at


# ---- files -----------------------------------------------------------------------------------


def make_folders(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def age(folder, seconds=10):
    """As if nothing had changed for a while: an index is not made of folders that are being filled."""
    for path, _, _ in os.walk(folder):
        then = os.stat(path).st_mtime_ns - seconds * 10**9
        os.utime(path, ns=(then, then))


def test_files_index(tmp_path):
    root, index = tmp_path / "x", tmp_path / "x.idx"
    names = sorted(f"{c}/{'sub/' if i % 3 else ''}{i}.jpg" for c in ("a", "a-b", "b") for i in range(9))
    make_folders(root, names + ["c/none.txt", "beside.jpg", "a/.hidden.jpg"])
    plain = {"files": {"path": str(root)}}
    kept = {"files": {"path": str(root), "index": str(index)}}

    def run(source):
        return samples_of(source, True, fields=["image", "label", "path"])

    def expect(names):
        names = sorted(names)
        classes = ["a", "a-b", "b", "c"]
        values = run(kept)[0]
        assert len(values) == len(names)
        for i, name in enumerate(names):
            assert values[i]["image"][2] == values[i]["path"][2] == name.encode()
            assert values[i]["label"][2] == np.int64(classes.index(name.split("/")[0])).tobytes()

    with mrlib.Loader({"source": kept, "batch": 2}) as loader:
        assert any("changed in the last 2 seconds" in w for w in loader.warnings)
    assert not index.exists()
    age(root)
    expect(names)
    first = index.read_bytes()
    expect(names)
    assert index.read_bytes() == first and run(kept) == run(plain)
    # what comes, goes or is renamed is seen, and the index made anew
    (root / "b/sub/new.jpg").write_bytes(b"b/sub/new.jpg")
    expect(names + ["b/sub/new.jpg"])
    age(root)
    expect(names + ["b/sub/new.jpg"])
    assert index.read_bytes() != first
    (root / "b/sub/new.jpg").unlink()
    expect(names)
    age(root)
    expect(names)
    whole = index.read_bytes()
    # an index that is damaged, of other endings, or cannot be written is not used
    rng = random.Random(2)
    for _ in range(60):
        at = rng.randrange(len(whole))
        index.write_bytes(whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1:])
        expect(names)
    for data in (b"", whole[:-1], whole + b"x", whole[:50]):
        index.write_bytes(data)
        expect(names)
    assert index.read_bytes() == whole
    other = {"files": {"path": str(root), "index": str(index), "extensions": [".txt"]}}
    assert len(samples_of(other)[0]) == 1
    nowhere = {"files": {"path": str(root), "index": str(tmp_path / "no/such/folder")}}
    with mrlib.Loader({"source": nowhere, "batch": 2}) as loader:
        assert any("cannot be written" in w for w in loader.warnings)


# ---- tar -------------------------------------------------------------------------------------


def photo_parts(i, rng):
    return {"cls": str(i % 10).encode() + b"\n", "jpg": rng.randbytes(rng.randrange(0, 3000)),
            "json": b'{"i": %d}' % i}


def write_tar(path, samples, how=tarfile.USTAR_FORMAT, folder=""):
    with tarfile.open(path, "w", format=how) as tar:
        for key, parts in samples:
            for extension, data in parts.items():
                info = tarfile.TarInfo(f"{folder}{key}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def make_tars(folder, n_shards=3, n=23, how=tarfile.USTAR_FORMAT, prefix=""):
    rng = random.Random(1)
    samples = [(f"{i:06d}", photo_parts(i, rng)) for i in range(n_shards * n)]
    for k in range(n_shards):
        write_tar(str(folder / f"s-{k:03d}.tar"), samples[k * n:(k + 1) * n], how, prefix)
    return samples, str(folder / f"s-{{000..{n_shards - 1:03d}}}.tar")


def check_tar(values, samples):
    assert len(values) == len(samples)
    for i, (_, parts) in enumerate(samples):
        for extension, data in parts.items():
            assert values[i][extension][2] == data


@pytest.mark.parametrize("how", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_formats(tmp_path, how):
    prefix = "" if how == tarfile.USTAR_FORMAT else "d" * 120 + ".x/é" * 20 + "/"
    samples, pattern = make_tars(tmp_path, how=how, prefix=prefix)
    check_tar(samples_of({"tar": {"path": pattern}})[0], samples)
    check_tar(samples_of({"tar": {"path": str(tmp_path / "s-*.tar")}}, True)[0], samples)
    check_tar(samples_of({"tar": {"path": str(tmp_path)}}, {"window": 2})[0], samples)


def test_tar_law(tmp_path):
    samples, pattern = make_tars(tmp_path)
    source = {"tar": {"path": pattern, "block_bytes": 9000}}
    check_tar(law(source), samples)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_tar_packed(tmp_path, ending):
    samples, pattern = make_tars(tmp_path)
    for k in (0, 2):
        pack(str(tmp_path / f"s-{k:03d}.tar"), ending)
    names = [str(tmp_path / f"s-{k:03d}.tar{ending if k != 1 else ''}") for k in range(3)]
    source = {"tar": {"path": names, "block_bytes": 9000}}
    check_tar(law(source, [True, {"window": 2, "lanes": 1}]), samples)
    refused({"tar": {"path": names, "max_unpacked_bytes": 10000}}, "unpacks to more than")
    with open(names[0], "rb+") as file:
        file.truncate(os.path.getsize(names[0]) - 20)
    refused(source, "cut off", "CORRUPT")


def test_tar_fields(tmp_path):
    samples, pattern = make_tars(tmp_path, 1)
    source = {"tar": {"path": pattern, "fields": ["image=png;jpg", "cls"], "numbers": ["cls"]}}
    values = samples_of(source, fields=["image", "cls", "key", "index"])[0]
    for i, (key, parts) in enumerate(samples):
        assert values[i]["image"][2] == parts["jpg"]
        assert np.frombuffer(values[i]["cls"][2], np.int64) == int(parts["cls"])
        assert values[i]["key"][2] == key.encode()
        assert np.frombuffer(values[i]["index"][2], np.int64) == i
    assert list(samples_of({"tar": {"path": pattern}})[0][0]) == ["jpg", "cls", "json"]
    refused({"tar": {"path": pattern, "fields": ["jpg", "png"]}}, "no file for field png")
    refused({"tar": {"path": pattern, "numbers": ["json"]}}, "not a whole number")
    refused({"tar": {"path": pattern, "numbers": ["xyz"]}}, "no field 'xyz'")


def test_tar_numbers_that_do_not_fit_int64(tmp_path):
    path = str(tmp_path / "x.tar")
    texts = ["9223372036854775807", "-9223372036854775808\n", "9223372036854775808", "-9223372036854775809", "+7"]
    write_tar(path, [(f"{i}", {"cls": text.encode()}) for i, text in enumerate(texts)])
    source = {"tar": {"path": path, "numbers": ["cls"]}}
    refused(source, "2.cls: a number that does not fit int64", "CORRUPT", shuffle=False)
    with mrlib.Loader({"source": source, "batch": 1, "shuffle": False, "on_error": "skip"}) as loader:
        values = {b.samples[0]: int(b["cls"][0]) for b in loader}
        skips = loader.skips()
    assert values[0] == 2**63 - 1 and values[1] == -2**63 and values[4] == 7
    assert sorted(s[2] for s in skips) == [2, 3]


def test_tar_of_other_things(tmp_path):
    """Folders, links and files without extension are left out; keys keep their folders; extensions
    may have dots and capitals."""
    path = str(tmp_path / "x.tar")
    with tarfile.open(path, "w") as tar:
        for name, kind, data in [("d", tarfile.DIRTYPE, b""), ("d/1.seg.PNG", None, b"a"),
                                 ("d/readme", None, b"?"), ("d/1.txt", None, b"b"),
                                 ("d/l.txt", tarfile.SYMTYPE, b""), ("e/1.txt", None, b"c"),
                                 (".hidden", None, b"?"), ("__meta__/1.txt", None, b"?"),
                                 ("__x.txt__", None, b"?"), ("e/1.seg.png", None, b"d")]:
            info = tarfile.TarInfo(name)
            info.type = kind or tarfile.REGTYPE
            info.size = len(data)
            info.linkname = "d/1.txt" if kind == tarfile.SYMTYPE else ""
            tar.addfile(info, io.BytesIO(data))
    values = samples_of({"tar": {"path": path}}, fields=["seg.png", "txt", "key"])[0]
    assert [[v[2] for v in values[i].values()] for i in values] == [[b"a", b"b", b"d/1"],
                                                                   [b"d", b"c", b"e/1"]]


def test_tar_index(tmp_path):
    samples, pattern = make_tars(tmp_path, 2)
    plain = samples_of({"tar": {"path": pattern, "index": "none"}}, True)
    assert samples_of({"tar": {"path": pattern, "index": "write"}}, True) == plain
    index = (tmp_path / "s-000.tar.idx").read_text().splitlines()
    assert index[0] == f"v1.2 {len(samples) // 2}" and len(index) == 1 + len(samples) // 2
    words = index[2].split()
    with tarfile.open(str(tmp_path / "s-000.tar")) as tar:
        members = [m for m in tar if m.name.startswith("000001.")]
    assert words == [w for m in members
                     for w in (m.name.split(".")[1], str(m.offset_data), str(m.size), m.name)]
    assert samples_of({"tar": {"path": pattern}}, True) == plain
    # one that does not fit is said aloud and not used
    for text in ("", "v1.2 999999999999\n", "\n".join(index[:-1]), "v1.2 1\njpg 99999999 3 a.jpg\n",
                 "\n".join(index).replace("512", "9223372036854775807", 1)):
        (tmp_path / "s-000.tar.idx").write_text(text)
        assert samples_of({"tar": {"path": pattern}}, True) == plain
    with mrlib.Loader({"source": {"tar": {"path": pattern}}, "batch": 2}) as loader:
        assert any("does not fit" in w for w in loader.warnings)


def wds2idx(path):
    """What DALI's wds2idx writes of a shard: every file whose name does not begin with a dot, by the
    name up to the first dot, and one without a dot as a sample of its own."""
    groups = []
    with tarfile.open(path) as tar:
        for m in tar:
            if not m.isfile() or os.path.basename(m.name).startswith("."):
                continue
            dot = m.name.find(".", m.name.rfind("/") + 1)
            key = m.name[:dot]
            if not groups or groups[-1][0] != key:
                groups.append((key, []))
            groups[-1][1].append(f"{m.name[dot + 1:]} {m.offset_data} {m.size} {m.name}")
    return f"v1.2 {len(groups)}\n" + "\n".join(" ".join(parts) for _, parts in groups) + "\n"


def write_entries(path, entries, how):
    with tarfile.open(path, "w", format=how) as tar:
        for name, kind, data in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


FILE, FOLDER = tarfile.REGTYPE, tarfile.DIRTYPE
ODD_TARS = {
    "no extension": [("d", FOLDER, b"")] + [(f"d/{i}.{e}", FILE, b"x" * i) for i in range(5) for e in ("jpg", "txt")] +
                    [("d/tail", FILE, b"no extension")],
    "between parts": [("1.jpg", FILE, b"a"), ("readme", FILE, b"?"), ("1.txt", FILE, b"b"), ("2.jpg", FILE, b"c"),
                      ("2.txt", FILE, b"d")],
    "about the shard": [("__meta__/info.json", FILE, b"{}"), ("1.txt", FILE, b"a"), ("__x__", FILE, b"?"),
                        ("__y.z__", FILE, b"?"), ("__3.txt", FILE, b"b"), ("a/__4__/5.txt", FILE, b"c")],
    "folder last": [("0.txt", FILE, b"a"), ("1.txt", FILE, b"b"), ("z", FOLDER, b"")],
    "long names": [("p/" * 70 + f"{i}.txt", FILE, b"x" * 600) for i in range(5)],
    "hidden": [("0.txt", FILE, b"a"), (".hid", FILE, b"q"), (".a.txt", FILE, b"w"), ("2.txt", FILE, b"b")],
}


@pytest.mark.parametrize("how", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("entries", ODD_TARS.values(), ids=ODD_TARS)
def test_tar_is_the_same_with_an_index(tmp_path, entries, how):
    path = str(tmp_path / "x.tar")
    write_entries(path, entries, how)

    def run(index, shuffle=False):
        document = {"source": {"tar": {"path": path, "index": index}}, "batch": 1, "shuffle": shuffle, "epochs": 1}
        with mrlib.Loader(document, digest=True) as loader:
            keys = [b.samples[0] for b in loader]
            return len(keys), loader.digest(), list(loader.warnings)

    plain = run("none")
    assert plain[0] == len({n.split(".")[0] for n, k, _ in entries
                            if k == FILE and "." in os.path.basename(n)[1:] and n[0] != "."
                            and not (n.split("/")[0].startswith("__") and n.split("/")[0].endswith("__"))})
    assert plain[2] == []
    assert run("write") == plain
    assert os.path.exists(path + ".idx")
    assert run("read") == plain
    with open(path + ".idx", "w") as file:
        file.write(wds2idx(path))
    assert run("read") == plain
    # v1.1 has no names
    with open(path + ".idx", "w") as file:
        file.write("v1.1 1\ntxt 512 1\n")
    again = run("read")
    assert again[:2] == plain[:2] and any("is not used" in w for w in again[2])
    # a compressed shard is walked through as it is unpacked, with the same samples and index
    os.unlink(path + ".idx")
    run("write")
    index, values = open(path + ".idx").read(), samples_of({"tar": {"path": path}})[0]
    packed = pack(path, ".gz")
    assert samples_of({"tar": {"path": packed, "index": "write"}})[0] == values
    assert open(packed + ".idx").read() == index


def test_tar_names_with_spaces_have_no_index_and_it_is_said_once(tmp_path):
    for k in range(3):
        write_entries(str(tmp_path / f"{k}.tar"), [("a b.txt", FILE, b"x")], tarfile.USTAR_FORMAT)
    source = {"tar": {"path": str(tmp_path / "{0..2}.tar"), "index": "write"}}
    with mrlib.Loader({"source": source, "batch": 1}) as loader:
        assert sum("with a space" in w for w in loader.warnings) == 1
    assert not list(tmp_path.glob("*.idx"))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_packed_shards_with_an_index_are_not_unpacked_to_open_them(tmp_path, kind, ending):
    """A shard that cannot be unpacked is found out when it is read, not when its index is there."""
    if kind == "tar":
        path = str(tmp_path / "x.tar")
        write_tar(path, [(f"{i}", {"txt": b"%d" % i}) for i in range(9)])
        source = {"fields": ["txt"]}
    else:
        path = str(tmp_path / "x.tfrecord")
        with open(path, "wb") as file:
            file.write(b"".join(record(example({"n": [i]})) for i in range(9)))
        source = {"fields": ["n:int64"]}
    packed = pack(path, ending)
    source = {kind: {**source, "path": packed, "index": "write"}}
    plain = samples_of(source)
    assert os.path.exists(packed + ".idx")
    assert samples_of(source) == plain
    damaged = bytearray(open(packed, "rb").read())
    damaged[len(damaged) // 2:] = b"\xff" * (len(damaged) - len(damaged) // 2)
    open(packed, "wb").write(damaged)
    os.utime(packed + ".idx")
    with mrlib.Loader({"source": source, "batch": 9, "shuffle": False}) as loader:
        with pytest.raises(mrlib.MrError):
            list(loader)
    os.unlink(packed + ".idx")
    with pytest.raises(mrlib.MrError):
        mrlib.Loader({"source": source, "batch": 9, "shuffle": False}).__enter__()


def test_packed_tar_keeps_no_memory_for_what_follows_the_last_file(tmp_path):
    path = str(tmp_path / "x.tar")
    write_tar(path, [("0", {"txt": b"a" * 1000})])
    with open(path, "ab") as file:
        file.write(bytes(200_000_000))
    packed = pack(path, ".gz")
    document = {"source": {"tar": {"path": packed, "index": "write", "fields": ["txt"]}}, "batch": 1,
                "shuffle": False, "epochs": 1}
    code = (f"import mrlib\nloader = mrlib.Loader({document!r}).__enter__()\nassert len(list(loader)) == 1\n"
            "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')][0])")
    for indexed in (False, True):
        assert os.path.exists(packed + ".idx") == indexed
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)})
        assert int(out.stdout) < 150_000, out.stdout # kB
    # the checksum behind the zeros is still looked at
    data = bytearray(open(packed, "rb").read())
    data[-8] ^= 1
    open(packed, "wb").write(data)
    os.utime(packed + ".idx")
    with mrlib.Loader(document) as loader, pytest.raises(mrlib.MrError):
        list(loader)


def test_braces_as_in_shells(tmp_path):
    for name in ("a", "b1", "b2", "c", "01", "02", "10", "x{y"):
        (tmp_path / f"s{name}.txt").write_text(name + "\n")

    def rows(pattern):
        values = samples_of({"lines": {"path": str(tmp_path / pattern)}})[0]
        return [values[i]["text"][2].decode() for i in sorted(values)]

    assert rows("s{a..a}.txt") == ["a"]
    assert rows("s{c..a..2}.txt") == ["c", "a"]
    assert rows("s{a,b{1,2},c}.txt") == ["a", "b1", "b2", "c"]
    assert rows("s{{a,c},{01..02}}.txt") == ["a", "c", "01", "02"]
    assert rows("s{10..01..8}.txt") == ["10", "02"]
    assert rows("s{b{2..1},1{0,0}}.txt") == ["b2", "b1", "10", "10"]
    assert rows("s{a,c}.txt") == ["a", "c"]
    assert rows("sx{y.txt") == ["x{y"]
    for wrong in ("s{a..3}.txt", "s{a..Z}.txt", "s{}.txt", "s{a}.txt", "s{1..2..0}.txt", "s{0..9999999}.txt"):
        refused({"lines": {"path": str(tmp_path / wrong)}}, "braces are", "PARAM")
    refused({"lines": {"path": "{a,b}" * 65}}, "more than 64 pairs", "LIMIT")


def test_tar_damage(tmp_path):
    samples, _ = make_tars(tmp_path, 1)
    path = str(tmp_path / "s-000.tar")
    whole = open(path, "rb").read()
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    last = members[-1]

    def damage(data):
        with open(path, "wb") as file:
            file.write(data)

    def header(at, where, new):
        block = bytearray(whole[at:at + 512])
        block[where:where + len(new)] = new
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        return whole[:at] + bytes(block) + whole[at + 512:]

    source = {"tar": {"path": path}}
    damage(whole[:last.offset_data + 1])
    refused(source, "longer than what is left", "CORRUPT", last.offset)
    damage(whole[:last.offset_data + last.size + 1])
    refused(source, "cut off after", "CORRUPT", last.offset)
    damage(whole[:last.offset + 100])
    refused(source, "cut off", "CORRUPT", last.offset)
    damage(whole[:last.offset] + b"x" + whole[last.offset + 1:])
    refused(source, "checksum", "CORRUPT", last.offset)
    damage(header(last.offset, 0, b"../../etc/passwd.txt\0"))
    refused(source, "leads out", "CORRUPT", last.offset)
    damage(header(last.offset, 124, b"\x80" + b"\0" * 3 + b"\x80" + b"\0" * 7))
    refused(source, "below 2^63", "CORRUPT", last.offset)
    damage(header(last.offset, 124, b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7))
    refused(source, "longer than what is left", "CORRUPT", last.offset)
    damage(b"")
    refused(source, "no files whose names", "NOT_FOUND")
    refused({"tar": {"path": str(tmp_path / "t-{0..3}.tar")}}, "cannot open", "NOT_FOUND")
    refused({"tar": {"path": str(tmp_path / "t-*.tar")}}, "no file has a name", "NOT_FOUND")
    refused({"tar": {"path": "t-{3..x}.tar"}}, "braces are", "PARAM")
    # a sample without one of its parts is skipped where that is asked for
    samples[4][1].pop("json")
    write_tar(path, samples)
    refused(source, "no file for field json", "NOT_FOUND")
    document = {"source": source, "batch": 5, "on_error": "skip", "epochs": 1}
    with mrlib.Loader(document) as loader:
        assert all(4 not in b.samples for b in loader)
        assert [s[2] for s in loader.skips()] == [4]


# ---- TFRecord --------------------------------------------------------------------------------


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15 | crc << 17) & 0xffffffff) + 0xa282ead8 & 0xffffffff).to_bytes(4, "little")


def record(data):
    head = len(data).to_bytes(8, "little")
    return head + masked(head) + data + masked(data)


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(tag, data):
    return varint(tag << 3 | 2) + varint(len(data)) + data


def feature(value, packed=True):
    if isinstance(value, bytes):
        return field(1, field(1, value))
    if value and isinstance(value[0], float):
        raw = [np.float32(v).tobytes() for v in value]
        return field(2, field(1, b"".join(raw)) if packed else b"".join(b"\x0d" + v for v in raw))
    raw = [varint(v) for v in value]
    return field(3, field(1, b"".join(raw)) if packed else b"".join(b"\x08" + v for v in raw))


def example(features, packed=True):
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature(v, packed)))
                             for name, v in features.items()))


def make_tfrecords(folder, n_files=3, n=19):
    rng = random.Random(3)
    samples = []
    for k in range(n_files):
        with open(folder / f"r-{k:05d}.tfrecord", "wb") as file:
            for i in range(n):
                s = {"image": b"\xff\xd8\xff" + rng.randbytes(20 + rng.randrange(500)),
                     "box": [rng.random() for _ in range(4)], "label": [rng.randrange(-5, 1000)],
                     "ids": [rng.randrange(-2**63, 2**63) for _ in range(2 + rng.randrange(5))],
                     "name": b"n%d" % i}
                file.write(record(example(s, packed=i % 2 == 0)))
                samples.append(s)
    return samples, str(folder / f"r-{{00000..{n_files - 1:05d}}}.tfrecord")


def check_tfrecords(values, samples):
    assert len(values) == len(samples)
    types = {"box": np.float32, "label": np.int64, "ids": np.int64}
    for i, s in enumerate(samples):
        for name, (dtype, _, data) in values[i].items():
            expected = s[name]
            if name in types:
                assert dtype == np.dtype(types[name]).str
                expected = np.array(expected, types[name]).tobytes()
            assert data == expected


def test_tfrecord_law(tmp_path):
    samples, pattern = make_tfrecords(tmp_path)
    looked = {"tfrecord": {"path": pattern, "block_bytes": 3000}}
    check_tfrecords(law(looked, [True, {"window": 3, "lanes": 1}, {"window": 4, "lanes": 2}]),
                    samples)
    fixed = {"tfrecord": {"path": pattern, "block_bytes": 3000,
                          "fields": ["image:bytes", "box:float32[4]", "label:int64"]}}
    check_tfrecords(law(fixed, [True, {"window": 3, "lanes": 1}]), samples)
    assert list(samples_of(looked)[0][0]) == ["image", "box", "ids", "label", "name"]


def test_tfrecord_packed(tmp_path):
    samples, _ = make_tfrecords(tmp_path, 2)
    names = [pack(str(tmp_path / f"r-{k:05d}.tfrecord"), ".gz") for k in range(2)]
    check_tfrecords(law({"tfrecord": {"path": names}}, [True]), samples)
    refused({"tfrecord": {"path": names, "max_unpacked_bytes": 1000}}, "unpacks to more than")


def test_tfrecord_index_and_raw_records(tmp_path):
    path = str(tmp_path / "raw")
    records = [b"", b"\x0b", b"something else" * 30]
    with open(path, "wb") as file:
        for data in reversed(records):
            file.write(record(data))
    values, order, digest = samples_of({"tfrecord": {"path": path, "index": "write"}})
    assert [values[i]["record"][2] for i in order] == records[::-1]
    assert (tmp_path / "raw.idx").read_text() == "0 436\n436 17\n453 16\n"
    for text in ("0 436\n436 17\n453 16", "0 436\n", "0 436\n436 17\n453 17\n", "0 -1\n", "x", ""):
        (tmp_path / "raw.idx").write_text(text)
        assert samples_of({"tfrecord": {"path": path}})[2] == digest
    (tmp_path / "raw.idx").write_text("0 453\n453 16\n")
    refused({"tfrecord": {"path": path}}, "does not fit", "CORRUPT", 0, False)


def test_tfrecord_damage(tmp_path):
    samples, _ = make_tfrecords(tmp_path, 1)
    path = str(tmp_path / "r-00000.tfrecord")
    whole = open(path, "rb").read()
    second = 16 + int.from_bytes(whole[:8], "little")
    source = {"tfrecord": {"path": path, "fields": ["label:int64"]}}

    def damage(data):
        with open(path, "wb") as file:
            file.write(data)

    def flip(at):
        damage(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])

    flip(second)
    refused(source, "record's length is wrong", "CORRUPT", second)
    flip(second + 40)
    for shuffle in (True, False):
        refused(source, "record's data is wrong", "CORRUPT", second + 12, shuffle)
    damage(whole[:-1])
    refused(source, "longer than what is left", "CORRUPT")
    damage(whole[:second + 9])
    refused(source, "cut off", "CORRUPT", second)
    big = (2**63).to_bytes(8, "little")
    damage(whole[:second] + big + masked(big) + bytes(100))
    refused(source, "longer than what is left", "CORRUPT", second)
    damage(whole)
    for fields, says in (["x:int64"], "no feature x"), (["label:float32"], "no feature label"), \
            (["ids:int64"], "values"), (["box:float32[3]"], "4 values"):
        refused({"tfrecord": {"path": path, "fields": fields}}, says, "CORRUPT")
    for text in ("x", "x:int8", "x:int64[0]", "=x:int64", "x:bytes[3]", "x:int64[3"):
        refused({"tfrecord": {"path": path, "fields": [text]}}, "declare a field", "PARAM")
    empty = samples_of({"tfrecord": {"path": path, "fields": ["none:int64[]"]}})[0]
    assert all(v["none"][2] == b"" for v in empty.values())
    with open(path, "wb") as file:
        file.write(record(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
    refused(source, "not a valid tf.train.Example", "CORRUPT")


# ---- tokens ----------------------------------------------------------------------------------


def windows(rows, length, stride, labels=0):
    """What numpy makes of the same: windows of each row."""
    out = []
    for row in rows:
        if len(row) >= length + labels:
            view = np.lib.stride_tricks.sliding_window_view(row, length + labels)
            out += list(view[::stride])
    return out


def check_tokens(values, expected, length, labels=False):
    assert len(values) == len(expected)
    for i, window in enumerate(expected):
        assert values[i]["tokens"] == as_bytes(window[:length])
        assert not labels or values[i]["labels"] == as_bytes(window[1:])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
def test_tokens_flat(tmp_path, dtype):
    rng = np.random.default_rng(4)
    files = [rng.integers(0, 50, n).astype(dtype) for n in (1000, 7, 333)]
    for k, data in enumerate(files):
        data.tofile(tmp_path / f"t{k}.bin")
    source = {"path": str(tmp_path), "length": 16, "dtype": dtype}
    values = law({"tokens": source}, [True, {"window": 3}])
    check_tokens(values, windows(files, 16, 16), 16)
    source = dict(source, stride=5, labels=True)
    values = samples_of({"tokens": source}, True, threads=2)[0]
    check_tokens(values, windows(files, 16, 5, 1), 16, True)
    source = dict(source, documents="within", end=7)
    rows = [d for f in files for d in np.split(f, np.flatnonzero(f == 7) + 1)]
    check_tokens(samples_of({"tokens": source})[0], windows(rows, 16, 5, 1), 16, True)


def megatron(path, documents, dtype, code):
    """documents: lists of sequences."""
    sequences = [np.asarray(s, dtype) for d in documents for s in d]
    lengths = np.array([len(s) for s in sequences], np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])[:-1]
    np.concatenate(sequences).tofile(path + ".bin")
    with open(path + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([code]))
        file.write(len(sequences).to_bytes(8, "little"))
        file.write((len(documents) + 1).to_bytes(8, "little"))
        file.write(lengths.tobytes() + (pointers * np.dtype(dtype).itemsize).astype(np.int64).tobytes())
        ends = np.cumsum([0] + [len(d) for d in documents]).astype(np.int64)
        file.write(ends.tobytes())


def test_tokens_of_megatron(tmp_path):
    rng = np.random.default_rng(5)
    documents = [[rng.integers(0, 30000, n) for n in ns] for ns in ([20, 3], [1], [], [50], [8, 9])]
    path = str(tmp_path / "corpus")
    for dtype, code in (("uint16", 8), ("int32", 4), ("int64", 5)):
        megatron(path, documents, dtype, code)
        rows = [np.concatenate(d).astype(dtype) for d in documents if d]
        source = {"path": path + ".bin", "length": 8, "stride": 3}
        check_tokens(samples_of({"tokens": source})[0], windows([np.concatenate(rows)], 8, 3), 8)
        source["documents"] = "within"
        check_tokens(samples_of({"tokens": source}, True)[0], windows(rows, 8, 3), 8)
    source = {"tokens": {"path": path + ".bin", "length": 8}}
    whole = open(path + ".idx", "rb").read()
    for at, new, says in ((0, b"X", "not an index"), (17, b"\x06", "not uint8"),
                          (18, b"\xff", "another size"), (34, b"\xff\xff\xff\xff", "begin where"),
                          (len(whole) - 8, b"\x09", "do not follow")):
        with open(path + ".idx", "wb") as file:
            file.write(whole[:at] + new + whole[at + len(new):])
        refused(source, says)
    with open(path + ".idx", "wb") as file:
        file.write(whole)
    with open(path + ".bin", "ab") as file:
        file.write(b"12345678")
    refused(source, "that its .idx promises", "CORRUPT")


def test_tokens_refused(tmp_path):
    path = str(tmp_path / "x.bin")
    np.arange(9, dtype=np.uint8).tofile(path)
    refused({"tokens": {"path": path, "length": 2}}, "not a whole number of tokens", "CORRUPT")
    refused({"tokens": {"path": path, "length": 2, "documents": "within"}}, "documents end", "PARAM")
    np.arange(9, dtype=np.uint16).tofile(path)
    refused({"tokens": {"path": path, "length": 9, "labels": True}}, "fewer than 10 tokens")
    np.save(tmp_path / "x.npy", np.arange(90, dtype=np.uint16))
    refused({"tokens": {"path": str(tmp_path / "x.npy"), "length": 2}}, "this is a .npy file", "TYPE")


# ---- lines -----------------------------------------------------------------------------------


def write_csv(path, header, table, **how):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **how)
        if header:
            writer.writerow(header)
        writer.writerows(table)


def make_rows(n):
    rng = random.Random(6)
    words = ["plain", "with, comma", 'with "quotes"', "two\nlines", "", "é ü 漢字", "'", "a\tb"]
    return [[i - 20, round(rng.uniform(-9, 9), 4), rng.choice(words), rng.choice(["x", "y"])]
            for i in range(n)]


def check_rows(values, table, float_type=np.float32):
    assert len(values) == len(table)
    for i, (a, b, c, d) in enumerate(table):
        assert np.frombuffer(values[i]["a"][2], np.int64) == a
        assert values[i]["b"][2] == float_type(b).tobytes()
        assert values[i]["c"][2].decode() == c and values[i]["d"][2].decode() == d


def test_lines_of_csv(tmp_path):
    table = make_rows(90)
    paths = [str(tmp_path / f"{k}.csv") for k in range(3)]
    for k, path in enumerate(paths):
        write_csv(path, "abcd", table[30 * k:30 * k + 30], lineterminator="\r\n" if k else "\n")
    with open(paths[0], newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == [[str(v) for v in row] for row in table[:30]]
    source = {"lines": {"path": paths, "block_bytes": 300}}
    check_rows(law(source), table)
    numbers = {"lines": {"path": paths, "block_bytes": 300,
                         "fields": ["b:float64", "n=a:int64", "f=a:float32"]}}
    values = law(numbers, [True, {"window": 2, "lanes": 2}])
    for i, row in enumerate(table):
        assert values[i]["b"][2] == np.float64(row[1]).tobytes()
        assert values[i]["n"][2] == np.int64(row[0]).tobytes()
        assert values[i]["f"][2] == np.float32(row[0]).tobytes()
    write_csv(paths[2], "abdc", table[60:])
    refused(source, "not the first file's", "CORRUPT", 0)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_lines_packed(tmp_path, ending):
    table = make_rows(80)
    paths = []
    for k in range(2):
        write_csv(str(tmp_path / f"{k}.tsv"), "abcd", table[40 * k:40 * k + 40], delimiter="\t")
        paths.append(pack(str(tmp_path / f"{k}.tsv"), ending))
    source = {"lines": {"path": paths, "block_bytes": 300}}
    check_rows(law(source, [True, {"window": 1}]), table)
    refused({"lines": {"path": paths, "max_unpacked_bytes": 500}}, "unpacks to more than")


def test_lines_without_header(tmp_path):
    path = str(tmp_path / "x.csv")
    write_csv(path, None, [[1, "a"], [2, ""]], delimiter=";")
    values = samples_of({"lines": {"path": path, "header": False, "delimiter": ";"}})[0]
    assert [np.frombuffer(values[i]["c0"][2], np.int64)[0] for i in values] == [1, 2]
    assert [values[i]["c1"][2] for i in values] == [b"a", b""]


def test_lines_of_csv_with_truth_values(tmp_path):
    path = str(tmp_path / "x.csv")
    write_csv(path, ["truth", "mixed", "gap"], [["true", "true", "true"], ["False", "1", ""], ["TRUE", "x", "true"]])
    values = samples_of({"lines": {"path": path}})[0]
    assert [values[i]["truth"] for i in range(3)] == [as_bytes(np.asarray(v)) for v in (True, False, True)]
    assert [values[i]["mixed"][2] for i in range(3)] == [b"true", b"1", b"x"]
    assert [values[i]["gap"][2] for i in range(3)] == [b"true", b"", b"true"]


def test_lines_of_json(tmp_path):
    rng = random.Random(7)
    table = [{"id": i, "score": rng.random(), "text": 'a "b"\n\u0000é' * (i % 3), "ok": i % 2 == 0,
              "ids": [rng.randrange(-9, 9) for _ in range(i % 4)], "box": [0.5, i, 2, 3],
              "more": {"k": [i]}, "none": None if i % 2 else 1} for i in range(60)]
    path = str(tmp_path / "x.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for i, row in enumerate(table):
            file.write(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" * (1 + i % 2))
    source = {"lines": {"path": path, "block_bytes": 500}}
    values = law(source, [True, {"window": 3, "lanes": 1}])
    types = {"id": np.int64, "score": np.float32, "ok": np.bool_, "ids": np.int64,
             "box": np.float32, "none": np.float32}
    for i, row in enumerate(table):
        for name, (dtype, _, data) in values[i].items():
            if name == "text":
                assert data.decode() == row["text"]
            elif name == "more":
                assert json.loads(data) == row["more"]
            else:
                value = np.nan if row[name] is None else row[name]
                expected = np.array(value, types[name])
                assert (dtype, data) == (expected.dtype.str, expected.tobytes())
    source = {"lines": {"path": path, "fields": ["box:float64[4]", "n=id:int64"]}}
    values = samples_of(source, {"window": 2})[0]
    assert values[7]["box"] == as_bytes(np.array([0.5, 7, 2, 3]))
    for declared, says in (("box:float64[3]", "box is missing or not"), ("text:int64", "text is"),
                           ("x:int64", "x is missing"), ("ids:bool[]", "ids is")):
        refused({"lines": {"path": path, "fields": [declared]}}, says, "CORRUPT")
    refused({"lines": {"path": path, "fields": ["x:int8"]}}, "declare a field", "PARAM")


def test_lines_of_text(tmp_path):
    text = "first\n\nthird\r\nno end"
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    values = samples_of({"lines": {"path": str(path), "block_bytes": 1}}, fields=["text", "row"])[0]
    assert [values[i]["text"][2].decode() for i in values] == text.splitlines()
    assert [np.frombuffer(values[i]["row"][2], np.int64)[0] for i in values] == [0, 1, 2, 3]


def test_lines_damage(tmp_path):
    path = tmp_path / "x.csv"
    source = {"lines": {"path": str(path), "fields": ["a:int64"]}}
    path.write_text('a,b\n1,"x"\n2,"never closed\n3,4\n')
    refused(source, "not closed", "CORRUPT", 10)
    path.write_text("a,b\n1,2\nx,3\n4,5\n")
    refused(source, "column a is missing or not int64", "CORRUPT", 8)
    path.write_text("b,a\n1,2\n3\n4,5\n")
    refused(source, "column a is missing", "CORRUPT", 8)
    refused({"lines": {"path": str(path), "fields": ["z:int64"]}}, "no column 'z'", "PARAM")
    with mrlib.Loader({"source": source, "batch": 2, "on_error": "skip", "epochs": 1}) as loader:
        assert sorted(s for b in loader for s in b.samples) in ([0, 0, 2], [0, 2, 2])
        assert [s[2] for s in loader.skips()] == [1]
    path.write_text("")
    refused(source, "no rows", "PARAM")
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n[1]\n{"a": 99999999999999999999}\n')
    refused({"lines": {"path": str(path)}}, "not a JSON object", "CORRUPT")
    refused({"lines": {"path": str(path), "fields": ["a:int64"]}}, "not a JSON object", "CORRUPT", 9,
            False)


BAD_LINES = [('[1]', "is not a JSON object: it is another value"), ('{"a": 1', "is not a JSON object: "),
             ('{"a": 99999999999999999999}', "has a number that is too large: too big integer"),
             ('{"a": 1e999}', "has a number that is too large: real number overflow")]


@pytest.mark.parametrize("bad,says", BAD_LINES)
@pytest.mark.parametrize("place", [1, 3, 40, 1500])
@pytest.mark.parametrize("declared", [[], ["a:int64"]])
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_bad_lines_of_json_are_named_or_skipped(bad, says, place, declared, ending, tmp_path):
    """Also among the lines that types are found by; empty lines count as lines and not as rows."""
    rows = [f'{{"a": {i}}}' for i in range(2000)]
    rows[place - 1] = bad
    path = tmp_path / f"x{ending}"
    text = "\n".join([*rows[:place - 1], "", "", *rows[place - 1:]]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    source = {"lines": {"path": str(path), "fields": declared, "block_bytes": 200}}
    with pytest.raises(mrlib.MrError) as caught:
        samples_of(source, False)
    assert f"line {place + 2} {says}" in str(caught.value) and f"x{ending}" in str(caught.value)
    with mrlib.Loader({"source": source, "batch": 1, "on_error": "skip", "epochs": 1}) as loader:
        assert len({s for b in loader for s in b.samples}) == 1999
        assert [s[2] for s in loader.skips()] == [place - 1]


def test_lines_without_any_object_name_the_first(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('\n[\n {"a": 1},\n {"a": 2}\n]\n')
    with pytest.raises(mrlib.MrError, match="line 2 is not a JSON object") as caught:
        samples_of({"lines": {"path": str(path)}}, False)
    assert "no list around them" in str(caught.value) and "x.json" in str(caught.value)


def test_bad_lines_of_csv_are_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a,b\n1,"two\nlines"\n\nx,3\n4,5\n')
    refused({"lines": {"path": str(path), "fields": ["a:int64"], "block_bytes": 1}}, "line 5: column a is missing or not int64")
    path.write_text('a,b\n1,"two\nlines"\n\n2,"open\n4,5\n')
    refused({"lines": {"path": str(path), "fields": ["a:int64"]}}, "line 5 has a quote that is not closed")


# ---- Bombs, and damage in what is compressed or mapped ----------------------------------------


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["tar", "tfrecord", "lines"])
def test_bombs_end_at_the_limit(tmp_path, kind, ending):
    """A shard that begins as it should and unpacks to a hundred times its size."""
    if kind == "tar":
        path = make_tars(tmp_path, 1)[1].replace("{000..000}", "000")
        more = {}
    elif kind == "tfrecord":
        path = make_tfrecords(tmp_path, 1)[1].replace("{00000..00000}", "00000")
        more = {"fields": ["label:int64"]}
    else:
        path, more = str(tmp_path / "x.jsonl"), {}
        with open(path, "w") as file:
            file.write('{"a": 1}\n' * 100)
    with open(path, "ab") as file:
        file.write(bytes(30_000_000) if kind != "lines" else b'{"a": 1}\n' * 3_000_000)
    bomb = pack(path, ending)
    assert os.path.getsize(bomb) < 400_000
    source = {kind: {"path": bomb, "max_unpacked_bytes": "2MB", **more}}
    for shuffle in (True, False, {"window": 2}):
        refused(source, "unpacks to more than 2000000 bytes", "LIMIT", 2_000_000, shuffle)
        refused(source, os.path.basename(bomb), "LIMIT", None, shuffle)


def test_a_chunk_of_hdf5_that_is_a_bomb(tmp_path):
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", shape=(1000, 3), dtype="i8", chunks=(100, 3), compression="gzip")
        data[...] = 1
        data.id.write_direct_chunk((300, 0), zlib.compress(bytes(50_000_000), 9))
        at = data.id.get_chunk_info_by_coord((300, 0)).byte_offset
    source = {"hdf5": {"path": path, "block_bytes": 2400}}
    for shuffle in (True, False):
        refused(source, "does not unpack to its size", "CORRUPT", at, shuffle)
    document = {"source": source, "batch": 10, "on_error": "skip", "shuffle": False}
    with mrlib.Loader(document) as loader:
        assert sum(len(b.samples) for b in loader) == 1000
        assert sorted(s[2] for s in loader.skips()) == list(range(300, 400))


def test_lengths_that_are_wrong_name_a_byte(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(100))
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    refused({"array": {"path": str(path)}}, "cut short", "CORRUPT", len(whole) - 8)
    path.write_bytes(whole + b"more")
    refused({"array": {"path": str(path)}}, "nothing may follow", "CORRUPT", len(whole))
    for shape, says in (b"(9223372036854775807,)", "larger than any file"), \
            (b"(1152921504606846975,)", "its header promises"):
        header = whole[:128].replace(b"(100,)", shape)
        path.write_bytes(header.rstrip(b" \n").ljust(127) + b"\n" + whole[128:])
        refused({"array": {"path": str(path)}}, says, "CORRUPT")
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(99))
    refused({"tokens": {"path": str(path), "length": 8, "dtype": "uint16"}}, "not a whole number", "CORRUPT", 98)
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": "cut')
    refused({"lines": {"path": str(path)}}, "not a JSON object", "CORRUPT", 18)


def test_a_file_that_is_too_large_is_named_or_skipped(tmp_path):
    make_folders(tmp_path, [f"a/{i}.bin" for i in range(8)])
    with open(tmp_path / "a" / "9.bin", "wb") as file:
        file.truncate(1 << 42)
    source = {"files": {"path": str(tmp_path), "extensions": ["bin"]}}
    refused(source, "a/9.bin", "LIMIT")
    with mrlib.Loader({"source": source, "batch": 3, "on_error": "skip"}) as loader:
        assert sum(len(b.samples) for b in loader) == 9
        assert [s[2] for s in loader.skips()] == [8]


# ---- arrays ----------------------------------------------------------------------------------


MANY = 2000


def many_values(values, dtype):
    """[sample][column] of fields that are called f0000 and on."""
    return np.array([[np.frombuffer(values[i][f"f{c:04}"][2], dtype)[0] for c in range(MANY)] for i in sorted(values)])


def test_tfrecord_of_2000_features(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    table = np.arange(3 * MANY).reshape(3, MANY)
    with open(path, "wb") as file:
        for row in table:
            file.write(record(example({f"f{c:04}": [int(v)] for c, v in enumerate(row)})))
    for source in ({"path": path}, {"path": path, "fields": [f"f{c:04}:int64" for c in range(MANY)]},
                   {"path": path, "fields": [f"f{c:04}:int64" for c in range(MANY)] + ["again=f0007:int64",
                                                                                      "more=f0007:int64[]"]}):
        values = samples_of({"tfrecord": source})[0]
        assert len(values[0]) == len(source.get("fields", range(MANY)))
        assert (many_values(values, np.int64) == table).all()
    assert values[2]["again"][2] == values[2]["more"][2] == values[2]["f0007"][2]
    assert list(samples_of({"tfrecord": {"path": path}}, fields=["f1999"])[0][1]) == ["f1999"]


def test_tfrecord_names_that_are_too_long_are_no_loss(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    with open(path, "wb") as file:
        file.write(record(example({"a": [1], "b" * 255: [2], "c": [3]})))
    assert len(samples_of({"tfrecord": {"path": path}})[0][0]) == 3
    with open(path, "wb") as file:
        file.write(record(example({"a": [1], "b" * 256: [2], "c": [3]})))
    refused({"tfrecord": {"path": path}}, "with one of 256 bytes", "LIMIT")
    assert list(samples_of({"tfrecord": {"path": path, "fields": ["c:int64"]}})[0][0]) == ["c"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_lines_of_2000_columns(tmp_path, form):
    path = str(tmp_path / f"x.{form}")
    names = [f"f{c:04}" for c in range(MANY)]
    table = np.arange(5 * MANY).reshape(5, MANY)
    if form == "csv":
        write_csv(path, names, table.tolist())
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(dict(zip(names, row))) + "\n" for row in table.tolist())
    for fields in ([], [f"{n}:int64" for n in names], [f"{n}:int64" for n in reversed(names)]):
        values = samples_of({"lines": {"path": path, "fields": fields}})[0]
        assert len(values[0]) == MANY and (many_values(values, np.int64) == table).all()
    twice = samples_of({"lines": {"path": path, "fields": ["a=f0003:int64", "f0001:int64", "b=f0003:float32"]}})[0]
    assert np.frombuffer(twice[1]["b"][2], np.float32)[0] == np.frombuffer(twice[1]["a"][2], np.int64)[0] == MANY + 3


def test_tar_of_2000_extensions(tmp_path):
    path = str(tmp_path / "x.tar")
    write_tar(path, [(f"{i}", {f"F{c:04}": b"%d" % (i * MANY + c) for c in range(MANY)}) for i in range(3)])
    for source in ({"path": path}, {"path": path, "fields": [f"f{c:04}" for c in range(MANY)]}):
        source["numbers"] = [f"f{c:04}" for c in range(MANY)]
        values = samples_of({"tar": source})[0]
        assert (many_values(values, np.int64) == np.arange(3 * MANY).reshape(3, MANY)).all()


def test_array_of_2000_members_and_fields(tmp_path):
    table = np.arange(5 * MANY).reshape(5, MANY)
    np.savez(str(tmp_path / "x.npz"), **{f"f{c:04}": table[:, c] for c in range(MANY)})
    assert (many_values(samples_of({"array": {"path": str(tmp_path / "x.npz")}})[0], np.int64) == table).all()
    np.save(str(tmp_path / "x.npy"), table[:, 0])
    fields = [f"f{c:04}={tmp_path}/x.npy" for c in range(200)]
    assert len(samples_of({"array": {"path": str(tmp_path / "x.npy"), "fields": fields}})[0][0]) == 201


def test_ops_with_2000_numbers(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(7, MANY)).astype(np.float32)
    np.save(str(tmp_path / "x.npy"), x)
    mean = rng.normal(size=MANY).astype(np.float32)
    std = rng.uniform(1, 2, MANY).astype(np.float32)
    bounds = np.sort(rng.normal(size=MANY))
    source = {"array": {"path": str(tmp_path / "x.npy")}}
    for op, expected in (({"standardize": {"mean": mean.tolist(), "std": std.tolist()}}, (x - mean) / std),
                         ({"bucketize": {"boundaries": bounds.tolist()}}, np.digitize(x, bounds, right=True))):
        document = {"source": source, "ops": [op], "batch": 7, "shuffle": False, "epochs": 1}
        with mrlib.Loader(document) as loader:
            assert np.asarray(next(iter(loader))["data"]).tobytes() == expected.tobytes()
    refused_op = {"source": source, "ops": [{"bucketize": {"boundaries": list(range(65536))}}], "batch": 1}
    with pytest.raises(mrlib.MrError, match="must have 1 to 65535"):
        mrlib.Loader(refused_op).__enter__()


def test_array_of_several_files(tmp_path):
    rng = np.random.default_rng(8)
    data = rng.integers(0, 255, (50, 4, 3)).astype(np.int32)
    labels = rng.integers(0, 9, 50)
    folder = tmp_path / "x"
    folder.mkdir()
    for k, (a, b) in enumerate([(0, 7), (7, 8), (8, 50)]):
        np.save(folder / f"{k}.npy", data[a:b])
    np.save(tmp_path / "y0.npy", labels[:30])
    np.save(tmp_path / "y1.npy", labels[30:])
    source = {"array": {"path": str(folder), "labels": str(tmp_path / "y{0..1}.npy")}}
    values = law(source, [True, {"window": 3}])
    for i in range(50):
        assert values[i] == {"data": as_bytes(data[i]), "label": as_bytes(np.int64(labels[i]))}
    np.save(folder / "3.npy", data[:2].astype(np.int64))
    refused(source, "another type or shape", "TYPE")
    np.save(folder / "3.npy", data[:2])
    refused(source, "50 labels for 52 samples", "TYPE")


def test_array_of_npz(tmp_path):
    rng = np.random.default_rng(9)
    fields = {"image": rng.integers(0, 255, (40, 5, 6, 3)).astype(np.uint8),
              "y": rng.integers(0, 9, 40), "weight": rng.random((40, 2)).astype(np.float32)}
    for k, (a, b) in enumerate([(0, 11), (11, 40)]):
        np.savez(tmp_path / f"{k}.npz", **{n: v[a:b] for n, v in fields.items()})
    source = {"array": {"path": str(tmp_path / "*.npz")}}
    values = law(source, [True, {"window": 3}])
    assert len(values) == 40
    for i in range(40):
        assert values[i] == {n: as_bytes(v[i]) for n, v in fields.items()}
    some = samples_of(source, True, fields=["y", "index"])[0]
    assert all(some[i]["y"] == as_bytes(fields["y"][i]) for i in range(40))
    path = tmp_path / "1.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    refused(source, "not a zip", "CORRUPT")
    path.write_bytes(whole[100:])
    refused(source, "damaged", "CORRUPT")
    np.savez(path, image=fields["image"], y=fields["y"])
    refused(source, "2 members, the first file has 3", "TYPE")
    np.savez(path, image=fields["image"], y=fields["y"][:3], weight=fields["weight"])
    refused(source, "rows of y", "TYPE")
    np.savez_compressed(path, **fields)
    refused(source, "compressed", "UNSUPPORTED")


# ---- Memory ------------------------------------------------------------------------------------------

WATCHED = """
import ctypes, json, sys, threading, time
sys.path[:0] = [{here!r}]
import mrlib

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def held():
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd

def watch():
    while not ended.wait(0.0002):
        peak[0] = max(peak[0], held())

def resident(name):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))

document = json.loads({document!r})
with mrlib.Loader({{**document, "source": {{"synthetic": {{"samples": 64, "shape": [4]}}}}, "shuffle": False}}) as loader:
    assert next(loader) is not None  # what comes with the first one of all
before, peak, ended = held(), [0], threading.Event()
before_resident = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
with mrlib.Loader(document, threads=3, **{options!r}) as loader:
    watcher = threading.Thread(target=watch)
    watcher.start()
    n = sum(len(batch.samples) for batch in loader)
    ended.set()
    watcher.join()
    stats = loader.stats()
    # What malloc has counts room for alignment that nobody touches; what is resident counts idle pieces of malloc.
    most = min(peak[0] - before, resident("VmHWM") - before_resident)
    print(json.dumps([n, most, stats["memory_bound"], stats["batches_ahead"],
                      stats["blocks_most"], stats["blocks_bound"]]))
"""


def large_hdf5(folder, rows):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=rows, chunks=(64, rows.shape[1]), compression="gzip", compression_opts=1)
    return {"path": str(folder / "x.h5"), "block_bytes": 1 << 20}


def large_parquet(folder, rows):
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    pq.write_table(pa.table({"x": values}), folder / "x.parquet", row_group_size=64, use_dictionary=False)
    return {"path": str(folder / "x.parquet")}


def large_dictionary(folder, rows):
    """A few values again and again: pages hold some bits of each, memory all."""
    values = pa.array((rows.reshape(-1)[:4_000_000] * 4).astype(np.int64))
    pq.write_table(pa.table({"x": values}), folder / "x.parquet", row_group_size=250_000)
    return {"path": str(folder / "x.parquet")}


def large_tar(folder, rows):
    write_tar(folder / "x.tar", [(f"{i:06}", {"bin": row.tobytes()}) for i, row in enumerate(rows)])
    return {"path": str(folder / "x.tar"), "block_bytes": 1 << 20}


WINDOW = {"window": 3, "lanes": 2}


@pytest.mark.parametrize("kind, make, shuffle, batch, ahead, most", [
    ("hdf5", large_hdf5, WINDOW, 16, 0, 41e6), ("parquet", large_parquet, WINDOW, 16, 0, 41e6),
    ("tar", large_tar, WINDOW, 16, 0, 60e6), ("hdf5", large_hdf5, False, 128, 4, 60e6),
    ("parquet", large_parquet, False, 16, 4, 36e6), ("parquet", large_parquet, {"window": 1}, 128, 4, 90e6),
    ("parquet", large_dictionary, {"window": 3, "lanes": 1}, 1000, 2, 36e6),
])
def test_memory_stays_below_what_is_promised(tmp_path, kind, make, shuffle, batch, ahead, most):
    """48 MB and more through blocks of a megabyte. What is ragged comes on top, see millrace.h."""
    rows = np.random.default_rng(1).random((3000, 4096), np.float32)
    document = {"source": {kind: make(tmp_path, rows)}, "shuffle": shuffle, "batch": batch}
    program = WATCHED.format(here=os.path.dirname(__file__), document=json.dumps(document),
                             options={"read_ahead_bytes": 2_000_000, "batches_ahead": ahead})
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    samples, peak, bound, ahead, blocks_most, blocks_bound = json.loads(out.stdout)
    bound += batch * (ahead + 1) * 4 * rows.shape[1] * (kind == "tar")
    assert samples == (4_000_000 if make is large_dictionary else len(rows))
    python = 2 * batch * (100 if make is large_dictionary else 4 * rows.shape[1])  # has copies of a batch
    assert peak < bound + python + 2_000_000, (peak, bound)
    assert bound < most  # or the number says nothing
    assert 1 < blocks_most <= blocks_bound


def test_blocks_alive_stay_below_what_is_promised(tmp_path):
    """Blocks of unequal size, views, lanes, ranks and bad rows, by chance."""
    draw = random.Random(3)
    for k in range(12):
        rows = draw.choice([1, 3, 40, 200])
        lines = [f"{'x' if draw.random() < 0.1 else draw.randrange(1000)},{draw.randrange(9)}" for _ in range(rows)]
        (tmp_path / f"{k:02}.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
    views = [[{"where": "b >= 0"}, {"take": 50}], [{"every": 7}], [{"repeat": 2}], [{"take": 30}, {"repeat": 3}], [{"balance": "b"}]]
    closest = 0
    for i in range(150):
        source = {"path": str(tmp_path / draw.choice(["*.csv", "0*.csv", "03.csv"])), "fields": ["a:int64", "b:int64"],
                  "block_bytes": draw.choice([60, 500, 4096])}
        document = {"source": {"lines": source}, "batch": draw.choice([2, 12, 60]), "epochs": 3, "seed": i,
                    "on_error": "skip", "remainder": draw.choice(["keep", "pad"]),
                    "shuffle": draw.choice([False, True, {"window": "all"}, {"window": draw.randrange(1, 9)},
                                            {"window": draw.randrange(1, 9), "lanes": draw.randrange(1, 7)}])}
        if draw.random() < 0.6:
            document["view"] = draw.choice(views)
        world = draw.choice([1, 1, 2])
        for rank in range(world):
            with mrlib.Loader(document, threads=draw.choice([1, 3]), world=world, rank=rank,
                              batches_ahead=draw.choice([0, 1, 9])) as loader:
                for _ in loader:
                    pass
                stats = loader.stats()
            assert stats["blocks_most"] <= stats["blocks_bound"], (document, world, rank)
            closest = max(closest, stats["blocks_most"] / stats["blocks_bound"])
    assert closest > 0.9  # or the number says nothing


def test_blocks_that_lanes_cut_are_counted_twice(tmp_path):
    (tmp_path / "l.csv").write_text("a,b\n" + "".join(f"{'x' if i % 7 == 0 else i},{i % 5}\n" for i in range(90)))
    document = {"source": {"lines": {"path": str(tmp_path / "l.csv"), "fields": ["a:int64", "b:int64"],
                                     "block_bytes": 60}}, "view": [{"repeat": 2}], "shuffle": True, "batch": 2,
                "epochs": 3, "seed": 63, "on_error": "skip"}
    with mrlib.Loader(document, threads=1) as loader:
        assert sum(len(batch.samples) for batch in loader) == 540
        stats = loader.stats()
    assert 7 < stats["blocks_most"] <= stats["blocks_bound"]


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_are_read_once_an_epoch_where_lanes_are_more(tmp_path, blocks):
    rows = np.random.default_rng(1).random((300, 64), np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=rows, chunks=(300 // blocks, 64), compression="gzip")
    document = {"source": {"hdf5": {"path": str(tmp_path / "x.h5"), "block_bytes": 300 // blocks * 256}}, "batch": 7,
                "epochs": 4, "on_error": "skip"}
    read = {}
    for shuffle in (False, True, {"lanes": 1}):
        with mrlib.Loader({**document, "shuffle": shuffle}, threads=2) as loader:
            assert sum(len(batch.samples) for batch in loader) == 1200
            read[str(shuffle)] = loader.stats()["bytes_read"]
            assert loader.stats()["blocks_most"] <= 5 * blocks
    assert read["True"] == read["False"] == read[str({"lanes": 1})]


def test_conditions_do_not_confuse_large_numbers(tmp_path):
    pq.write_table(pa.table({"w": [2**53 - 1, 2**53, 2**53 + 1, 5]}), tmp_path / "x.parquet")
    source = {"parquet": {"path": str(tmp_path / "x.parquet")}}
    document = {"source": source, "shuffle": False, "batch": 4}
    with mrlib.Loader({**document, "view": [{"where": f"w >= {2**53 - 1}"}]}) as loader:
        assert list(next(loader).samples) == [0, 1, 2]
    with pytest.raises(mrlib.MrError, match="between -2\\^53 and 2\\^53"):
        mrlib.Loader({**document, "view": [{"where": f"w > {2**53}"}]})
