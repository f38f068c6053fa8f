# SPDX-License-Identifier: Apache-2.0
"""Every source reads objects as it reads files: the same digest from nginx as from the folder it
serves."""
import json
import struct
import subprocess

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import far_servers
import mrlib


def make_parquet(path, seed):
    draw = np.random.default_rng(seed)
    table = pyarrow.table({"x": draw.standard_normal(5000), "unused": [draw.bytes(40) for _ in range(5000)],
                           "y": draw.integers(0, 9, 5000)})
    pyarrow.parquet.write_table(table, path, row_group_size=1000)


def make_lines(path, seed):
    with open(path, "w") as out:
        for i in range(500):
            out.write(json.dumps({"n": i * seed, "t": "x" * (i % 50)}) + "\n")


def checksum(data):
    """CRC-32C, turned as TFRecord has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def make_tfrecord(path, seed):
    """Records of examples with one list of numbers, by hand."""
    def field(number, data):
        return bytes([number << 3 | 2]) + varint(len(data)) + data

    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    with open(path, "wb") as out:
        for i in range(200):
            numbers = field(3, field(1, varint(i * seed)))
            example = field(1, field(1, field(1, b"n") + field(2, numbers)))
            size = struct.pack("<Q", len(example))
            out.write(size + checksum(size) + example + checksum(example))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("www")
    for i in range(1, 4):
        far_servers.make_tar(root / f"t-{i}.tar", i)
        make_parquet(root / f"p-{i}.parquet", i)
        make_lines(root / f"l-{i}.jsonl", i)
        make_tfrecord(root / f"r-{i}.tfrecord", i)
        np.arange(5000 * i, dtype=np.uint16).tofile(root / f"k-{i}.bin")
        np.save(root / f"a-{i}.npy", np.random.default_rng(i).standard_normal((100, 5)))
        with h5py.File(root / f"h-{i}.h5", "w") as file:
            file.create_dataset("x", data=np.random.default_rng(i).standard_normal((100, 5)),
                                chunks=(10, 5))
    return root


@pytest.fixture(scope="module")
def server(data, tmp_path_factory):
    with far_servers.nginx(data, tmp_path_factory.mktemp("nginx") / "own") as address:
        yield address


SOURCES = {
    "tar": lambda at: {"tar": {"path": f"{at}/t-{{1..3}}.tar"}},
    "parquet": lambda at: {"parquet": {"path": f"{at}/p-{{1..3}}.parquet", "columns": ["x", "y"]}},
    "lines": lambda at: {"lines": {"path": f"{at}/l-{{1..3}}.jsonl"}},
    "tfrecord": lambda at: {"tfrecord": {"path": f"{at}/r-{{1..3}}.tfrecord"}},
    "tokens": lambda at: {"tokens": {"path": f"{at}/k-{{1..3}}.bin", "length": 16}},
    "array": lambda at: {"array": {"path": f"{at}/a-{{1..3}}.npy"}},
    "hdf5": lambda at: {"hdf5": {"path": f"{at}/h-{{1..3}}.h5"}},
}


@pytest.mark.parametrize("shuffle", [False, True, {"window": 3}])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_server_gives_what_the_folder_gives(data, server, kind, shuffle):
    near = far_servers.digest_of(SOURCES[kind](data), shuffle)
    assert far_servers.digest_of(SOURCES[kind](server), shuffle) == near


@pytest.mark.parametrize("kind", ["tar", "lines"])
def test_a_server_without_ranges_and_tags(data, kind):
    with far_servers.plain(data) as address:
        assert far_servers.digest_of(SOURCES[kind](address), True) == far_servers.digest_of(SOURCES[kind](data), True)


def test_the_fingerprint_has_the_version(data, server, tmp_path_factory):
    root = tmp_path_factory.mktemp("copy")
    for i in range(1, 4):
        (root / f"t-{i}.tar").write_bytes((data / f"t-{i}.tar").read_bytes())
    with far_servers.nginx(root, tmp_path_factory.mktemp("nginx") / "own") as other:
        found = []
        for address in (server, server, other):
            with mrlib.Loader({"source": SOURCES["tar"](address), "batch": 1}) as loader:
                found.append(loader.save())
    assert found[0] == found[1] != found[2]


def test_certificates(data, tmp_path, monkeypatch):
    own = tmp_path / "own.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                    tmp_path / "key", "-out", own, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    own.write_bytes(own.read_bytes() + (tmp_path / "key").read_bytes())
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with far_servers.nginx(data, tmp_path / "nginx", own) as address:
        with pytest.raises(mrlib.MrError, match="certificate"):
            far_servers.digest_of(SOURCES["tar"](address), True)
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        near = far_servers.digest_of(SOURCES["tar"](data), True)
        assert far_servers.digest_of(SOURCES["tar"](address), True) == near
        with pytest.raises(mrlib.MrError, match="certificate"):
            far_servers.digest_of(SOURCES["tar"](address.replace("localhost", "127.0.0.1")), True)


def test_what_is_not_there_is_named(server):
    with pytest.raises(mrlib.MrError, match="404") as failure:
        far_servers.digest_of({"tar": {"path": f"{server}/none-{{1..3}}.tar"}}, False)
    assert "none-1.tar" in str(failure.value)
