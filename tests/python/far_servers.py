# SPDX-License-Identifier: Apache-2.0
"""Servers for tests, on free ports of this machine: nginx over a folder, and Python's own, which
knows no ranges and no tags. And what is served."""
import contextlib
import http.server
import io
import random
import shutil
import socket
import subprocess
import tarfile
import threading
import time

import mrlib

CONF = """daemon off; master_process off; pid {own}/pid; error_log /dev/null;
events {{}}
http {{ access_log {own}/log; client_body_temp_path {own}/1; proxy_temp_path {own}/2;
fastcgi_temp_path {own}/3; uwsgi_temp_path {own}/4; scgi_temp_path {own}/5; {more}
server {{ listen 127.0.0.1:{port} {tls}; {socket} root {root}; }} }}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, "the server ended"
        time.sleep(0.02)
    raise AssertionError("the server does not answer")


@contextlib.contextmanager
def nginx(root, own, tls=None, socket=None, more=""):
    """Serves `root`; what nginx writes goes to the folder `own`. tls: a certificate with its key, for
    https and HTTP/2. socket: a path that is listened at besides. more: what its configuration has
    besides. Gives its address."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    port = free_port()
    own.mkdir()
    root.chmod(0o755)
    (own / "conf").write_text(CONF.format(
        own=own, port=port, root=root, more=more, socket=f"listen unix:{socket};" if socket else "",
        tls=f"ssl http2; ssl_certificate {tls}; ssl_certificate_key {tls}" if tls else ""))
    process = subprocess.Popen([program, "-c", str(own / "conf")], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def plain(root):
    """Python's http.server over `root`."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(root))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def make_tar(path, seed):
    draw = random.Random(seed)
    with tarfile.open(path, "w") as tar:
        for i in range(30):
            for ending, data in (("bin", draw.randbytes(draw.randint(0, 20000))),
                                 ("cls", str(i % 7).encode())):
                info = tarfile.TarInfo(f"{seed}{i:04d}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def digest_of(source, shuffle, **more):
    document = {"source": source, "batch": 16, "epochs": 2, "seed": 5, "shuffle": shuffle, **more}
    with mrlib.Loader(document, digest=True) as loader:
        n = sum(b.size for b in loader)
        return n, loader.digest()
