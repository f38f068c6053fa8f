# SPDX-License-Identifier: Apache-2.0
"""Ray: actors and workers of Ray Train that share a dataset through a Redis server of this machine."""
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("ray", reason="ray is not installed")

HERE = os.path.dirname(os.path.abspath(__file__))
PHOTOS = os.path.join(HERE, "..", "cli", "data", "photos")
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "ray_train.py")


@pytest.fixture(name="server")
def redis_server(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server here")
    path = tmp_path / "socket"
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""],
                               stdout=subprocess.DEVNULL)
    while True:  # until it answers
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(path))
                line.sendall(b"PING\r\n")
                if line.recv(16).startswith(b"+PONG"):
                    break
        except OSError:
            assert process.poll() is None
            time.sleep(0.02)
    yield f"redis+unix://{path}"
    process.kill()
    process.wait()


def test_actors_and_train_share_a_dataset(server, tmp_path):
    # Ray writes a token for its cluster to the home folder.
    done = subprocess.run([sys.executable, EXAMPLE, PHOTOS, server], cwd=tmp_path, capture_output=True, text=True,
                          timeout=900, check=False, env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    actors = re.findall(r"actor, rank (\d): (\d+) samples, (\d+) bytes", done.stdout)
    assert [rank for rank, _, _ in actors] == ["0", "1"] and all(int(n) > 0 for _, n, _ in actors)
    workers = re.findall(r"Ray Train, rank (\d): (\d+) samples, (\d+) bytes", done.stdout)
    assert [(rank, n) for rank, n, _ in workers] == [(rank, n) for rank, n, _ in actors]  # the same order, whoever asks
    assert [read for _, _, read in workers] == ["0", "0"]  # all of it was on the server by then
