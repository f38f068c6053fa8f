# SPDX-License-Identifier: Apache-2.0
"""torch: batches without a copy, and the stand-in for DataLoader against the real one."""
import collections
import gc
import os
import pickle
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

import millrace as mr  # noqa: E402

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def photos():
    return mr.files(PHOTOS).decode_image().center_crop(16)


# ---- Batches -----------------------------------------------------------------------------------


def test_tensors_share_the_batchs_memory():
    with photos().normalize().batch(4).shuffle(False).loader(to="torch") as loader:
        batch = next(loader)
    raw = np.asarray(batch._raw.fields()["image"])
    image = batch["image"]
    assert image.data_ptr() == raw.ctypes.data and image.data_ptr() % 64 == 0
    assert image.dtype == torch.float32 and image.shape == (4, 3, 16, 16)
    with photos().normalize().batch(4).shuffle(False).loader() as loader:
        assert (next(loader)["image"] == image.numpy()).all()


def test_tensors_outlive_everything():
    loader = photos().normalize().batch(10).shuffle(False).loader(to="torch")
    image = next(loader)["image"]
    copy = image.clone()
    loader.close()
    del loader
    gc.collect()
    for _ in range(5):
        with photos().normalize().batch(10).loader(to="torch") as other:
            list(other)
    assert torch.equal(image, copy)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
def test_element_types(dtype):
    with photos().normalize(dtype=dtype).batch(10).loader(to="torch") as loader:
        assert next(loader)["image"].dtype == getattr(torch, dtype)


def test_every_element_type_of_a_dataset():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
                  torch.bfloat16, torch.float32, torch.float64, torch.bool):
        values = [torch.arange(6).reshape(2, 3).to(dtype) for _ in range(4)]
        with mr.dataset(values).batch(4).loader(to="torch") as loader:
            got = next(loader)["data"]
        assert got.dtype == dtype and torch.equal(got, torch.stack(values))


def test_nested_tensors():
    pipeline = mr.files(PHOTOS).batch(4).shuffle(False)
    with pipeline.loader(to="torch", ragged="nested") as nested, pipeline.loader() as plain:
        a, b = next(nested)["image"], next(plain)["image"]
    assert a.is_nested and [len(t) for t in a.unbind()] == [len(part) for part in b]
    assert all((t.numpy() == part).all() for t, part in zip(a.unbind(), b))


@pytest.mark.parametrize("ragged", [None, "nested"])
def test_columns_of_parquet(tmp_path, ragged):
    """Numbers and lists of one length share the batch's memory; what varies is ragged or nested."""
    pytest.importorskip("pyarrow")
    import tables
    columns = tables.write(tmp_path / "a.parquet")
    options = {"ragged": ragged} if ragged else {}
    pipeline = mr.parquet(tmp_path / "a.parquet").batch(8)
    seen = []
    with pipeline.loader(to="torch", seed=3, threads=2, epochs=1, **options) as loader:
        for batch in loader:
            rows = batch.samples[:batch.valid].tolist()
            seen += rows
            for name in (*tables.NUMBERS, "dense"):
                got, raw = batch[name], np.asarray(batch._raw.fields()[name])
                assert got.data_ptr() == raw.ctypes.data and got.dtype == getattr(torch, str(columns[name].dtype))
                assert (got[:batch.valid].numpy() == columns[name][rows]).all(), name
            for name in ("ragged", "text"):
                parts = batch[name].unbind() if ragged else batch[name]
                assert not ragged or batch[name].is_nested
                for part, row in zip(parts, rows):
                    assert part.dtype == (torch.uint8 if name == "text" else torch.float32)
                    assert part.tolist() == columns[name][row].tolist()
    assert sorted(seen) == list(range(tables.ROWS))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_ragged_fields_are_padded_as_torch_pads(dtype):
    plain = dtype if dtype != "bfloat16" else "float32"
    rows = [{"x": np.arange(1, i % 4 + 2).astype(plain)} for i in range(6)]
    pipeline = mr.dataset(rows, {"x": (plain, (None,))}).shuffle(False).batch(6)
    with (pipeline if plain == dtype else pipeline.cast(dtype)).loader(to="torch") as loader:
        ragged = next(loader)["x"]
    values, mask = ragged.to_padded(-7)
    want = torch.nn.utils.rnn.pad_sequence(list(ragged), batch_first=True, padding_value=-7)
    assert values.dtype == want.dtype == getattr(torch, dtype) and torch.equal(values, want)
    assert mask.dtype == torch.bool and torch.equal(mask, want != -7)


def test_no_growth():
    import test_py_loader
    with mr.synthetic(samples=40, shape=[64]).batch(4).epochs(600).loader(to="torch") as loader:
        for _ in range(1000):
            next(loader)
        blocks, bytes_ = sys.getallocatedblocks(), test_py_loader.rss()
        for _ in range(4000):
            next(loader)
        assert sys.getallocatedblocks() - blocks < 300
        assert test_py_loader.rss() - bytes_ < 8 << 20


def test_rank_and_world_from_torch_distributed(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous",
                                         rank=0, world_size=1)
    try:
        os.environ["RANK"], os.environ["WORLD_SIZE"] = "3", "4"
        with photos().loader() as loader:
            assert (loader.rank, loader.world) == (0, 1)
    finally:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]
        torch.distributed.destroy_process_group()


# ---- The stand-in ------------------------------------------------------------------------------


class Pairs(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, i):
        return torch.full((3, 4), float(i)), i


class Records(Pairs):
    def __getitem__(self, i):
        return {"x": np.full(3, i, np.int16), "y": i / 2, "flag": i % 2 == 0}


class Texts(Pairs):
    def __getitem__(self, i):
        return f"text {i}", [i, i + 1]


Point = collections.namedtuple("Point", "x y")


class Points(Pairs):
    def __getitem__(self, i):
        return Point(i, torch.ones(2) * i)


class Lengths(Pairs):
    def __getitem__(self, i):
        return torch.ones(i % 5 + 1) * i


DATASETS = [Pairs(), Records(), Texts(), Points(), TensorDataset(torch.arange(23), torch.ones(23)),
            list(range(23)), [1.5] * 23]


def same(a, b):
    if isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(b, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in b)
    if isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("options", [
    {"batch_size": 5}, {"batch_size": 5, "drop_last": True}, {"batch_size": 5, "num_workers": 2},
    {"batch_size": 4, "collate_fn": list}, {"batch_size": None}, {}],
    ids=lambda o: "-".join(o) or "plain")
def test_the_same_batches_as_the_real_one(dataset, options):
    """In the dataset's own order everything is equal: values, types, structure, number."""
    mine, real = mr.torch.DataLoader(dataset, **options), DataLoader(dataset, **{
        **options, "num_workers": 0})
    assert len(mine) == len(real)
    for _ in range(2):
        got, want = list(mine), list(real)
        assert len(got) == len(want) and all(map(same, got, want))


def test_shuffling_is_a_permutation_and_repeatable():
    def epochs(**options):
        loader = mr.torch.DataLoader(Pairs(), batch_size=5, shuffle=True, seed=3, **options)
        return [[i for _, y in loader for i in y.tolist()] for _ in range(3)]
    first = epochs()
    assert all(sorted(e) == list(range(23)) for e in first) and first[0] != first[1]
    assert epochs(num_workers=3) == first
    generator = torch.Generator().manual_seed(3)
    loader = mr.torch.DataLoader(Pairs(), batch_size=5, shuffle=True, generator=generator)
    assert [i for _, y in loader for i in y.tolist()] == first[0]


@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate])
def test_exact_resume(collate):
    def make():
        return mr.torch.DataLoader(Pairs(), batch_size=5, shuffle=True, seed=1, collate_fn=collate,
                                   num_workers=2)
    whole = make()
    epochs = [[y.tolist() for _, y in whole] for _ in range(2)]
    for stop in range(5):
        loader = make()
        iterator = iter(loader)
        for _ in range(stop):
            next(iterator)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        resumed = make()
        resumed.load_state_dict(state)
        assert [y.tolist() for _, y in resumed] == epochs[0][stop:]
        assert [y.tolist() for _, y in resumed] == epochs[1]


def test_an_epoch_left_early_is_followed_by_the_next():
    loader = mr.torch.DataLoader(Pairs(), batch_size=5, shuffle=True, seed=1)
    whole = mr.torch.DataLoader(Pairs(), batch_size=5, shuffle=True, seed=1)
    epochs = [[y.tolist() for _, y in whole] for _ in range(3)]
    for _ in loader:
        break
    assert [y.tolist() for _, y in loader] == epochs[1]
    loader.sampler.set_epoch(0)
    assert [y.tolist() for _, y in loader] == epochs[0]
    loader.sampler.set_epoch(2)
    assert [y.tolist() for _, y in loader] == epochs[2]


def test_ranks():
    parts = [[y.tolist() for _, y in mr.torch.DataLoader(
        Pairs(), batch_size=3, shuffle=True, seed=1, rank=rank, world=2)] for rank in (0, 1)]
    assert len(parts[0]) == len(parts[1]) == 4
    assert set(sum(parts[0] + parts[1], [])) == set(range(23))


def test_shapes_that_differ_go_to_collate_fn():
    pad = torch.nn.utils.rnn.pad_sequence
    mine = mr.torch.DataLoader(Lengths(), batch_size=4, collate_fn=pad, num_workers=2)
    real = DataLoader(Lengths(), batch_size=4, collate_fn=pad)
    assert all(map(same, mine, real))


class Numbers(IterableDataset):
    def __iter__(self):
        return iter(range(3))


@pytest.mark.parametrize("options,said", [
    ({"sampler": [1, 2], "shuffle": True}, "sampler decides"),
    ({"batch_sampler": [[1]], "batch_size": 4}, "batch_sampler decides"),
    ({"worker_init_fn": print, "workers": "threads"}, "worker processes"),
    ({"multiprocessing_context": "spawn", "workers": "threads"}, "worker processes"),
    ({"timeout": -3}, "timeout"), ({"in_order": False}, "in_order"), ({"num_workers": -1}, "num_w"),
    ({"workers": "fibres"}, "threads"), ({"persistent_workers": True}, "num_workers"),
    ({"batch_size": None, "drop_last": True}, "drop_last")])
def test_what_it_does_not_take_is_said(options, said):
    with pytest.raises(ValueError, match=said):
        mr.torch.DataLoader(Pairs(), **options)


def test_errors_name_the_sample():
    class Bad(Pairs):
        def __getitem__(self, i):
            if i == 9:
                raise RuntimeError("no")
            return i
    with pytest.raises(mr.SampleError, match="RuntimeError: no") as caught:
        list(mr.torch.DataLoader(Bad(), batch_size=4))
    assert caught.value.index == 9


def test_torch_functions_in_map():
    def scale(sample):
        sample["image"] = torch.from_numpy(sample["image"]).permute(2, 0, 1).float() / 255
        return sample
    with photos().map(scale).batch(10).shuffle(False).loader(to="torch") as loader:
        image = next(loader)["image"]
    with photos().normalize().batch(10).shuffle(False).loader(to="torch") as loader:
        assert torch.equal(image, next(loader)["image"])


def test_the_profiler_shows_the_wait_for_a_batch():
    loader = mr.synthetic(samples=32, shape=[4]).batch(8).loader(to="torch", epochs=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in loader.all_epochs():
            pass
    ranges = [e for e in profile.events() if e.name == "millrace: next batch"]
    assert len(ranges) == 5  # four batches and the end


# ---- Batches that are mixed ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_mix_up_is_torchs_arithmetic(dtype):
    """What torchvision's v2.MixUp computes, bit for bit, with the shares that the labels show."""
    images = torch.randn(24, 3, 8, 8)
    rows = [{"image": images[i], "label": i % 4} for i in range(24)]
    pipeline = mr.dataset(rows).cast(str(dtype).split(".")[1], field="image") \
        .one_hot(4, field="label").shuffle(False).mix_up().batch(4)
    with pipeline.loader(seed=1, to="torch", epochs=1) as loader:
        for batch in loader:
            x, (own, other) = images[batch.samples].to(dtype), batch["label"][1, [1, 0]].tolist()
            want = x.roll(1, 0).mul_(other).add_(x.mul(own))
            assert batch["image"].dtype == dtype and torch.equal(batch["image"], want)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world,n", [(2, 10), (2, 9), (2, 16), (3, 10), (3, 19), (3, 17)])
def test_ranks_give_as_many_samples_once_as_they_say(world, n, drop_last):
    """As Lightning wants them for predictions: no rank gives a sample again, or leaves one out."""
    given = []
    for rank in range(world):
        order = mr.torch.DataLoader(list(range(n)), batch_size=4, drop_last=drop_last, rank=rank, world=world).sampler
        order.share_out(once=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # ranks may differ in steps
            given.append(list(order))
        assert len(order) == len(given[-1])
    assert sorted(sum(given, [])) == list(range(n))
