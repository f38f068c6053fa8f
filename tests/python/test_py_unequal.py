# SPDX-License-Identifier: Apache-2.0
"""Batches of unequal samples: padded as the tokenizers package and numpy pad, packed so that every
number is there once; by the law, whatever the threads, ranks and restarts."""
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import millrace as mr

N = 60


def lengths():
    return np.random.default_rng(5).integers(0, 40, N)


class Sequences:
    def __init__(self, dtype=np.int32):
        self.dtype = dtype

    def __len__(self):
        return N

    def values(self, i):
        return (1 + np.arange(lengths()[i]) + 100 * i).astype(self.dtype)

    def __getitem__(self, i):
        return {"tokens": self.values(i), "number": np.int64(i)}


class Pictures:
    def __len__(self):
        return N

    def values(self, i):
        return np.random.default_rng(i).integers(0, 256, (1 + i % 5, 2 + i % 7, 3), np.uint8)

    def __getitem__(self, i):
        return {"image": self.values(i), "number": np.int64(i)}


def sequences(dtype="int32"):
    return mr.dataset(Sequences(np.dtype(dtype)), {"tokens": (dtype, (None,)), "number": ("int64", ())})


def batches(pipeline, **options):
    with pipeline.loader(**options) as loader:
        return [{name: np.array(value) for name, value in batch.items()} for batch in loader]


def reference(numbers, length=None, multiple=None, direction="right", pad=0):
    """What the tokenizers package makes of the same sequences: ids are the words themselves."""
    words = {str(w): w for w in range(100 * N + 100)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_padding(direction=direction, pad_id=pad, pad_token=str(pad), length=length,
                             pad_to_multiple_of=multiple)
    texts = [" ".join(map(str, Sequences().values(int(i)))) for i in numbers]
    encoded = tokenizer.encode_batch(texts)
    return np.array([e.ids for e in encoded]), np.array([e.attention_mask for e in encoded])


@pytest.mark.parametrize("options", [
    {}, {"multiple": 8}, {"side": "left"}, {"length": 48, "value": 7}])
def test_padding_is_that_of_tokenizers(options):
    for batch in batches(sequences().pad_batch(**options).batch(7).shuffle(True).seed(3)):
        ids, mask = reference(batch["number"], options.get("length"), options.get("multiple"),
                              options.get("side", "right"), options.get("value", 0))
        np.testing.assert_array_equal(batch["tokens"], ids)
        np.testing.assert_array_equal(batch["tokens_mask"], mask)
        assert batch["tokens_mask"].dtype == bool and batch["tokens"].dtype == np.int32


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64", "uint64", "float16", "float32",
                                   "float64"])
def test_every_element_type_is_filled_up(dtype):
    for batch in batches(sequences(dtype).pad_batch(value=3, mask=False).batch(8)):
        assert sorted(batch) == ["number", "tokens"]
        longest = batch["tokens"].shape[1]
        for row, i in zip(batch["tokens"], batch["number"]):
            own = Sequences(np.dtype(dtype)).values(int(i))
            np.testing.assert_array_equal(
                row, np.pad(own, (0, longest - len(own)), constant_values=3))


def test_pictures_are_padded_along_both_axes():
    types = {"image": ("uint8", (None, None, 3)), "number": ("int64", ())}
    for batch in batches(mr.dataset(Pictures(), types).pad_batch(value=9).batch(6)):
        own = [Pictures().values(int(i)) for i in batch["number"]]
        height, width = (max(v.shape[k] for v in own) for k in (0, 1))
        assert batch["image"].shape == (len(own), height, width, 3)
        assert batch["image_mask"].shape == (len(own), height, width)
        for image, mask, value in zip(batch["image"], batch["image_mask"], own):
            border = ((0, height - value.shape[0]), (0, width - value.shape[1]))
            np.testing.assert_array_equal(
                image, np.pad(value, (*border, (0, 0)), constant_values=9))
            np.testing.assert_array_equal(mask, np.pad(np.ones(value.shape[:2], bool), border))


def test_what_is_too_long_is_cut_or_an_error():
    for batch in batches(sequences().pad_batch(length=10, cut=True).batch(8)):
        assert batch["tokens"].shape == (len(batch["number"]), 10)
        for row, i in zip(batch["tokens"], batch["number"]):
            own = Sequences().values(int(i))[:10]
            np.testing.assert_array_equal(row[:len(own)], own)
    with pytest.raises((ValueError, TypeError), match="more than length"):
        batches(sequences().pad_batch(length=10).batch(8))


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_multiple_of_the_length_is_padding_and_not_more_of_what_is_cut(side):
    """length says how much of a sequence is kept, multiple only how wide the array is."""
    for batch in batches(sequences().pad_batch(length=10, cut=True, multiple=8, side=side, value=5).batch(8)):
        assert batch["tokens"].shape == batch["tokens_mask"].shape == (len(batch["number"]), 16)
        for row, mask, i in zip(batch["tokens"], batch["tokens_mask"], batch["number"]):
            own = Sequences().values(int(i))[:10]
            fill = (0, 16 - len(own)) if side == "right" else (16 - len(own), 0)
            np.testing.assert_array_equal(row, np.pad(own, fill, constant_values=5))
            np.testing.assert_array_equal(mask, np.pad(np.ones(len(own), bool), fill))


def unpacked(batch):
    """The sequences of a packed batch, each as its numbers, checked on the way."""
    found = []
    for row, positions, segments in zip(batch["tokens"], batch["tokens_positions"],
                                        batch["tokens_segments"]):
        assert (np.diff(np.flatnonzero(segments)) == 1).all()  # no gap before the filler
        assert (row[segments == 0] == -1).all() and (positions[segments == 0] == 0).all()
        for segment in range(1, segments.max(initial=0) + 1):
            own = row[segments == segment]
            np.testing.assert_array_equal(positions[segments == segment], np.arange(len(own)))
            found.append(own.tolist())
    return found


@pytest.mark.parametrize("length", [7, 40, 64])
def test_packing_has_every_number_once(length):
    seen = []
    for batch in batches(sequences().pack_batch(length, value=-1).batch(16).shuffle(True).seed(1)):
        assert batch["tokens"].shape[1] == length
        parts = [Sequences().values(int(i))[at:at + length].tolist()
                 for i in batch["number"] for at in range(0, lengths()[int(i)], length)]
        assert sorted(unpacked(batch)) == sorted(parts)
        seen += sum(parts, [])
        # Of two rows that are both less than half full one would have been enough.
        filled = (batch["tokens_segments"] > 0).sum(axis=1)
        assert (filled <= length // 2).sum() <= 1
    assert sorted(seen) == sorted(v for i in range(N) for v in Sequences().values(i).tolist())


def test_rows_are_as_many_as_asked_for():
    pipeline = sequences().pack_batch(64, rows=8, value=-1, longer="cut").batch(10)
    assert {batch["tokens"].shape for batch in batches(pipeline)} == {(8, 64)}
    with pytest.raises((ValueError, TypeError), match="more than rows"):
        batches(sequences().pack_batch(64, rows=1).batch(10))


@pytest.mark.parametrize("change", [lambda p: p.pad_batch(), lambda p: p.pack_batch(64)])
def test_by_the_law(change):
    pipeline = change(sequences()).batch(12).shuffle(True).seed(9)

    def digest(**options):
        with pipeline.loader(digest=True, epochs=2, **options) as loader:
            steps = [{name: np.array(v).tobytes() for name, v in batch.items()} for batch in loader]
            return loader.digest(), steps
    whole = digest(threads=1)
    assert all(digest(threads=n) == whole for n in (2, 3, 8))
    for step in range(len(whole[1])):
        with pipeline.loader(digest=True, epochs=2) as loader:
            for _ in range(step):
                next(loader)
            state = loader.state_dict()
        assert digest(state=state)[1] == whole[1][step:]
    plain = sequences().batch(12).shuffle(True).seed(9)
    for world in (2, 3, 4):
        for rank in range(world):
            with pipeline.loader(digest=True, world=world, rank=rank) as own, \
                    plain.loader(digest=True, world=world, rank=rank) as other:
                for a, b in zip(own, other, strict=True):
                    assert np.array(a["number"]).tolist() == np.array(b["number"]).tolist()


def test_a_mix_and_several_fields(tmp_path):
    """Rows of a table, which are lent to the batch where they lie; one child has one length only."""
    for name, own in (("long", lengths()), ("even", np.full(N, 6))):
        column = pa.array([list(range(n)) for n in own], pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": column, "again": column, "n": pa.array(own)}),
                       tmp_path / f"{name}.parquet")
    both = mr.mix([mr.parquet(str(tmp_path / f"{name}.parquet")) for name in ("long", "even")],
                  [2, 1]).pad_batch(field=["tokens", "again"]).batch(9)
    seen = 0
    for batch in batches(both):
        for name in ("tokens", "again"):
            assert batch[name].shape == batch[name + "_mask"].shape
            np.testing.assert_array_equal(batch[name + "_mask"].sum(axis=1), batch["n"])
            np.testing.assert_array_equal(
                batch[name], np.where(batch[name + "_mask"], np.arange(batch[name].shape[1]), 0))
        seen += len(batch["n"])
    assert seen > N


def test_misuse_is_told():
    with pytest.raises((ValueError, TypeError), match="unequal size"):
        batches(sequences().pad_batch(field="number").batch(4))
    with pytest.raises((ValueError, TypeError), match="said already"):
        batches(sequences().pad_batch().pack_batch(8).batch(4))
    with pytest.raises((ValueError, TypeError), match="which works on batches"):
        batches(sequences().pad_batch().cast("float32").batch(4))
    with pytest.raises((ValueError, TypeError), match="no uint8 is"):
        batches(sequences("uint8").pad_batch(value=-1).batch(4))
    with pytest.raises((ValueError, TypeError), match="called so too"):
        batches(sequences().rename("number", "tokens_mask").pad_batch().batch(4))


# ---- Batches of samples of like length ----


def filled(pipeline):
    """Which part of the padded batches is not padding."""
    masks = [batch["tokens_mask"] for batch in batches(pipeline)]
    return sum(m.sum() for m in masks) / sum(m.size for m in masks)


def test_padding_wastes_less_by_length():
    plain = sequences().pad_batch().batch(6).shuffle(True).seed(2)
    assert filled(plain) < 0.7 < 0.85 < filled(plain.bucket("tokens"))


def test_lanes_do_not_make_groups_less_alike(tmp_path):
    """What lies in blocks is shuffled in 8 lanes, which divide a batch of 32 and not one of 31."""
    own = np.random.default_rng(4).lognormal(4.5, 0.7, 6400).astype(int)
    (tmp_path / "t.jsonl").write_text("".join(f'{{"tokens": "{"x" * n}", "i": {i}}}\n' for i, n in enumerate(own)))
    source = mr.lines(str(tmp_path / "t.jsonl"), block_bytes="40KB").fields(["i"]).remainder("drop")

    def wasted(batch_of, **terms):
        steps = [own[np.asarray(batch["i"])] for batch in batches(source.batch(batch_of).bucket("tokens", **terms))]
        assert len(steps) == 6400 // batch_of
        return 1 - sum(s.sum() for s in steps) / sum(s.max() * len(s) for s in steps)
    alike = wasted(31)
    assert wasted(32) < 1.1 * alike < 1.5 * alike < wasted(32, lanes=True)


def test_groups_are_those_of_sorting_a_stretch():
    """Of a stretch of 4 batches each is a quarter by length, whatever their order."""
    for batch_of in (4, 5):
        pipeline = sequences().batch(batch_of).seed(5).bucket("tokens", groups=4)
        with pipeline.loader(epochs=1) as loader:
            steps = [lengths()[np.array(batch["number"])] for batch in loader]
        for first in range(0, N - N % (4 * batch_of), 4 * batch_of):
            own = steps[first // batch_of:first // batch_of + 4]
            by_length = sorted(own, key=lambda v: (v.min(), v.max()))
            for a, b in zip(by_length, by_length[1:]):
                assert a.max() <= b.min()
        assert sorted(np.concatenate(steps)) == sorted(lengths())


def test_a_number_says_how_long_a_sample_is(tmp_path):
    own = lengths()
    pq.write_table(pa.table({"text": ["x"] * N, "n": pa.array(own)}), tmp_path / "t.parquet",
                   row_group_size=9)
    pipeline = mr.parquet(str(tmp_path / "t.parquet")).batch(N // 4).bucket("n", groups=4).shuffle(False)
    steps = [batch["n"] for batch in batches(pipeline)]
    np.testing.assert_array_equal(np.concatenate([np.sort(s) for s in steps]), np.sort(own))


def test_lengths_are_kept(tmp_path, caplog):
    """Without a cache they are read at each start, and it is said; with one they are kept."""
    path = tmp_path / "t.jsonl"
    rows = ["".join(("\"", "x" * n, "\"")) for n in lengths()]
    path.write_text("\n".join(f'{{"text": {row}, "i": {i}}}' for i, row in enumerate(rows)) + "\n")
    time.sleep(0.2)  # what has just been written may change once more unseen: it is not stored
    plain = mr.lines(str(path)).batch(7).bucket("text").fields(["i"])
    pipeline = plain.cache(path=str(tmp_path / "store"))

    def order(p):
        caplog.clear()
        steps = [batch["i"].tolist() for batch in batches(p)]
        return steps, "reading text of all" in caplog.text
    cold, warm = order(pipeline), order(pipeline)
    assert cold == warm == (cold[0], False)
    assert order(plain) == (cold[0], True)


def test_misuse_of_bucket_is_told(tmp_path):
    with pytest.raises(ValueError, match="no field \"length\""):
        batches(sequences().bucket("length").batch(4))
    with pytest.raises(ValueError, match="more than 16777216"):
        batches(sequences().bucket("tokens", size=1 << 20, groups=1000).batch(4))
    (tmp_path / "log").mkdir()
    with pytest.raises((ValueError, RuntimeError), match="has no order"):
        mr.Pipeline.from_json({"source": {"segments": {"path": str(tmp_path / "log"), "follow": True}},
                               "bucket": ""}).types


def test_a_state_of_another_bucket_is_refused():
    pipeline = sequences().batch(6)
    with pipeline.bucket("tokens").loader(epochs=1) as loader:
        next(loader)
        state = loader.state_dict()
    with pytest.raises(ValueError, match="state"):
        batches(pipeline.bucket("tokens", groups=7), state=state)
    with pytest.raises(ValueError, match="state"):
        batches(pipeline, state=state)


def test_a_state_goes_on_only_where_lengths_are_the_same(tmp_path):
    """They decide the order, and no name tells them."""
    for i in range(40):
        (tmp_path / f"{i:02}.bin").write_bytes(b"x" * (i + 1))
    pipeline = mr.files(str(tmp_path), extensions=[".bin"]).batch(4).bucket(groups=2)
    with pipeline.loader(epochs=1) as loader:
        next(loader)
        state = loader.state_dict()
    with pipeline.loader(epochs=1, state=state) as loader:
        assert sum(batch.size for batch in loader) == 36
    (tmp_path / "07.bin").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match="dataset"):
        pipeline.loader(epochs=1, state=state)
