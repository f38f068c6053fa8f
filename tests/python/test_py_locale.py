# SPDX-License-Identifier: Apache-2.0
"""Numbers in documents and files have a point, whatever the program's locale writes, and names of elements, files
and columns are the same in capitals."""

import json
import os
import shutil
import subprocess
import sys

import pytest

GERMAN = """
import locale
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.str(0.5) == "0,5"
"""
PROGRAM = """
import hashlib, re
import millrace as mr
with mr.lines("numbers.csv").batch(2).shuffle(False).loader() as loader:
    print(next(loader)["a"].tolist())
with mr.files("photos", labels="labels.jsonl").decode_image().rotate(30).center_crop(32).batch(2).shuffle(False).loader(
        trace="trace") as loader:
    batch = next(loader)
    print(batch["weight"].tolist(), hashlib.md5(batch["image"].tobytes()).hexdigest())
    metrics = loader.metrics()
print(all(float(line.split()[-1]) >= 0 for line in metrics.splitlines() if not line.startswith("#")))
print(re.findall("[0-9],[0-9]+ m?s", str(mr.report("trace"))))
"""
TURKISH = """
import ctypes, locale
locale.setlocale(locale.LC_ALL, "tr_TR.UTF-8")
assert ctypes.CDLL(None).strcasecmp(b"I", b"i") != 0
"""
PAGES = """
import millrace as mr
with mr.lines("pages.jsonl").extract_text("all", field="text").batch(1).shuffle(False).loader() as loader:
    print([batch["text"].texts() for batch in loader])
"""
CAPITALS = """
import millrace as mr
with mr.files("images", labels="kinds.csv", extensions=[".tif"]).batch(2).shuffle(False).loader() as loader:
    print(loader.n_samples, loader.classes_of("kind"), next(loader)["kind"].tolist())
mr.files("masks", extensions=[".tif"]).loader().close()
try:
    mr.Pipeline.from_json({"source": {"files": {"path": "images"}}, "ops": ["RANDOMFLIP"]})
except ValueError as error:
    print(error.hint)
"""
PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def write_data(folder):
    (folder / "numbers.csv").write_text("a\n0.25\n1.5\n")
    photos = [os.path.join(d, f) for d, _, files in os.walk(PHOTOS) for f in sorted(files) if f.endswith(".jpg")][:2]
    (folder / "photos").mkdir()
    for i, photo in enumerate(photos):
        shutil.copy(photo, folder / "photos" / f"{i}.jpg")
    lines = [json.dumps({"file": f"{i}.jpg", "weight": 0.5 + i / 4}) for i in range(len(photos))]
    (folder / "labels.jsonl").write_text("\n".join(lines) + "\n")


def outputs(folder, name, before, program):
    """Of the program as it is, and of the same with `before`."""
    made = subprocess.run(["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")], capture_output=True)
    if made.returncode != 0:
        pytest.skip("localedef makes no locale here")
    variables = dict(os.environ, LOCPATH=str(folder))
    return [subprocess.run([sys.executable, "-c", text], env=variables, cwd=folder, capture_output=True, text=True)
            for text in (program, before + program)]


def test_a_german_program_reads_and_writes_points(tmp_path):
    write_data(tmp_path)
    out = outputs(tmp_path, "de_DE", GERMAN, PROGRAM)
    assert out[0].stdout.startswith("[0.25, 1.5]\n[0.5, 0.75] "), out[0].stderr
    assert out[1].stdout == out[0].stdout, out[1].stderr


def test_a_turkish_program_leaves_out_what_is_hidden_in_capitals(tmp_path):
    (tmp_path / "pages.jsonl").write_text('{"text": "<P HIDDEN=x>no</P><P>yes"}\n')
    out = outputs(tmp_path, "tr_TR", TURKISH, PAGES)
    assert out[0].stdout == "[['yes']]\n", out[0].stderr
    assert out[1].stdout == out[0].stdout, out[1].stderr


def test_a_turkish_program_reads_capitals_of_files_and_columns(tmp_path):
    for name in ("images/A.TIF", "images/b.tif", "masks/ANNOTATIONS/a.tif"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "kinds.csv").write_text("ID,FILENAME,kind\n3,A.TIF,one\n4,b.tif,two\n")
    out = outputs(tmp_path, "tr_TR", TURKISH, CAPITALS)
    assert out[0].stdout == "2 ['one', 'two'] [0, 1]\ndid you mean \"random_flip\"?\n", out[0].stderr
    assert "ANNOTATIONS was taken for a class" in out[0].stderr
    assert (out[1].stdout, out[1].stderr) == (out[0].stdout, out[0].stderr)
