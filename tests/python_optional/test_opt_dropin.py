# SPDX-License-Identifier: Apache-2.0
"""mr.torch.DataLoader against torch's own: samplers, iterable datasets, worker processes, generators,
attributes; and that all of it repeats and resumes."""
import itertools
import json
import os
import pickle
import random
import threading
import time
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import (BatchSampler, DataLoader, Dataset, DistributedSampler,  # noqa: E402
                              IterableDataset, RandomSampler, Sampler, SequentialSampler,
                              Subset, SubsetRandomSampler, WeightedRandomSampler,
                              get_worker_info)

import millrace as mr  # noqa: E402

N = 23


class Pairs(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.full((3,), float(i)), i


class Noisy(Pairs):
    """Draws as torchvision's transforms do, from torch's generator, and from the two others."""

    def __getitem__(self, i):
        crop = torch.randint(0, 1000, (1,)).item()
        return torch.rand(2), crop, random.random(), float(np.random.rand()), i


class Texts(Pairs):
    def __getitem__(self, i):
        return f"text {i}"


def mine(dataset=None, **options):
    return mr.torch.DataLoader(Pairs() if dataset is None else dataset,
                               **{"batch_size": 4, "seed": 5, **options})


def labels(loader):
    return [batch[-1].tolist() for batch in loader]


def plain(batches):
    return [[part.tolist() for part in batch] for batch in batches]


# ---- Samplers ------------------------------------------------------------------------------------

SAMPLERS = {
    "sequence": lambda: [3, 1, 4, 1, 5, 9, 2, 6],
    "sequential": lambda: SequentialSampler(Pairs()),
    "random": lambda: RandomSampler(Pairs(), generator=torch.Generator().manual_seed(3)),
    "subset": lambda: SubsetRandomSampler(range(5, 19), generator=torch.Generator().manual_seed(1)),
    "weighted": lambda: WeightedRandomSampler([1.0 + i for i in range(N)], 17,
                                              generator=torch.Generator().manual_seed(2)),
    "distributed": lambda: DistributedSampler(Pairs(), num_replicas=2, rank=1, shuffle=True, seed=3)}
WAYS = [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "workers": "threads"},
        {"num_workers": 2, "workers": "processes", "persistent_workers": True}]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("way", WAYS, ids=["here", "auto", "threads", "persistent"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_samplers_order_is_kept(name, way, drop_last):
    ours, theirs = SAMPLERS[name](), SAMPLERS[name]()
    loader = mine(sampler=ours, drop_last=drop_last, **way)
    real = DataLoader(Pairs(), batch_size=4, sampler=theirs, drop_last=drop_last)
    assert len(loader) == len(real) and loader.sampler is ours
    for epoch in range(2):
        for sampler in (ours, theirs):
            getattr(sampler, "set_epoch", lambda _: None)(epoch)
        assert labels(loader) == labels(real)


def test_a_state_of_other_batches_or_another_dataset_is_refused():
    loader = mine(sampler=list(range(8)))
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(mr.StateError, match="batches of 4 samples, this loader has 2"):
        mine(sampler=list(range(8)), batch_size=2).load_state_dict(state)
    with pytest.raises(mr.StateError, match="a dataset of .* samples, this loader has 5"):
        mr.torch.DataLoader(torch.utils.data.Subset(Pairs(), range(5)), batch_size=4,
                            sampler=[0, 1, 2]).load_state_dict(state)


class Buckets(Sampler):
    """Batches of different sizes."""

    def __iter__(self):
        return iter([[1], [2, 3], [4, 5, 6], [7, 1]])

    def __len__(self):
        return 4


@pytest.mark.parametrize("way", WAYS[:3], ids=["here", "auto", "threads"])
def test_batch_samplers(way):
    for sampler in (Buckets(), [[5, 6], [0]], BatchSampler(RandomSampler(Pairs()), 5, True)):
        loader = mine(batch_size=1, batch_sampler=sampler, **way)
        assert loader.batch_sampler is sampler and loader.batch_size is None
        assert len(loader) == len(sampler) and len(labels(loader)) == len(sampler)
    assert labels(mine(batch_size=1, batch_sampler=Buckets(), **way)) == list(Buckets())


def test_samplers_without_end_and_without_batches():
    loader = mine(sampler=(i % N for i in itertools.count()), num_workers=2)
    assert labels(itertools.islice(loader, 9)) == [
        [(4 * b + i) % N for i in range(4)] for b in range(9)]
    assert [y for _, y in mine(batch_size=None, sampler=[7, 2])] == [7, 2]


@pytest.mark.parametrize("way", WAYS[:3], ids=["here", "auto", "threads"])
@pytest.mark.parametrize("make", [lambda: RandomSampler(Pairs()),
                                  lambda: SubsetRandomSampler(range(20))], ids=["random", "subset"])
def test_samplers_that_draw_repeat_and_resume(way, make):
    """Their draws are the law's: they depend on the seed and not on what else the program draws."""
    def loader():
        torch.rand(int(time.time()) % 7 + 1)
        return mine(sampler=make(), **way)
    whole = loader()
    epochs = [labels(whole) for _ in range(3)]
    assert epochs[0] != epochs[1] and sorted(sum(epochs[1], [])) == sorted(sum(epochs[0], []))
    for stop in range(len(epochs[0]) + 1):
        first = loader()
        batches = iter(first)
        assert labels(itertools.islice(batches, stop)) == epochs[0][:stop]
        state = pickle.loads(pickle.dumps(first.state_dict()))
        second = loader()
        second.load_state_dict(state)
        if stop < len(epochs[0]):
            assert labels(second) == epochs[0][stop:]
        assert labels(second) == epochs[1]  # at once, after a state of the last batch


class Keeps(Sampler):
    """Draws from a generator that it keeps."""

    def __init__(self, rng):
        self.rng = rng

    def __iter__(self):
        numbers = list(range(N))
        self.rng.shuffle(numbers)
        return iter(numbers)

    def __len__(self):
        return N


KEPT = {
    "torch": lambda: {"sampler": RandomSampler(Pairs(), generator=torch.Generator().manual_seed(3))},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0] * N, N, generator=torch.Generator().manual_seed(3))},
    "batches": lambda: {"batch_size": 1, "batch_sampler": BatchSampler(
        RandomSampler(Pairs(), generator=torch.Generator().manual_seed(3)), 4, False)},
    "random": lambda: {"sampler": Keeps(random.Random(3))},
    "numpy": lambda: {"sampler": Keeps(np.random.default_rng(3))},
    "mersenne": lambda: {"sampler": Keeps(np.random.RandomState(3))}}


@pytest.mark.parametrize("name,way", [*((name, 0) for name in KEPT), ("torch", 1), ("torch", 2)])
def test_samplers_with_generators_of_their_own_go_on_in_their_epoch(name, way):
    def loader():
        return mine(**KEPT[name](), **WAYS[way])
    whole = loader()
    epochs = [labels(whole) for _ in range(4)]
    assert all(a != b for a, b in itertools.pairwise(epochs))
    for epoch, stop in ((0, 0), (0, 5), (0, 6), (1, 1), (2, 5), (2, 6)):
        first = loader()
        for _ in range(epoch):
            labels(first)
        batches = iter(first)
        assert labels(itertools.islice(batches, stop)) == epochs[epoch][:stop]
        state = json.loads(json.dumps(first.state_dict()))
        second = loader()
        second.load_state_dict(state)
        assert second.next_epoch == epoch + (stop == 6)
        second.load_state_dict(json.loads(json.dumps(second.state_dict())))
        assert labels(second) == (epochs[epoch][stop:] or epochs[epoch + 1])
        assert labels(second) == epochs[epoch + 1 + (stop == 6)] if epoch + (stop == 6) < 3 else True


# ---- Where a training loop goes on ---------------------------------------------------------------

LOOPS = {"law": lambda: mine(shuffle=True), "processes": lambda: mine(shuffle=True, num_workers=2, workers="processes"),
         "sampler": lambda: mine(sampler=RandomSampler(Pairs())), "kept": lambda: mine(**KEPT["torch"]()),
         "stream": lambda: mine(dataset=Pieces(), num_workers=2)}


def trained(loader, epochs, stop=None):
    """(epoch, batch) of each step, as a program sees them that counts epochs; with its state after `stop` steps."""
    seen, state = [], loader.state_dict() if stop == 0 else None
    for epoch in range(loader.next_epoch, epochs):
        for batch in loader:
            if state is not None:
                return seen, state
            seen.append((epoch, batch[-1].tolist()))
            if len(seen) == stop:
                state = loader.state_dict()
    return seen, state


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_goes_on_in_the_epoch_that_a_state_is_in(name):
    """A state after the last batch of an epoch says that the epoch is over."""
    whole, _ = trained(LOOPS[name](), 3)
    assert len(whole) == 18
    for stop in (0, 1, 6, 11, 12, 18):
        seen, state = trained(LOOPS[name](), 3, stop)
        loader = LOOPS[name]()
        loader.load_state_dict(json.loads(json.dumps(state)))
        rest, _ = trained(loader, 3)
        want = whole[stop:]
        if name == "stream" and stop % 6 == 0 < stop:  # nobody knows its length before it is gone through
            want, rest = [batch for _, batch in want], [batch for _, batch in rest][:len(want)]
        assert seen == whole[:stop] and rest == want


# ---- Iterable datasets ---------------------------------------------------------------------------


class Pieces(IterableDataset):
    """As one of several workers has it."""

    def __iter__(self):
        info = get_worker_info()
        return iter([(i, i) for i in range(info.id if info else 0, N, info.num_workers if info else 1)])


class Count(IterableDataset):
    """Shared out among workers as torch's manual does."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, N, step))


class Draws(IterableDataset):
    def __iter__(self):
        return (torch.randint(0, 10**6, (1,)).item() for _ in range(11))


def numbers(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"persistent_workers": True}],
                         ids=["plain", "drop", "persistent"])
def test_iterable_datasets(workers, options):
    if options.get("persistent_workers") and not workers:
        options = {}
    loader = mine(Count(), num_workers=workers, **options)
    real = DataLoader(Count(), batch_size=4, num_workers=workers, **options)
    want = numbers(real)
    assert numbers(loader) == want and numbers(loader) == want
    state = loader.state_dict()
    assert state["epoch"] == 2
    batches = iter(loader)
    next(batches)
    resumed = mine(Count(), num_workers=workers, **options)
    resumed.load_state_dict(loader.state_dict())
    assert numbers(resumed) == want[1:] and numbers(resumed) == want
    with pytest.raises(TypeError):
        len(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets_that_draw_repeat(workers):
    def epochs():
        loader = mine(Draws(), num_workers=workers)
        return [numbers(loader) for _ in range(2)]
    first = epochs()
    torch.rand(3)
    assert epochs() == first and first[0] != first[1]


def test_an_iterable_alone_is_a_dataset_too():
    assert [b.tolist() for b in mine(Iterates())] == [[0, 1, 2]]
    for options in ({"shuffle": True}, {"sampler": [1]}, {"workers": "threads", "num_workers": 1}):
        with pytest.raises(ValueError, match="iterable dataset"):
            mine(Count(), **options)
    with pytest.raises(TypeError, match="is no dataset"):
        mine(object())


class Iterates:
    def __iter__(self):
        return iter(range(3))


# ---- Generators ----------------------------------------------------------------------------------


def noisy(**options):
    return mine(Noisy(), shuffle=True, **options)


def test_draws_in_samples_repeat_and_are_the_same_for_any_number_of_workers():
    whole = noisy(num_workers=2)
    epochs = [plain(whole) for _ in range(2)]
    flat = [x for batch in epochs[0] for x in batch[1]]
    assert len(set(flat)) > N // 2 and epochs[0] != epochs[1]
    for workers in (0, 1, 3):
        torch.manual_seed(workers)
        random.seed(workers)
        other = noisy(num_workers=workers)
        assert [plain(other) for _ in range(2)] == epochs
    again = noisy(num_workers=1)
    batches = iter(again)
    for _ in range(2):
        next(batches)
    resumed = noisy(num_workers=2)
    resumed.load_state_dict(again.state_dict())
    assert plain(resumed) == epochs[0][2:]


@pytest.mark.parametrize("workers", [0, 2])
def test_repeats_where_torchs_own_loader_repeats(workers):
    """torch.manual_seed, then the same program."""
    def run(kind):
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        loader = kind(Noisy(), batch_size=4, shuffle=True, num_workers=workers)
        return [plain(loader) for _ in range(2)]
    assert run(DataLoader) == run(DataLoader)
    assert run(mr.torch.DataLoader) == run(mr.torch.DataLoader)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset", [Pairs(), Noisy(), Texts()], ids=lambda d: type(d).__name__)
def test_the_programs_own_generators_are_left_alone(workers, dataset):
    def drawn(use):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        found = []
        loader = mine(dataset, shuffle=True, num_workers=workers)
        for _ in use(loader):
            found.append((torch.rand(1).item(), random.random(), np.random.rand()))
        return found
    assert drawn(lambda loader: loader) == drawn(lambda loader: range(len(loader)))


def mix(samples):
    return torch.stack([x for x, _ in samples]) * torch.rand(1)


def test_draws_in_collate_fn_repeat():
    runs = []
    for workers, kind in ((0, "auto"), (2, "threads"), (2, "processes")):
        torch.rand(workers + 1)
        loader = mine(collate_fn=mix, shuffle=True, num_workers=workers, workers=kind)
        runs.append([batch.tolist() for batch in loader])
    assert runs[0] == runs[1] == runs[2]


class Seldom(Pairs):
    """Draws for some samples, and not for the first two."""

    def __getitem__(self, i):
        return Noisy.__getitem__(self, i)[:4] + (i,) if i % 5 == 3 else (torch.zeros(2), 0, 0.0, 0.0, i)


@pytest.mark.parametrize("sampler", [False, True])
def test_samples_that_seldom_draw_are_as_if_generators_were_always_seeded(sampler):
    def batches(dataset, workers):
        order = {"sampler": range(N - 1, -1, -1)} if sampler else {"shuffle": True}
        loader = mine(dataset, batch_size=9, num_workers=workers, workers="processes", **order)
        return [{row[-1]: row[:4] for batch in plain(loader) for row in zip(*batch)} for _ in range(2)]
    always = batches(Noisy(), 1)
    for workers in (0, 1, 3):
        torch.manual_seed(workers)
        np.random.normal()  # leaves one for the next
        for epoch, want in zip(batches(Seldom(), workers), always):
            assert len(epoch) == N
            for i, drawn in epoch.items():
                assert drawn == (want[i] if i % 5 == 3 else ([0, 0], 0, 0.0, 0.0))


class SeldomAnother(Noisy):
    """Draws from numpy's generator for each sample, and from others' for some, which are not the first two."""

    def __getitem__(self, i):
        other = {3: lambda: torch.rand(1).item(), 4: random.random}.get(i % 10, lambda: 0.0)
        return float(np.random.normal()), other(), i


def test_generators_that_are_seldom_drawn_from_are_as_if_always_seeded():
    def epochs(workers):
        loader = mine(SeldomAnother(), batch_size=9, shuffle=True, num_workers=workers, workers="processes")
        return [plain(loader) for _ in range(2)]
    want = epochs(0)
    assert any(x for batch in want[0] for x in batch[1])
    for workers in (1, 3):
        assert epochs(workers) == want


def test_generators_are_seeded_from_the_first_draw_on():
    from millrace import _random
    from millrace._torch_work import Seeded, SeededWhereDrawn
    numbered = [[(0, i, i) for i in range(first, first + 3)] for first in (0, 3, 6)]
    with _random.Apart(1):
        seen, found = SeededWhereDrawn(SeldomAnother(), 7, False, frozenset(("numpy",))), []
        always = Seeded(SeldomAnother(), 7, False)
        for keys in numbered:
            assert seen.__getitems__(keys) == [always[key] for key in keys]
            seen.in_step = False  # the other one seeds, too
            found.append(seen.drawn)
    assert found == [{"numpy"}, _random.EACH, _random.EACH]


def test_generators_of_the_program_stay_where_samples_seldom_draw():
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    list(mine(Seldom(), batch_size=9, workers="processes"))
    assert torch.rand(1) == want


@pytest.mark.parametrize("draw", [
    random.random, lambda: random.gauss(0, 1), lambda: random.getrandbits(1), np.random.normal,
    np.random.rand, lambda: np.random.randint(0, 2), lambda: torch.rand(1), lambda: torch.randn(1),
    lambda: torch.randint(0, 2, (1,)), lambda: torch.manual_seed(1), lambda: random.seed(1),
    lambda: np.random.seed(1)])
def test_twins_tell_whether_anybody_drew(draw):
    from millrace import _random
    with _random.Apart(1):
        twins = _random.Twins()
        assert not twins.drew() and not twins.drew()
        draw()
        assert twins.drew()


def test_one_number_left_of_a_pair_counts_as_drawn():
    from millrace import _random
    apart = _random.Apart(1)
    with apart:
        np.random.normal()
    apart._begun = apart._states
    with apart:
        assert not apart.drew()
        np.random.normal()
    assert apart.drew()


def drawn_batches(workers, **options):
    def collate(samples):
        return torch.rand(1), [x for *_, x in samples]
    return list(mine(Seldom(), batch_size=9, num_workers=workers, workers="processes", collate_fn=collate, **options))


def test_collate_functions_that_draw_do_so_by_the_law_where_samples_do_not():
    assert drawn_batches(0) == drawn_batches(1) == drawn_batches(2)


def test_threads_with_draws_are_warned_of():
    with pytest.warns(RuntimeWarning, match="does not repeat"):
        list(noisy(num_workers=2, workers="threads"))


def test_a_state_brings_its_seed_where_none_was_given():
    torch.manual_seed(11)
    first = mr.torch.DataLoader(Pairs(), batch_size=4, shuffle=True)
    whole = labels(first)
    batches = iter(mr.torch.DataLoader(Pairs(), batch_size=4, shuffle=True))
    del batches
    taken = mr.torch.DataLoader(Pairs(), batch_size=4, shuffle=True)
    next(iter(taken))
    torch.manual_seed(12)
    second = mr.torch.DataLoader(Pairs(), batch_size=4, shuffle=True)
    second.load_state_dict(taken.state_dict())
    assert labels(second) == whole[1:]
    with pytest.raises(mr.StateError, match="seed"):
        mr.torch.DataLoader(Pairs(), batch_size=4, shuffle=True, seed=3).load_state_dict(
            taken.state_dict())


@pytest.mark.parametrize("workers", [0, 1])
def test_another_world_in_the_middle_is_an_error(workers, monkeypatch):
    """Until the first batch a loader follows its process; afterwards its batches would be of two worlds."""
    loader = mr.torch.DataLoader(Pairs(), batch_size=4, num_workers=workers, seed=1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    half = len(loader)
    batches = iter(loader)
    next(batches)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="begun as rank 1 of 2, and this process is now rank 1 of 4"):
        iter(loader)
    with pytest.raises(RuntimeError, match="open a new one"):
        len(loader)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(loader) == half and len(list(batches)) == half - 1


# ---- Workers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", [Pairs(), Texts()], ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": None},
                                     {"rank": 1, "world": 2}],
                         ids=["plain", "drop", "single", "ranks"])
def test_threads_and_processes_give_the_same_and_take_over_from_each_other(dataset, options):
    def make(workers):
        return mine(dataset, shuffle=True, num_workers=2, workers=workers, **options)

    def shown(batches):
        return [repr(batch) for batch in batches]
    whole = make("threads")
    epochs = [shown(whole) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for first, second in (("threads", "processes"), ("processes", "threads"),
                          ("processes", "processes")):
        for stop in (0, 1, len(epochs[0]) - 1, len(epochs[0])):
            loader = make(first)
            assert shown(itertools.islice(loader, stop)) == epochs[0][:stop]
            state = loader.state_dict()
            resumed = make(second)
            resumed.load_state_dict(state)
            if stop < len(epochs[0]):
                assert shown(resumed) == epochs[0][stop:]
            assert shown(resumed) == epochs[1]


class Slow(Pairs):
    """Pure Python: only one thread at a time can run it."""

    def __len__(self):
        return 4000

    def __getitem__(self, i):
        total = 0
        for k in range(30000):
            total += k * i % 7
        return i


class Sleeps(Pairs):
    def __len__(self):
        return 300

    def __getitem__(self, i):
        time.sleep(0.01)
        return i


def test_auto_changes_over_to_processes_under_the_lock():
    from millrace import _torch_work
    loader = mine(Slow(), batch_size=8, shuffle=True, num_workers=2)
    order = list(mine(list(range(4000)), batch_size=8, shuffle=True))
    got, began, cpu = [], time.monotonic(), time.process_time()
    for batch in loader:
        got.append(batch.tolist())
        if len(got) > 30 and (isinstance(loader._work, _torch_work.Planned) or
                              loader._work.watched is None):
            break
    share = (time.process_time() - cpu) / (time.monotonic() - began)
    assert got == [batch.tolist() for batch in order[:len(got)]]
    assert loader.state_dict()["position"] == 8 * len(got)
    if not isinstance(loader._work, _torch_work.Planned):
        print("other programs took the CPUs, so that there was no telling")
        assert share < 0.5 or (os.cpu_count() or 1) == 1


def test_a_dataset_that_sleeps_stays_in_threads():
    from millrace import _torch_work
    loader = mine(Sleeps(), batch_size=8, num_workers=2)
    assert len(list(loader)) == 38 and isinstance(loader._work, _torch_work.Engine)


@pytest.mark.parametrize("inside,cpu,waited,after,verdict", [
    (2, 1, 0.9, 1, "processes"),    # half of the threads' time is waiting for each other
    (2, 1.9, 0.9, 1, None),         # they run side by side
    (2, 0.01, 0.9, 1, None),        # they sleep
    (2, 1, 0.1, 1, None),           # nobody waits for them
    (2, 1, 0.9, 0.05, None),        # too early
    (8, 7.9, 3.9, 4, "threads")])
def test_when_processes_are_wanted(inside, cpu, waited, after, verdict, monkeypatch):
    from millrace import _torch_work
    watched = _torch_work.Watched(Pairs())
    watched.inside, watched.cpu, watched.waited = inside * 1e9, cpu * 1e9, waited * 1e9
    now = watched.began + int(after * 1e9)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert watched.verdict(2) == verdict


@pytest.mark.parametrize("times,cpu,holds", [
    ([], 900, True),                             # the other thread never ran
    ([550], 900, True),                          # once, after a time slice
    (range(0, 1000, 70), 900, False),            # whenever it wanted
    (range(0, 600, 70), 900, False),             # whenever it wanted, most of the time
    ([], 100, False)])                           # the call slept, the machine was busy
def test_when_a_call_holds_the_lock(times, cpu, holds):
    from millrace._lookout import held_most
    assert held_most(0, [1000 * at for at in times], 1_000_000, 1000 * cpu) == holds
    assert not held_most(0, [], 100_000, 100_000)  # too short to tell


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("holds", [False, True])
def test_samples_made_under_the_lock_begin_in_processes(holds, workers, monkeypatch):
    from millrace import _torch_work
    from millrace._lookout import Lookout
    want = labels(mine(shuffle=True))
    monkeypatch.setattr(Lookout, "holds", lambda _: holds)
    loader = mine(shuffle=True, num_workers=workers)
    assert labels(loader) == want
    assert isinstance(loader._work, _torch_work.Planned) == (holds and workers > 0)


def test_a_lookout_watches_calls():
    from millrace._lookout import Lookout
    with Lookout(True) as lookout:
        assert lookout.watch(divmod, 7, 3) == (2, 1)
        with pytest.raises(ZeroDivisionError):
            lookout.watch(divmod, 7, 0)
    assert not lookout._wanted or not lookout._thread.is_alive()


@pytest.mark.parametrize("after", [1, 3, 5, 6])
def test_changing_over_changes_no_batch(after, monkeypatch):
    from millrace import _torch_work
    whole = mine(shuffle=True)
    want = [labels(whole) for _ in range(2)]
    looks = itertools.count(1)
    monkeypatch.setattr(_torch_work.Watched, "verdict",
                        lambda *_: "processes" if next(looks) == after else None)
    loader = mine(shuffle=True, num_workers=2)
    assert [labels(loader) for _ in range(2)] == want
    assert isinstance(loader._work, _torch_work.Planned) == (after < 6)


class Initialised(Pairs):
    start = 0

    def __getitem__(self, i):
        return i + self.start


def move(_):
    get_worker_info().dataset.start = 100


def test_worker_init_fn():
    loader = mine(Initialised(), num_workers=2, worker_init_fn=move)
    assert sum(numbers(loader), []) == list(range(100, 100 + N))
    loader = mine(Initialised(), num_workers=2, worker_init_fn=move, sampler=[3, 4])
    assert numbers(loader) == [[103, 104]]
    assert numbers(mine(Initialised(), worker_init_fn=move, sampler=[3]))[0] == [3]


class Hangs(Pairs):
    def __init__(self, seconds):
        self.seconds = seconds

    def __getitem__(self, i):
        time.sleep(self.seconds if i == 6 else 0)
        return i


@pytest.mark.parametrize("way", [{"workers": "threads"}, {"workers": "processes"},
                                 {"workers": "threads", "sampler": range(N)}],
                         ids=["threads", "processes", "sampler"])
def test_timeout(way):
    loader = mine(Hangs(4), num_workers=1, timeout=0.3, **way)
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(loader)
    loader.close()
    assert len(list(mine(Hangs(0.4), num_workers=1, timeout=300, **way))) == 6


class Bad(Pairs):
    def __getitem__(self, i):
        if i == 9:
            raise ValueError("no good")
        return i


@pytest.mark.parametrize("way", [{"workers": "threads"}, {"workers": "processes", "num_workers": 2},
                                 {"sampler": range(N)},
                                 {"sampler": range(N), "workers": "threads"}],
                         ids=["threads", "processes", "sampler", "sampler-threads"])
def test_errors_name_the_sample(way):
    got = []
    with pytest.raises(mr.SampleError, match="ValueError: no good") as caught:
        for batch in mine(Bad(), **way):
            got.append(batch.tolist())
    assert caught.value.index == 9 and got == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert "Bad[9]" in caught.value.file and caught.value.__cause__ is not None


# ---- Attributes ----------------------------------------------------------------------------------


def test_attributes_are_torchs():
    dataset = Pairs()
    real, ours = DataLoader(dataset, 4), mr.torch.DataLoader(dataset, 4)
    for name in ("dataset", "batch_size", "num_workers", "pin_memory", "pin_memory_device", "timeout",
                 "worker_init_fn", "multiprocessing_context", "generator", "drop_last",
                 "prefetch_factor", "persistent_workers", "in_order", "collate_fn"):
        assert getattr(ours, name) == getattr(real, name), name
    assert list(ours.batch_sampler) == list(real.batch_sampler)
    assert list(ours.sampler) == list(real.sampler) and len(ours.sampler) == N
    assert len(ours.batch_sampler) == len(real.batch_sampler)
    assert "Pairs" in repr(ours) and "batch_size=4" in repr(ours)
    single = mr.torch.DataLoader(dataset, None)
    assert single.batch_sampler is None and list(single.sampler) == list(range(N))


def test_the_sampler_attribute_is_the_loaders_order():
    loader = mine(shuffle=True)
    epochs = [labels(loader) for _ in range(3)]
    other = mine(shuffle=True)
    assert [list(other.batch_sampler) for _ in range(3)] == epochs
    other.sampler.set_epoch(1)
    assert list(other.batch_sampler) == epochs[1] and labels(other) == epochs[1]
    rebuilt = DataLoader(Pairs(), batch_sampler=mine(shuffle=True).batch_sampler)
    assert [labels(rebuilt) for _ in range(2)] == epochs[:2]


def test_an_empty_dataset_has_no_batches():
    for kind in (DataLoader, mr.torch.DataLoader):
        loader = kind([], batch_size=4)
        assert len(loader) == 0 and not list(loader)


def test_a_loader_can_be_pickled_and_made_before_a_fork():
    loader = mine(shuffle=True, num_workers=2)
    copy = pickle.loads(pickle.dumps(loader))
    assert labels(copy) == labels(loader)
    assert threading.active_count() < 50
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert labels(copy) == labels(loader)


# ---- Samples that are not all alike --------------------------------------------------------------

UNLIKE = {
    "shape": lambda i: torch.full((2 if i < 12 else 3,), i),
    "kind": lambda i: i if i < 12 else i + 0.5,
    "type": lambda i: (torch.full((2,), i, dtype=torch.float32 if i < 12 else torch.float64), i),
    "keys": lambda i: {"x": i} if i < 12 else {"x": i, "y": 2 * i},
    "length": lambda i: (i, i) if i < 12 else (i, i, i),
    "text": lambda i: i if i < 12 else str(i),
    "gradient": lambda i: torch.full((2,), float(i), requires_grad=True),
    "dimensions": lambda i: torch.full((1,) * 8, i)}


class Made(Pairs):
    def __init__(self, make):
        self.make = make

    def __getitem__(self, i):
        return self.make(i)


@pytest.mark.parametrize("name", UNLIKE)
@pytest.mark.parametrize("way", [{}, {"num_workers": 2, "workers": "threads"}], ids=["here", "threads"])
def test_samples_may_differ_from_the_first_two(name, way):
    """As torch's loader has it: only the samples of one batch must be alike."""
    dataset = Made(UNLIKE[name])
    loader, real = mine(dataset, **way), DataLoader(dataset, batch_size=4)
    for _ in range(2):
        assert list(map(repr, loader)) == list(map(repr, real))
    for stop in (1, 5):
        first = mine(dataset, **way)
        seen = [repr(batch) for batch in itertools.islice(first, stop)]
        resumed = mine(dataset, **way)
        resumed.load_state_dict(first.state_dict())
        assert seen + list(map(repr, resumed)) == list(map(repr, real))


def test_samples_of_one_batch_that_differ_are_torchs_error():
    dataset = Made(lambda i: torch.zeros(2 if i < 10 else 3))
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(mine(dataset))


# ---- Datasets that give whole batches ------------------------------------------------------------


class Many(Pairs):
    """As the datasets of Hugging Face do."""

    def __init__(self, bad=-1):
        self.bad, self.together = bad, []

    def __getitem__(self, i):
        if i == self.bad:
            raise ValueError("no good")
        return {"x": i, "together": 0}

    def __getitems__(self, indices):
        return [{**self[i], "together": len(indices)} for i in indices]


@pytest.mark.parametrize("way", [{}, {"num_workers": 2}], ids=["here", "workers"])
@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(N))], ids=["plain", "subset"])
@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": range(N)}], ids=["law", "sampler"])
def test_batches_are_asked_for_at_once(way, wrap, options):
    """Otherwise each row of a table would be looked up by itself."""
    loader = mine(wrap(Many()), **options, **way)
    batches = list(loader)
    assert sorted(i for b in batches for i in b["x"].tolist()) == list(range(N))
    assert [b["together"].tolist() for b in batches] == 5 * [4 * [4]] + [3 * [3]]
    with pytest.raises(mr.SampleError, match="no good") as caught:
        list(mine(wrap(Many(bad=9)), **options, **way))
    assert caught.value.index == 9


def test_what_draws_is_asked_for_one_by_one():
    """So that draws depend on the sample alone."""
    class ManyNoisy(Noisy):
        def __getitems__(self, indices):
            raise AssertionError("nobody asks")
    loader = mine(ManyNoisy(), shuffle=True)
    assert plain(loader) == plain(mine(Noisy(), shuffle=True))


def test_it_is_of_torchs_type_and_keeps_torchs_rules():
    assert isinstance(mine(), DataLoader)
    spawned = mine(num_workers=1, multiprocessing_context="spawn")
    assert spawned.multiprocessing_context.get_start_method() == "spawn"
    for kind in (DataLoader, mr.torch.DataLoader):
        with pytest.raises(ValueError, match="multi-process loading"):
            kind(Pairs(), multiprocessing_context="spawn")


class Curriculum(torch.utils.data.Dataset):
    """What samples are depends on what the program says between epochs."""

    def __init__(self, n):
        self.n, self.size = n, -1

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor([self.size, i])


@pytest.mark.parametrize("workers", ["threads", "auto", "processes"])
@pytest.mark.parametrize("n, batch, count", [(400, 8, 2), (8, 4, 1), (3, 8, 4)])
def test_what_a_program_changes_between_epochs_holds_at_once(workers, n, batch, count):
    dataset = Curriculum(n)
    loader = mr.torch.DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=count, workers=workers)
    assert len(loader) == -(-n // batch)
    for epoch in range(4):
        dataset.size = epoch
        seen = torch.cat(list(loader))
        assert seen[:, 0].tolist() == [epoch] * n and sorted(seen[:, 1].tolist()) == list(range(n))
    dataset.size = 4
    next(iter(loader))  # left early
    dataset.size = 5
    assert torch.cat(list(loader))[:, 0].unique().tolist() == [5]
    loader.close()
