# SPDX-License-Identifier: Apache-2.0
"""Several ranks, as people start them: torchrun, Lightning's DDP, accelerate. Indices over ranks and
epochs against what torch's own loader and DistributedSampler give."""
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")


def run(command, tmp_path, **variables):
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900,
                         check=False, env={**os.environ, "OMP_NUM_THREADS": "1", **variables})
    assert out.returncode == 0, out.stdout[-3000:] + out.stderr[-6000:]
    lines = [line for line in out.stdout.splitlines() if line.startswith("[{")]
    return [json.loads(line) for line in lines]


def torchrun(world, program, tmp_path, *arguments):
    return run([sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}",
                "--master-addr=127.0.0.1", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0",
                os.path.join(PROGRAMS, program), *arguments], tmp_path)


def covers(parts, n, padding):
    """Ranks' indices of one epoch: all of the dataset, and nothing twice but the padding."""
    seen = sorted(i for part in parts for batch in part for i in batch)
    assert set(seen) == set(range(n)) and len(seen) == n + padding


@pytest.mark.parametrize("world", [2, 3])
def test_torchrun(world, tmp_path):
    """Loaders made before the process group and after it; ranks with different torch seeds."""
    ranks, = torchrun(world, "ranks.py", tmp_path)
    want = [rank["torch"] for rank in ranks]
    assert [rank["sampler"] for rank in ranks] == want
    for name, batch in (("drop_in", 4 * world), ("drop_in before", 4 * world), ("native", 12),
                        ("native before", 12)):
        found = [rank[name] for rank in ranks]
        steps = -(-101 // batch)
        for rank in found:
            assert rank["len"] == steps and [len(e) for e in rank["epochs"]] == [steps] * 3
        for epoch in range(3):
            covers([rank["epochs"][epoch] for rank in found], 101, -101 % world)
        assert found[0]["epochs"][0] != found[0]["epochs"][1]
    for drop_last in ("", " drop_last"):
        for n in (96, 97, 101) + ((3,) if not drop_last else ()) + (tuple(range(90, 102)) if drop_last else ()):
            sizes = [[rank[f"{kind}{drop_last} {n}"] for rank in ranks] for kind in ("torch", "drop_in")]
            assert sizes[0] == sizes[1], (drop_last, n)


# ---- Lightning -----------------------------------------------------------------------------------


def test_lightning_on_two_processes(tmp_path):
    """Its own launcher: the first process knows nothing of a world when the program makes loaders."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    run([sys.executable, os.path.join(PROGRAMS, "lightning_ddp.py")], tmp_path)
    found = {}
    for rank in (0, 1):
        with open(tmp_path / f"{rank}.json", encoding="utf-8") as file:
            for kind, values in json.load(file).items():
                found.setdefault(kind, []).append(values)
    assert len(found) == 5
    for kind, ranks in found.items():
        for rank in ranks:  # 41 samples, 8 in a step over both ranks, two epochs
            assert len(rank["whole"]) == 12 == len(rank["before"]) + len(rank["after"])
            assert rank["validated"] == rank["validated again"]
            if "torch" not in kind:  # whose order is not kept in a checkpoint
                assert rank["before"] + rank["after"] == rank["whole"]
        for first in (0, 6):
            covers([rank["whole"][first:first + 6] for rank in ranks], 41, 1)
        covers([rank["validated"] for rank in ranks], 41, 1)
        covers([rank["predicted"] for rank in ranks], 41, 0)  # each once
        if "native" in kind:  # which is asked for without shuffling
            assert all(rank["overfitted"][:2] == rank["overfitted"][2:] for rank in ranks)
            covers([rank["overfitted"][:2] for rank in ranks], 16, 0)
        else:
            assert [rank["overfitted"] for rank in ranks] == [rank["overfitted"] for rank in found["torch outside"]]
        assert ranks[0]["whole"][:6] != ranks[0]["whole"][6:]


# ---- accelerate ----------------------------------------------------------------------------------


def test_accelerate_on_two_processes(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    ranks, = torchrun(2, "accelerated.py", tmp_path, str(tmp_path / "saved"))
    for name in ("drop_in", "native", "rebuilt"):
        for epoch in (0, 1):
            parts = [rank[name]["epochs"][epoch] for rank in ranks]
            assert len(parts[0]) == len(parts[1]) == ranks[0][name]["len"] == 6
            covers(parts, 41, 7 if name == "rebuilt" else 1)
            # gather_for_metrics() leaves out what was padded, and the last batch is known to be the last
            for rank in ranks:
                assert sorted(rank[name]["gathered"][epoch]) == list(range(41))
                assert rank[name]["ends"][epoch] == [False] * 5 + [True]
                # Gradients over 4 steps: synchronised in the fourth and in the last one
                assert rank[name]["synced"][epoch] == [False, False, False, True, False, True]
        assert ranks[0][name]["epochs"][0] != ranks[0][name]["epochs"][1]
    # accelerate shares the loader's own order out: step by step both ranks have the same samples
    steps = [[sorted(a + b) for a, b in zip(*(r[name]["epochs"][0] for r in ranks))][:5]
             for name in ("drop_in", "rebuilt")]
    assert steps[0] == steps[1]
    for rank in ranks:  # skip_first_batches() has this rank's, of the epoch that is next
        found = rank["skipped"]
        assert found["rest"] == [found["whole"][1][2:], found["whole"][2]] and found["len"] == 4
        assert found["first"] == found["whole"][0][2:]
        found = rank["saved"]
        assert found["rest"] == [epoch[8:] for epoch in found["whole"]]
        assert found["skipped"][:4] == found["whole"][1][8:]
    covers([rank["skipped"]["whole"][1] for rank in ranks], 41, 1)
    covers([rank["saved"]["skipped"][4:] for rank in ranks], 41, 1)


# ---- Hugging Face --------------------------------------------------------------------------------


def test_trainer_on_two_processes(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    ranks, = torchrun(2, "trainer_ranks.py", tmp_path, str(tmp_path))
    for kind in ("torch", "drop_in", "native"):
        found = [rank[kind] for rank in ranks]
        for rank in found:
            assert rank["steps"] == len(rank["trained"]) == 12 and len(rank["evaluated"]) == 6
        for first in (0, 6):
            covers([rank["trained"][first:first + 6] for rank in found], 41, 7 if kind == "torch" else 1)
        covers([rank["evaluated"] for rank in found], 41, 7 if kind == "torch" else 1)  # accelerate fills up
        assert found[0]["trained"][:6] != found[0]["trained"][6:]
    for rank in ranks:  # Trainer makes a loader for the rest of an epoch from the attributes of ours
        for step, seen in rank["resumed"].items():
            assert seen == rank["drop_in"]["trained"][int(step):]
