# SPDX-License-Identifier: Apache-2.0
"""The package knows from the tables alone: methods, signatures, docs, stubs and documents."""
import inspect
import json
import os
import pickle
import subprocess
import sys

import pytest

import millrace as mr
from millrace import _core, _stubs, _tables

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")
COMMAND = os.path.join(os.path.dirname(os.environ["MILLRACE_LIB"]), "millrace")


def command(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def images(size=24):
    return mr.files(PHOTOS).decode_image().random_resized_crop(size).random_flip()


def test_every_op_is_a_method_with_the_tables_parameters():
    tables = json.loads(command("ops", "--json").stdout)
    assert {op["name"] for op in tables["ops"]} == {op["name"] for op in _core.tables()["ops"]}
    for op in tables["ops"]:
        method = getattr(mr.Pipeline, op["name"])
        parameters = dict(inspect.signature(method).parameters)
        names = {_tables.python_name(p["name"]) for p in op["params"]}
        assert names == set(parameters) - {"self", "field"}
        assert op["summary"] in inspect.getdoc(method)
        for row in op["params"]:
            assert row["doc"] in method.__doc__
    for source in tables["sources"]:
        assert source["summary"] in inspect.getdoc(getattr(mr, source["name"]))


def test_defaults_are_the_tables():
    assert inspect.signature(mr.Pipeline.resize).parameters["filter"].default == "bilinear"
    assert inspect.signature(mr.Pipeline.resize).parameters["size"].default is inspect._empty
    assert 'Literal["bilinear"' in str(inspect.signature(mr.Pipeline.resize))
    assert "resize" in dir(mr.Pipeline) and "files" in dir(mr) and "files" in mr.__all__


def test_a_pipeline_prints_as_the_document_the_command_reads(tmp_path):
    pipeline = images().normalize(mean=mr.IMAGENET_MEAN, std=mr.IMAGENET_STD).batch(4).seed(3)
    path = tmp_path / "pipeline.json"
    path.write_text(str(pipeline))
    with pipeline.loader(digest=True, epochs=2) as loader:
        steps = sum(1 for _ in loader.all_epochs())
        assert steps == 2 * len(loader)
        ours = loader.digest()
    assert command("run", str(path), "--epochs", "2", "--quiet").stdout.strip() == ours
    again = mr.Pipeline.from_json(path.read_text())
    assert again == pipeline and again.fingerprint == pipeline.fingerprint
    assert mr.Pipeline.from_json(pipeline.to_json()).to_json() == pipeline.to_json()
    with again.loader(digest=True, epochs=2) as loader:
        list(loader.all_epochs())
        assert loader.digest() == ours


def test_the_digest_does_not_depend_on_threads():
    digests = set()
    for threads in (1, 2, 5):
        with images().batch(3).loader(seed=7, epochs=2, threads=threads, digest=True) as loader:
            list(loader.all_epochs())
            digests.add(loader.digest())
    assert len(digests) == 1


def test_stubs_are_current():
    path = os.path.join(os.path.dirname(mr.__file__), "__init__.pyi")
    with open(path, encoding="utf-8") as file:
        assert file.read() == _stubs.text(), "run python -m millrace._stubs"


def test_pipelines_are_values():
    first = images()
    second = first.batch(8)
    assert first != second and first == images()
    assert pickle.loads(pickle.dumps(second)) == second
    assert "random_flip" in repr(first) and "<table>" in first._repr_html_()
    assert first.types["image"] == ("uint8", (24, 24, 3), "hwc")


def test_other_kinds_of_values():
    import pathlib

    import numpy as np
    pipeline = mr.files(pathlib.Path(PHOTOS)).decode_image().resize(np.int64(8)).normalize(
        mean=np.array([0.5]), std=[0.5])
    assert json.loads(pipeline.to_json())["ops"][1]["resize"]["size"] == [8]


def test_import_is_light():
    code = ("import numpy, sys, time; a = set(sys.modules); t = time.perf_counter();"
            "import millrace; print(time.perf_counter() - t);"
            "print([m for m in ('torch', 'jax', 'multiprocessing', 'logging', 'PIL')"
            " if m in set(sys.modules) - a])")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[1] == "[]"


# ---- Bad input ---------------------------------------------------------------------------------


def same_text(error, document, tmp_path):
    """What the command says about the same document, without the document's name."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    said = command("check", str(path)).stderr
    for line in str(error).splitlines():
        assert line.strip() in said, (line, said)


@pytest.mark.parametrize("op,values,kind", [
    ("resize", {"size": 0}, ValueError), ("resize", {"size": "big"}, TypeError),
    ("resize", {"sise": 3}, TypeError), ("resize", {}, ValueError),
    ("resize", {"size": 3, "filter": "hamming"}, ValueError),
    ("resize", {"size": None}, TypeError), ("resize", {"size": [1, 2, 3]}, ValueError),
    ("normalize", {"mean": [1, 2]}, ValueError), ("random_flip", {"p": 2}, ValueError),
    ("crop", {"height": 1.5, "width": 1}, TypeError)])
def test_bad_parameters_have_the_commands_text(op, values, kind, tmp_path):
    base = mr.files(PHOTOS).decode_image()
    with pytest.raises(kind) as caught:
        getattr(base, op)(**values)
    document = base.document
    document["ops"].append({op: values})
    same_text(caught.value, document, tmp_path)


def test_ops_that_do_not_fit():
    with pytest.raises(TypeError, match="image") as caught:
        mr.files(PHOTOS).resize(3)
    assert caught.value.op == "resize" and caught.value.where == "$.ops[0].resize"


def test_too_many_arguments():
    with pytest.raises(TypeError, match="at most 2"):
        mr.files(PHOTOS).decode_image().resize(1, "nearest", 3)
    with pytest.raises(TypeError, match="twice"):
        mr.files(PHOTOS).decode_image().resize(1, size=3)


def test_missing_folder():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mr.files("nowhere/at/all").decode_image().loader()


def test_bad_documents():
    with pytest.raises(ValueError, match="line 1"):
        mr.Pipeline.from_json('{"source": ')
    with pytest.raises(ValueError, match="no source"):
        mr.Pipeline.from_json("{}")
    with pytest.raises(ValueError, match='unknown op "resise"'):
        mr.Pipeline.from_json({"source": {"files": {"path": PHOTOS}}, "ops": ["resise"]})
    with pytest.raises(ValueError, match="batch"):
        mr.files(PHOTOS).batch(0)
    with pytest.raises(ValueError, match='to must be one of'):
        mr.files(PHOTOS).loader(to="tensorflow")


def test_an_unknown_op_says_which_was_meant():
    with pytest.raises(AttributeError, match="no attribute 'fils'; did you mean files"):
        mr.fils("photos")
    with pytest.raises(AttributeError, match="a pipeline has no resise; did you mean resize") as caught:
        images().resise(3)
    assert "random_flip" in str(caught.value) and not hasattr(images(), "_nothing")
    with pytest.raises(AttributeError, match="a pipeline has no xyz\\n"):
        images().xyz()


@pytest.mark.parametrize("options", [{"path": "nowhere"}, {"list": "nowhere.txt"},
                                     {"path": ".", "labels": "nowhere.csv"}])
def test_a_missing_path_is_told_where_it_is_written(options):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mr.files(**options)


def test_the_command_from_python():
    ours = subprocess.run([sys.executable, "-m", "millrace", "version"], capture_output=True, text=True,
                          check=True)
    assert ours.stdout == command("version").stdout and mr.__version__ in ours.stdout


def test_ops_of_a_plugin_are_methods(tmp_path):
    """In a process of its own: what is loaded stays."""
    library, top = tmp_path / "libinvert_above.so", os.path.join(os.path.dirname(__file__), "..", "..")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", f"-I{top}/include",
                    f"{top}/examples/plugin/invert_above.c", os.environ["MILLRACE_LIB"],
                    f"-Wl,-rpath,{os.path.dirname(os.environ['MILLRACE_LIB'])}", "-o", str(library)],
                   check=True)
    program = ("import sys, millrace as mr\n"
               "assert mr.load_plugin(sys.argv[1]) == ['invert_above'] == mr.load_plugin(sys.argv[1])\n"
               "p = mr.files(sys.argv[2]).decode_image().center_crop(8)\n"
               "a, b = (next(x.batch(10).shuffle(False).loader())['image'] for x in (p, p.invert_above(128)))\n"
               "assert (b[a < 128] == a[a < 128]).all()\n"
               "assert (b[a >= 128] == 255 - a[a >= 128]).all() and (b != a).any()\n"
               "try:\n    mr.load_plugin(sys.argv[2])\nexcept (OSError, ValueError, RuntimeError) as e:\n"
               "    print('refused', type(e).__name__)\n")
    out = subprocess.run([sys.executable, "-c", program, str(library), PHOTOS], capture_output=True,
                         text=True, check=False)
    assert out.returncode == 0 and "refused" in out.stdout, out.stderr
