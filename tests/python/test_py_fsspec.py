# SPDX-License-Identifier: Apache-2.0
"""Addresses that only fsspec knows, through the gateway: the same bytes as from files."""
import http.client
import io
import os
import tarfile
import urllib.parse

import numpy as np
import pytest

import millrace as mr

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(3)
    for shard in range(3):
        with tarfile.open(root / f"t-{shard}.tar", "w") as tar:
            for i in range(50):
                data = draw.bytes(int(draw.integers(1, 3000)))
                info = tarfile.TarInfo(f"{shard}{i:04d}.bin")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return root


@pytest.fixture(scope="module")
def memory(folder):
    system = fsspec.filesystem("memory")
    for path in folder.iterdir():
        system.pipe_file(f"/shards/sub dir/{path.name}", path.read_bytes())
    return "memory://shards/sub dir"


@pytest.fixture(scope="module")
def disk(folder):
    """fsspec's local file system, under a name of its own."""
    from fsspec.implementations.local import LocalFileSystem

    class Disk(LocalFileSystem):
        protocol = ("mrdisk",)

        @classmethod
        def _strip_protocol(cls, path):
            return str(folder.parent) + "/" + path.removeprefix("mrdisk://").removeprefix(str(folder.parent)).lstrip("/")

    fsspec.register_implementation("mrdisk", Disk, clobber=True)
    return f"mrdisk://{folder.name}"


def digest(path, **options):
    pipeline = mr.tar(path, fields=["bin"]).batch(8)
    with pipeline.loader(seed=4, digest=True, **options) as loader:
        n = sum(batch.size for batch in loader)
        return n, loader.digest(), loader.stats()


@pytest.mark.parametrize("names", ["{}/t-{{0..2}}.tar", "{}/t-*.tar", "{}"])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_the_same_bytes_as_from_the_folder(folder, request, where, names):
    root = request.getfixturevalue(where)
    near = digest(names.format(folder))
    far = digest(names.format(root))
    assert far[:2] == near[:2] and far[0] == 150
    origin = {o["name"]: o for o in far[2]["origins"]}["object"]
    assert origin["requests"] > 0 and origin["found"] > 0
    cost = far[2]["fsspec"]
    assert cost["requests"] > 0 and cost["bytes"] > 0 and cost["seconds"] > 0
    assert near[2]["fsspec"] is None or near[2]["fsspec"]["requests"] <= cost["requests"]


def test_names_do_not_depend_on_the_gateway(memory):
    """What is kept is found under the same name by the next process, whose gateway is elsewhere."""
    pipeline = mr.tar(memory + "/t-0.tar", fields=["bin"]).batch(8)
    assert "127.0.0.1" not in str(pipeline.document)
    with pytest.raises(FileNotFoundError) as failure:
        digest(memory + "/none.tar")
    assert "memory://shards/sub dir/none.tar" in str(failure.value) and "127.0.0.1" not in str(failure.value)


def test_an_object_that_is_replaced_is_an_error():
    shard = io.BytesIO()
    with tarfile.open(fileobj=shard, mode="w") as tar:
        for i in range(3000):  # more than is read ahead
            info = tarfile.TarInfo(f"{i:05d}.bin")
            info.size = 5
            tar.addfile(info, io.BytesIO(b"%05d" % i))
    system = fsspec.filesystem("memory")
    system.pipe_file("/changing/a.tar", shard.getvalue())
    with mr.tar("memory://changing/a.tar", fields=["bin"]).batch(1).loader(seed=1) as loader:
        batches = iter(loader)
        next(batches)
        system.pipe_file("/changing/a.tar", shard.getvalue())  # the same bytes, another version
        with pytest.raises(Exception, match="another version"):
            for _batch in batches:
                pass


def test_a_listing_of_many_pages():
    system = fsspec.filesystem("memory")
    for i in range(2345):
        system.pipe_file(f"/many/c{i % 3}/{i:05d}.jpg", b"x%d" % i)
    with mr.files("memory://many").batch(100).loader(seed=1, digest=True) as loader:
        assert sum(batch.size for batch in loader) == 2345


def test_strangers_learn_nothing(memory):
    digest(memory + "/t-0.tar")
    at = urllib.parse.urlsplit(os.environ["MILLRACE_GATEWAY"])
    for path, status in [("/memory/shards/sub%20dir/t-0.tar", 403), ("/x/memory/shards/a", 403), ("/", 403),
                         (at.path + "/file/etc/passwd", 403), (at.path + "/memory/shards/none", 404),
                         (at.path + "/nosuchscheme/a/b", 500)]:
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
        connection.request("GET", path)
        assert connection.getresponse().status == status, path
        connection.close()


def test_hosts_limit_schemes(memory, monkeypatch):
    monkeypatch.setenv("MILLRACE_HOSTS", "data.example.org")
    with pytest.raises(Exception, match="MILLRACE_HOSTS does not have memory://"):
        digest(memory + "/t-0.tar")
    monkeypatch.setenv("MILLRACE_HOSTS", "data.example.org,memory://")
    assert digest(memory + "/t-0.tar")[0] == 50


def test_without_a_gateway_it_is_said(monkeypatch):
    monkeypatch.setenv("MILLRACE_GATEWAY", "")
    with pytest.raises(Exception, match="this kind of address is not read"):
        digest("memory://shards/sub dir/t-0.tar")


def test_who_begins_sees_what_is_there_now():
    """Listings of several pages are kept for their later pages alone."""
    system = fsspec.filesystem("memory")
    for i in range(1200):
        system.pipe_file(f"/many/c/{i:05}.bin", b"%d" % i)
    pipeline = mr.files("memory://many", extensions=[".bin"]).batch(100).shuffle(False)

    def numbers():
        with pipeline.loader(epochs=1) as loader:
            return [int(bytes(row)) for batch in loader for row in batch["image"]]
    assert numbers() == list(range(1200))
    system.pipe_file("/many/c/01200.bin", b"1200")
    system.rm_file("/many/c/00000.bin")
    assert numbers() == list(range(1, 1201))


def test_what_is_replaced_while_it_is_read_is_no_answer(monkeypatch):
    system = fsspec.filesystem("memory")
    system.pipe_file("/changing/a.bin", b"old")
    read = type(system).cat_file

    def replace(self, path, *rest, **part):
        body = read(self, path, *rest, **part)
        self.pipe_file("/changing/a.bin", b"new")
        return body
    monkeypatch.setattr(type(system), "cat_file", replace)
    address = urllib.parse.urlparse(mr.gateway.serve().address)
    line = http.client.HTTPConnection(address.netloc)
    line.request("GET", f"{address.path}/memory/changing/a.bin")
    assert line.getresponse().status == 412
    line.close()
