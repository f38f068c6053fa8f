# SPDX-License-Identifier: Apache-2.0
"""Rehearsal by a policy in Python, and by limits of samples per insert."""
import numpy as np
import pytest

import millrace as mr
from millrace import streams


@pytest.fixture
def folder(tmp_path):
    with streams.Writer(tmp_path / "s", sync="never") as writer:
        for i in range(3000):
            writer.append(b"%d" % i, label=i % 4)
    return tmp_path


class Reservoir:
    """Vitter's algorithm R, by the keys that it is given; draws uniformly."""

    def __init__(self):
        self.asked = 0

    def insert(self, kept, samples, labels, keys):
        assert kept.samples.dtype == np.int64 and np.array_equal(kept.labels, kept.samples % 4)
        assert np.array_equal(labels, samples % 4) and keys.dtype == np.uint64
        self.asked += 1
        places, there = [], len(kept.samples)
        for sample, key in zip(samples, keys):
            place = there if there < kept.size else int(key % np.uint64(sample + 1))
            there += there < kept.size
            places.append(place if place < kept.size else -1)
        return places

    def draw(self, kept, keys):
        assert len(kept.samples) == len(set(kept.samples))
        return (keys % np.uint64(len(kept.samples))).astype(np.int64), np.full(len(keys), 2.5)


def pipeline(folder, **parameters):
    return (mr.segments(str(folder / "s"), follow=True, until=3000).rehearse(size=100, share=0.5, **parameters)
            .batch(32).fields(["value", "label", "is_replay", "weight"]))


def take(loader, steps):
    batches = iter(loader)
    taken = [next(batches) for _ in range(steps)]
    return [b.digest for b in taken], np.concatenate([b.samples[b["is_replay"] == 1] for b in taken]), taken


def test_a_policy_decides_and_the_journal_remembers(folder):
    policy = Reservoir()
    with pipeline(folder, policy="custom").loader(journal=folder / "j", digest=True, policy=policy) as loader:
        digests, shown, taken = take(loader, 150)
        state = loader.state_dict()
    assert policy.asked >= 149 and len(shown) == 149 * 16
    assert all((b["weight"][b["is_replay"] == 1] == 2.5).all() for b in taken[1:])
    assert shown.max() > 1500 and np.median(shown) < 1500  # of all that was seen, not the last alone
    again = Reservoir()
    with pipeline(folder, policy="custom").loader(journal=folder / "j", digest=True, policy=again) as loader:
        assert take(loader, 100)[0] == digests[:100]
        half = loader.state_dict()
    assert again.asked == 0
    with pipeline(folder, policy="custom").loader(journal=folder / "j", digest=True, policy=again,
                                                  state=half) as loader:
        assert take(loader, 50)[0] == digests[100:]
        assert loader.state_dict() == state


def broken(method, answer):
    policy = Reservoir()
    setattr(policy, method, lambda *arguments: answer(*arguments))
    return policy


def refuse(*arguments):
    raise KeyError("no opinion")


@pytest.mark.parametrize("method, answer, error, text", [
    ("insert", refuse, KeyError, "no opinion"),
    ("draw", refuse, KeyError, "no opinion"),
    ("insert", lambda kept, *rest: [0], TypeError, "16 whole numbers"),
    ("insert", lambda kept, samples, *rest: np.full(len(samples), 5000), mr.SampleError, "chose place 5000"),
    ("draw", lambda kept, keys: np.full(len(keys), 0.5), TypeError, "whole numbers"),
    ("draw", lambda kept, keys: np.full(len(keys), -1), mr.SampleError, "show place -1"),
])
def test_what_a_policy_does_wrong_is_raised(folder, method, answer, error, text):
    with pytest.raises(error, match=text):  # when it is opened, or later: the first steps are planned at once
        with pipeline(folder, policy="custom").loader(journal=folder / "j", policy=broken(method, answer)) as loader:
            take(loader, 10)


def test_a_policy_needs_a_journal_and_methods(folder):
    with pytest.raises(ValueError, match="journal"):
        pipeline(folder, policy="custom").loader(policy=Reservoir())
    with pytest.raises(TypeError, match="method insert"):
        pipeline(folder, policy="custom").loader(journal=folder / "j", policy=object())
    with pytest.raises((mr.SampleError, ValueError), match="there is none"):
        with pipeline(folder, policy="custom").loader(journal=folder / "j") as loader:
            take(loader, 10)


def test_samples_per_insert(folder):
    with pipeline(folder, samples_per_insert=3.0, least_size=50).loader(digest=True) as loader:
        digests, shown, taken = take(loader, 100)
    new = sum(len(b.samples) for b in taken) - len(shown)
    assert 2.4 < len(shown) / new < 3.1
    with pipeline(folder, samples_per_insert=3.0, least_size=50).loader(digest=True, threads=1) as loader:
        assert take(loader, 100)[0] == digests
