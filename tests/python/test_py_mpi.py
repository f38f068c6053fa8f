# SPDX-License-Identifier: Apache-2.0
"""loader(fabric="mpi"): ranks that mpirun started send each other what they keep."""
import collections
import ctypes
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import pytest

import millrace as mr
from millrace import streams

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


SPILLS = """
import json, os, sys, time
import millrace as mr
EACH = 2400  # of a rank
with mr.Pipeline.from_json(open(sys.argv[1]).read()).loader(fabric="mpi?linger=60", read_ahead_bytes=1, batches_ahead=2,
                                                            digest=True) as loader:
    while loader.stream()["spilled"] < EACH - 200:  # but for what is in memory, of which steps are planned already
        time.sleep(0.001)
    open(f"{sys.argv[1]}.spilled.{loader.rank}", "w").close()
    while not all(os.path.exists(f"{sys.argv[1]}.spilled.{rank}") for rank in range(loader.world)):
        time.sleep(0.001)  # one that is done by then lends no memory
    seen = [batch.digest for batch in loader]
    stream = loader.stream()
with open(f"{sys.argv[1]}.{loader.rank}", "w") as file:
    json.dump({"seen": seen, "spilled": stream["spilled"], "left": stream["spill_bytes"]}, file)
"""


def run_ranks(tmp_path, n, document, text=PROGRAM):
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(document))
    program = tmp_path / "program.py"
    program.write_text(text)
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


class Opens:
    """Counts how often files are opened, by whichever process. At most as often as they were: the kernel may leave out what repeats."""

    OPEN, CLOSE_NOWRITE = 0x20, 0x10

    def __init__(self, paths):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watched = {self.libc.inotify_add_watch(self.fd, os.fsencode(path), self.OPEN | self.CLOSE_NOWRITE): path for path in paths}
        assert self.fd >= 0 and -1 not in self.watched

    def count(self):
        events = struct.iter_unpack("iIII", os.read(self.fd, 1 << 20))
        os.close(self.fd)
        return collections.Counter(self.watched[watch] for watch, mask, _, _ in events if mask & self.OPEN)


def test_shards_are_not_opened_again_in_later_epochs(tmp_path):
    paths = [tmp_path / f"{i}.txt" for i in range(4)]
    for i, path in enumerate(paths):
        path.write_text("".join(f"row {row} of shard {i}\n" for row in range(6000)))
    document = {"source": {"lines": {"path": [str(path) for path in paths]}}, "ops": [], "batch": 240, "epochs": 6,
                "remainder": "drop"}
    opens = Opens(paths)
    ranks = run_ranks(tmp_path, 2, document)
    counts = opens.count()
    assert sum(r["read"] for r in ranks) == sum(path.stat().st_size for path in paths)
    # By each rank once to count rows, and once to read what it owns; the first is also looked at for its format and types.
    assert all(2 <= counts[path] <= 4 for path in paths[1:]), counts


def test_entries_that_come_too_early_wait_in_the_memory_of_another_rank(tmp_path):
    for partition in range(4):
        with streams.Writer(tmp_path / "s", partition, sync="never") as writer:
            for i in range(1200):
                writer.append(bytes([partition]) * (1000 + i), label=i)
    document = {"source": {"segments": {"path": str(tmp_path / "s"), "follow": True, "partitions": 4, "until": 1200}},
                "batch": 24, "seed": 3}
    ranks = run_ranks(tmp_path, 2, document | {"pace": {"early": "spill", "spill_to": "ranks"}}, SPILLS)
    for rank in range(2):
        alone = mr.Pipeline.from_json(document).loader(rank=rank, world=2, digest=True)
        assert [batch.digest for batch in alone] == ranks[rank]["seen"]
        assert ranks[rank]["spilled"] > 1200 and ranks[rank]["left"] == 0  # all came back


def test_without_mpirun(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"x" * 10)
    (tmp_path / "b.bin").write_bytes(b"x" * 10)
    document = {"source": {"files": {"path": str(tmp_path), "extensions": [".bin"]}}, "ops": [], "batch": 2}
    with pytest.raises(ValueError, match="not started by mpirun"):
        next(iter(mr.Pipeline.from_json(document).loader(fabric="mpi", rank=0, world=2)))
