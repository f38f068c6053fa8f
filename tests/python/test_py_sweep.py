# SPDX-License-Identifier: Apache-2.0
"""Sweeps: every combination is measured as often as asked, in turns, over the same batches; what is said
follows from the figures. No test looks at how long something took."""
import csv
import json

import numpy as np
import pytest

import millrace as mr


def make(threads=1, batch=4):
    return mr.synthetic(samples=20, shape=[8]).batch(batch).loader(threads=threads)


def test_our_loaders(tmp_path):
    result = mr.sweep(make, threads=[1, 2], batch=[4, 5], rounds=2)
    assert [run["set"] for run in result.runs] == [
        {"threads": t, "batch": b} for t in (1, 2) for b in (4, 5)]
    for run in result.runs:
        assert [one["samples"] for one in run["rounds"]] == [20, 20]
        assert all(one["seconds"] > 0 and one["memory"] > 0 for one in run["rounds"])
        assert run["title"] and isinstance(run["ops"], list)
    assert "Fastest: threads" in result.conclusion and result.conclusion in str(result)
    result.save(tmp_path / "s.html")
    result.save(tmp_path / "s.csv")
    result.save(tmp_path / "s.json")
    assert "<svg" in (tmp_path / "s.html").read_text()
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert rows == result.rows and [row["threads"] for row in rows] == ["1", "1", "2", "2"]
    assert json.loads((tmp_path / "s.json").read_text()) == result.document


def test_ops_are_told_apart():
    def images(threads):
        return mr.synthetic(samples=6, shape=[20, 30, 3]).resize([8, 8]).normalize().batch(3).loader(threads=threads)
    result = mr.sweep(images, threads=[1], rounds=1)
    names = [op["name"] for op in result.runs[0]["ops"]]
    assert names[:2] == ["resize", "normalize"]
    assert all(op["seconds"] > 0 for op in result.runs[0]["ops"][:2])


def test_steps_go_on_over_epochs():
    result = mr.sweep(make, threads=[1], steps=12, rounds=1)
    assert result.runs[0]["rounds"][0]["samples"] == 12 * 4
    result = mr.sweep(make, threads=[1], steps=2, rounds=1)
    assert result.runs[0]["rounds"][0]["samples"] == 2 * 4


def test_turns_and_the_batches_that_are_taken():
    calls, taken = [], []
    def anything(size):
        calls.append(size)
        return [np.zeros((size, 2)), np.zeros((1, 2))]
    result = mr.sweep(anything, size=[3, 7], rounds=2, consume=lambda batch: taken.append(len(batch)))
    assert calls == [7, 3, 7, 7, 3, 3, 7]  # warm, two rounds, and once to look at memory
    assert taken == [n for size in calls for n in (size, 1)]
    assert [run["rounds"][0]["samples"] for run in result.runs] == [4, 8]
    assert result.runs[0].get("ops", []) == []


def test_a_setting_that_raises_is_listed():
    def refuses(threads):
        if threads == 3:
            raise ValueError("three is too many")
        return make(threads)
    result = mr.sweep(refuses, threads=[1, 3], rounds=1)
    assert result.runs[1]["error"] == "ValueError: three is too many"
    assert "three is too many" in str(result)
    with pytest.raises(ValueError, match="three is too many"):
        mr.sweep(refuses, threads=[3])


def test_nothing_to_sweep():
    for settings in ({}, {"threads": []}):
        with pytest.raises(ValueError, match="nothing to sweep"):
            mr.sweep(make, **settings)
    with pytest.raises(ValueError, match="at least 1"):
        mr.sweep(make, threads=[1], rounds=0)


@pytest.mark.parametrize("batch, rows", [
    (np.zeros((5, 2)), 5), ([np.zeros((4, 2)), np.zeros(4)], 4), ({"x": np.zeros((3, 1))}, 3),
    (["a", "bcd"], 2), ([(1, 2), (3, 4)], 2), ((), 9), (7, 9), (np.float32(1), 9)])
def test_rows_of_batches(batch, rows):
    from millrace._sweep import rows_of
    assert rows_of(batch, 9) == rows
