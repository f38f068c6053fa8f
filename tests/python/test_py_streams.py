# SPDX-License-Identifier: Apache-2.0
"""Streams written from Python: byte by byte what docs/streams.md says, by a reader that shares no
code with the library; and what the command writes."""
import io
import itertools
import pathlib
import runpy
import struct
import threading

import numpy as np
import pytest
import xxhash
from PIL import Image

import millrace as mr
from millrace import streams

ID = 0x1234


def entries_of(path, stream_id, partition, first):
    """All entries of an undamaged segment, read as the format is described."""
    data = path.read_bytes()
    seed = xxhash.xxh3_64_intdigest(struct.pack("<QQQ", stream_id, partition, first))
    assert struct.unpack_from("<II Q", data, 8) == (1, partition, first)
    assert struct.unpack_from("<Q", data, 56)[0] == xxhash.xxh3_64_intdigest(data[:56], seed)
    at, found = 64, []
    while at < len(data):
        number, label, time, key_size, size, zero, total, check = struct.unpack_from(
            "<QqqIIQQQ", data, at + 8)
        assert check == xxhash.xxh3_64_intdigest(data[at:at + 56], seed) and zero == 0
        value = data[at + 64:at + 64 + size]
        key = data[at + 64 + size:at + 64 + size + key_size]
        expected = xxhash.xxh3_64_intdigest(value)
        assert total == (xxhash.xxh3_64_intdigest(key, expected) if key else expected)
        end = at + 64 + size + key_size
        at = (end + 7) // 8 * 8
        assert not any(data[end:at])
        found.append((number, label, time, key, value))
    return found


def test_bytes_are_as_described(tmp_path):
    given = [(bytes(range(i % 256)) * (i % 5), i - 9, f"k{i}" if i % 2 else "", 10 * i)
             for i in range(100)]
    with streams.Writer(tmp_path / "s", 3, id=ID, sync="never") as writer:
        for i, (value, label, key, time) in enumerate(given):
            assert writer.append(value, label=label, key=key, time=time) == i
    assert (tmp_path / "s" / "stream").read_text() == f"{ID:016x}\n"
    found = entries_of(tmp_path / "s" / f"00003-{0:019}.seg", ID, 3, 0)
    assert found == [(i, label, time, key.encode(), value)
                     for i, (value, label, key, time) in enumerate(given)]


def test_the_loader_reads_them(tmp_path):
    rows = np.arange(60, dtype=np.uint8).reshape(20, 3)
    with streams.Writer(tmp_path / "s") as writer:
        for i, row in enumerate(rows):
            writer.append(row, label=i % 4)
    pipeline = mr.segments(path=str(tmp_path / "s")).batch(5).shuffle(False)
    batches = list(pipeline.loader())
    assert [int(x) for b in batches for x in np.asarray(b["label"])] == [i % 4 for i in range(20)]


def test_segments_are_bounded_and_appending_goes_on(tmp_path):
    for _ in range(3):
        with streams.Writer(tmp_path / "s", id=ID, segment_bytes=1000, sync="flush") as writer:
            for _ in range(10):
                writer.append(b"x" * 100)
            writer.flush()
    files = sorted((tmp_path / "s").glob("*.seg"))
    assert len(files) > 3
    found = [e for f in files for e in entries_of(f, ID, 0, int(f.stem[6:]))]
    assert [e[0] for e in found] == list(range(30))


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="sync is"):
        streams.Writer(tmp_path / "s", sync="often")
    with pytest.raises(ValueError, match="partitions are numbered"):
        streams.Writer(tmp_path / "s", 70000)
    with streams.Writer(tmp_path / "s") as writer:
        with pytest.raises((OSError, RuntimeError), match="somebody else"):
            streams.Writer(tmp_path / "s")
        with pytest.raises(TypeError):
            writer.append("text")
        with pytest.raises(ValueError, match="a key of 70000 bytes"):
            writer.append(b"", key="k" * 70000)
    writer.close()
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="no stream, and has other files"):
        streams.Writer(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photo.jpg", "s"]
    with pytest.raises(ValueError, match="closed"):
        writer.append(b"")


# ---- Following a stream -------------------------------------------------------------------------


def _append(folder, n, first=0, partition=0):
    with streams.Writer(folder, partition, id=9) as writer:
        for i in range(first, first + n):
            writer.append(b"%d" % i, label=i % 3)


def _follow(folder, **rest):
    return mr.segments(str(folder), follow=True, **rest).batch(8)


def _rows(batch):
    return [int(text) for text in batch["value"].texts()]


def test_a_loader_follows_a_stream_while_it_grows(tmp_path):
    _append(tmp_path, 20)
    loader = _follow(tmp_path).loader()
    batches = iter(loader)
    assert _rows(next(batches)) == list(range(8))
    assert _rows(next(batches)) == list(range(8, 16))
    writer = threading.Timer(0.2, _append, (tmp_path, 20, 20))
    writer.start()
    assert _rows(next(batches)) == list(range(16, 24))
    writer.join()
    loader.close()


def test_a_stream_has_no_length(tmp_path):
    _append(tmp_path, 8)
    with _follow(tmp_path).loader() as loader:
        with pytest.raises(TypeError, match="islice"):
            len(loader)
        assert loader.n_samples == -1
        assert "stream" in repr(loader)
        assert loader.stream()["replayed"] == 0
        assert [_rows(batch) for batch in itertools.islice(loader, 1)] == [list(range(8))]


def test_until_ends_a_run_and_a_state_goes_on(tmp_path):
    _append(tmp_path, 50)
    pipeline = _follow(tmp_path, until=50).rehearse(size=10, share=0.5, policy="class_balanced")
    with pipeline.loader(digest=True) as loader:
        whole = [(batch.digest, batch["is_replay"].sum(), batch.size) for batch in loader]
    assert len(whole) == 13
    assert [int(n) for _, n, _ in whole] == [0] + [4] * 11 + [0]
    with pipeline.loader(digest=True) as loader:
        for _ in range(5):
            next(loader)
        state = loader.state_dict()
    with pipeline.loader(digest=True, state=state) as loader:
        assert [batch.digest for batch in loader] == [digest for digest, _, _ in whole[5:]]


def test_old_samples_have_weights_and_fresh_draws(tmp_path):
    _append(tmp_path, 400)
    pipeline = _follow(tmp_path, until=400).rehearse(20, policy="recent")
    with pipeline.loader() as loader:
        for batch in loader:
            assert batch["weight"].dtype == np.float32
            assert (batch["weight"][batch["is_replay"] == 0] == 1).all()


def test_a_function_is_tried_on_what_is_there(tmp_path):
    _append(tmp_path, 8)
    pipeline = _follow(tmp_path).map(lambda sample: {"n": np.int64(len(sample["value"]))})
    with pipeline.loader() as loader:
        assert next(loader)["n"].tolist() == [1] * 8


def _some(number):
    return np.arange(1 + number % 7) + number


def test_what_a_function_makes_stays_as_long_as_the_batch(tmp_path):
    _append(tmp_path, 64)
    pipeline = _follow(tmp_path, until=64).map(lambda sample: {"some": _some(int(bytes(sample["value"])))})
    for threads in 1, 2:
        with pipeline.loader(threads=threads) as loader:
            found = [np.asarray(row).tolist() for batch in loader for row in batch["some"]]
        assert found == [_some(i).tolist() for i in range(64)]


def picture(i):
    rows = np.random.default_rng(i).integers(0, 256, (20 + i % 7, 24 + i % 5, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(rows).save(file, ("JPEG", "PNG", "WEBP")[i % 3])
    return file.getvalue()


def test_images_of_a_stream_are_those_of_files(tmp_path):
    """The same bytes, and the same draws of random ops, whether they are followed or read as they are."""
    (tmp_path / "files").mkdir()
    with streams.Writer(tmp_path / "s", sync="never") as stream:
        for i in range(40):
            stream.append(picture(i))
            (tmp_path / "files" / f"{i:02}.{('jpg', 'png', 'webp')[i % 3]}").write_bytes(picture(i))

    def delivered_of(source):
        pipeline = source.decode_image().random_resized_crop(16).random_flip().seed(4).batch(8)
        with pipeline.loader(epochs=1) as loader:
            return np.concatenate([np.asarray(next(iter(batch.values()))) for batch in loader])

    files = delivered_of(mr.files(str(tmp_path / "files")).shuffle(False))
    assert files.shape == (40, 16, 16, 3) and len({row.tobytes() for row in files}) == 40
    assert np.array_equal(delivered_of(mr.segments(str(tmp_path / "s"), follow=True, until=40)), files)
    assert np.array_equal(delivered_of(mr.segments(str(tmp_path / "s")).shuffle(False)), files)


def test_only_streams_are_rehearsed(tmp_path):
    _append(tmp_path, 8)
    with pytest.raises(ValueError, match="follow"):
        mr.segments(str(tmp_path)).rehearse(10)
    with pytest.raises(ValueError, match="own order"):
        mr.segments(str(tmp_path), follow=True).shuffle(True)


def test_an_iterator_is_recorded_and_followed(tmp_path):
    def numbers(n):
        for i in range(n, 40):
            yield {"value": b"%d" % i, "label": i % 2} if i % 2 else b"%d" % i
    with streams.Recorder(tmp_path, lambda n: itertools.islice(numbers(n), 25)) as recorder:
        recorder.join()
    with streams.Recorder(tmp_path, numbers) as recorder:
        with _follow(tmp_path, until=40).loader() as loader:
            rows = [(row, int(label)) for batch in loader for row, label in zip(_rows(batch), batch["label"])]
    assert rows == [(i, i % 2) for i in range(40)]


def test_an_iterator_that_fails_says_so(tmp_path):
    def fails(n):
        yield b"one"
        raise KeyError("camera")
    recorder = streams.Recorder(tmp_path, fails)
    recorder.join()
    with pytest.raises(KeyError, match="camera"):
        recorder.check()
    with pytest.raises(KeyError, match="camera"):
        recorder.close()
    with streams.Writer(tmp_path) as writer:
        assert writer.next_number == 1


def test_a_journal_remembers_what_the_clock_decided(tmp_path):
    _append(tmp_path / "clicks", 40)
    pipeline = mr.segments(str(tmp_path / "clicks"), follow=True).rehearse(20, share=0.5).batch(8)
    fills = pipeline.pace(late="fill", patience=0.01)
    with pytest.raises(ValueError, match="journal"):
        fills.loader()
    runs = []
    for _ in range(2):
        with fills.loader(journal=tmp_path / "journal", digest=True) as loader:
            runs.append([next(loader).digest for _ in range(20)])
            state = loader.state_dict()
    assert runs[0] == runs[1]
    with fills.loader(journal=tmp_path / "journal", digest=True) as loader:
        loader.load_state_dict(state)
        assert next(loader).size == 8


def test_the_example_runs(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["continual.py"])
    runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples/continual.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16].strip() for line in lines] == ["", "as it comes", "with rehearsal", "all mixed"]


def images_stream(folder, n):
    with streams.Writer(folder, sync="never") as stream:
        for i in range(n):
            rows = np.random.default_rng(i).integers(0, 256, (12, 12, 3), np.uint8)
            stream.append_array(rows, label=i % 5, key=f"k{i}", time=i)


def entering(folder, enter, **terms):
    fields = ["value", "label", "key", "time", "is_replay", "weight", "index"]
    return (mr.segments(str(folder), follow=True, until=600).decode_npy(dtype="uint8", shape=[12, 12, 3], layout="hwc")
            .resize([10, 10]).random_flip().random_crop([8, 8]).fields(fields).seed(3).batch(20)
            .rehearse(size=150, share=0.5, enter=enter, **terms))


def delivered(pipeline, names=("value", "label", "is_replay", "weight"), **options):
    with pipeline.loader(**options) as loader:
        return [{name: [bytes(np.ascontiguousarray(v)) for v in batch[name]] for name in names} for batch in loader]


def test_samples_that_enter_after_the_first_ops_are_the_same(tmp_path):
    """Fresh crops and flips each time, whichever form of a sample the buffer has in memory."""
    images_stream(tmp_path / "s", 600)
    names = ["value", "label", "key", "time", "is_replay", "weight", "index"]
    raw = delivered(entering(tmp_path / "s", "raw"), names)
    for memory in ("1GB", "60KB", 0):
        assert delivered(entering(tmp_path / "s", "cached", memory=memory), names, threads=3) == raw
    for world in (2, 4):
        for rank in range(world):
            ways = [delivered(entering(tmp_path / "s", enter), world=world, rank=rank) for enter in ("raw", "cached")]
            assert ways[0] == ways[1]


def test_what_is_kept_after_the_first_ops_is_not_made_again(tmp_path):
    images_stream(tmp_path / "s", 600)
    made = {}
    for enter in ("raw", "cached"):
        path = str(tmp_path / f"{enter}.trace")
        with entering(tmp_path / "s", enter).loader(trace=path, batches_ahead=2) as loader:
            rows = sum(len(batch.samples) for batch in loader)
        made[enter] = {op["name"]: op["count"] for op in mr.report(path).figures["ops"]}
    assert made["raw"]["resize"] == made["raw"]["random_crop"] == made["cached"]["random_crop"] == rows
    assert 600 <= made["cached"]["resize"] < 700  # new ones, and those drawn before they were made


def test_a_cache_among_the_ops_says_where_samples_enter(tmp_path):
    images_stream(tmp_path / "s", 100)
    source = mr.segments(str(tmp_path / "s"), follow=True, until=100).decode_npy(dtype="uint8", shape=[12, 12, 3])
    with pytest.raises(Exception, match="cannot be kept"):
        source.rehearse(size=50).cache().batch(10).loader()
    kept = source.rehearse(size=50, enter="cached").batch(10)
    plain = delivered(source.rehearse(size=50).batch(10))
    assert len(plain) > 15 and delivered(kept.cache()) == delivered(kept) == plain


@pytest.mark.skipif(not hasattr(mr, "redis_stream"), reason="this build has no hiredis")
def test_ranks_read_for_each_other_over_redis(tmp_path, redis):
    """Each rank its own partition; what it delivers is what it would deliver alone, and the log says who left."""
    for p in range(2):
        with streams.Writer(tmp_path / "s", p, sync="never") as stream:
            for i in range(300):
                stream.append(bytes([p, i % 256]) * (i % 40 + 1), label=i % 3)
    pipeline = (mr.segments(str(tmp_path / "s"), follow=True, until=300).rehearse(size=80, enter="cached").seed(2)
                .batch(20))
    together, counts = [None, None], [None, None]

    def run(rank):
        with pipeline.loader(world=2, rank=rank, fabric=redis) as loader:
            together[rank] = [[bytes(v) for v in batch["value"]] for batch in loader]
            counts[rank] = loader.stream()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(2):
        with pipeline.loader(world=2, rank=rank) as loader:
            assert [[bytes(v) for v in batch["value"]] for batch in loader] == together[rank]
    assert [c["entries"] for c in counts] == [300, 300]
    assert counts[0]["received"] > 50 and counts[0]["sent"] > 50


# ---- A replay -----------------------------------------------------------------------------------


def twice(sample):
    return {"n": np.int64(2 * int(bytes(sample["value"]))), "label": sample["label"]}


def thrice(sample):
    return {"n": np.int64(3 * int(bytes(sample["value"]))), "label": sample["label"]}


thrice.__qualname__ = "twice"


def other(sample):
    return twice(sample)


def with_function(folder, function=None):
    stream = mr.segments(str(folder / "s"), follow=True, until=100).rehearse(20)
    return (stream.map(function) if function else stream).batch(10)


@pytest.fixture
def journalled(tmp_path):
    """A run with a function, or without: its digest, of which the journal has two parts."""
    _append(tmp_path / "s", 100)

    def run(function):
        with with_function(tmp_path, function).loader(journal=tmp_path / "j", digest=True) as loader:
            for batch in itertools.islice(loader, 7):
                pass
            loader.state_dict()
            sizes = 7 * batch.size - 5 + sum(batch.size for batch in loader)
            return loader.digest(), sizes
    return run


def test_a_replay_is_given_the_functions_again(tmp_path, journalled):
    digest, samples = journalled(twice)
    for threads in (0, 1, 3):
        found = mr.replay(tmp_path / "j", with_function(tmp_path, twice), threads=threads)
        assert found == (20, samples, 2, digest) and found.compared == 2
    with pytest.raises(mr.StateError, match="steps 0 to 6 were"):
        mr.replay(tmp_path / "j", with_function(tmp_path, thrice))
    with pytest.raises(Exception, match="Python functions.*\n.*millrace.replay"):
        mr.replay(tmp_path / "j")


def in_modules(*modules):
    """Two functions of one name, as if defined in modules."""
    def make(factor, module):
        def scale(sample):
            number = sample["n"] if "n" in sample else int(bytes(sample["value"]))
            return {"n": np.int64(factor + 10 * number), "label": sample["label"]}
        scale.__module__, scale.__qualname__ = module, "scale"
        return scale
    return [make(factor, module) for factor, module in zip((3, 5), modules)]


def with_functions(folder, functions):
    """The second one is given what the first one made, so their order counts."""
    stream = mr.segments(str(folder / "s"), follow=True, until=40).rehearse(10)
    first, second = functions
    return stream.map(first).map(second).fields(["n", "label"]).batch(10)


@pytest.mark.parametrize("then,now", [
    (("__main__", "__main__"), ("live", "live")), (("__main__", "tools"), ("live", "tools")),
    (("tools", "__main__"), ("tools", "live")), (("__main__", "live"), ("live", "other")),
    (("__main__", "tools"), ("live", "live")), (("live", "live"), ("__main__", "live"))])
def test_a_replay_takes_functions_of_other_modules(tmp_path, then, now):
    _append(tmp_path / "s", 40)
    with with_functions(tmp_path, in_modules(*then)).loader(journal=tmp_path / "j", digest=True) as loader:
        for batch in loader:
            pass
        digest = loader.digest()
    assert mr.replay(tmp_path / "j", with_functions(tmp_path, in_modules(*now))).digest == digest


def test_a_replay_names_the_function_that_is_not_there(tmp_path, journalled):
    journalled(twice)
    with pytest.raises(ValueError, match="there is no function .*:twice") as caught:
        mr.replay(tmp_path / "j", with_function(tmp_path, other))
    assert "functions=" not in caught.value.hint and ":other" in caught.value.hint


def test_a_replay_without_functions_needs_no_pipeline(tmp_path, journalled):
    digest, samples = journalled(None)
    assert mr.replay(str(tmp_path / "j")) == (20, samples, 2, digest)
    with pytest.raises(OSError):
        mr.replay(tmp_path / "nothing")
    with streams.Writer(tmp_path / "entries") as writer:
        writer.append(b"x")
    with pytest.raises(ValueError, match="no journal of a run, but a stream"):
        mr.replay(tmp_path / "entries")
    with pytest.raises(TypeError, match="pipeline of the run"):
        mr.replay(tmp_path / "j", twice)
    with pytest.raises(ValueError, match="threads"):
        mr.replay(tmp_path / "j", threads=-1)


def test_an_exception_of_a_function_ends_a_replay(tmp_path, journalled):
    def refuses(sample):
        if bytes(sample["value"]) == b"77":
            raise KeyError("seventy-seven")
        return twice(sample)
    journalled(twice)
    refuses.__module__, refuses.__qualname__ = twice.__module__, twice.__qualname__
    with pytest.raises(mr.SampleError, match="seventy-seven"):
        mr.replay(tmp_path / "j", with_function(tmp_path, refuses))
