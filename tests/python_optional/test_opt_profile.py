# SPDX-License-Identifier: Apache-2.0
"""Profiles of torch's loaders: the program sees what it saw without, and the trace has every sample, step
and batch once."""
import contextlib
import glob
import json
import os
import signal
import time

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

import millrace as mr
from millrace._profile_join import Part
from profiled import Busy, Numbers, Stream, Together, pairs

KINDS = {name: mr._core.record_kind(name)
         for name in ("sample", "op", "fill", "seal", "wait_batch", "deliver", "consume", "start",
                      "wait_work")}


def seen(loader, epochs=2):
    torch.manual_seed(7)
    return [[(x.tolist(), i.tolist()) for x, i in loader] for _ in range(epochs)]


def spans_of(path):
    part = Part(str(path))
    return part, {track: np.concatenate(pieces) for track, pieces in part.spans.items()}


def check_trace(path, loader, epochs, steps=("Twice", "add_one"), batched=False):
    part, tracks = spans_of(path)
    spans = np.concatenate(list(tracks.values()))
    n, batches = len(loader.dataset), len(loader)
    assert [op["name"] for op in part.header["ops"]] == list(steps)
    samples = spans[spans["kind"] == KINDS["sample"]]
    assert len(samples) == epochs * n
    if not batched:
        assert sorted(samples["item"]) == sorted(list(range(n)) * epochs)
    for op in range(len(steps)):
        assert np.sum((spans["kind"] == KINDS["op"]) & (spans["op"] == op)) == epochs * n
    for kind in ("wait_batch", "deliver", "seal"):
        of_kind = spans[spans["kind"] == KINDS[kind]]
        assert sorted(of_kind["batch"]) == list(range(epochs * batches)), kind
        assert (of_kind["item"] == of_kind["batch"]).all()
    assert np.sum(spans["kind"] == KINDS["start"]) == epochs
    assert part.end["samples"] == epochs * n and part.end["batches"] == epochs * batches
    kinds = [track["kind"] for track in part.header["tracks"]]
    assert kinds.count("worker") == max(loader.num_workers, 1)
    # What lies inside a sample lies inside it in time, too.
    for spans in tracks.values():
        inside = spans[np.isin(spans["kind"], [KINDS["op"], KINDS["fill"]])]
        whole = spans[spans["kind"] == KINDS["sample"]]
        if batched or not len(whole):
            continue
        at = np.searchsorted(whole["start"], inside["start"], side="right") - 1
        assert (inside["start"] + inside["duration"] <= whole["start"][at] + whole["duration"][at]).all()
    assert not glob.glob(f"{path}.*")


@pytest.mark.parametrize("workers, how", [
    (0, {}), (1, {}), (3, {}), (2, {"persistent_workers": True}),
    (2, {"multiprocessing_context": "spawn", "persistent_workers": True}),
    (1, {"multiprocessing_context": "forkserver"})])
def test_the_program_sees_the_same(tmp_path, workers, how):
    def make():
        return DataLoader(Numbers(23), batch_size=4, shuffle=True, num_workers=workers, **how)
    wanted, loader, path = seen(make()), make(), tmp_path / "run.trace"
    kept = vars(loader.dataset)["transform"].transforms[0]
    with mr.profile(loader, path) as same:
        assert same is loader and isinstance(loader, DataLoader)
        assert seen(loader) == wanted
    assert type(loader) is DataLoader
    assert vars(loader.dataset)["transform"].transforms[0] is kept
    check_trace(path, loader, 2)
    assert seen(loader) == wanted  # and is none the worse for it
    report = mr.report(path)
    assert report.figures["samples"] == 46 and "Twice" in report.text


def test_datasets_in_datasets(tmp_path):
    parts = ConcatDataset([Subset(Numbers(8), [1, 2, 5]), Numbers(4)])
    loader = DataLoader(parts, batch_size=2, num_workers=1)
    with mr.profile(loader, tmp_path / "run.trace"):
        assert len(seen(loader, 1)[0]) == 4
    part, tracks = spans_of(tmp_path / "run.trace")
    spans = np.concatenate(list(tracks.values()))
    assert len(part.header["ops"]) == 4  # two steps of each
    assert np.sum(spans["kind"] == KINDS["op"]) == 2 * 7


def test_whole_batches_at_once(tmp_path):
    def make():
        return DataLoader(Together(20), batch_size=5, num_workers=1)
    wanted, loader = seen(make()), make()
    with mr.profile(loader, tmp_path / "run.trace"):
        assert seen(loader) == wanted
    check_trace(tmp_path / "run.trace", loader, 2, steps=(), batched=True)


def test_iterable_datasets_and_own_collate(tmp_path):
    def make():
        return DataLoader(Stream(10), batch_size=3, num_workers=2, collate_fn=pairs)
    wanted, loader = list(make()), make()
    with mr.profile(loader, tmp_path / "run.trace") as profiled:
        assert list(profiled) == wanted
    _, tracks = spans_of(tmp_path / "run.trace")
    spans = np.concatenate(list(tracks.values()))
    # Each worker's iterator is asked once more than it has samples.
    assert np.sum(spans["kind"] == KINDS["sample"]) in range(20, 23)
    assert np.sum(spans["kind"] == KINDS["deliver"]) == len(wanted)


def test_stateful_loaders(tmp_path):
    from torchdata.stateful_dataloader import StatefulDataLoader
    def make():
        return StatefulDataLoader(Numbers(12), batch_size=3, num_workers=2)
    wanted, loader = seen(make(), 1), make()
    with mr.profile(loader, tmp_path / "run.trace"):
        batches = iter(loader)
        first = [next(batches)[1].tolist() for _ in range(2)]
        state = loader.state_dict()
    del batches
    assert first == [i for _, i in wanted[0][:2]]
    other = make()
    other.load_state_dict(state)
    assert [i.tolist() for _, i in other] == [i for _, i in wanted[0][2:]]
    _, tracks = spans_of(tmp_path / "run.trace")
    assert sum(np.sum(spans["kind"] == KINDS["deliver"]) for spans in tracks.values()) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_raises(tmp_path, workers):
    loader = DataLoader(Numbers(9, bad=7), batch_size=2, num_workers=workers)
    path = tmp_path / "run.trace"
    with pytest.raises(RuntimeError, match="number 7"):
        with mr.profile(loader, path):
            seen(loader, 1)
    assert len(mr.report(path).figures["batches"]) == 3
    assert type(loader) is DataLoader and not glob.glob(f"{path}.*")


def test_a_killed_worker(tmp_path):
    loader = DataLoader(Numbers(400, sleep=0.002), batch_size=2, num_workers=2)
    path = tmp_path / "run.trace"
    profile = mr.profile(loader, path)
    with pytest.raises((RuntimeError, ConnectionError, EOFError)):  # it depends on where it was
        with profile:
            batches = iter(loader)
            for _ in range(20):
                next(batches)
            time.sleep(0.1)  # so that what was made is written
            os.kill(batches._workers[0].pid, signal.SIGKILL)
            for _ in batches:
                pass
    with contextlib.suppress(RuntimeError):  # torch's handler may raise at any line, also of __exit__
        profile.close()
    _, tracks = spans_of(path)
    spans = np.concatenate(list(tracks.values()))
    assert np.sum(spans["kind"] == KINDS["sample"]) >= 36
    assert "samples" in mr.report(path).text


@pytest.fixture
def interruptible():
    """Python's own handler, also where whoever started the tests ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c(tmp_path, workers, interruptible):
    loader = DataLoader(Numbers(12), batch_size=2, num_workers=workers)
    path = tmp_path / "run.trace"
    with pytest.raises(KeyboardInterrupt):
        with mr.profile(loader, path):
            for place, _ in enumerate(loader):
                if place == 2:
                    signal.raise_signal(signal.SIGINT)
    assert len(mr.report(path).figures["batches"]) == 3
    assert type(loader) is DataLoader and not glob.glob(f"{path}.*")


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_that_fork_and_thread(tmp_path, workers):
    loader = DataLoader(Busy(9), batch_size=2, num_workers=workers)
    path = tmp_path / "run.trace"
    with mr.profile(loader, path):
        assert [i for _, batch in seen(loader, 1)[0] for i in batch] == list(range(9))
    _, tracks = spans_of(path)
    spans = np.concatenate(list(tracks.values()))
    assert np.sum(spans["kind"] == KINDS["sample"]) == 9
    assert np.sum(spans["kind"] == KINDS["op"]) == 0  # steps ran in other threads


class Clocked:
    """A step that times itself."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, x):
        begun = time.perf_counter()
        result = torch.sort(torch.rand(20_000))[0][:8] + x
        self.seconds += time.perf_counter() - begun
        return result


def test_steps_take_what_they_say_themselves(tmp_path):
    """One interval lies inside the other, whatever else the machine does."""
    loader = DataLoader(Numbers(50), batch_size=10)
    step = Clocked()
    loader.dataset.transform.transforms[0] = step
    with mr.profile(loader, tmp_path / "run.trace"):
        seen(loader, 1)
    op = mr.report(tmp_path / "run.trace").figures["ops"][0]
    assert op["name"] == "Clocked" and op["count"] == 50
    assert op["total"] >= 0.999 * step.seconds


def test_names_are_left_out_on_request(tmp_path):
    for names in (True, False):
        loader = DataLoader(Numbers(6), batch_size=2)
        loader.dataset.files = [f"secret-{i}.jpg" for i in range(6)]
        with mr.profile(loader, tmp_path / "run.trace", names=names):
            seen(loader, 1)
        assert (b"secret-" in (tmp_path / "run.trace").read_bytes()) is names


def test_an_epoch_left_early_and_two_loaders(tmp_path):
    one = DataLoader(Numbers(20), batch_size=2, num_workers=1)
    two = DataLoader(Numbers(6), batch_size=3, num_workers=1)
    with mr.profile(one, tmp_path / "one.trace"), mr.profile(two, tmp_path / "two.trace"):
        for _, (x, i) in zip(range(3), one):
            assert sum(len(i) for _, i in two) == 6
    assert len(mr.report(tmp_path / "one.trace").figures["batches"]) == 3
    assert len(mr.report(tmp_path / "two.trace").figures["batches"]) == 6


def test_the_command_reads_it_and_exports(tmp_path):
    loader = DataLoader(Numbers(12), batch_size=3, num_workers=2)
    path = tmp_path / "run.trace"
    with mr.profile(loader, path):
        seen(loader)
    mr.report(path).export(tmp_path / "spans.json")
    events = json.loads((tmp_path / "spans.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "Twice" for event in events) == 24
    mr.report(path).save(tmp_path / "page.html")
    assert "Twice" in (tmp_path / "page.html").read_text()
    assert "starting" in mr.report(path).text or "workers" in mr.report(path).text


def test_what_is_no_loader_of_torch(tmp_path):
    with pytest.raises(TypeError, match="torch DataLoader, not list"):
        mr.profile([1, 2], tmp_path / "run.trace")
    with mr.synthetic(samples=4).batch(2).loader() as loader:
        with pytest.raises(TypeError, match="trace=FILE"):
            mr.profile(loader, tmp_path / "run.trace")
