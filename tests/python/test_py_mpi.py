# SPDX-License-Identifier: Apache-2.0
"""loader(fabric="mpi"): ranks that mpirun started send each other what they keep."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import millrace as mr

MODULE = pathlib.Path(os.environ.get("MILLRACE_LIB", "/nowhere")).parent / "millrace_mpi_openmpi.so"


def has_open_mpi():
    if not shutil.which("mpirun") or not MODULE.exists():
        return False
    return "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout


pytestmark = pytest.mark.skipif(not has_open_mpi(), reason="no Open MPI here")

PROGRAM = """
import json, os, sys, time
import millrace as mr
with mr.Pipeline.from_json(open(sys.argv[1]).read()).loader(fabric="mpi?linger=60") as loader:
    seen = [[int(s) for s in batch.samples] for batch in loader.all_epochs()]
    open(f"{sys.argv[1]}.done.{loader.rank}", "w").close()
    while not all(os.path.exists(f"{sys.argv[1]}.done.{rank}") for rank in range(loader.world)):
        time.sleep(0.001)  # a rank that is done may still read for others
    stats = loader.stats()
with open(f"{sys.argv[1]}.{loader.rank}", "w") as file:  # mpirun mixes what ranks print
    json.dump({"rank": loader.rank, "world": loader.world, "seen": seen, "read": stats["bytes_read"],
               "bytes_in": stats["fabric"]["bytes_in"]}, file)
"""


def run_ranks(tmp_path, n, document):
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(document))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = dict(os.environ, OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1", OMPI_MCA_oob_tcp_if_include="lo",
               OMPI_MCA_btl_vader_single_copy_mechanism="none")
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(n), sys.executable, str(program),
                           str(path)], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads((tmp_path / f"pipeline.json.{rank}").read_text()) for rank in range(n)]


@pytest.mark.parametrize("share", ["strict", "local"])
def test_ranks_share(tmp_path, share):
    (tmp_path / "data").mkdir()
    for i in range(24):
        (tmp_path / "data" / f"{i:02}.bin").write_bytes(bytes([i]) * (1000 + i))
    document = {"source": {"files": {"path": str(tmp_path / "data"), "extensions": []}}, "ops": [], "batch": 6,
                "epochs": 2, "share": share}
    ranks = run_ranks(tmp_path, 2, document)
    assert [(r["rank"], r["world"]) for r in ranks] == [(0, 2), (1, 2)]
    assert sum(r["read"] for r in ranks) == sum(1000 + i for i in range(24))  # each file once, in two epochs
    for epoch in range(2):
        seen = [s for r in ranks for batch in r["seen"][epoch * 4:epoch * 4 + 4] for s in batch]
        assert sorted(seen) == list(range(24))
    if share == "strict":
        alone = mr.Pipeline.from_json(document).loader(rank=1, world=2)
        assert [[int(s) for s in batch.samples] for batch in alone.one_epoch()] == ranks[1]["seen"][:4]


def test_without_mpirun(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"x" * 10)
    (tmp_path / "b.bin").write_bytes(b"x" * 10)
    document = {"source": {"files": {"path": str(tmp_path), "extensions": [".bin"]}}, "ops": [], "batch": 2}
    with pytest.raises(ValueError, match="not started by mpirun"):
        next(iter(mr.Pipeline.from_json(document).loader(fabric="mpi", rank=0, world=2)))
