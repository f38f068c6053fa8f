# SPDX-License-Identifier: Apache-2.0
"""Loaders and batches from Python: memory, state, ranks, errors, statistics."""
import gc
import json
import os
import pickle
import shutil
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def numbers(samples=100, batch=8, **settings):
    pipeline = mr.synthetic(samples=samples, shape=[4]).batch(batch)
    for name, value in settings.items():
        pipeline = getattr(pipeline, name)(value)
    return pipeline


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


def rss():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


# ---- Batches -----------------------------------------------------------------------------------


def test_a_batch_is_a_dictionary_of_arrays():
    with numbers(20).loader(digest=True) as loader:
        batch = next(loader)
    assert list(batch) == ["data", "index"]
    assert batch["data"].shape == (8, 4) and batch["data"].dtype == np.uint8
    assert (batch["data"] == (batch["index"] % 256)[:, None]).all()
    assert (batch.epoch, batch.step, batch.size, batch.valid) == (0, 0, 8, 8)
    assert batch.samples.tolist() == batch["index"].tolist() and len(batch.digest) == 32


def test_memory_is_the_engines_own():
    with numbers(16, batch=16).loader() as loader:
        batch = next(loader)
    array = batch["data"]
    assert array.ctypes.data % 64 == 0 and not array.flags.owndata and array.flags.writeable


def test_arrays_outlive_batch_and_loader():
    loader = numbers(64, batch=64, shuffle=False).loader()
    array = next(loader)["data"]
    loader.close()
    del loader
    gc.collect()
    assert (array[:, 0] == np.arange(64)).all()
    part = array[3:5]
    del array
    gc.collect()
    assert part[0, 0] == 3


def test_loader_outlives_arrays_and_memory_is_used_again():
    with numbers(2000, batch=10, shuffle=False).loader(threads=1, batches_ahead=2) as loader:
        places = {batch["data"].ctypes.data for batch in loader}
    assert len(places) < 12  # 200 batches in a few blocks


def test_held_batches_stay_as_they_were():
    with numbers(400, batch=10).loader(threads=2) as loader:
        held = list(loader)
    assert all((batch["data"] == (batch["index"] % 256)[:, None]).all() for batch in held)
    assert sorted(i for batch in held for i in batch["index"]) == list(range(400))


def test_ten_thousand_batches_without_the_collector_do_not_grow():
    gc.disable()
    try:
        with numbers(40, batch=4, epochs=1100).loader(threads=1) as loader:
            for _ in range(1000):
                next(loader)
            blocks, bytes_ = sys.getallocatedblocks(), rss()
            for _ in range(10000):
                next(loader)
            assert sys.getallocatedblocks() - blocks < 200
            assert rss() - bytes_ < 4 << 20
    finally:
        gc.enable()


def test_dlpack_to_numpy_both_versions():
    with numbers(8).loader() as loader:
        raw = loader._core.next().fields()["data"]
    assert raw.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(raw)
    assert (array == np.asarray(raw)).all() and array.ctypes.data == np.asarray(raw).ctypes.data
    for capsule, name in ((raw.__dlpack__(), '"dltensor"'),
                          (raw.__dlpack__(max_version=(1, 0)), '"dltensor_versioned"')):
        assert name in repr(capsule)  # and it dies unconsumed
    with pytest.raises(BufferError):
        raw.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        raw.__dlpack__(dl_device=(2, 0))


def test_ragged_fields():
    pipeline = mr.files(PHOTOS).shuffle(False).fields(["image", "path", "index"]).batch(4)
    for batch in pipeline.loader():
        image = batch["image"]
        assert len(image) == batch.size and image.offsets[-1] == len(image.values)
        for i, name in enumerate(batch["path"].texts()):
            with open(os.path.join(PHOTOS, name), "rb") as file:
                assert image[i].tobytes() == file.read()
    with pytest.raises(IndexError):
        image[99]
    with pytest.raises(TypeError):
        image[0:2]


def test_ragged_fields_can_be_padded():
    rows = [np.arange(n, dtype=np.int32) + 1 for n in (3, 1, 4, 2)]
    with mr.dataset(rows).batch(4).shuffle(False).loader() as loader:
        ragged = next(loader)["data"]
    values, mask = ragged.to_padded()
    want = np.array([[1, 2, 3, 0], [1, 0, 0, 0], [1, 2, 3, 4], [1, 2, 0, 0]], np.int32)
    assert values.dtype == np.int32 and (values == want).all() and (mask == (want > 0)).all()
    values, mask = ragged.to_padded(-7, length=2)
    assert values.tolist() == [[1, 2], [1, -7], [1, 2], [1, 2]] and mask.sum() == 7
    again, same = ragged.pad(-7, length=2)
    assert (again == values).all() and (same == mask).all()
    with pytest.raises(ValueError, match="length"):
        ragged.pad(length=-1)
    with mr.files(PHOTOS).decode_image().batch(4).shuffle(False).loader() as loader:
        images = next(loader)["image"]
    values, mask = images.to_padded()
    assert values.shape[1:] == tuple(np.asarray(images.shapes).max(axis=0))
    for i, image in enumerate(images):
        h, w, _ = image.shape
        assert (values[i, :h, :w] == image).all() and mask[i].sum() == image.size


def test_an_allocator_of_ones_own():
    made = []

    def allocate(size):
        block = np.empty(size, np.uint8)
        made.append((weakref.ref(block), block.ctypes.data, size))
        return block
    loader = numbers(50, batch=10).loader(allocator=allocate)
    batch = next(loader)
    place = batch["data"].ctypes.data
    assert any(start <= place < start + size for _, start, size in made)
    loader.close()
    del loader
    gc.collect()
    assert sum(ref() is not None for ref, _, _ in made) == 1
    del batch
    gc.collect()
    assert all(ref() is None for ref, _, _ in made)


def test_an_allocator_that_gives_too_little():
    made = []

    def allocate(_):
        made.append(bytearray(3))
        return made[-1]
    with pytest.raises(MemoryError):
        numbers(50, batch=10).loader(allocator=allocate)
    made[0].append(1)  # which its memory would refuse while somebody looks at it


class Owner:
    """Has the loader that calls it."""

    def __init__(self):
        self.loader = numbers(50, batch=10).map(self.work).loader(epochs=1000)

    def work(self, sample):
        return sample


def test_a_loader_in_a_cycle_with_its_function_is_collected():
    owner = Owner()
    next(owner.loader)
    core, gone = weakref.ref(owner.loader), weakref.ref(owner)
    threads = len(os.listdir("/proc/self/task"))
    del owner
    gc.collect()
    assert core() is None and gone() is None
    assert len(os.listdir("/proc/self/task")) < threads


# ---- Order and state ---------------------------------------------------------------------------


def run_of(pipeline, epochs):
    with pipeline.loader(seed=2, epochs=epochs) as loader:
        return indices(loader.all_epochs())


def test_every_for_is_one_epoch():
    """As in every training loop, for epoch in range(n): for batch in loader: ..."""
    whole = run_of(numbers(20, batch=6), 3)
    with numbers(20, batch=6).loader(seed=2) as loader:
        assert len(loader) == 4
        assert [indices(loader) for _ in range(3)] == [whole[:4], whole[4:8], whole[8:]]
        assert len(loader) == 4 and loader.epoch == 2
        for _ in range(20):
            assert sorted(sum(indices(loader), [])) == list(range(20))


@pytest.mark.parametrize("limit", ["loader", "pipeline"])
def test_a_finished_loader_says_so(limit):
    pipeline = numbers(20, batch=6)
    loader = pipeline.loader(epochs=2) if limit == "loader" else pipeline.epochs(2).loader()
    with loader:
        assert len(list(loader)) == len(list(loader)) == 4
        for _ in range(2):
            with pytest.raises(RuntimeError, match="2 epochs are over.*epochs="):
                iter(loader)
        with pytest.raises(StopIteration):
            next(loader)
    with pipeline.loader(epochs=1) as loader:
        for _ in loader:
            break
        with pytest.raises(RuntimeError, match="1 epoch is over"):
            list(loader)


def test_an_epoch_left_early_is_followed_by_the_next():
    whole = run_of(numbers(20, batch=6), 3)
    with numbers(20, batch=6).loader(seed=2) as loader:
        for _ in loader:
            break
        assert indices(loader) == whole[4:8]
        old = iter(loader)
        next(old)
        list(loader)
        with pytest.raises(RuntimeError, match="use two loaders"):
            next(old)
        loader.set_epoch(1)
        assert indices(loader) == whole[4:8]
        loader.set_epoch(2)
        assert indices(loader) == whole[8:]


def test_next_and_then_for_give_one_epoch():
    whole = run_of(numbers(20, batch=6), 2)
    with numbers(20, batch=6).loader(seed=2) as loader:
        first = indices([next(loader), next(loader)])
        assert first + indices(loader) == whole[:4] and indices(loader) == whole[4:]


def test_len_epoch_and_one_epoch():
    with numbers(20, batch=6, epochs=3).loader() as loader:
        assert len(loader) == 4 and loader.steps_per_epoch == 4 and loader.n_samples == 20
        first = list(loader.one_epoch())
        assert len(first) == 4 and loader.epoch == 0
        assert len(list(loader.one_epoch())) == 4 and loader.epoch == 1
        next(loader)
        assert len(list(loader.one_epoch())) == 3 and loader.epoch == 2
        assert not list(loader.one_epoch()) and not list(loader.all_epochs())
        assert len(loader) == 4


def test_a_state_between_and_within_epochs_is_followed_by_whole_epochs():
    whole = run_of(numbers(20, batch=6), 4)
    for stop in range(9):
        with numbers(20, batch=6).loader(seed=2) as loader:
            for _ in range(stop):
                next(loader)
            state = loader.state_dict()
        with numbers(20, batch=6).loader(seed=2, state=state) as loader:
            begun = stop // 4 * 4
            assert indices(loader) == whole[stop:begun + 4] and len(loader) == 4
            assert indices(loader) == whole[begun + 4:begun + 8]


def test_state_is_exact_at_every_step():
    pipeline = numbers(23, batch=5, epochs=2)
    with pipeline.loader(seed=4) as loader:
        whole = indices(loader.all_epochs())
    for stop in range(len(whole) + 1):
        with pipeline.loader(seed=4, threads=1) as loader:
            for _ in range(stop):
                next(loader)
            state = json.loads(json.dumps(loader.state_dict()))
        with pipeline.loader(seed=4, state=state) as loader:
            assert indices(loader.all_epochs()) == whole[stop:]
        with pipeline.loader(seed=4) as loader:
            next(loader)
            loader.load_state_dict(state)
            assert indices(loader.all_epochs()) == whole[stop:]


def test_state_is_small_and_plain():
    with numbers().loader() as loader:
        state = loader.state_dict()
    assert len(json.dumps(state)) < 500
    assert all(isinstance(v, (int, str, bool)) for v in state.values())


@pytest.mark.parametrize("change,said", [
    (lambda s, p: (s, mr.synthetic(samples=99, shape=[4])), "100 samples, this one has 99"),
    (lambda s, p: ({**s, "seed": 5}, p), "check|damaged"),
    (lambda s, p: ({"epoch": 3}, p), "not a saved state"),
    (lambda s, p: (s, p.shuffle(False)), "shuffl"),
    (lambda s, p: (s, p.fields(["data"])), "another pipeline")])
def test_a_state_of_something_else_is_refused(change, said):
    pipeline = numbers()
    with pipeline.loader() as loader:
        next(loader)
        state, other = change(loader.state_dict(), pipeline)
    with other.loader() as loader:
        with pytest.raises(mr.StateError, match=said):
            loader.load_state_dict(state)
        assert isinstance(next(loader), mr.Batch)  # it goes on as before


def test_len_stays_where_a_state_is_loaded():
    pipeline = numbers(20, batch=4, epochs=2)
    with pipeline.loader() as loader:
        next(loader)
        state = loader.state_dict()
    with pipeline.loader() as loader, pipeline.loader(state=state) as made_from_it:
        loader.load_state_dict(state)
        assert len(loader) == len(made_from_it) == 5
        assert sum(1 for _ in loader) == sum(1 for _ in made_from_it) == 4


def test_another_seed_says_which():
    with numbers().loader(seed=1) as loader:
        state = loader.state_dict()
    with pytest.raises(ValueError, match="seed 1, this run has seed 2"):
        numbers().loader(seed=2, state=state)


def test_pickling_a_loader_keeps_its_place():
    loader = numbers(20, batch=4).loader(seed=1)
    next(loader)
    copy = pickle.loads(pickle.dumps(loader))
    assert indices(copy) == indices(loader)


def test_two_threads_iterate_two_loaders():
    pipeline, results = numbers(300, batch=7, epochs=3), {}

    def work(seed):
        with pipeline.loader(seed=seed, threads=2) as loader:
            results[seed] = indices(loader)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (1, 2):
        with pipeline.loader(seed=seed) as loader:
            assert indices(loader) == results[seed]


def test_closing():
    loader = numbers().loader()
    next(loader)
    loader.close()
    loader.close()
    with pytest.raises(ValueError, match="closed"):
        next(loader)
    with pytest.raises(ValueError, match="closed"):
        loader.state_dict()
    assert "closed" in repr(loader)


def test_closing_while_another_thread_waits():
    slow = mr.dataset(list(range(4))).map(_slow, field="data", fields="int64")
    loader = slow.batch(4).loader(threads=1)
    errors = []

    def take():
        try:
            next(loader)
        except (RuntimeError, ValueError) as error:
            errors.append(error)
    thread = threading.Thread(target=take)
    thread.start()
    while not loader._core.stats()["threads"]:
        pass
    loader.close()
    thread.join(120)
    assert not thread.is_alive()


def _slow(value):
    import time
    time.sleep(0.2)
    return value


# ---- Ranks -------------------------------------------------------------------------------------

VARIABLES = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID",
             "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "PMIX_RANK"]


@pytest.fixture(name="clean")
def clean_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def found(**options):
    with numbers(batch=8).loader(**options) as loader:
        return loader.rank, loader.world


@pytest.mark.parametrize("names", [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
                                   ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")])
def test_rank_and_world_from_the_launcher(names, clean):
    clean.setenv(names[0], "1")
    clean.setenv(names[1], "4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found() == (1, 4)
        assert found(rank=0, world=2) == (0, 2)


@pytest.mark.parametrize("rank,world", [("2", "2"), ("-1", "2"), ("one", "2"), ("0", "0"), ("0", "all")])
def test_a_rank_that_is_none_of_its_world_is_an_error(rank, world, clean):
    clean.setenv("RANK", rank)
    clean.setenv("WORLD_SIZE", world)
    with pytest.raises(ValueError, match=f"RANK={rank} and WORLD_SIZE={world} are no rank and world"):
        numbers(8).loader()
    numbers(8).loader(rank=0, world=1).close()


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "SLURM_NTASKS", "PMI_SIZE"])
def test_an_unclear_world_is_said_aloud(name, clean):
    clean.setenv(name, "2")
    with pytest.warns(RuntimeWarning, match=f"{name}=2.*rank=.*world="):
        assert found() == (0, 1)


def test_an_unclear_world_is_said_once(clean):
    clean.setenv("RANK", "0")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with numbers(batch=8).loader(epochs=1) as loader:
            assert len(loader) == len(list(loader)) == 13
    assert [str(w.message)[:6] for w in said] == ["RANK=0"]


def test_a_thread_is_told_that_another_iteration_began():
    """It waits for a batch when the loader is opened anew under it."""
    waits, told = threading.Event(), []

    class Slow:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            if i >= 8:
                waits.set()
                time.sleep(0.02)
            return i

    def first(loader):
        try:
            list(loader)
        except Exception as error:  # pylint: disable=broad-except
            told.append(error)
    with mr.dataset(Slow(), fields={"data": "int64"}).shuffle(False).batch(50).loader(threads=1, batches_ahead=1) as loader:
        thread = threading.Thread(target=first, args=(loader,))
        thread.start()
        assert waits.wait(60)
        second = iter(loader)
        thread.join()
        assert len(next(second)["data"]) == 50
    assert len(told) == 1 and type(told[0]) is RuntimeError and "another iteration of this loader" in str(told[0])


def test_no_variables_no_warning(clean):
    clean.setenv("WORLD_SIZE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found() == (0, 1)
    with pytest.raises(ValueError, match="go together"):
        found(rank=1)
    with pytest.raises(ValueError, match="rank 2"):
        found(rank=2, world=2)


def test_rank_and_world_are_those_of_the_first_batch(clean):
    """A loader that is made before the process group, as Lightning's are."""
    pipeline = numbers(40, batch=8)
    parts = []
    for rank in (0, 1):
        clean.delenv("RANK", raising=False)
        clean.delenv("WORLD_SIZE", raising=False)
        loader = pipeline.loader(seed=3)
        clean.setenv("RANK", str(rank))
        clean.setenv("WORLD_SIZE", "2")
        assert (loader.rank, loader.world, len(loader)) == (rank, 2, 5)
        parts.append(indices(loader))
        clean.setenv("WORLD_SIZE", "4")
        with pytest.raises(RuntimeError, match=f"begun as rank {rank} of 2.*rank {rank} of 4"):
            iter(loader)
        loader.load_state_dict(loader.state_dict())
        assert loader.world == 4 and len(next(loader)["data"]) == 2
    assert [a + b for a, b in zip(*parts)] == indices(pipeline.loader(seed=3, rank=0, world=1))


def test_a_world_that_was_given_stays(clean):
    with numbers(40, batch=8).loader(rank=1, world=2) as loader:
        clean.setenv("RANK", "0")
        clean.setenv("WORLD_SIZE", "4")
        assert (loader.rank, loader.world) == (1, 2) and len(list(loader)) == 5


def test_a_pickled_loader_finds_its_own_rank(clean):
    data = pickle.dumps(numbers(40, batch=8).loader(seed=3))
    clean.setenv("RANK", "1")
    clean.setenv("WORLD_SIZE", "2")
    assert pickle.loads(data).world == 2


def test_uneven_ranks_are_told(clean):
    for batch, samples, said in ((8, 42, True), (8, 47, False), (8, 40, False)):
        with numbers(samples, batch=batch).remainder("keep").loader(rank=0, world=2) as loader:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                next(loader)
        assert [".remainder" in str(w.message) for w in caught] == ([True] if said else [])
    del clean


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_have_as_many_steps_each_unless_told_otherwise(world):
    """As with torch's DistributedSampler; nothing is left out, and padding is told."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = []
        for rank in range(world):
            with numbers(43, batch=6).loader(seed=3, rank=rank, world=world, epochs=2) as loader:
                parts.append([(b.size, b.valid, b.samples.tolist()) for b in loader.all_epochs()])
    assert {len(part) for part in parts} == {16}
    for epoch in (0, 8):
        steps = [step for part in parts for step in part[epoch:epoch + 8]]
        assert [size for size, _, _ in steps] == ([6 // world] * 7 + [1]) * world and \
            sum(v for _, v, _ in steps) == 43
        assert sorted(i for _, valid, indices in steps for i in indices[:valid]) == list(range(43))


def test_ranks_share_every_step():
    pipeline = numbers(40, batch=8)
    with pipeline.loader(seed=3) as loader:
        whole = indices(loader)
    parts = []
    for rank in (0, 1):
        with pipeline.loader(seed=3, rank=rank, world=2) as loader:
            parts.append(indices(loader))
    assert [a + b for a, b in zip(*parts)] == whole


# ---- Bad values, bad samples, statistics, looks --------------------------------------------------


@pytest.mark.parametrize("options,said", [
    ({"threads": -1}, "threads wants a whole number of at least 0, not -1"),
    ({"threads": 2**32 + 1}, "threads are too many"), ({"threads": 2**64}, "threads wants"),
    ({"seed": -1}, "seed wants a whole number of at least 0"), ({"batch": 0}, "batch wants"),
    ({"epochs": -1}, "epochs wants a whole number of at least 1"), ({"reads": -4}, "reads wants"),
    ({"batches_ahead": -1}, "batches_ahead wants"), ({"read_ahead_bytes": -1}, "read_ahead_bytes"),
    ({"rank": 0, "world": 0}, "world wants"), ({"rank": -1, "world": 2}, "rank wants"),
    ({"io": "fast"}, "io cannot be 'fast'"), ({"disable_cpu": "sse"}, "unknown CPU feature"),
    ({"to": "tf"}, "to must be"), ({"ragged": "no"}, "ragged must be")])
def test_options_out_of_range_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        numbers().loader(**options)


def test_options_of_other_types_are_refused():
    for options in ({"seed": 1.5}, {"threads": "2"}, {"batch": [3]}):
        with pytest.raises(TypeError, match="wants a whole number"):
            numbers().loader(**options)


def test_file_names_of_any_bytes(tmp_path):
    (tmp_path / "a").mkdir()
    with open(os.fsencode(tmp_path) + b"/a/\xff.jpg", "wb") as file:
        file.write(b"junk")
    with pytest.raises(mr.SampleError) as caught:
        list(mr.files(tmp_path).decode_image().center_crop(8).loader())
    assert "xFF.jpg" in caught.value.file


@pytest.fixture(name="damaged")
def damaged_photos(tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(PHOTOS, folder)
    bad = folder / "dog" / "5.jpg"
    bad.write_bytes(bad.read_bytes()[:300])
    return folder


def test_a_bad_sample_names_itself(damaged):
    loader = mr.files(damaged).decode_image().center_crop(8).batch(4).loader()
    with pytest.raises(mr.SampleError) as caught:
        list(loader)
    error = caught.value
    assert error.file.endswith("dog/5.jpg") and error.index == 5 and error.op == "decode_image"
    assert "dog/5.jpg (sample 5" in str(error)
    with pytest.raises(mr.SampleError):
        next(loader)


def test_bad_samples_can_be_replaced(damaged):
    pipeline = mr.files(damaged).decode_image().center_crop(8).batch(4).on_error("skip")
    with pipeline.loader() as loader:
        assert sum(batch.size for batch in loader) == 10
        assert [skip["sample"] for skip in loader.skips()] == [5]
        assert loader.stats()["skipped"] == 1


def test_statistics_and_looks():
    with numbers(64, batch=8).loader(threads=2) as loader:
        list(loader)
        stats = loader.stats()
        assert stats["samples"] == 64 and stats["batches"] == 8 and stats["threads"] == 2
        assert stats["samples_per_second"] > 0 and stats["memory_bound"] > 0
        assert stats["wait_seconds"] >= 0
        assert "64 samples" in repr(loader) and "uint8[4]" in repr(loader)
        assert loader._repr_html_().startswith("<pre>")


def test_tqdm_knows_the_total():
    tqdm = pytest.importorskip("tqdm")
    with numbers(64, batch=8).loader() as loader, open(os.devnull, "w", encoding="ascii") as null:
        bar = tqdm.tqdm(loader, file=null)
        assert bar.total == 8 and sum(1 for _ in bar) == 8


def test_show(tmp_path):
    from PIL import Image
    pipeline = mr.files(PHOTOS).decode_image().center_crop(40).normalize().batch(5)
    with pipeline.loader() as loader:
        batch = next(loader)
    sheet = mr.show(batch, tmp_path / "sheet.png", columns=5)
    assert sheet._repr_png_()[:4] == b"\x89PNG"
    picture = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert picture.shape == (4 + 40 + 16 + 4, 4 + 5 * (48 + 4), 3)
    low, high = batch["image"].min(), batch["image"].max()
    for i in range(5):
        left, top = 4 + i * 52, 4 + 16
        cell = picture[top:top + 40, left:left + 40].astype(float)
        want = (batch["image"][i].transpose(1, 2, 0) - low) / (high - low) * 255
        assert np.abs(cell - want).max() <= 0.51
    files = len(os.listdir("/proc/self/fd"))
    assert len(mr.show(batch).png) > 100 and len(os.listdir("/proc/self/fd")) == files
    assert repr(mr.show(batch, tmp_path / "b.png")).startswith(f"<millrace.Sheet {tmp_path}/b.png, ")
    with pytest.raises(TypeError, match="as a loader delivered it"):
        mr.show({"image": 1})
    with pytest.raises(TypeError, match="no images"):
        with numbers().loader() as loader:
            mr.show(next(loader))


def test_bad_arrays_are_wrong_values(tmp_path):
    path, labels = tmp_path / "data.npy", tmp_path / "labels.npy"
    np.save(path, np.zeros((0, 3), np.float32))
    with pytest.raises(ValueError, match="no samples"):
        mr.array(path).loader()
    np.save(path, np.zeros((4, 3), np.float32))
    np.save(labels, np.zeros((4, 1), np.int64))
    with pytest.raises(TypeError, match="one dimension") as wrong:
        mr.array(path, labels=str(labels)).loader()
    assert str(labels) in str(wrong.value) and "one number for each sample" in wrong.value.hint
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(RuntimeError, match="promises") as wrong:
        mr.array(path).loader()
    assert "nothing may follow" in wrong.value.hint


# ---- Numbers that adapt --------------------------------------------------------------------------


def test_threads_auto_delivers_the_same():
    digests = set()
    for threads in (1, "auto"):
        photos = mr.files(PHOTOS).decode_image().random_resized_crop(32).batch(4)
        with photos.loader(seed=1, epochs=3, digest=True, threads=threads) as loader:
            for _ in range(3):
                for batch in loader:
                    pass
            digests.add(loader.digest())
            stats = loader.stats()
            assert 1 <= stats["threads_working"] <= stats["threads"]
    assert len(digests) == 1
    with pytest.raises((TypeError, ValueError)):
        numbers().loader(threads="many")


def test_a_loop_goes_on_in_the_epoch_that_a_state_is_in():
    """A state after the last batch of an epoch says that the epoch is over."""
    def loader():
        return mr.dataset(list(range(10))).batch(4).loader(seed=1)
    whole = [(epoch, batch["data"].tolist()) for one in [loader()] for epoch in range(one.next_epoch, 3) for batch in one]
    assert [epoch for epoch, _ in whole] == [0] * 3 + [1] * 3 + [2] * 3
    for stop in range(10):
        first = loader()
        for _ in range(stop):
            next(first)
        assert first.next_epoch == stop // 3
        second = loader()
        second.load_state_dict(first.state_dict())
        assert [(e, batch["data"].tolist()) for e in range(second.next_epoch, 3) for batch in second] == whole[stop:]
    one = loader()
    for _ in one:
        assert one.next_epoch == 1  # that of the next loop, also where this one is left
        break
    assert one.next_epoch == 1 and [batch.epoch for batch in one] == [1, 1, 1]


def test_what_a_pipelines_loader_has_not_is_told():
    with mr.dataset(list(range(10))).batch(4).loader() as loader:
        for name in ("dataset", "sampler", "batch_sampler"):
            assert not hasattr(loader, name)
            with pytest.raises(AttributeError, match=f"has no {name}.*load_state_dict"):
                getattr(loader, name)
        with pytest.raises(AttributeError, match="'Loader' object has no attribute 'stale'"):
            loader.stale
        loader.pipeline = None
        with pytest.raises(AttributeError, match="'NoneType' object has no attribute '_compiled'"):
            loader.classes  # what is wrong within a property is told as it is
