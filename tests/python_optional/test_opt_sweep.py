# SPDX-License-Identifier: Apache-2.0
"""Sweeps of torch's loaders: the same batches under every setting, workers' CPU time and steps included."""
import torch
from torch.utils.data import DataLoader

import millrace as mr
from profiled import Numbers


def test_torch_loaders():
    seen = []
    def make(num_workers, persistent_workers=False):
        return DataLoader(Numbers(24), batch_size=4, num_workers=num_workers, persistent_workers=persistent_workers)
    result = mr.sweep(make, num_workers=[0, 2], persistent_workers=[False, True], rounds=1,
                      consume=lambda batch: seen.append(batch[1].tolist()))
    wanted = [list(range(i, i + 4)) for i in range(0, 24, 4)]
    runs = {(run["set"]["num_workers"], run["set"]["persistent_workers"]): run for run in result.runs}
    assert "persistent_workers" in runs[0, True]["error"]  # torch refuses it
    good = [run for run in result.runs if "error" not in run]
    assert len(good) == 3
    assert seen == wanted * (1 + 2 * 3)  # warm, measured, traced
    for run in good:
        assert run["rounds"][0]["samples"] == 24 and run["rounds"][0]["memory"] > 0
        assert [op["name"] for op in run["ops"]][:2] == ["Twice", "add_one"]
        assert run["title"] and run["predictions"]
    assert type(make(0)) is DataLoader and torch.utils.data.get_worker_info() is None


def test_cpu_time_of_workers_counts():
    class Busy(Numbers):
        def __getitem__(self, i):
            sum(range(2_000_000))
            return super().__getitem__(i)
    def make(num_workers):
        return DataLoader(Busy(6), batch_size=3, num_workers=num_workers)
    result = mr.sweep(make, num_workers=[0, 1], rounds=1)
    here, there = (run["rounds"][0]["cpu"] for run in result.runs)
    assert there > here / 2 > 0
