# SPDX-License-Identifier: Apache-2.0
"""millrace tune: what it measures it also removes, what it writes delivers the same bytes, and the
choice is the least total of what it printed. No test asserts a rate."""
import json
import os
import signal
import subprocess
import time
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from test_law_matrix import SOURCES

COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")
SHM = "/dev/shm"


def millrace(*arguments, check=True, **more):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, **more)
    assert not check or done.returncode == 0, done.stderr
    return done


def left_behind():
    return {name for name in os.listdir(SHM) if name.startswith(".millrace-tune")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    rng = np.random.default_rng(5)
    (folder / "photos").mkdir()
    for i in range(24):
        pixels = rng.integers(0, 256, (8, 10, 3), np.uint8)
        Image.fromarray(pixels).resize((320, 240)).save(folder / "photos" / f"{i:02}.jpg")
    ops = [{"decode_image": {}}, {"cache": {"path": str(folder / "mine")}},
           {"resize": {"size": [32, 32]}}, {"random_crop": {"size": 24}}, {"random_flip": {}}]
    (folder / "p.json").write_text(json.dumps(
        {"source": {"files": {"path": str(folder / "photos")}}, "ops": ops, "batch": 4, "seed": 2}))
    (folder / "plain.json").write_text(json.dumps(
        {"source": {"files": {"path": str(folder / "photos")}}, "batch": 4, "seed": 2,
         "ops": [op for op in ops if "cache" not in op]}))
    return folder


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "letter.txt").write_text("not tune's")
    before = left_behind()
    yield folder
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]
    assert left_behind() <= before


QUICK = ["--seconds", "0.06", "--rounds", "2", "--quiet"]


def tune(data, scratch, *more, name="p.json"):
    return json.loads(millrace("tune", data / name, "--scratch", scratch, "--json", *QUICK,
                               *more).stdout)


def test_the_page(data, scratch, tmp_path):
    """Every strategy that was measured is a dot, the chosen one is marked; it is one XML document."""
    page, out = tmp_path / "tune.html", tmp_path / "tuned.json"
    said = tune(data, scratch, "-o", page, "-o", out)
    text = page.read_text()
    svg = ElementTree.fromstring(text[text.index("<svg"):text.index("</svg>") + 6])
    dots = svg.findall("circle")
    assert len(dots) == sum(row["measured"] for row in said["strategies"])
    assert [dot.get("class") for dot in dots].count("best") == 1
    assert text.count("<tr ") == len(said["strategies"])
    done = millrace("tune", data / "p.json", "-o", page, "-o", tmp_path / "b.html", check=False)
    assert done.returncode == 2 and "two files of a kind" in done.stderr


@pytest.mark.parametrize("keep", ["pack npy", "pack tar"])
def test_apply_makes_the_pack(data, scratch, tmp_path, keep):
    """It is chosen for so many epochs, since photos are large and what is made of them small."""
    out = tmp_path / "tuned.json"
    said = tune(data, scratch, "--epochs", 10 ** 6, "--keep", keep, "--apply", "-o", out)
    assert [row["keeps"] for row in said["strategies"] if row["chosen"]] == [keep]
    pack = tmp_path / "tuned-pack"
    assert (pack / "manifest.json").exists() and said["folder"] == str(pack) and str(pack) in out.read_text()
    digest = millrace("run", data / "plain.json", "--quiet").stdout
    assert millrace("run", out, "--quiet").stdout == digest
    done = millrace("tune", data / "p.json", "--apply", check=False)
    assert done.returncode == 2 and "--apply needs -o" in done.stderr


def test_cold_rates_are_rates(data, scratch):
    rows = tune(data, scratch, "--cold", "--keep", "pack tar,cache,in memory")["strategies"]
    assert all(row.get("cold_samples_per_second", 1) > 0 for row in rows)
    chosen = [row for row in rows if row["chosen"]][0]
    assert chosen["keeps"] == "in memory" or "cold_samples_per_second" in chosen


def test_the_choice_is_the_least_total(data, scratch, tmp_path):
    out = tmp_path / "tuned.json"
    said = tune(data, scratch, "--epochs", 50, "-o", out)
    rows = said["strategies"]
    measured = [row for row in rows if row["measured"]]
    chosen = [row for row in rows if row["chosen"]]
    assert len(chosen) == 1 and chosen[0]["measured"]
    assert chosen[0]["total_seconds"] <= 1.0101 * min(row["total_seconds"] for row in measured)
    assert said["samples"] == 24 and 0 < said["subset"] <= 24
    # Cuts are those of the document without its caches: source, decode_image, resize.
    assert {row["cut"] for row in rows} == {0, 1, 2}
    assert {row["keeps"] for row in measured} >= {"nothing", "pack npy"}
    for row in measured:
        n, rate = said["samples"], row["samples_per_second"]
        first = row["first_rate"] or rate
        offline = row["prepare_seconds"] if row["keeps"].startswith("pack") else 0
        assert row["total_seconds"] == pytest.approx(offline + n / first + 49 * n / rate)
    for row in rows:
        assert row["measured"] or row["why"]
    # Sizes follow from the types: 32 x 32 x 3 bytes, with what a .npy file and labels add.
    npy = next(row for row in measured if row["keeps"] == "pack npy")
    assert npy["disk_bytes"] >= 24 * 32 * 32 * 3
    if said["document"]:
        assert json.loads(out.read_text()) == said["document"]
    else:
        assert "millrace pack" in said["pack"] and not out.exists()


def test_the_tuned_document_delivers_the_same(data, scratch, tmp_path):
    if millrace("help", "cache", check=False).returncode != 0:
        pytest.skip("this build has no store")
    out = tmp_path / "tuned.json"
    # A disk cap of nothing much leaves the store in memory, or nothing kept.
    said = tune(data, scratch, "--epochs", 1000, "--disk", 1, "-o", out)
    chosen = next(row for row in said["strategies"] if row["chosen"])
    assert chosen["keeps"] in ("nothing", "in memory") and chosen["disk_bytes"] == 0
    time.sleep(0.1)
    digests = {millrace("run", path, "--epochs", 2, "--quiet").stdout.strip()
               for path in (data / "plain.json", out)}
    assert len(digests) == 1


def test_a_slow_consumer_needs_nothing(data, scratch):
    said = tune(data, scratch, "--consumer", "0.5")
    chosen = next(row for row in said["strategies"] if row["chosen"])
    assert chosen["keeps"] == "nothing"
    assert chosen["total_seconds"] == pytest.approx(90 * 24 / 0.5)
    others = [row for row in said["strategies"] if row["keeps"] != "nothing"]
    assert others and all("keeps up" in row["why"] for row in others)


def test_one_epoch_needs_nothing(data, scratch):
    """Making anything takes as long as the only epoch; strategies may be measured all the same."""
    said = tune(data, scratch, "--epochs", 1, "--keep", "pack tar,cache", name="plain.json")
    chosen = next(row for row in said["strategies"] if row["chosen"])
    least = min(row["total_seconds"] for row in said["strategies"] if row["measured"])
    assert chosen["total_seconds"] <= 1.0101 * least


def test_weights_warn(data, scratch):
    said = millrace("tune", data / "plain.json", "--scratch", scratch, *QUICK, "--presto", "1,0,1", "--keep", "pack npy")
    assert "can tie exactly" in said.stdout and "bound by" in said.stdout


def test_what_is_refused(data, scratch, tmp_path):
    for wrong in (["--seconds", "no"], ["--disk", "many"], ["--presto", "1,2"],
                  ["--consumer", "-1"], ["-o", data / "p.json"]):
        done = millrace("tune", data / "p.json", "--scratch", scratch, *wrong, check=False)
        assert done.returncode == 2, done.stderr
    done = millrace("tune", data / "p.json", "--scratch", tmp_path / "none", check=False)
    assert done.returncode == 4 and "--scratch" in done.stderr


def test_a_stream_that_is_followed_is_refused(scratch, tmp_path):
    millrace("append", tmp_path / "s", input="a\nb\n")
    (tmp_path / "p.json").write_text(json.dumps({"source": {"segments": {"path": str(tmp_path / "s"), "follow": True}}, "batch": 2}))
    done = millrace("tune", tmp_path / "p.json", "--scratch", scratch, check=False, timeout=60)
    assert done.returncode == 2 and '"follow"' in done.stderr


def test_stopped_it_cleans_up(data, scratch):
    process = subprocess.Popen([COMMAND, "tune", data / "p.json", "--scratch", scratch,
                                "--seconds", "5"], stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().startswith(("measuring", "comparing"))
    assert len(list(scratch.iterdir())) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_the_store_of_the_document_is_left_alone(data, scratch):
    assert not (data / "mine").exists()
    tune(data, scratch, "--keep", "cache")
    assert not (data / "mine").exists()


def document(data, ops, **more):
    return {"source": {"files": {"path": str(data / "photos")}}, "ops": ops, "batch": 4, "seed": 2, **more}


def test_rewrites_that_change_no_byte(data, scratch, tmp_path):
    """The order changes, the bytes do not; what is only named is not made."""
    path, out = tmp_path / "p.json", tmp_path / "tuned.json"
    path.write_text(json.dumps(document(data, [
        {"decode_image": {}}, {"resize": {"size": 40}}, {"grayscale": {"channels": 3}},
        {"normalize": {"layout": "hwc"}}, {"random_crop": {"size": 24}}])))
    said = tune(tmp_path, scratch, "--keep", "in memory", "--memory", 1, name="p.json")
    same = [rewrite for rewrite in said["rewrites"] if rewrite["same_bytes"]]
    other = [rewrite["text"] for rewrite in said["rewrites"] if not rewrite["same_bytes"]]
    assert len(same) == 1 and "random_crop before normalize" in same[0]["text"]
    assert "random_crop before grayscale" in same[0]["text"]
    assert any("grayscale before resize" in text for text in other)
    assert any("dct_scale" in text for text in other)
    assert not any(rewrite["made"] for rewrite in said["rewrites"])
    said = tune(tmp_path, scratch, "--keep", "in memory", "--memory", 1, "--rewrite", "-o", out, name="p.json")
    made = [rewrite["made"] for rewrite in said["rewrites"]]
    names = [next(iter(op)) for op in json.loads(out.read_text())["ops"]]
    if any(made):  # it was measured to be faster
        assert names == ["decode_image", "resize", "random_crop", "grayscale", "normalize"]
    digests = {millrace("run", file, "--quiet").stdout for file in (path, out)}
    assert len(digests) == 1


def test_a_rule_that_is_wrong_shows(data, scratch, tmp_path):
    """Padding comes out as another number before normalizing than behind it: told by the bytes."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document(data, [
        {"decode_image": {}}, {"resize": {"size": [20, 20]}}, {"normalize": {"mean": 0.5, "layout": "hwc"}},
        {"random_crop": {"size": 24, "pad_if_needed": True}}])))
    done = millrace("run", path, "--quiet", check=False)
    if done.returncode != 0:
        pytest.skip("numbers are not padded")
    said = tune(tmp_path, scratch, "--keep", "cache", name="p.json")
    assert not any(rewrite["same_bytes"] for rewrite in said["rewrites"])


@pytest.mark.parametrize("name", ["tar", "array", "tokens", "lines", "hdf5", "parquet"])
def test_other_sources_deliver_the_same(scratch, tmp_path, name):
    """Whatever is chosen for them."""
    path, out = tmp_path / "p.json", tmp_path / "tuned.json"
    path.write_text(json.dumps({"source": SOURCES[name](tmp_path), "batch": 9, "shuffle": False}))
    said = tune(tmp_path, scratch, "--keep", "pack tar", "--epochs", 10 ** 6, "--apply", "-o", out)
    assert all(row["measured"] or row["why"] for row in said["strategies"])
    assert {row["keeps"] for row in said["strategies"] if row["measured"]} == {"nothing", "pack tar"}
    digests = {millrace("run", file, "--epochs", 2, "--quiet").stdout for file in (path, out)}
    assert len(digests) == 1 and len(digests.pop().strip()) == 32


def test_only_what_may_be_kept(data, scratch):
    said = tune(data, scratch, "--keep", "pack tar,cache")
    assert {row["keeps"] for row in said["strategies"]} == {"nothing", "pack tar", "cache"}
    done = millrace("tune", data / "p.json", "--keep", "pack tar,gold", check=False)
    assert done.returncode == 2 and '"gold"' in done.stderr and "pack npy" in done.stderr


def test_views_stay_in_the_tuned_document(data, scratch, tmp_path):
    path, out = tmp_path / "p.json", tmp_path / "tuned.json"
    path.write_text(json.dumps(document(
        data, [{"decode_image": {}}, {"resize": {"size": [16, 16]}}], view=[{"take": {"count": 10}}])))
    tune(tmp_path, scratch, "--keep", "in memory", "-o", out, name="p.json")
    assert millrace("run", path, "--quiet").stdout == millrace("run", out, "--quiet").stdout


def test_slow_storage(data, scratch):
    """As slow as was asked for at least, and the same bytes: rates follow from the two figures."""
    said = tune(data, scratch, "--storage", "100MB,5ms", "--keep", "pack tar")
    plain = next(row for row in said["strategies"] if row["keeps"] == "nothing")
    assert plain["samples_per_second"] < 1.5 / 0.005  # each sample opens a file
    fast, slow = (millrace("run", data / "plain.json", "--quiet", *more).stdout
                  for more in ([], ["--storage", "100MB,5ms"]))
    assert fast == slow
    for wrong in ("fast", "0MB", "1MB,", "1MB,2", "1MB,2ms,3", "-1MB"):
        done = millrace("run", data / "plain.json", "--storage", wrong, check=False)
        assert done.returncode == 2 and "--storage" in done.stderr
