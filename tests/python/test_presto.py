# SPDX-License-Identifier: Apache-2.0
"""The pipelines under examples/presto, on a little of their data: each runs, with sizes a sample as
the script promises, and packed at its last cut delivers the same."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "presto"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.json"))


def millrace(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    if "built without" in done.stderr or "no op" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presto")
    subprocess.run([sys.executable, EXAMPLES / "make_data.py", folder, "--scale", "0.01"], check=True)
    return folder


def test_there_are_seven():
    assert NAMES == ["cv", "cv2_jpg", "cv2_png", "flac", "mp3", "nilm", "nlp"]


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_packs(data, tmp_path, name):
    path = data / f"{name}.json"
    document = json.loads(path.read_text())
    if "hdf5" in document["source"]:  # shuffled block by block, which a pack is not
        document["shuffle"] = False
        path = tmp_path / "in_order.json"
        path.write_text(json.dumps(document))
    whole = millrace("run", path, "--quiet")
    assert len(whole.strip()) == 32
    millrace("pack", path, "-o", tmp_path / "out", "--quiet")
    assert millrace("run", tmp_path / "out" / "pipeline.json", "--quiet") == whole
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["samples"] >= 2
