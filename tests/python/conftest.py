# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: the library must be there, and examples are drawn the same way in
every run."""
import os
import shutil
import socket
import subprocess
import time

import pytest
from hypothesis import settings

settings.register_profile("millrace", max_examples=60, deadline=None, derandomize=True,
                          database=None)
settings.load_profile("millrace")


def pytest_configure(config):
    path = os.environ.get("MILLRACE_LIB", "")
    if not os.path.isfile(path):
        pytest.exit(f"MILLRACE_LIB must name libmillrace.so; it is {path!r}", returncode=2)


def answers(server, port):
    """Whether a server that was just started listens; not if it ended, its port being another's."""
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server.poll() is None
        except OSError:
            time.sleep(0.02)
    return False


@pytest.fixture
def redis(tmp_path):
    """The address of a server of our own."""
    if shutil.which("redis-server") is None:
        pytest.skip("there is no redis-server")
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                   "--save", "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL)
        if answers(server, port):
            break
    yield f"redis://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.fixture
def say(redis):
    """A function that says a command to that server and gives what it answers."""
    def one(*words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        with socket.create_connection(("127.0.0.1", int(redis.rsplit(":", 1)[1]))) as line:
            line.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            return line.recv(4096)
    return one
