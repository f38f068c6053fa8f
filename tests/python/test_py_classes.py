# SPDX-License-Identifier: Apache-2.0
"""classes=: two sets have the same numbers of classes though one of them lacks some."""
import json
import os
import shutil
import threading
import warnings

import numpy as np
import pytest

import millrace as mr

PHOTO = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")
PHOTO = next(os.path.join(d, f) for d, _, files in os.walk(PHOTO) for f in sorted(files) if f.endswith(".jpg"))


def folder_of(folder, *names):
    """A photo in a folder for each class."""
    for name in names:
        (folder / name).mkdir(parents=True)
        shutil.copy(PHOTO, folder / name / "0.jpg")
    return folder


@pytest.fixture(name="sets")
def train_and_val(tmp_path):
    return folder_of(tmp_path / "train", "ant", "bee", "cow", "dog"), folder_of(tmp_path / "val", "ant", "cow", "dog")


def labels(pipeline):
    with pipeline.shuffle(False).batch(8).loader() as loader:
        return next(loader)["label"].tolist()


def test_a_set_that_lacks_a_class_has_the_others_numbers(sets):
    train, val = sets
    with mr.files(train).loader() as loader:
        with mr.files(val, classes=loader.classes).loader() as other:
            assert other.classes == loader.classes == ["ant", "bee", "cow", "dog"]
            assert other.state_dict()["classes"] == {"label": loader.classes}
        assert labels(mr.files(val, classes=loader.classes)) == [0, 2, 3]
        assert labels(mr.files(val, classes=("dog", "ant", "cow"))) == [1, 2, 0]  # any order
        assert labels(mr.files(val, classes=np.array(["dog", "ant", "cow"]))) == [1, 2, 0]
    assert labels(mr.files(val)) == [0, 1, 2]


@pytest.mark.parametrize("text", ["ant\nbee\ncow\ndog\n", "ant\nbee\ncow\ndog", "ant\r\nbee\r\ncow\r\ndog\r\n"])
def test_a_file_of_names(sets, text, tmp_path):
    names = tmp_path / "names.txt"
    names.write_bytes(text.encode())
    for given in (names, str(names)):
        with mr.files(sets[1], classes=given).loader() as loader:
            assert loader.classes == ["ant", "bee", "cow", "dog"]
    assert labels(mr.files(sets[1], classes=names)) == [0, 2, 3]
    document = json.loads(mr.files(sets[1], classes=names).to_json())
    assert document["source"]["files"]["classes"] == str(names)


def test_a_document_has_them(sets):
    document = {"source": {"files": {"path": str(sets[1]), "classes": ["ant", "bee", "cow", "dog"]}}}
    assert labels(mr.Pipeline.from_json(document)) == [0, 2, 3]
    assert labels(mr.Pipeline.from_json(mr.files(sets[1], classes=["dog", "cow", "ant"]).to_json())) == [2, 1, 0]


@pytest.mark.parametrize("given,said", [
    (["ant", "cow"], 'folder dog is none of the 2 classes given'),
    (["ant", "cow", "dogs"], 'did you mean "dogs"?'),
    (["ant", "cow", "dog", "cow"], "class cow is listed twice"),
    (["ant", "", "cow", "dog"], "class 1 has no name"),
    (["ant", 3], "a list of names"), (7, "a list of names"), (True, "a list of names"),
    ({"kind": ["ant", "cow", "dog"]}, 'are those of field "label"')])
def test_what_cannot_be_is_refused(sets, given, said):
    with pytest.raises(ValueError) as error:
        mr.files(sets[1], classes=given).loader()
    assert said in str(error.value) + getattr(error.value, "hint", "")


def test_files_of_names_that_cannot_be(sets, tmp_path):
    with pytest.raises(FileNotFoundError, match="classes"):
        mr.files(sets[1], classes=tmp_path / "none.txt")
    names = tmp_path / "names.txt"
    for text, said in (("", "it is empty"), ("ant\n\ncow\ndog\n", "class 1 has no name"), ("ant\0\n", "zero byte"),
                       ("ant\nant\n", "listed twice")):
        names.write_text(text)
        with pytest.raises(ValueError, match=said):
            mr.files(sets[1], classes=names).loader()


def test_a_folder_without_classes(tmp_path):
    shutil.copy(PHOTO, tmp_path / "0.jpg")
    with pytest.raises(ValueError, match="no file is in a class folder"):
        mr.files(tmp_path, classes=["ant"]).loader()
    with mr.files(tmp_path, classes=[]).loader() as loader:  # loader.classes, where there are none
        assert loader.classes == []


@pytest.mark.parametrize("given", [["dog", "cat"], ["dog", "bird"], ["cat"]])
def test_images_beside_an_empty_folder_are_of_no_class(tmp_path, given):
    for i in range(2):
        shutil.copy(PHOTO, tmp_path / f"{i}.jpg")
    (tmp_path / "cat").mkdir()
    with pytest.raises(ValueError, match="no file is in a class folder"):
        mr.files(tmp_path, classes=given).loader()
    with mr.files(tmp_path).loader() as loader:
        assert loader.classes == []


def test_an_empty_folder_may_be_no_class(sets):
    (sets[1] / "bee").mkdir()
    (sets[1] / "other").mkdir()
    assert labels(mr.files(sets[1], classes=["dog", "cow", "ant"])) == [2, 1, 0]


# ---- Lists and tables -----------------------------------------------------------------------------


@pytest.fixture(name="table")
def some_table(tmp_path):
    for i in range(3):
        shutil.copy(PHOTO, tmp_path / f"{i}.jpg")

    def make(text, **given):
        path = tmp_path / "table.csv"
        path.write_text(text)
        return mr.files(tmp_path, labels=path, **given)
    return make


def test_a_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{PHOTO}\t{name}\n" for name in ("cow", "dog", "ant", "cow")))
    assert labels(mr.files(list=path, classes=["ant", "bee", "cow", "dog"])) == [2, 3, 0, 2]
    with pytest.raises(ValueError, match='line 2 of .*"dog" for label, which is none of the 2 classes'):
        mr.files(list=path, classes=["ant", "cow"]).loader()


ONE = "file,label\n0.jpg,cow\n1.jpg,ant\n2.jpg,cow\n"
TWO = "file,label,kind\n0.jpg,cow,big\n1.jpg,ant,small\n2.jpg,cow,big\n"


def test_a_file_of_names_may_begin_with_a_mark(sets, tmp_path):
    (tmp_path / "names.txt").write_text("cow\ndog\nant\n", encoding="utf-8-sig")
    assert labels(mr.files(sets[1], classes=str(tmp_path / "names.txt"))) == [2, 0, 1]


def test_a_table(table):
    assert labels(table(ONE, classes=["ant", "bee", "cow"])) == [2, 0, 2]
    with pytest.raises(ValueError, match='line 3 of .*"ant" for label'):
        table(ONE, classes=["bee", "cow"]).loader()


def test_a_wrong_name_leaves_the_columns_what_they_are(table):
    pipeline = table("file,kind\n0.jpg,cat\n1.jpg,dogs\n2.jpg,cat\n", classes=["cat", "dog"]).fields(["image", "kind"])
    with pytest.raises(ValueError, match='line 3 of .*"dogs" for kind') as error:
        pipeline.loader()
    assert 'did you mean "dog"?' in error.value.hint


def test_several_columns(table):
    with table(TWO, classes={"label": ["cow", "bee", "ant"]}).shuffle(False).batch(3).loader() as loader:
        batch = next(loader)
        assert batch["label"].tolist() == [0, 2, 0] and batch["kind"].tolist() == [0, 1, 0]
        assert loader.classes_of("label") == ["cow", "bee", "ant"] and loader.classes_of("kind") == ["big", "small"]
    for given, said in ((["ant", "cow"], "several columns of names, label and kind"),
                        ({"label": ["ant", "cow"], "size": ["big"]}, 'no column "size" of names'),
                        ({"label": 3}, "a list of names")):
        with pytest.raises(ValueError, match=said):
            table(TWO, classes=given).loader()


def test_classes_of_one_loader_fit_another_by_field(table):
    text = TWO.replace("label", "sort")
    with table(text).loader() as loader:
        assert set(loader.classes) == {"sort", "kind"}
        with table(text.replace("cow", "bee"), classes={**loader.classes, "sort": ["ant", "bee", "cow"]}).loader() as other:
            assert other.classes == {"sort": ["ant", "bee", "cow"], "kind": ["big", "small"]}


def test_numbers_are_no_classes(table):
    text = "file,label\n0.jpg,1\n1.jpg,0\n2.jpg,1\n"
    with pytest.raises(ValueError, match="no column of names"):
        table(text, classes=["ant", "bee"]).loader()
    with table(text).loader() as loader:  # which has no names to give
        assert labels(table(text, classes=loader.classes)) == [1, 0, 1]


def test_several_names_of_a_file(tmp_path):
    for i in range(2):
        shutil.copy(PHOTO, tmp_path / f"{i}.jpg")
    path = tmp_path / "table.jsonl"
    path.write_text('{"file": "0.jpg", "label": ["cow", "ant"]}\n{"file": "1.jpg", "label": ["bee"]}\n')
    with mr.files(tmp_path, labels=path, classes=["cow", "bee", "ant"]).shuffle(False).batch(2).loader() as loader:
        assert [part.tolist() for part in next(loader)["label"]] == [[0, 2], [1]]
    with pytest.raises(ValueError, match='line 2 of .*"bee" for label'):
        mr.files(tmp_path, labels=path, classes=["cow", "ant"]).loader()


# ---- What depends on them -------------------------------------------------------------------------


def test_conditions_and_sheets_know_the_names(sets):
    pipeline = mr.files(sets[0], classes=["dog", "cow", "bee", "ant"])
    assert labels(pipeline.where("label == 'cow'")) == [1]
    one_hot = pipeline.one_hot(4, field="label").shuffle(False).batch(4)
    with one_hot.loader() as loader:
        assert np.array_equal(next(loader)["label"].argmax(1), [3, 2, 1, 0])


def test_other_numbers_are_another_dataset(sets):
    with mr.files(sets[0]).batch(1).loader(seed=1) as loader:
        next(loader)
        state = loader.state_dict()
    with mr.files(sets[0], classes=["ant", "bee", "dog", "cow"]).batch(1).loader(seed=1) as loader:
        with pytest.raises(mr.StateError, match="class 2 was cow and is dog"):
            loader.load_state_dict(state)


def test_two_loaders_that_number_otherwise_are_told_of(sets, tmp_path):
    with mr.files(sets[0]).loader() as train:
        with pytest.warns(RuntimeWarning, match="class 1 of label is 'cow' here and 'bee' in a loader that is open"):
            mr.files(sets[1]).loader().close()
        others = folder_of(tmp_path / "others", "pea", "rye")
        begun = folder_of(tmp_path / "begun", "ant", "bee")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mr.files(sets[1], classes=train.classes).loader().close()
            mr.files(others).loader().close()  # which have nothing in common
            mr.files(begun).loader().close()  # numbered alike
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mr.files(sets[1]).loader().close()  # the other one is closed


def test_a_mix_of_sets_that_number_otherwise_is_told_of(sets, caplog):
    train, val = sets
    said = "class 1 of label is bee in the first part of the mix and cow in part 2"
    mr.mix([mr.files(train), mr.files(val)]).loader().close()
    assert said in caplog.text
    caplog.clear()
    mr.mix([mr.files(train), mr.files(val)]).fields(["image"]).loader().close()  # nobody is given the labels
    with mr.mix([mr.files(train), mr.files(val, classes=["ant", "bee", "cow", "dog"])]).loader() as loader:
        assert loader.classes == ["ant", "bee", "cow", "dog"]
    assert not caplog.text


def test_a_loader_that_another_thread_is_inside_of_is_compared_too(sets):
    """Nothing is asked of it."""
    inside, go_on = threading.Event(), threading.Event()

    def wait(image):
        inside.set()
        go_on.wait(30)
        return image
    slow = mr.files(sets[0]).map(wait, field="image", fields=("uint8", (None,))).batch(1).loader(threads=1)
    taker = threading.Thread(target=next, args=(slow,))
    taker.start()
    try:
        assert inside.wait(30)
        with pytest.warns(RuntimeWarning, match="class 1 of label is 'cow' here"):
            mr.files(sets[1]).loader().close()
    finally:
        go_on.set()
        taker.join()
        slow.close()
