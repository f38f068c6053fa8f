# SPDX-License-Identifier: Apache-2.0
"""Profiles of torch's loaders: the program sees what it saw without, and the trace has every sample, step
and batch once."""
import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, RandomSampler, Subset,
                              WeightedRandomSampler)

import millrace as mr
from profiled import (KINDS, Busy, Named, NamedCompose, Nested, Numbers, Photos, Several, Stream, Together, Twice, Unequal,
                      Words, batches_in, pairs, spans_of)

def seen(loader, epochs=2):
    torch.manual_seed(7)
    return [[(x.tolist(), i.tolist()) for x, i in loader] for _ in range(epochs)]


def check_figures(path, tracks, workers):
    """What the report says of batches is what their spans add up to."""
    batches, totals = list(batches_in(tracks).values()), mr.report(path).figures["batch_totals"]
    def mean(value):
        return pytest.approx(sum(map(value, batches)) / len(batches), rel=1e-6, abs=1e-8)
    assert totals["mean_work"] == mean(lambda b: b["work"])
    assert totals["mean_wait"] == mean(lambda b: b["wait"])
    assert totals["mean_consume"] == mean(lambda b: b["consume"])
    assert totals["mean_delay"] == mean(lambda b: max(b["taken"] - b["ready"], 0))
    ready = [b["ready"] for b in batches]
    assert totals["overtaken"] == sum(any(later < one for later in ready[i + 1:]) for i, one in enumerate(ready))
    assert ("mean_handover" in totals) is (workers > 0)
    if workers:
        assert totals["mean_handover"] == mean(lambda b: max(b["taken"] - max(b["ready"], b["asked"]), 0))


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
    check_figures(path, tracks, loader.num_workers)


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
    # Two steps of each; one of them is the same function.
    assert [op["name"] for op in part.header["ops"]] == ["Twice", "add_one", "Twice"]
    assert np.sum(spans["kind"] == KINDS["op"]) == 2 * 7


@pytest.mark.parametrize("workers", [0, 2])
def test_a_step_that_is_kept_twice_is_one_op(tmp_path, workers):
    """Torchvision's datasets have `transform`, and `transforms` that has it too."""
    def make():
        return DataLoader(Photos(12, Twice()), batch_size=4, num_workers=workers)
    wanted, loader, path = seen(make()), make(), tmp_path / "run.trace"
    step = loader.dataset.transform
    with mr.profile(loader, path):
        assert seen(loader) == wanted
    check_trace(path, loader, 2, steps=("Twice", "number"))
    assert vars(loader.dataset)["transform"] is step and vars(loader.dataset.transforms)["transform"] is step


class Half(torch.nn.Module):
    def forward(self, x):
        return x / 2


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_of_a_sequential(tmp_path, workers):
    def make():
        dataset = Photos(12, torch.nn.Sequential(Half(), torch.nn.Sequential(torch.nn.ReLU(), Half())))
        return DataLoader(dataset, batch_size=4, num_workers=workers)
    wanted, loader, path = seen(make()), make(), tmp_path / "run.trace"
    with mr.profile(loader, path):
        assert seen(loader) == wanted
    check_trace(path, loader, 2, steps=("Half", "ReLU", "Half", "number"))
    assert type(loader.dataset.transform[0]) is Half


def test_steps_that_are_given_names(tmp_path):
    """As albumentations calls them."""
    loader, path = DataLoader(Words(6), batch_size=3), tmp_path / "run.trace"
    loader.dataset.transform = NamedCompose([Named(), Named()])
    wanted = seen(loader)
    with mr.profile(loader, path):
        assert seen(loader) == wanted
    check_trace(path, loader, 2, steps=("Named", "Named"))
    _, tracks = spans_of(path)
    spans = np.concatenate(list(tracks.values()))
    ops = spans[spans["kind"] == KINDS["op"]]
    assert set(ops["bytes_in"]) == set(ops["bytes_out"]) == {32}


def samplers():
    data = Numbers(20)
    return {"sampler": {"sampler": WeightedRandomSampler([1.0] * 20, 20), "batch_size": 6},
            "batches": {"batch_sampler": BatchSampler(RandomSampler(data), 6, drop_last=True)},
            "unequal": {"batch_sampler": Unequal(20)},
            "single": {"batch_size": None},
            "whole": {"batch_size": None, "sampler": BatchSampler(range(20), 5, drop_last=False)}}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", samplers())
def test_samplers_and_batch_samplers(tmp_path, name, workers):
    def make():
        return DataLoader(Several(20), num_workers=workers, **samplers()[name])
    def numbers(loader):
        torch.manual_seed(7)
        return [torch.as_tensor(i).tolist() for _ in range(2) for _, i in loader]
    wanted, loader, path = numbers(make()), make(), tmp_path / "run.trace"
    with mr.profile(loader, path):
        assert numbers(loader) == wanted
    part, tracks = spans_of(path)
    samples = np.concatenate([spans[spans["kind"] == KINDS["sample"]] for spans in tracks.values()])
    sizes = [len(i) if isinstance(i, list) else 1 for i in wanted]
    figures = mr.report(path).figures
    assert figures["n_batches"] == len(wanted)
    if loader.batch_size is None and loader.batch_sampler is None:  # what the dataset gives is one sample
        assert figures["samples"] == len(samples) == len(wanted)
    else:
        assert figures["samples"] == len(samples) == sum(sizes)
        assert samples["item"].tolist() != [] and sorted(samples["item"]) == sorted(sum(wanted, []))
        assert part.header["setup"]["batch"] == max(sizes)


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
    StatefulDataLoader = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_inside_itself(tmp_path, workers):
    """Two epochs of one loader at the same time."""
    def both(loader):
        torch.manual_seed(7)
        return [(x.tolist(), [inner.tolist() for _, inner in loader]) for x, _ in loader]
    def make():
        return DataLoader(Numbers(6), batch_size=2, shuffle=True, num_workers=workers)
    wanted, loader, path = both(make()), make(), tmp_path / "run.trace"
    with mr.profile(loader, path):
        assert both(loader) == wanted
    assert len(mr.report(path).figures["batches"]) == 3 + 3 * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_inside_a_dataset(tmp_path, workers):
    """Its steps are steps of the sample that it is used for; with a profile of its own, they are that one's, too."""
    def make():
        return DataLoader(Nested(6), batch_size=2, num_workers=workers)
    wanted, loader, path = seen(make()), make(), tmp_path / "run.trace"
    with mr.profile(loader, path):
        assert seen(loader) == wanted
    _, tracks = spans_of(path)
    spans = np.concatenate(list(tracks.values()))
    assert np.sum(spans["kind"] == KINDS["sample"]) == 2 * 6
    inner = tmp_path / "inner.trace"
    with mr.profile(loader, path), mr.profile(loader.dataset.inner, inner):
        assert seen(loader) == wanted
    assert len(mr.report(path).figures["batches"]) == 2 * 3
    if workers == 0:  # of loaders in workers, a profile that the program began sees nothing
        assert len(mr.report(inner).figures["batches"]) == 2 * 6 * 2
    assert type(loader) is type(loader.dataset.inner) is DataLoader


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


def test_the_loader_that_is_returned_takes_the_place(tmp_path):
    """loader = mr.profile(loader, ...): what a program does with a loader, it does with this."""
    wanted, old = seen(DataLoader(Numbers(20), batch_size=4, num_workers=1)), None
    old = loader = DataLoader(Numbers(20), batch_size=4, num_workers=1)
    loader = mr.profile(loader, tmp_path / "run.trace")
    assert seen(loader) == wanted and len(loader) == 5
    assert loader.batch_size == 4 and loader.dataset is old.dataset
    loader.close()
    check_trace(tmp_path / "run.trace", old, 2)
    assert seen(loader) == wanted and type(old) is DataLoader


def test_the_end_of_the_program_ends_the_profile(tmp_path):
    program = """if True:
        import sys
        import millrace as mr
        from torch.utils.data import DataLoader
        from profiled import Numbers
        loader = mr.profile(DataLoader(Numbers(20), batch_size=4, num_workers=1, persistent_workers=True), sys.argv[1])
        for epoch in range(2):
            for batch in loader:
                pass
    """
    path = tmp_path / "run.trace"
    run_program(program, path).wait(120)
    assert not glob.glob(f"{path}.*")
    assert mr.report(path).figures["samples"] == 40


def run_program(program, path, **how):
    """With the modules of these tests, and a group of processes of its own."""
    return subprocess.Popen([sys.executable, "-c", program, os.fspath(path)], start_new_session=True,
                            cwd=os.path.dirname(__file__), text=True, **how)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_ctrl_c_of_a_terminal(tmp_path, start):
    """It goes to the workers, too. Nothing waits for them forever, and what was made is in the trace."""
    program = f"""if True:
        import signal, sys
        import millrace as mr
        from torch.utils.data import DataLoader
        from profiled import Numbers
        if __name__ == "__main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)
            loader = DataLoader(Numbers(10**6, sleep=0.001), batch_size=2, num_workers=2,
                                multiprocessing_context="{start}")
            with mr.profile(loader, sys.argv[1]):
                for place, batch in enumerate(loader):
                    if place == 20:
                        print("going", flush=True)
    """
    path = tmp_path / "run.trace"
    process = run_program(program, path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "going\n"
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode != 0 and "KeyboardInterrupt" in said
    assert not glob.glob(f"{path}.*")
    figures = mr.report(path).figures
    assert figures["n_batches"] >= 20 and figures["damaged"] == 0
    for _ in range(300):  # nobody is left of the group, once multiprocessing's own helper has seen it
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("a process is left")


def test_what_is_no_loader(tmp_path):
    with pytest.raises(TypeError, match="torch DataLoader or a loader of millrace, not list"):
        mr.profile([1, 2], tmp_path / "run.trace")


def test_our_loaders(tmp_path):
    """Also in the middle of an epoch: the batches are those of one without."""
    pipeline = mr.synthetic(samples=40, shape=[8, 8, 3]).shuffle().batch(4)
    with pipeline.loader(seed=3) as loader:
        wanted = [batch.samples.tolist() for _ in range(2) for batch in loader]
    path, got = tmp_path / "run.trace", []
    with pipeline.loader(seed=3) as loader:
        for place, batch in enumerate(loader):
            got.append(batch.samples.tolist())
            if place == 2:
                profile = mr.profile(loader, path)
            if place == 7:
                profile.close()
                profile.close()
        with pytest.raises(ValueError, match="writes a trace already"):
            with mr.profile(loader, path), mr.profile(loader, tmp_path / "other.trace"):
                pass
        got += [batch.samples.tolist() for batch in loader]
        assert loader.trace is None
    assert got == wanted
    with pipeline.loader(seed=3) as loader:
        with mr.profile(loader, path) as same:
            assert same is loader and sum(1 for _ in loader) == 10
    assert mr.report(path).figures["samples"] == 40


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_our_loader_that_takes_torchs_place(tmp_path, workers):
    import millrace.torch
    def make():
        return millrace.torch.DataLoader(Numbers(24), batch_size=4, shuffle=True, num_workers=2, seed=5,
                                         workers=workers)
    wanted, loader, path = [i.tolist() for _, i in make()], make(), tmp_path / "run.trace"
    with mr.profile(loader, path) as same:
        assert same is loader
        assert [i.tolist() for _, i in loader] == wanted
    assert mr.report(path).figures["samples"] == 24
    assert sorted(sum(([*i.tolist()] for _, i in loader), [])) == list(range(24))
    loader.close()


def test_a_sampler_in_threads_has_no_trace(tmp_path):
    import millrace.torch
    loader = millrace.torch.DataLoader(Numbers(8), batch_size=2, sampler=range(8), num_workers=1, workers="threads")
    with pytest.raises(TypeError, match='workers="processes"'):
        mr.profile(loader, tmp_path / "run.trace")


class Hog(threading.Thread):
    """Has Python's lock whenever it can."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended = False

    def run(self):
        while not self.ended:
            sum(range(100_000))


def test_what_other_threads_and_disks_take_is_told(tmp_path):
    path = tmp_path / "run.trace"
    hog = Hog()
    hog.start()
    with mr.profile(DataLoader(Numbers(60, sleep=0.002), batch_size=2, num_workers=1), path) as loader:
        seen(loader, 1)
    hog.ended = True
    hog.join()
    end = spans_of(path)[0].end
    assert end["beside_ns"] > 0 and end["disk_bytes"] >= 0


def test_sizes():
    from millrace._profile_ops import size_of
    class Sometimes:
        def __init__(self, nbytes=None):
            if nbytes is not None:
                self.nbytes = nbytes
    assert size_of(torch.zeros(3, 4)) == 48 and size_of(np.zeros(5)) == 40 and size_of(b"abc") == 3
    assert size_of([b"a", (b"bc", {"x": b"def"})]) == 6 and size_of(None) == 0
    assert size_of(Sometimes(8)) == 8 and size_of(Sometimes()) == 0
