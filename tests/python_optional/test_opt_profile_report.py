# SPDX-License-Identifier: Apache-2.0
"""What reports say of profiles of torch's loaders: batches that overtake, functions and counters of workers, pinned
memory, verdicts, several ranks, two runs side by side."""
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

import millrace as mr
from profiled import KINDS, FirstIsSlow, Numbers, Slow, Sorts, Stream, batches_in, slow_collate, spans_of


def profiled(loader, path, epochs=1):
    with mr.profile(loader, path):
        for _ in range(epochs):
            for _ in loader:
                pass
    return mr.report(path)


def test_a_batch_that_is_overtaken(tmp_path):
    """The first worker sleeps over its batches; those of the second lie ready behind them."""
    report = profiled(DataLoader(FirstIsSlow(16), batch_size=2, num_workers=2), tmp_path / "run.trace")
    figures, batches = report.figures, batches_in(spans_of(tmp_path / "run.trace")[1])
    assert figures["batch_totals"]["overtaken"] >= 1
    late = [row[0] for row in figures["batches"] if row[8]]
    assert late == [i for i in batches if any(batches[k]["ready"] < batches[i]["ready"] for k in batches if k > i)]
    assert set(late) <= {0, 2, 4, 6}  # of the first worker
    assert f"{len(late)} overtaken by a later one" in report.text
    # What lay ready is delay; what was ready only when it was wanted is not.
    for number, begun, ready, asked, taken, work, wait, consume, overtaken in figures["batches"]:
        one = batches[number]
        assert taken - ready == pytest.approx(one["taken"] - one["ready"], abs=1e-6)
        assert wait == pytest.approx(one["wait"], abs=1e-6)


def test_functions_and_counters_of_workers(tmp_path):
    loader = DataLoader(Numbers(120), batch_size=5, num_workers=2)
    loader.dataset.transform.transforms[0] = Sorts()
    report = profiled(loader, tmp_path / "run.trace")
    figures = report.figures
    sorts, added = figures["ops"]
    assert sorts["name"] == "Sorts" and sorts["counters"]["cpu_ns"] > 100 * added["counters"]["cpu_ns"] > 0
    calls = {entry["op"]: entry["calls"] for entry in figures["counters"]["ops"]}
    assert calls[0] == calls[1] >= 2  # one sample of 64, of each worker
    functions = figures["functions"]
    if functions["note"]:
        pytest.skip(functions["note"])
    part, _ = spans_of(tmp_path / "run.trace")
    assert len(part.probes) == 2  # a track of each worker
    # Each probe is of one process's addresses, below a function of that process.
    known = part.end["probes"]["functions"]
    starts = np.array([one["from"] for one in known])
    for pieces in part.probes.values():
        marks = {int(probe["address"]) >> 48 for probes in pieces for probe in probes if probe["address"]}
        assert len(marks) == 1 and marks < {int(start) >> 48 for start in starts}
    assert functions["probes"] == sum(len(probes) for pieces in part.probes.values() for probes in pieces)
    place = max(functions["places"], key=lambda place: place["probes"])
    assert place["name"] == "Sorts"
    assert place["functions"][0]["object"].startswith("libtorch")
    assert {row.op for row in report.map().rows} >= {"Sorts"}


def test_the_way_through_the_queue_is_shown(tmp_path):
    report = profiled(DataLoader(Numbers(12), batch_size=3, num_workers=2), tmp_path / "run.trace")
    assert "on its way through the queue between processes" in report.text
    assert report.figures["figures"]["handover"] >= 0 and report.figures["figures"]["workers"] == 2
    alone = profiled(DataLoader(Numbers(12), batch_size=3), tmp_path / "alone.trace")
    assert "between processes" not in alone.text and "mean_handover" not in alone.figures["batch_totals"]


@pytest.mark.parametrize("workers", [0, 2])
def test_pinning_is_timed(tmp_path, workers, monkeypatch):
    """There may be no accelerator here: then a function that sleeps stands for copying."""
    from torch.utils.data._utils import pin_memory as module
    seconds = {}
    def pin(data, device=None):
        begun = time.perf_counter()
        if isinstance(data, (tuple, list)):
            result = [module.pin_memory(one, device) for one in data]
        else:
            time.sleep(0.002)
            result = data
        thread = seconds.setdefault(threading.current_thread(), [0.0])
        thread[0] += time.perf_counter() - begun if isinstance(data, (tuple, list)) else 0
        return result
    monkeypatch.setattr(module, "pin_memory", pin)
    for where in (torch.cuda, getattr(torch, "accelerator", torch.cuda)):  # the second is what later versions ask
        for name, result in (("is_available", True), ("current_accelerator", torch.device("cpu")), ("current_device", 0),
                             ("current_device_index", 0), ("set_device", None), ("set_device_index", None)):
            monkeypatch.setattr(where, name, lambda *args, result=result: result, raising=False)
    path = tmp_path / "run.trace"
    loader = DataLoader(Numbers(12), batch_size=3, num_workers=workers, pin_memory=True)
    report = profiled(loader, path, 2)
    assert module.pin_memory is pin
    total = sum(one for one, in seconds.values())
    assert len(seconds) == (2 if workers else 1)  # a thread for each epoch
    told = spans_of(path)[0].end["pinning_ns"] * 1e-9
    assert total <= told <= 1.05 * total + 0.01
    assert "to pinned memory" in report.text and report.figures["figures"]["pinning"] > 0
    without = profiled(DataLoader(Numbers(12), batch_size=3, num_workers=workers), path)
    assert "to pinned memory" not in without.text


def test_what_others_put_around_pinning_stays(monkeypatch):
    from millrace import _profile_pin
    from torch.utils.data._utils import pin_memory as module
    monkeypatch.setattr(module, "pin_memory", module.pin_memory)
    _profile_pin.begin()
    timed = module.pin_memory
    module.pin_memory = lambda *args: timed(*args)
    others = module.pin_memory
    _profile_pin.end()
    assert module.pin_memory is others
    _profile_pin.begin()
    assert module.pin_memory(3) == 3
    _profile_pin.end()
    assert module.pin_memory is others


# ---- Verdicts ----
def slow_step(workers):
    """Each batch takes long against its way through the queue, also where other programs are in the way."""
    loader = DataLoader(Numbers(24), batch_size=4, num_workers=workers)
    loader.dataset.transform.transforms[0] = Slow(0.05)
    return loader


def test_verdict_of_a_slow_step(tmp_path):
    report = profiled(slow_step(2), tmp_path / "run.trace")
    assert report.verdict["title"] == "Slow-bound" and report.verdict["bound"] == "op"
    said = report.explain()
    assert said.startswith("Slow-bound") and "Slow " in said and "where 2 x " in said
    assert "Slow takes" in report.verdict["evidence"]


def test_verdict_of_a_program_without_workers(tmp_path):
    report = profiled(slow_step(0), tmp_path / "run.trace")
    assert report.verdict["title"] == "held up by its own program"
    assert "num_workers=" in report.verdict["change"]
    assert "held up by its own program" in report.explain()


def test_verdict_of_a_slow_collate(tmp_path):
    report = profiled(DataLoader(Numbers(40), batch_size=2, num_workers=2, collate_fn=slow_collate),
                      tmp_path / "run.trace")
    assert report.verdict["title"] == "collate-bound"
    assert "collate_fn" in report.verdict["change"] and "sealing batches" in report.explain()


def test_two_runs_side_by_side(tmp_path):
    slow = profiled(slow_step(2), tmp_path / "slow.trace")
    fast = profiled(DataLoader(Numbers(40), batch_size=2, num_workers=2), tmp_path / "fast.trace")
    both = mr.report(tmp_path / "slow.trace", tmp_path / "fast.trace", out=tmp_path / "two.html")
    page = (tmp_path / "two.html").read_text()
    assert both.verdict == slow.verdict and "Slow" in page and "Twice" in page
    assert fast.verdict["title"] in page


# ---- Ranks ----
def of_rank(rank, world, path, monkeypatch, dataset=None, workers=1, **how):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world))
    dataset = dataset or Numbers(24, sleep=0.002 * rank)
    sampler = None if isinstance(dataset, Stream) else DistributedSampler(dataset, world, rank)
    loader = DataLoader(dataset, batch_size=3, sampler=sampler, num_workers=workers, **how)
    profiled(loader, path)
    return path


def test_ranks_are_told_together(tmp_path, monkeypatch):
    paths = [of_rank(rank, 3, tmp_path / f"run.{rank}.trace", monkeypatch) for rank in range(3)]
    ranks = mr.report(paths, out=tmp_path / "ranks.html")
    figures = ranks.figures
    assert figures["world"] == 3 and [one["rank"] for one in figures["ranks"]] == [0, 1, 2]
    assert ranks.slowest.trace == str(paths[figures["slowest"]])
    assert [op["name"] for op in figures["ops"]][:2] == ["Twice", "add_one"]
    assert "3 ranks" in ranks.text and "Twice" in (tmp_path / "ranks.html").read_text()
    with pytest.raises(ValueError, match="both are of one rank"):
        mr.report([paths[0], paths[0]])


def test_traces_of_other_jobs_are_no_ranks(tmp_path, monkeypatch):
    one = of_rank(0, 2, tmp_path / "one.trace", monkeypatch)
    fine = of_rank(1, 2, tmp_path / "fine.trace", monkeypatch, Numbers(30))  # a rank may have more
    assert mr.report([one, fine]).figures["world"] == 2
    other = Numbers(24)
    other.transform.transforms.append(Slow(0))
    for number, (dataset, how) in enumerate(((Stream(24), {}), (other, {}), (None, {"collate_fn": slow_collate}))):
        path = of_rank(1, 2, tmp_path / f"{number}.trace", monkeypatch, dataset, **how)
        with pytest.raises(ValueError, match="not of two ranks of one run: their pipelines differ"):
            mr.report([one, path])
