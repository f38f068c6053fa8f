# SPDX-License-Identifier: Apache-2.0
"""Traces from Python: figures against an independent reader, pages, verdicts, errors."""
import csv
import json
import os
import time

import numpy as np
import pytest
from PIL import Image

import millrace as mr
import spans

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def photos():
    return (mr.files(PHOTOS).decode_image().random_resized_crop(24).random_flip().normalize()
            .batch(4))


def traced(pipeline, path, **options):
    with pipeline.loader(trace=path, **{"epochs": 1, **options}) as loader:
        for _ in loader.all_epochs():
            pass
    return mr.report(path)


def close(a, b):
    assert a == pytest.approx(b, rel=1e-6, abs=2e-9)


@pytest.mark.parametrize("fuse", [True, False])
def test_figures_against_an_independent_reader(tmp_path, fuse):
    path = tmp_path / "trace"
    report = traced(photos().fuse(fuse), path, epochs=12, threads=2, seed=3)
    figures, trace = report.figures, spans.Trace(path)
    assert figures["samples"] == 120 and figures["n_batches"] == 36
    compare(figures, trace)
    assert len(figures["slowest"]) == 100
    assert all(s["name"].endswith((".jpg", ".png")) for s in figures["slowest"])


def test_a_trace_that_cannot_be_begun_leaves_the_loader_as_it_was(tmp_path):
    with mr.synthetic(samples=8, shape=[2]).batch(2).shuffle(False).loader(epochs=1) as loader, \
            mr.synthetic(samples=8, shape=[2]).batch(2).shuffle(False).loader(epochs=1) as plain:
        next(loader), next(plain)
        with pytest.raises(FileNotFoundError):
            mr.profile(loader, tmp_path / "none" / "run.trace")
        assert loader.trace is None
        for got, wanted in zip(loader, plain, strict=True):
            assert all(np.array_equal(got[field], wanted[field]) for field in wanted)


def test_a_loader_that_cannot_be_opened_anew_leaves_its_trace(tmp_path):
    """Behind the end of a profile: the trace is whole, and the loader is closed."""
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_text(name)
    with mr.files(tmp_path).batch(1).shuffle(False).loader(epochs=1) as loader:
        with pytest.raises(mr.StateError):
            with mr.profile(loader, tmp_path / "run.trace"):
                next(loader)
                (tmp_path / "c.jpg").write_text("c")  # now it is another dataset
        assert loader.trace is None
        with pytest.raises(ValueError, match="the loader is closed"):
            next(loader)
    assert mr.report(tmp_path / "run.trace").figures["samples"] == 1


def compare(figures, trace):
    """A report's figures with those of the independent reader."""
    assert figures["spans"] == len(trace.spans) and figures["damaged"] == 0
    for got, wanted in zip(figures["ops"], spans.op_times(trace), strict=True):
        assert got["name"] == wanted["name"]
        for name in ("count", "total", "mean", "p50", "p99"):
            close(got[name], wanted[name])
    for kind, got in figures["kinds"].items():
        wanted = spans.times(trace.of(kind))
        for name in ("count", "total", "mean", "p50", "p99"):
            close(got[name], wanted[name])
    batches = spans.batch_times(trace)
    assert [row[0] for row in figures["batches"]] == list(batches)
    for row, wanted in zip(figures["batches"], batches.values(), strict=True):
        close(row[2], wanted["ready"])
        close(row[4], wanted["taken"])
        close(row[5], wanted["work"])
        close(row[6], wanted["wait"])
        close(row[7], wanted["consume"])
        assert row[8] == wanted["overtaken"]
    totals = figures["batch_totals"]
    close(totals["mean_delay"], np.mean([b["delay"] for b in batches.values()]))
    assert totals["overtaken"] == sum(b["overtaken"] for b in batches.values())
    close([s["seconds"] for s in figures["slowest"]], spans.slowest(trace).tolist())
    close(figures["verdict"]["rate"], spans.rate(trace))


def test_rows_that_are_made_together_share_their_spans(tmp_path):
    table = np.arange(6000 * 4, dtype="f4").reshape(6000, 4)
    np.save(tmp_path / "table.npy", table)
    pipeline = (mr.array(str(tmp_path / "table.npy")).clip(low=0, high=9000).cast("float16")
                .batch(500))
    digests = []
    for options in ({"trace": tmp_path / "trace"}, {}):
        with pipeline.loader(epochs=1, threads=2, seed=5, **options) as loader:
            digests.append([np.asarray(batch["data"]).tobytes() for batch in loader])
    assert digests[0] == digests[1] and len(digests[0]) == 12
    figures, trace = mr.report(tmp_path / "trace").figures, spans.Trace(tmp_path / "trace")
    compare(figures, trace)
    for kind in ("fill", "sample"):
        assert spans.rows(trace.of(kind)).sum() == 6000
        assert len(trace.of(kind)) < 600
        assert figures["kinds"][kind]["count"] == 6000
    assert [op["count"] for op in figures["ops"]] == [6000, 6000]
    assert set(trace.of("fill")["bytes_out"]) == {16}
    ops = trace.of("op")
    assert {(s["op"], s["bytes_in"], s["bytes_out"]) for s in ops} == {(0, 16, 16), (1, 16, 8)}
    assert figures["slowest"] == []  # no row was timed by itself
    lines = traced(pipeline, tmp_path / "trace", threads=1)
    lines.export(tmp_path / "trace.csv", "csv")
    with open(tmp_path / "trace.csv") as file:
        table = list(csv.DictReader(file))
    made = [line for line in table if line["kind"] == "sample"]
    assert sum(int(line["rows"]) for line in made) == 6000
    assert all(0 <= int(line["sample"]) < 6000 for line in made)
    lines.export(tmp_path / "trace.json", "chrome")
    events = [e for e in json.load(open(tmp_path / "trace.json"))["traceEvents"]
              if e.get("cat") == "sample"]
    assert sum(e["args"].get("rows", 1) for e in events) == 6000


def test_unpacking_blocks_is_told_apart_from_waiting(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    table = pa.table({"word": pa.array([f"word{i}" for i in rng.integers(0, 50, 8000)]),
                      "x": pa.array(rng.standard_normal(8000), pa.float32())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000, compression="zstd")
    pipeline = (mr.parquet(str(tmp_path / "t.parquet")).hash_bucket(buckets=10, field="word")
                .clip(low=-1, high=1, field="x").batch(500).shuffle({"window": 4}))
    report = traced(pipeline, tmp_path / "trace", epochs=2, threads=2)
    figures, trace = report.figures, spans.Trace(tmp_path / "trace")
    compare(figures, trace)
    unpacked = trace.of("unpack")
    assert len(unpacked) == figures["kinds"]["unpack"]["count"] >= 2 * 8  # a row group has parts
    assert set(unpacked["item"].tolist()) == set(range(0, 8000, 1000))
    assert len(trace.of("read")) == 16
    alone = [spans.KINDS.index(k) for k in ("unpack", "wait_read", "wait_work", "sample", "seal")]
    for track in set(trace.tracks.tolist()):  # one worker does one of these at a time
        own = trace.spans[(trace.tracks == track) & np.isin(trace.spans["kind"], alone)]
        own = own[np.argsort(own["start"], kind="stable")]
        assert np.all(own["start"][1:] >= (own["start"] + own["duration"])[:-1])
    mapped = {op["name"]: op["mapped"] for op in figures["ops"]}
    assert mapped["hash_bucket"] and "in unpack" in str(report)


def test_a_span_stands_for_so_many_rows_at_most(tmp_path):
    np.save(tmp_path / "bytes.npy", np.zeros(100000, "u1"))
    pipeline = mr.array(str(tmp_path / "bytes.npy")).batch(100000)
    figures = traced(pipeline, tmp_path / "trace", threads=1).figures
    rows = spans.rows(spans.Trace(tmp_path / "trace").of("sample"))
    assert rows.sum() == 100000 == figures["kinds"]["sample"]["count"]
    assert rows.max() <= 1 << 15 and len(rows) < 10


def are_probed(functions):
    """Whether this machine lets any worker be probed; else the report must say so."""
    if not functions["probes"]:
        print("this machine lets no thread be probed, so that alone is checked")
        assert "lets no thread be probed" in functions["note"]
    return functions["probes"] > 0


def numpy_below(x):
    np.linalg.svd(np.full((48, 48), 0.5))
    return x


def callbacks(x):
    """Python that C calls, twice over: far below the engine's frames."""
    sorted(range(40), key=lambda i: sorted(range(30), key=lambda j: sum(range(8 + j)))[0] + i)
    return x


@pytest.mark.parametrize("function", [numpy_below, callbacks])
def test_code_below_python_belongs_to_its_op(tmp_path, function):
    pipeline = mr.synthetic(samples=4000, shape=[8]).map(function).batch(8)
    functions = traced(pipeline, tmp_path / "trace", threads=2).figures["functions"]
    if not are_probed(functions):
        return
    probes = {place["name"]: place["probes"] for place in functions["places"]}
    assert probes["map"] > 10 and probes["map"] > 0.9 * functions["probes"]
    assert spans.function_counts(spans.Trace(tmp_path / "trace")).total() == functions["probes"]


def test_functions_against_an_independent_reader(tmp_path):
    path = tmp_path / "trace"
    for epochs in (60, 600, 6000):  # a probe wants 5 ms of a thread's CPU time
        functions = traced(photos(), path, epochs=epochs, threads=2).figures["functions"]
        if functions["probes"] or functions["note"]:
            break
    trace = spans.Trace(path)
    if not are_probed(functions):
        return
    wanted = spans.function_counts(trace)
    got = {(place["name"], f["object"], f["name"]): f["probes"]
           for place in functions["places"] for f in place["functions"]}
    assert functions["probes"] == len(trace.probes) > 0 and functions["left_out"] == 0
    assert got == wanted
    for place in functions["places"]:
        assert place["probes"] == sum(f["probes"] for f in place["functions"])
        assert place["op"] in (-1, *range(4))


def test_samples_nest_in_their_threads(tmp_path):
    """What Chrome's format wants: the spans of a worker lie inside each other or apart."""
    path = tmp_path / "trace"
    traced(photos(), path, epochs=4, threads=2).export(tmp_path / "trace.json")
    events = json.load(open(tmp_path / "trace.json"))["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values())[0] == "consumer" and "worker 1" in names.values()
    first = {}
    for e in (e for e in events if e["ph"] == "X" and e["dur"] > 0):  # of two that begin together the outer one comes first
        assert e["dur"] <= first.setdefault((e["tid"], e["ts"]), e["dur"])
    for tid in names:
        open_until = []
        for e in sorted((e for e in events if e["ph"] == "X" and e["tid"] == tid),
                        key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 1e-6:
                open_until.pop()
            assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + 2e-3
            open_until.append(e["ts"] + e["dur"])
    for phase in ("b", "e"):
        assert sum(e["ph"] == phase for e in events) == 40
    known = {"name", "cat", "ph", "pid", "tid", "ts", "dur", "id", "bp", "args"}
    for e in events:
        assert set(e) <= known and e["ph"] in "XbesfM" and isinstance(e["pid"], int)
        assert e["ph"] == "M" or e["ts"] >= 0
    flows = {phase: sorted(e["id"] for e in events if e["ph"] == phase) for phase in "sf"}
    assert flows["s"] == flows["f"] == list(range(12))


def test_csv(tmp_path):
    path = tmp_path / "trace"
    traced(photos(), path, threads=1).export(tmp_path / "trace.csv", "csv")
    lines = open(tmp_path / "trace.csv").read().splitlines()
    trace = spans.Trace(path)
    assert lines[0] == "track,kind,name,start_ns,duration_ns,sample,batch,bytes_in,bytes_out,rows"
    assert len(lines) == 1 + len(trace.spans)
    assert sum(int(line.split(",")[4]) for line in lines[1:]) == trace.spans["duration"].sum()
    with pytest.raises(ValueError):
        mr.report(path).export(tmp_path / "x", "xml")


def test_a_function_under_the_lock_is_the_verdict(tmp_path):
    def slow(sample):
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        return sample
    pipeline = mr.synthetic(samples=400, shape=[4]).map(slow).batch(8)
    for attempt in range(5):  # other programs may take the CPUs, and then that is the verdict
        report = traced(pipeline, tmp_path / f"trace{attempt}", threads=2)
        if report.verdict["bound"] != "crowded":
            break
    if report.verdict["bound"] == "crowded":
        print("other programs took the CPUs five times: the threads' own counts must say so")
        assert sum(thread["preempted"] for thread in report.figures["usage"]) >= 10
    else:
        assert report.verdict["bound"] == "host" and report.verdict["title"] == "Python-bound"
    assert report.verdict["limit_host"] >= 0.99 * report.verdict["rate"]
    assert report.figures["kinds"]["wait_host"]["count"] == 400


def test_a_store_that_is_being_filled_leaves_spans(tmp_path):
    if not hasattr(mr.Pipeline, "cache"):
        pytest.skip("this build has no store")
    pipeline = (mr.files(PHOTOS).decode_image().cache(path=str(tmp_path / "store"), size=10 ** 8)
                .center_crop(16).batch(4))
    first = traced(pipeline, tmp_path / "a", epochs=1).figures["kinds"]
    assert first["store_read"]["count"] == 10 and first["store_write"]["count"] == 10
    second = traced(pipeline, tmp_path / "b", epochs=2).figures["kinds"]
    assert second["store_read"]["count"] == 20 and "store_write" not in second


def test_a_cache_is_predicted_with_whole_images(tmp_path):
    """Though only crops of them are decoded."""
    report = traced(photos(), tmp_path / "trace", epochs=8, threads=1)
    sizes = []
    for folder, _, names in os.walk(PHOTOS):
        for name in names:
            with Image.open(os.path.join(folder, name)) as image:
                sizes.append(image.width * image.height * 3)
    cached, = report.verdict["caches"]
    assert cached["after"] == "decode_image" and cached["ops"] == 1
    close(cached["bytes"], np.mean(sizes))
    assert cached["rate"] > 0 and "once it is full" in report.explain()


def test_live_figures():
    with photos().loader(epochs=3, threads=2) as loader:
        for _ in loader.all_epochs():
            pass
        lines = {line["name"]: line for line in loader.stats()["lines"]}
        metrics = loader.metrics()
    assert lines["decode_image"]["count"] == lines["sample"]["count"] == 30
    assert lines["decode_image"]["kind"] == "op" and lines["wait_batch"]["kind"] == "wait"
    assert lines["decode_image"]["seconds"] > 0 and lines["random_flip"]["seconds"] > 0
    assert "millrace_samples_total 30\n" in metrics
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        assert line.startswith("# ") or (name and float(value) >= 0)


@pytest.mark.parametrize("names", [True, False])
def test_names_of_our_loaders_are_left_out_on_request(tmp_path, names):
    """Files, folders and classes; the batches and the figures are the same."""
    path = tmp_path / "run.trace"
    with photos().loader(seed=3) as loader:
        wanted = [batch.samples.tolist() for batch in loader]
    with photos().loader(seed=3) as loader:
        with mr.profile(loader, path, names=names):
            assert [batch.samples.tolist() for batch in loader] == wanted
    data = path.read_bytes()
    for word in (b"photos", b'"cat"', b'"dog"', b".jpg", b".png"):
        assert (word in data) is names, word
    figures = mr.report(path).figures
    assert figures["samples"] == 10 and [op["name"] for op in figures["ops"]][0] == "decode_image"
    assert ("photos" in mr.report(path).html) is names


def test_ranks_of_one_run_are_told_together(tmp_path):
    paths = []
    for rank in (1, 2, 0):
        paths.append(tmp_path / f"run.{rank}.trace")
        with photos().batch(12).loader(epochs=4, threads=1, seed=3, world=3, rank=rank, trace=paths[-1]) as loader:
            for _ in loader.all_epochs():
                if rank == 1:
                    time.sleep(0.002)  # its consumer is slow, so its loader has time to spare
    ranks = mr.report(paths, out=tmp_path / "ranks.html")
    figures, alone = ranks.figures, {r: mr.report(tmp_path / f"run.{r}.trace").figures for r in range(3)}
    assert [r["rank"] for r in figures["ranks"]] == [0, 1, 2] and figures["world"] == 3
    for rank in figures["ranks"]:
        own = alone[rank["rank"]]
        close(rank["rate"], own["verdict"]["rate"])
        assert rank["title"] == own["verdict"]["title"]
        assert rank["samples"] == own["samples"]
    close(figures["rate"], sum(own["verdict"]["rate"] for own in alone.values()))
    waits = {r: {row[0]: row[6] for row in own["batches"]} for r, own in alone.items()}
    held = [max(waits, key=lambda r, step=step: waits[r][step]) for step in waits[0]
            if step > 0 and np.diff(sorted(waits[r][step] for r in waits))[-1] > 0]  # no two as long
    for rank in figures["ranks"]:
        close(rank["longest_wait"], held.count(rank["rank"]) / max(len(held), 1))
    for i, op in enumerate(figures["ops"]):
        counts = [own["ops"][i]["count"] for own in alone.values()]
        means = {r: own["ops"][i]["total"] / own["ops"][i]["count"] for r, own in alone.items()}
        assert op["count"] == sum(counts)
        close(op["total"], sum(own["ops"][i]["total"] for own in alone.values()))
        assert op["lowest"]["rank"] == min(means, key=means.get)
        assert op["highest"]["rank"] == max(means, key=means.get)
    assert f"\n     {figures['slowest']} " in str(ranks) and "3 ranks: " in str(ranks)
    assert ranks.slowest.verdict == alone[figures["slowest"]]["verdict"]
    page = (tmp_path / "ranks.html").read_text()
    assert '"ranks":{"world":3' in page and ranks._repr_html_().startswith("<iframe")
    with pytest.raises(ValueError, match="both are of one rank"):
        mr.report([paths[0], paths[0]])
    traced(photos(), tmp_path / "other", epochs=1)
    with pytest.raises(ValueError, match="their numbers of ranks differ"):
        mr.report([paths[0], tmp_path / "other"])
    with pytest.raises(ValueError, match="is the trace itself"):
        mr.report(paths, out=paths[1])


def test_pages(tmp_path):
    path = tmp_path / "trace"
    report = traced(photos(), path, epochs=30)
    assert "<!doctype html>" in report.html and len(report.html) < 2_000_000
    assert report._repr_html_().startswith("<iframe srcdoc=")
    mr.report(path, path, out=tmp_path / "two.html")
    assert os.path.getsize(tmp_path / "two.html") > 0
    assert "samples/s" in str(report) and "highest rate" in report.explain()


def test_bad_input(tmp_path):
    (tmp_path / "no").write_bytes(b"not a trace")
    with pytest.raises(RuntimeError, match="is not a trace"):
        mr.report(tmp_path / "no")
    with pytest.raises(FileNotFoundError):
        mr.report(tmp_path / "missing")
    with photos().loader(epochs=1) as loader:
        with pytest.raises(ValueError, match="no trace"):
            mr.report(loader)
    path = tmp_path / "trace"
    traced(photos(), path)
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])
    assert "cut off" in mr.report(path).figures["missing"]


def test_a_trace_is_not_written_over(tmp_path):
    path, other = tmp_path / "trace", tmp_path / "other"
    report = traced(photos(), path)
    traced(photos(), other)
    os.symlink(path, tmp_path / "link")
    before = path.read_bytes(), other.read_bytes()
    with pytest.raises(ValueError, match="the trace itself"):
        report.save(path)
    with pytest.raises(ValueError, match="the trace itself"):
        report.export(tmp_path / "link", "csv")
    with pytest.raises(ValueError, match="the trace itself"):
        mr.report(path, other, out=other)
    with pytest.raises(ValueError, match="one of the traces"):
        mr.report(path, other).export(other)
    assert (path.read_bytes(), other.read_bytes()) == before


def test_one_trace_at_a_time_in_a_file(tmp_path):
    path = tmp_path / "trace"
    with photos().loader(trace=path, epochs=1) as first:
        next(first)
        with pytest.raises(ValueError, match="another loader") as refused:
            photos().loader(trace=path)
        assert "rank" in refused.value.hint and refused.value.op == ""
        mine, childs = os.pipe()
        child = os.fork()
        if child == 0:  # has the file too, and does not keep it from those who come later
            os.close(childs)
            os.read(mine, 1)
            os._exit(0)
        for _ in first:
            pass
    assert traced(photos(), path).figures["n_batches"] == 3
    os.close(childs)
    os.waitpid(child, 0)
    os.close(mine)


def test_fused_ops_share_their_time():
    with photos().loader(epochs=20, threads=1) as loader:
        for _ in loader.all_epochs():
            pass
        lines = {line["name"]: line for line in loader.stats()["lines"]}
    ops = [line for line in lines.values() if line["kind"] == "op"]
    assert [op["count"] for op in ops] == 4 * [200] and all(op["timed"] < 200 for op in ops)
    assert 0 < sum(op["seconds"] for op in ops) <= lines["sample"]["seconds"] * (1 + 1e-9)


def test_a_wait_is_counted_once_a_batch():
    def slow(x):
        time.sleep(0.06)
        return x

    with mr.synthetic(samples=4, shape=[4]).map(slow).batch(2).loader(threads=1, epochs=1) as loader:
        for _ in loader:
            pass
        waits, = [line for line in loader.stats()["lines"] if line["name"] == "wait_batch"]
    assert waits["count"] <= 2  # less where the batch was there before it was asked for


def test_a_trace_has_no_passwords(tmp_path):
    """A path that reads like an address with a name and a password stands for one."""
    folder = tmp_path / "redis:" / "me:hunter2@host"
    folder.mkdir(parents=True)
    for i in range(3):
        Image.fromarray(np.full((9, 9, 3), i, np.uint8)).save(folder / f"{i}.png")
    path = tmp_path / "trace"
    report = traced(mr.files(f"{tmp_path}/redis://me:hunter2@host").decode_image().batch(1), path)
    document = report.figures["header"]["pipeline"]
    assert "hunter2" not in document and f"{tmp_path}/redis://...@host" in document
