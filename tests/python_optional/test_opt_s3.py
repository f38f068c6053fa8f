# SPDX-License-Identifier: Apache-2.0
"""S3 by moto's server: listings with pages, every way of naming objects, versions, credentials; and
signatures against botocore's."""
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto")
auth = pytest.importorskip("botocore.auth")

import botocore.awsrequest  # noqa: E402
import botocore.credentials  # noqa: E402

import far_servers  # noqa: E402
import mrlib  # noqa: E402

CLEAN = ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE",
         "AWS_SHARED_CREDENTIALS_FILE", "AWS_NO_SIGN_REQUEST", "AWS_REGION",
         "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]


@pytest.fixture(scope="module")
def moto():
    port = far_servers.free_port()
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        far_servers.wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def account(monkeypatch, tmp_path):
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def bucket(moto, tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for i in range(1, 4):
        far_servers.make_tar(root / f"t-{i}.tar", i)
    for i in range(1100):  # more than a page
        folder = root / "tree" / f"class {i % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:05d}+ü&.jpg").write_bytes(b"%d" % i * (i % 50 + 1))
    (root / "tree" / "empty").mkdir()
    (root / "tree" / "empty" / "note.txt").write_bytes(b"x")
    client = boto3.client("s3", endpoint_url=moto, region_name="us-east-1",
                          aws_access_key_id="AKEY", aws_secret_access_key="SECRET")
    client.create_bucket(Bucket="data")
    for path in root.rglob("*"):
        if path.is_file():
            client.put_object(Bucket="data", Key=str(path.relative_to(root)),
                              Body=path.read_bytes())
    return root, client


@pytest.fixture
def endpoint(monkeypatch, moto):
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)


@pytest.mark.parametrize("path", ["s3://data/t-{1..3}.tar", "s3://data/t-*.tar",
                                  ["s3://data/t-1.tar", "s3://data/t-[23].tar"]])
def test_shards(bucket, endpoint, path):
    near = far_servers.digest_of({"tar": {"path": f"{bucket[0]}/t-*.tar"}}, True)
    assert far_servers.digest_of({"tar": {"path": path}}, True) == near


def test_a_tree_of_many_pages(bucket, endpoint, tmp_path):
    near = {"files": {"path": f"{bucket[0]}/tree"}}
    far = {"files": {"path": "s3://data/tree", "index": str(tmp_path / "index")}}
    expected = far_servers.digest_of(near, True)
    assert expected[0] == 2200
    assert far_servers.digest_of(far, True) == expected
    assert (tmp_path / "index").stat().st_size > 1100
    assert far_servers.digest_of(far, True) == expected  # by the index


def test_an_object_of_the_index_that_was_replaced(bucket, endpoint, tmp_path):
    _, client = bucket
    for i in range(3):
        client.put_object(Bucket="data", Key=f"few/{i}.jpg", Body=b"x")
    source = {"files": {"path": "s3://data/few", "index": str(tmp_path / "index")}}
    far_servers.digest_of(source, False)
    client.put_object(Bucket="data", Key="few/1.jpg", Body=b"y")
    with pytest.raises(mrlib.MrError, match="another version") as failure:
        far_servers.digest_of(source, False)
    assert "few/1.jpg" in str(failure.value)


def listed(path, code=0):
    command = pathlib.Path(os.environ["MILLRACE_LIB"]).with_name("millrace")
    done = subprocess.run([command, "ls", path, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if code == 0 else done.stderr


def test_ls(bucket, endpoint):
    root, client = bucket
    client.put_object(Bucket="data", Key="near/by/1.bin", Body=b"one")
    client.put_object(Bucket="data", Key="near/by", Body=b"itself")
    client.put_object(Bucket="data", Key="near/bystander", Body=b"another")
    tag = hashlib.md5(b"one").hexdigest()
    one = {"name": "s3://data/near/by/1.bin", "bytes": 3, "version": f'"{tag}"'}
    assert listed("s3://data/near/by/") == [one] == listed("s3://data/near/by/*.bin")
    assert [x["name"] for x in listed("s3://data/near/by")] == ["s3://data/near/by", one["name"]]
    assert [x["bytes"] for x in listed("s3://data/t-{1,3}.tar")] == [
        (root / f"t-{i}.tar").stat().st_size for i in (1, 3)]
    found = listed("s3://data/tree/")  # more than a page
    assert sorted((x["name"], x["bytes"]) for x in found) == sorted(
        (f"s3://data/{p.relative_to(root)}", p.stat().st_size)
        for p in (root / "tree").rglob("*") if p.is_file())
    assert "no object has a name like this" in listed("s3://data/none/", code=4)
    assert "NoSuchBucket" in listed("s3://none/x", code=4)


def test_what_is_not_there(bucket, endpoint):
    with pytest.raises(mrlib.MrError, match="NoSuchKey"):
        far_servers.digest_of({"tar": {"path": "s3://data/none.tar"}}, False)
    with pytest.raises(mrlib.MrError, match="NoSuchBucket"):
        far_servers.digest_of({"tar": {"path": "s3://none/*.tar"}}, False)
    with pytest.raises(mrlib.MrError, match="no object has a name like this"):
        far_servers.digest_of({"tar": {"path": "s3://data/none*.tar"}}, False)


def test_signed_addresses(bucket):
    _, client = bucket
    urls = [client.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": f"t-{i}.tar"})
            for i in range(1, 4)]
    near = far_servers.digest_of({"tar": {"path": f"{bucket[0]}/t-*.tar"}}, False)
    assert far_servers.digest_of({"tar": {"path": urls}}, False) == near


# ---- As whom ----
class Listener(http.server.BaseHTTPRequestHandler):
    """Notes what is asked; gives credentials as a container's server does; refuses the rest."""
    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        body = b"no"
        if self.path == "/credentials":
            body = (b'{"AccessKeyId": "CKEY", "SecretAccessKey": "CSECRET", "Token": "CTOKEN", '
                    b'"Expiration": "2099-01-01T00:00:00Z"}')
        self.send_response(200 if self.path == "/credentials" else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def listener():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(listener, path="s3://data/a b/ü.tar"):
    """What was asked for; the refusal tells no secret."""
    os.environ["AWS_ENDPOINT_URL"] = listener.address
    try:
        with pytest.raises(mrlib.MrError, match="403") as failure:
            far_servers.digest_of({"tar": {"path": path}}, False)
        for secret in ("SECRET", "TOKEN", "KEY"):
            assert secret not in str(failure.value)
    finally:
        del os.environ["AWS_ENDPOINT_URL"]
    return listener.seen[-1]


def check_signature(path, headers, address, key, secret):
    """Against botocore, for the headers that were signed."""
    fields = dict(part.strip().split("=", 1)
                  for part in headers["Authorization"].split(" ", 1)[1].split(","))
    signed = fields["SignedHeaders"].split(";")
    lower = {name.lower(): value for name, value in headers.items()}
    assert fields["Credential"].startswith(key + "/")
    assert {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed)
    request = botocore.awsrequest.AWSRequest("GET", address + path,
                                             headers={name: lower[name] for name in signed})
    request.context["timestamp"] = lower["x-amz-date"]
    signer = auth.S3SigV4Auth(botocore.credentials.Credentials(key, secret), "s3", "us-east-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert fields["Signature"] == signer.signature(text, request)


@pytest.mark.parametrize("path", ["s3://data/a b/ü.tar", "s3://data/a/b*", "s3://data/x+y~.tar"])
def test_signatures_are_those_of_amazons_tools(listener, path):
    asked, headers = ask(listener, path)
    check_signature(asked, headers, listener.address, "AKEY", "SECRET")


def test_a_session_has_a_token(listener, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "TOKEN")
    asked, headers = ask(listener)
    assert headers["x-amz-security-token"] == "TOKEN"
    check_signature(asked, headers, listener.address, "AKEY", "SECRET")


def test_profiles(listener, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    folder = pathlib.Path(os.environ["HOME"]) / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = DKEY\naws_secret_access_key = DSECRET\n"
        "[other]\naws_access_key_id = OKEY\naws_secret_access_key = OSECRET\n")
    check_signature(*ask(listener), listener.address, "DKEY", "DSECRET")
    monkeypatch.setenv("AWS_PROFILE", "other")
    check_signature(*ask(listener), listener.address, "OKEY", "OSECRET")


def test_a_container_gives_credentials(listener, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", listener.address + "/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer x")
    asked, headers = ask(listener)
    assert headers["x-amz-security-token"] == "CTOKEN"
    check_signature(asked, headers, listener.address, "CKEY", "CSECRET")
    given = [h for p, h in listener.seen if p == "/credentials"]
    assert given[0]["Authorization"] == "Bearer x"


def test_nobody(listener, monkeypatch):
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "yes")
    assert "Authorization" not in ask(listener)[1]
    monkeypatch.delenv("AWS_NO_SIGN_REQUEST")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "Authorization" not in ask(listener)[1]
