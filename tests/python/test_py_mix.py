# SPDX-License-Identifier: Apache-2.0
"""Mixes and views, as Python writes them: each round by weights, the same run whatever the threads,
resumed at any step."""
import numpy as np
import pytest

import millrace as mr


@pytest.fixture
def arrays(tmp_path):
    for name, start, rows in (("a", 0, 100), ("b", 1000, 37)):
        np.save(tmp_path / f"{name}.npy", start + np.arange(rows * 2, dtype=np.float32).reshape(rows, 2))
    return tmp_path


def pipelines(folder):
    return mr.array(str(folder / "a.npy")), mr.array(str(folder / "b.npy"))


def values(loader):
    return [np.array(batch["data"]) for batch in loader]


def test_a_round_holds_each_by_its_weight(arrays):
    a, b = pipelines(arrays)
    loader = mr.mix([a, b], [3, 1], round=8, length=136).batch(8).loader(seed=5, epochs=2)
    for batch in loader.all_epochs():
        if batch.size == 8:
            assert (batch["data"][:, 0] >= 1000).sum() == 2
            assert ((batch.samples >= 100) == (batch["data"][:, 0] >= 1000)).all()


def test_each_has_ops_of_its_own_and_all_have_common_ones(arrays):
    a, b = pipelines(arrays)
    loader = mr.mix([a, b.clip(0, 1010)], round=2).clip(5, 2000).batch(32).shuffle(False).loader()
    seen = np.concatenate(values(loader.one_epoch()))
    assert seen.min() == 5 and seen.max() == 1010 and len(seen) == 137


def test_threads_and_resuming_do_not_matter(arrays):
    a, b = pipelines(arrays)
    mixed = mr.mix([a.every(2), b.take(10)], [2, 1]).batch(8)
    whole = values(mixed.loader(seed=1, threads=1, epochs=3).all_epochs())
    again = values(mixed.loader(seed=1, threads=3, epochs=3).all_epochs())
    assert all(np.array_equal(x, y) for x, y in zip(whole, again, strict=True))
    first = mixed.loader(seed=1, epochs=3)
    taken = []
    for batch in first.all_epochs():
        taken.append(np.array(batch["data"]))
        if len(taken) == 9:
            break
    rest = values(mixed.loader(seed=1, epochs=3, state=first.state_dict()).all_epochs())
    assert all(np.array_equal(x, y) for x, y in zip(whole, taken + rest, strict=True))


def test_functions_of_children(arrays):
    a, b = pipelines(arrays)
    up = a.map(lambda x: x + 0.5, field="data")
    down = b.map(lambda x: -x, field="data")
    seen = np.concatenate(values(mr.mix([up, down]).batch(16).loader().one_epoch()))
    assert set(np.unique(seen[seen > 0] % 1)) == {0.5} and (seen <= -1000).any()


def test_documents_come_back(arrays):
    mixed = mr.mix(pipelines(arrays), [3, 1]).clip(5, 2000).batch(8)
    again = mr.Pipeline.from_json(mixed.to_json())
    assert again.fingerprint == mixed.fingerprint and again.to_json() == mixed.to_json()


def test_what_is_wrong_is_said(arrays):
    a, b = pipelines(arrays)
    with pytest.raises(ValueError, match="batch belongs to the mix"):
        mr.mix([a.batch(3), b])
    with pytest.raises(ValueError, match="2 pipelines and 1 weights"):
        mr.mix([a, b], [1])
    with pytest.raises(TypeError, match="not str"):
        mr.mix(["a.npy"])
    with pytest.raises(ValueError, match="above 0"):
        mr.mix([a, b], [1, 0])
    with pytest.raises(TypeError, match="child 0 gives"):
        mr.mix([a, b.cast("float16")])
    with pytest.raises(ValueError, match="a stream that is followed cannot be in a mix"):
        mr.mix([a, mr.segments(".", follow=True).rehearse(9)])


@pytest.mark.parametrize("view, expected", [
    (lambda p: p.take(3), [0, 1, 2]),
    (lambda p: p.skip(97), [97, 98, 99]),
    (lambda p: p.every(40, offset=1), [1, 41, 81]),
    (lambda p: p.skip(10).take(2), [10, 11]),
    (lambda p: p.take(2).repeat(2), [0, 0, 1, 1]),
])
def test_views(arrays, view, expected):
    a, _ = pipelines(arrays)
    samples = np.concatenate([b.samples for b in view(a).shuffle(False).loader().one_epoch()])
    assert sorted(samples.tolist()) == expected


def test_parts_of_a_split_are_apart(arrays):
    a, _ = pipelines(arrays)
    parts = {"train": 0.8, "val": 0.2}
    train, val = ({int(i) for b in a.split(name, parts).loader().one_epoch() for i in b.samples}
                  for name in parts)
    assert not train & val and train | val == set(range(100)) and 5 < len(val) < 40
