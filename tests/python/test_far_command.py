# SPDX-License-Identifier: Apache-2.0
"""The command with addresses of servers: ls, check, run, and cache warm, which fills the store of
objects so that a run fetches nothing."""
import json
import os
import random
import re
import subprocess

import pytest

import far_servers
from test_far import SOURCES, data, server  # noqa: F401  (fixtures)

COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")


def millrace(*arguments, code=0, **variables):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **variables}, timeout=120)
    assert done.returncode == code, done.stderr
    return done


def write(path, source, **more):
    path.write_text(json.dumps({"source": source, "batch": 16, "seed": 5, **more}))
    return path


KINDS = [("tar", True, []), ("tar", {"window": 3}, []), ("tfrecord", False, []),
         ("parquet", True, ["x"]), ("parquet", {"window": 3}, [])]


@pytest.mark.parametrize("kind,shuffle,fields", KINDS)
def test_warm_fetches_what_a_run_wants(data, server, tmp_path, kind, shuffle, fields):  # noqa: F811
    more = {"shuffle": shuffle, "epochs": 2, **({"fields": fields} if fields else {})}
    near = write(tmp_path / "near.json", SOURCES[kind](data), **more)
    far = write(tmp_path / "far.json", SOURCES[kind](server), **more)
    store = tmp_path / "objects"
    keep = {"MILLRACE_OBJECTS": str(store), "MILLRACE_OBJECTS_SIZE": "100000000"}

    first = json.loads(millrace("cache", "warm", far, "--json", **keep).stdout)
    assert first["objects"]["fetched"] > 0  # a block that is wanted twice may be kept by then
    second = json.loads(millrace("cache", "warm", far, "--json", **keep).stdout)
    assert second["objects"]["fetched"] == 0 and second["objects"]["kept"] > 0

    # Another seed asks for the same bytes in another order.
    for seed in (5, 6):
        here = json.loads(millrace("run", near, "--json", "--seed", seed).stdout)
        there = json.loads(millrace("run", far, "--json", "--seed", seed, **keep).stdout)
        assert there["digest"] == here["digest"]
        found = {origin["name"]: origin["found"] for origin in there["origins"]}
        assert found["objects"] > 0 and found.get("object", 0) == 0, found

    stat = json.loads(millrace("cache", "stat", "--path", store, "--json").stdout)["stores"][0]
    assert [way["text"] for way in stat["pipelines"]].count("bytes of objects") == 1
    assert stat["entries"] > 0
    assert f"{stat['entries']} entries checked, none damaged" in millrace("cache", "verify", "--path", store).stdout
    cleared = json.loads(millrace("cache", "clear", "--path", store, "--json").stdout)
    assert cleared["deleted"] == stat["entries"]
    again = json.loads(millrace("cache", "warm", far, "--json", **keep).stdout)
    assert again["objects"]["fetched"] > 0


def test_warm_of_files_here_has_nothing_to_do(data, tmp_path):  # noqa: F811
    near = write(tmp_path / "near.json", SOURCES["tar"](data))
    said = millrace("cache", "warm", near, code=2, MILLRACE_OBJECTS=str(tmp_path / "objects"))
    assert "reads no objects" in said.stderr and "cache" in said.stderr
    said = millrace("cache", "warm", near, code=2, MILLRACE_OBJECTS="")
    assert "the pipeline has no cache" in said.stderr


def test_ls_of_addresses(data, server):  # noqa: F811
    lines = millrace("ls", f"{server}/t-{{1..3}}.tar?key=secret", "--json").stdout.splitlines()
    listed = [json.loads(line) for line in lines]
    assert [x["name"] for x in listed] == [f"{server}/t-{i}.tar" for i in (1, 2, 3)]
    assert [x["bytes"] for x in listed] == [(data / f"t-{i}.tar").stat().st_size for i in (1, 2, 3)]
    assert all(x["version"].startswith('"') for x in listed)
    said = millrace("ls", f"{server}/none.tar?key=secret", code=4)
    assert "404" in said.stderr and "secret" not in said.stderr + said.stdout
    assert "wildcards" not in said.stderr
    for many in (f"{server}/none-*.tar?key=secret", f"{server}/none/"):
        said = millrace("ls", many, code=4)
        assert "404" in said.stderr and "HTTP has no wildcards and no listings" in said.stderr
    with far_servers.plain(data) as address:
        assert "GMT" in millrace("ls", f"{address}/t-1.tar").stdout


@pytest.mark.parametrize("kind", SOURCES)
def test_check_of_an_address_is_that_of_the_folder(data, server, tmp_path, kind):  # noqa: F811
    """Types are looked up where they are not in the document, as they are in files."""
    far = write(tmp_path / "far.json", SOURCES[kind](server))
    near = write(tmp_path / "near.json", SOURCES[kind](data))
    there = json.loads(millrace("check", far, "--json").stdout)
    here = json.loads(millrace("check", near, "--json").stdout)
    assert there["stages"][0]["type"] == here["stages"][0]["type"]
    assert there["fields"] == here["fields"]


def test_requests_are_shown_and_traced(data, server, tmp_path):  # noqa: F811
    far = write(tmp_path / "far.json", SOURCES["tar"](server), shuffle=True, epochs=60)  # more than is asked for ahead
    trace, metrics = tmp_path / "t.trace", tmp_path / "m.prom"
    shown = millrace("run", far, "--no-digest", "--top", "--metrics", metrics, "--trace", trace)
    line = re.search(r"^requests +([\d,]+)  .*/s, \d+ of \d+ at once, 0 retries, \d+ twice$", shown.stderr, re.M)
    requests = int(line[1].replace(",", ""))
    figures = dict(x.split() for x in metrics.read_text().splitlines() if x.startswith("millrace_server"))
    assert int(figures["millrace_server_requests_total"]) == requests
    assert int(figures["millrace_server_bytes_total"]) > 0

    report = json.loads(millrace("report", trace, "--json").stdout)
    spans = {k: report["kinds"][k] for k in ("request_wait", "first_byte", "transfer")}
    assert 0 < spans["transfer"]["count"] <= requests
    assert len({span["count"] for span in spans.values()}) == 1
    # A sample's bytes come by one request here: what it took lies within what the load took.
    assert sum(span["total"] for span in spans.values()) <= 1.01 * report["kinds"]["read"]["total"]
    told = report["figures"]
    assert told["requests_in_flight"] > 0 and told["requests_most"] >= 2
    assert "requests to servers" in millrace("explain", trace).stdout


def test_progress_shows_bytes_and_requests(data, server, tmp_path):  # noqa: F811
    far = write(tmp_path / "far.json", SOURCES["tar"](server), shuffle=True, epochs=3)
    script = tmp_path / "typescript"
    subprocess.run(["script", "-qec", f"stty cols 140; '{COMMAND}' run '{far}' --no-digest --consume 20ms", script],
                   check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120)
    assert re.search(rb"B/s by \d+ requests?", script.read_bytes())


def test_limits_of_the_document(tmp_path):
    """Pinned names are not looked up, so that the run is what finds nobody there; the environment has the
    last word."""
    address = f"http://127.0.0.1:{far_servers.free_port()}"
    (tmp_path / "list").write_text(f"{address}/a.jpg#size=9&tag=%22x%22\t0\n")
    source = {"files": {"list": str(tmp_path / "list")}}
    far = write(tmp_path / "far.json", source, batch=1, servers={"attempts": 2})
    assert "after 2 attempts" in millrace("run", far, code=4).stderr
    assert "after 3 attempts" in millrace("run", far, code=4, MILLRACE_FAR_ATTEMPTS="3").stderr
    # Pauses double from 25 ms on, so that a second is over long before 100 attempts.
    far = write(tmp_path / "far.json", source, batch=1, servers={"attempts": 100, "seconds": 1})
    tries = int(re.search(r"after (\d+) attempts", millrace("run", far, code=4).stderr)[1])
    assert 2 <= tries < 12
    # They hold for what is looked up while the dataset is opened, too.
    (tmp_path / "bare").write_text(f"{address}/a.jpg\t0\n")
    bare = {"files": {"list": str(tmp_path / "bare")}}
    far = write(tmp_path / "far.json", bare, batch=1, servers={"attempts": 2})
    assert "after 2 attempts" in millrace("run", far, code=4).stderr
    assert "after 3 attempts" in millrace("run", far, code=4, MILLRACE_FAR_ATTEMPTS="3").stderr
    bad = write(tmp_path / "bad.json", source, servers={"attempts": 101})
    assert "$.servers.attempts" in millrace("check", bad, code=2).stderr
    bad = write(tmp_path / "bad.json", source, servers=["*"])
    assert "servers must be an object" in millrace("check", bad, code=2).stderr
    bad = write(tmp_path / "bad.json", source, servers={"hosts": "*"})
    assert "hosts" in millrace("check", bad, code=2, MILLRACE_HOSTS="").stderr  # no document widens them


def test_objects_of_the_document(data, server, tmp_path):  # noqa: F811
    store = tmp_path / "objects"
    terms = {"objects": str(store), "objects_size": "100MB"}
    far = write(tmp_path / "far.json", SOURCES["tar"](server), shuffle=True, servers=terms)
    millrace("cache", "warm", far)
    assert json.loads(millrace("cache", "warm", far, "--json").stdout)["objects"]["fetched"] == 0
    told = json.loads(millrace("run", far, "--json").stdout)
    assert {o["name"]: o["found"] for o in told["origins"]}["object"] == 0
    # Whoever runs it may say otherwise: here, that nothing is kept.
    told = json.loads(millrace("run", far, "--json", MILLRACE_OBJECTS="").stdout)
    assert "objects" not in {o["name"] for o in told["origins"]}
    assert json.loads(millrace("check", far, "--json").stdout)["fingerprint"] == json.loads(millrace(
        "check", write(tmp_path / "b.json", SOURCES["tar"](server), shuffle=True), "--json").stdout)["fingerprint"]


def test_one_address_among_a_million_names_is_seen(data, tmp_path):  # noqa: F811
    """Of a list of names of files one is an address: the run has an origin for it."""
    (tmp_path / "a.bin").write_bytes(b"x")
    names = ["a.bin\t0\n"] * 1_100_000
    names[1_000_001] = "http://127.0.0.1:9/b.bin\t0\n"
    (tmp_path / "list").write_text("".join(names))
    mixed = write(tmp_path / "mixed.json", {"files": {"list": str(tmp_path / "list")}}, shuffle=False)
    told = json.loads(millrace("run", mixed, "--json", "--steps", 1).stdout)
    assert [o["name"] for o in told["origins"]] == ["object", "files"]
    names[1_000_001] = names[0]
    (tmp_path / "list").write_text("".join(names))
    told = json.loads(millrace("run", mixed, "--json", "--steps", 1).stdout)
    assert [o["name"] for o in told["origins"]] == ["files"]


def objects_below(store):
    return [p for p in store.rglob("*") if p.is_file()] if store.exists() else []


def test_killed_while_objects_are_kept(data, server, tmp_path):  # noqa: F811
    """At any moment, here once so much of the store is there: what is left is whole, or fetched again."""
    near = json.loads(millrace("run", write(tmp_path / "near.json", SOURCES["tar"](data), shuffle=True), "--json").stdout)
    far = write(tmp_path / "far.json", SOURCES["tar"](server), shuffle=True)
    store = tmp_path / "objects"
    keep = {"MILLRACE_OBJECTS": str(store), "MILLRACE_OBJECTS_SIZE": "100000000"}
    slow = write(tmp_path / "slow.json", SOURCES["tar"](server), shuffle=True, epochs=1000)
    for files in (0, 1, 2, 3):
        process = subprocess.Popen([COMMAND, "run", slow, "--quiet", "--no-digest"], env={**os.environ, **keep},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(objects_below(store)) < files:
            pass
        process.kill()
        process.wait()
        told = json.loads(millrace("run", far, "--json", **keep).stdout)
        assert told["digest"] == near["digest"]
    assert "none damaged" in millrace("cache", "verify", "--path", store).stdout
    told = json.loads(millrace("run", far, "--json", **keep).stdout)
    assert told["digest"] == near["digest"]
    assert {o["name"]: o["found"] for o in told["origins"]}["object"] == 0


def test_objects_stay_within_their_size_and_are_shared(tmp_path):
    """Two runs at once over one store that is much too small, then two over one that has room: each gives
    what the folder gives, the small store stays small, and of the other a third run fetches nothing."""
    (tmp_path / "www").mkdir()
    draw = random.Random(3)
    for i in range(48):
        (tmp_path / "www" / f"{i}.bin").write_bytes(draw.randbytes(50_000 + i))
    with far_servers.nginx(tmp_path / "www", tmp_path / "own") as address:
        def document(name, at):
            (tmp_path / f"{name}.list").write_text("".join(f"{at}/{i}.bin\t0\n" for i in range(48)))
            return write(tmp_path / f"{name}.json", {"files": {"list": str(tmp_path / f"{name}.list")}}, shuffle=True, epochs=2)

        near = json.loads(millrace("run", document("near", tmp_path / "www"), "--json").stdout)
        far = document("far", address)
        for size in (1_000_000, 100_000_000):
            store = tmp_path / str(size)
            keep = {"MILLRACE_OBJECTS": str(store), "MILLRACE_OBJECTS_SIZE": str(size)}
            both = [subprocess.Popen([COMMAND, "run", far, "--json"], env={**os.environ, **keep}, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
            for process in both:
                told = json.loads(process.communicate()[0])
                assert process.returncode == 0 and told["digest"] == near["digest"]
            stat = json.loads(millrace("cache", "stat", "--path", store, "--json").stdout)["stores"][0]
            assert stat["limit"] == size and 0 < stat["disk_bytes"] <= size
            assert "none damaged" in millrace("cache", "verify", "--path", store).stdout
        told = json.loads(millrace("run", far, "--json", **keep).stdout)
        assert told["digest"] == near["digest"]
        assert {o["name"]: o["found"] for o in told["origins"]}["object"] == 0


def test_objects_on_a_full_disk(data, server, tmp_path):  # noqa: F811
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk],
                                           stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no disk of its own can be mounted")
    try:
        near = json.loads(millrace("run", write(tmp_path / "n.json", SOURCES["tar"](data), epochs=2), "--json").stdout)
        far = write(tmp_path / "far.json", SOURCES["tar"](server), epochs=2)
        for folder in ("a", "b"):  # the second finds the disk full from the start
            told = json.loads(millrace("run", far, "--json", MILLRACE_OBJECTS=str(disk / folder),
                                       MILLRACE_OBJECTS_SIZE="100000000").stdout)
            assert told["digest"] == near["digest"]
            (disk / "rest").write_bytes(b"")
            with pytest.raises(OSError), open(disk / "rest", "ab", buffering=0) as rest:
                while True:
                    rest.write(bytes(4096))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_check_names_the_server_that_is_not_there(tmp_path):
    address = f"http://127.0.0.1:{far_servers.free_port()}"
    far = write(tmp_path / "far.json", SOURCES["tar"](address))
    said = millrace("check", far, code=4, MILLRACE_FAR_ATTEMPTS="2")
    assert f"{address}/t-1.tar" in said.stderr and "2 attempts" in said.stderr
    said = millrace("check", far, code=2, MILLRACE_HOSTS="data.example.org")
    assert "MILLRACE_HOSTS" in said.stderr
