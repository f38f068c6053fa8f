# SPDX-License-Identifier: Apache-2.0
"""Objects on servers against files, and against curl: tar shards from nginx, photos one by one with
20 ms of latency, a second epoch with the bytes kept, requests that fail and hang. Everything runs on
this machine; ratios are of runs that take turns.

    far.py MILLRACE [PHOTOS]      the command, and a folder of photos
"""
import asyncio
import contextlib
import io
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "python"))
os.environ.setdefault("MILLRACE_LIB", "")
ROUNDS = 3


def make_shards(root, n=6, members=800, size=100_000):
    for shard in range(n):
        with tarfile.open(root / f"s-{shard}.tar", "w") as tar:
            for i in range(members):
                info = tarfile.TarInfo(f"{shard:03d}{i:05d}.bin")
                info.size = size
                tar.addfile(info, io.BytesIO(os.urandom(size)))
    return n * members * size


def run(millrace, document, epochs, digest=False, **environment):
    """Seconds after the first batch, samples a second from there on, the digest."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        out = subprocess.run([millrace, "run", file.name, "--epochs", str(epochs), "--json",
                              *([] if digest else ["--no-digest"])],
                             check=True, capture_output=True, env={**os.environ, **environment})
    told = json.loads(out.stdout)
    seconds = told["seconds"] - told["first_batch_seconds"]
    return seconds, told["samples"] / seconds, told["digest"]


def curl(address, names):
    begin = time.monotonic()
    all_ = [subprocess.Popen(["curl", "-s", "-o", "/dev/null", f"{address}/{name}"])
            for name in names]
    for one in all_:
        assert one.wait() == 0
    return time.monotonic() - begin


class Proxy:
    """Passes on to a port of this machine, each request after `delay` seconds; of a hundred requests
    so many get no answer, and so many a connection that breaks."""
    def __init__(self, port, delay, hang=0, fail=0):
        self.to, self.delay, self.hang, self.fail = port, delay, hang, fail
        self.draw = random.Random(5)
        self.tasks = set()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.main()), daemon=True)
        self.thread.start()
        self.ready.wait()

    async def main(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await server.serve_forever()

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            near, far = await asyncio.open_connection("127.0.0.1", self.to)
            back = asyncio.create_task(self.give_back(near, writer))
            self.tasks.add(back)
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                chance = self.draw.random() * 100
                if chance < self.hang:
                    await asyncio.sleep(3600)
                if chance < self.hang + self.fail:
                    break
                await asyncio.sleep(self.delay)
                far.write(request)
            back.cancel()
            far.close()
        writer.close()

    @staticmethod
    async def give_back(near, writer):
        with contextlib.suppress(OSError):
            while data := await near.read(1 << 18):
                writer.write(data)
                await writer.drain()


def tell(what, ratios, note=""):
    print(f"{what}: {statistics.median(ratios):.2f} "
          f"({', '.join(f'{r:.2f}' for r in ratios)}) {note}", flush=True)


def bench_shards(millrace, root, address):
    total = make_shards(root)
    names = [f"s-{i}.tar" for i in range(6)]

    def document(at):
        return {"source": {"tar": {"path": [f"{at}/{n}" for n in names], "fields": ["bin"]}},
                "batch": 64, "shuffle": False}

    assert run(millrace, document(address), 1, True)[2] == run(millrace, document(root), 1, True)[2]
    against_curl, against_near = [], []
    for _ in range(ROUNDS):
        limit = total / curl(address, names)
        far = run(millrace, document(address), 3)
        near = run(millrace, document(root), 3)
        against_curl.append(far[1] * 100_000 / limit)
        against_near.append(far[1] / near[1])
    tell("tar shards, against curl of the same files in parallel", against_curl)
    tell("tar shards, against the folder", against_near)
    with tempfile.TemporaryDirectory() as store:
        kept = {"MILLRACE_OBJECTS": store + "/o", "MILLRACE_OBJECTS_SIZE": str(4 * total)}
        run(millrace, document(address), 1, **kept)
        tell("the same, all of it kept, against the folder",
             [run(millrace, document(address), 3, **kept)[1] / run(millrace, document(root), 3)[1]
              for _ in range(ROUNDS)])


def bench_photos(millrace, root, photos, port):
    names = sorted(str(p.relative_to(photos)) for p in pathlib.Path(photos).rglob("*.jpg"))[:1000]
    for i, name in enumerate(names):
        (root / f"{i}.jpg").write_bytes((pathlib.Path(photos) / name).read_bytes())
    (root / "list").write_text("".join(f"{i}.jpg\t{i % 10}\n" for i in range(len(names))))

    def document(at):
        return {"source": {"files": {"list": f"{at}/list"}}, "batch": 64, "shuffle": True,
                "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}},
                        {"random_flip": {}}]}

    slow, bad = Proxy(port, 0.02), Proxy(port, 0.02, hang=1, fail=1)
    against_near, against_well = [], []
    for _ in range(ROUNDS):
        near = run(millrace, document(root), 2, True)
        far = run(millrace, document(f"http://127.0.0.1:{slow.port}"), 2, True)
        failing = run(millrace, document(f"http://127.0.0.1:{bad.port}"), 2, True)
        assert far[2] == near[2] == failing[2]
        against_near.append(far[1] / near[1])
        against_well.append(failing[1] / far[1])
    tell("photos one by one, 20 ms, against the folder", against_near)
    tell("the same, 1 % fail and 1 % hang, against none", against_well, "same digest")


def main():
    import far_servers
    millrace = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "www"
        root.mkdir()
        pathlib.Path(folder).chmod(0o755)
        with far_servers.nginx(root, pathlib.Path(folder) / "own") as address:
            bench_shards(millrace, root, address)
            if len(sys.argv) > 2:
                bench_photos(millrace, root, sys.argv[2], int(address.rsplit(":", 1)[1]))


if __name__ == "__main__":
    main()
