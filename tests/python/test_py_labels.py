# SPDX-License-Identifier: Apache-2.0
"""Labels as people have them: lists, CSV, TSV and JSON lines, against csv, json and numpy."""
import csv
import json
import os
import shutil

import numpy as np
import pytest

import millrace as mr

PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


@pytest.fixture(name="folder")
def flat_folder(tmp_path):
    """Four photos in one folder."""
    folder = tmp_path / "images"
    (folder / "deep").mkdir(parents=True)
    names = sorted(os.path.join(d, f) for d, _, files in os.walk(PHOTOS) for f in files
                   if f.endswith(".jpg"))[:4]
    for i, name in enumerate(names):
        shutil.copy(name, folder / ("deep" if i == 3 else ".") / f"{i}.jpg")
    return folder


FILES = ["0.jpg", "1.jpg", "2.jpg", "deep/3.jpg"]  # in the source's order


def batch_of(pipeline):
    with pipeline.shuffle(False).batch(4).loader() as loader:
        return next(loader)


def write_list(folder, labels):
    path = folder.parent / "list.txt"
    path.write_text("".join(f"{name}\t{label}\n" for name, label in zip(FILES, labels)))
    return mr.files(path=folder, list=path).fields(["label"])


@pytest.mark.parametrize("labels,want", [
    (["3", "1", "4", "1"], np.array([3, 1, 4, 1], np.int64)),
    (["0.5", "10.5", "-1.0", "2"], np.array([0.5, 10.5, -1, 2], np.float32)),
    (["1e-3", "nan", "inf", "7"], np.array([1e-3, np.nan, np.inf, 7], np.float32)),
    (["dog", "ant", "dog", "cat"], np.array([2, 0, 2, 1], np.int64)),
    (["0,3", "1,2", "5,5", "-1,0"], np.array([[0, 3], [1, 2], [5, 5], [-1, 0]], np.int64)),
    (["0.5,3", "1,2", "5,5", "1,0"], np.array([[.5, 3], [1, 2], [5, 5], [1, 0]], np.float32))])
def test_labels_of_a_list_are_typed(labels, want, folder):
    got = batch_of(write_list(folder, labels))["label"]
    assert got.dtype == want.dtype and np.array_equal(got, want, equal_nan=want.dtype == np.float32)


def test_several_labels_in_a_list(folder):
    got = batch_of(write_list(folder, ["0,3", "1", "2,4,5", "0"]))["label"]
    assert [part.tolist() for part in got] == [[0, 3], [1], [2, 4, 5], [0]]


@pytest.mark.parametrize("labels,line,said", [
    (["1", "2", "O", "4"], 3, '"O" for label, where line 1 has a number'),
    (["cat", "dog", "7", "cat"], 3, '"7" for label, where line 1 has a name'),
    (["cat", "0.5", "7", "cat"], 2, '"0.5" for label, where line 1 has a name'),
    (["1", "2", "99999999999999999999", "4"], 3, "has 99999999999999999999 for label, which does not fit into 64 bits")])
def test_what_is_not_of_one_kind_is_an_error(labels, line, said, folder):
    with pytest.raises(ValueError, match=f"line {line} of .*list.txt has .*") as caught:
        batch_of(write_list(folder, labels))
    assert said in str(caught.value) and caught.value.hint


ROWS = {"age": [3, 1, 4, 15], "score": [0.5, 2.25, -1.0, 3.0], "kind": ["b", "a, or not", "b", 'c "c"'],
        "box": [[1, 2, 3, 4], [0, 0, 9, 9], [5, 5, 6, 6], [1, 1, 2, 2]]}
WANT = {"age": np.array(ROWS["age"]), "score": np.array(ROWS["score"], np.float32),
        "kind": np.array([1, 0, 1, 2]), "box": np.array(ROWS["box"])}


def write_table(folder, ending, names=tuple(FILES), rows=None, key="file_name"):
    rows = ROWS if rows is None else rows
    path = folder.parent / f"labels{ending}"
    records = [dict({key: name}, **{column: values[i] for column, values in rows.items()})
               for i, name in enumerate(names)][::-1]
    with open(path, "w", encoding="utf-8", newline="") as file:
        if ending == ".jsonl":
            file.writelines(json.dumps(record) + "\n" for record in records)
        else:
            writer = csv.DictWriter(file, list(records[0]), delimiter="\t" if ending == ".tsv" else ",")
            writer.writeheader()
            writer.writerows({k: " ".join(map(str, v)) if isinstance(v, list) else v
                              for k, v in r.items()} for r in records)
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("names", [FILES, ["0.jpg", "1.jpg", "2.jpg", "3.jpg"], ["0", "1", "2", "3"],
                                   ["0", "1", "2", "deep/3"]], ids=["whole", "base", "stem", "deep"])
def test_tables_are_joined_by_name(ending, names, folder):
    """Rows are in another order than the files."""
    table = write_table(folder, ending, names)
    got = batch_of(mr.files(path=folder, labels=table))
    for name, want in WANT.items():
        assert got[name].dtype == want.dtype and np.array_equal(got[name], want), name
    assert list(got) == ["image", "age", "score", "kind", "box"]
    assert list(batch_of(mr.files(path=folder, labels=table, columns=["age"]))) == ["image", "age"]
    with pytest.raises(Exception, match='has no column "agee"'):
        batch_of(mr.files(path=folder, labels=table, columns=["agee"]))


def test_several_names_of_each_file(folder):
    table = write_table(folder, ".jsonl", rows={"tags": [["b", "a"], [], ["c"], ["a"]]})
    got = batch_of(mr.files(path=folder, labels=table))["tags"]
    assert [part.tolist() for part in got] == [[1, 0], [], [2], [0]]


def test_columns_of_files_are_read(folder):
    masks = folder.parent / "masks"
    masks.mkdir()
    for i in range(4):
        (masks / f"{i}.png").write_bytes(bytes(range(i + 1)))
    table = write_table(folder, ".csv", rows={"mask": [f"../masks/{i}.png" for i in range(4)],
                                              "label": [5, 6, 7, 8]})
    got = batch_of(mr.files(path=folder, labels=table))
    assert [part.tobytes() for part in got["mask"]] == [bytes(range(i + 1)) for i in range(4)]
    assert got["label"].tolist() == [5, 6, 7, 8]
    for i, part in enumerate(got["image"]):
        assert part.tobytes() == (folder / FILES[i]).read_bytes()
    os.unlink(masks / "2.png")
    with pytest.raises(mr.SampleError) as caught:
        batch_of(mr.files(path=folder, labels=table))
    assert caught.value.index == 2


def write_masks(masks, ending):
    masks.mkdir(parents=True)
    for i in range(4):
        (masks / f"{i}{ending}").write_bytes(bytes(range(i + 1)))


@pytest.mark.parametrize("ending", [".tif", ".npy", ".png"])
@pytest.mark.parametrize("place,prefix", [("images/masks", "masks"), ("images/masks", "./masks//."), ("masks", "masks"),
                                          ("masks", "../masks"), ("images/masks", "images/masks")])
@pytest.mark.parametrize("table_ending", [".csv", ".jsonl"])
def test_names_of_files_are_never_classes(ending, place, prefix, table_ending, folder):
    """Whatever they end in, below the folder or beside the table; and they need no rows, and are no samples."""
    write_masks(folder.parent / place, ending)
    table = write_table(folder, table_ending, rows={"mask": [f"{prefix}/{i}{ending}" for i in range(4)],
                                                    "label": [5, 6, 7, 8]})
    pipeline = mr.files(path=folder, labels=table).shuffle(False).batch(4)
    with pipeline.loader(epochs=1) as loader:
        batch, = loader
    assert [part.tobytes() for part in batch["mask"]] == [bytes(range(i + 1)) for i in range(4)]
    assert batch["label"].tolist() == [5, 6, 7, 8]
    for i, part in enumerate(batch["image"]):
        assert part.tobytes() == (folder / FILES[i]).read_bytes()
    with mr.files(path=folder, labels=table, columns=["label"]).shuffle(False).batch(4).loader(epochs=1) as loader:
        assert [b["label"].tolist() for b in loader] == [[5, 6, 7, 8]]


def test_masks_of_a_list_are_files_too(folder):
    write_masks(folder.parent / "masks", ".png")
    got = batch_of(write_list(folder, [f"../masks/{i}.png" for i in range(4)]))["label"]
    assert [part.tobytes() for part in got] == [bytes(range(i + 1)) for i in range(4)]
    assert batch_of(write_list(folder, [f"v{i}.png" for i in (3, 1, 1, 2)]))["label"].tolist() == [2, 0, 0, 1]


def test_masks_that_have_the_images_names(folder):
    """Rows are the images': masks/0.png and 0.jpg are both 0 without folders and endings."""
    write_masks(folder / "masks", ".png")
    table = write_table(folder, ".csv", ["0", "1", "2", "3"], {"mask": [f"masks/{i}.png" for i in range(4)]})
    got = batch_of(mr.files(path=folder, labels=table))
    assert [part.tobytes() for part in got["mask"]] == [bytes(range(i + 1)) for i in range(4)]
    assert [part.tobytes() for part in got["image"]] == [(folder / name).read_bytes() for name in FILES]
    os.unlink(folder / "1.jpg")
    with pytest.raises(ValueError, match="masks/1.png is named by a column of .*, and line 4 may mean it too") as caught:
        batch_of(mr.files(path=folder, labels=table))
    assert 'into column "file_name"' in caught.value.hint


def test_files_that_are_samples_may_be_named_by_others(folder):
    table = write_table(folder, ".csv", rows={"next": FILES[1:] + FILES[:1]})
    got = batch_of(mr.files(path=folder, labels=table))
    assert len(got["image"]) == 4
    assert [part.tobytes() for part in got["next"]] == [(folder / n).read_bytes() for n in FILES[1:] + FILES[:1]]


def test_some_names_of_files_are_refused(folder):
    write_masks(folder / "masks", ".tif")
    table = write_table(folder, ".csv", rows={"mask": ["masks/0.tif", "none", "masks/2.tif", "none"]})
    with pytest.raises(ValueError, match="line 3 of .* names a file for mask, but other lines have something else") as caught:
        batch_of(mr.files(path=folder, labels=table))
    assert "`columns`" in caught.value.hint or "columns" in caught.value.hint
    table = write_table(folder, ".jsonl", rows={"mask": [["masks/0.tif", "masks/1.tif"]] * 4})
    with pytest.raises(ValueError, match="names a file for mask, but several for one sample"):
        batch_of(mr.files(path=folder, labels=table))


def test_a_join_says_by_which_column(folder):
    (folder.parent / "t.csv").write_text("id,name,label\n" + "".join(f"x{i},n{i},{i}\n" for i, n in enumerate(FILES)))
    with pytest.raises(ValueError, match='0.jpg has no row in .*, whose column "id" was taken') as caught:
        batch_of(mr.files(path=folder, labels=folder.parent / "t.csv"))
    assert 'begins with "x0"' in caught.value.hint


def test_boxes_of_a_table(folder):
    boxes = [[[1, 2, 3, 4], [5, 6, 7, 8]], [], [[0.5, 0, 1, 1]], [[9, 9, 9, 9]]]
    table = write_table(folder, ".jsonl", rows={"boxes": boxes, "tags": [[1, 2], [], [3], [4]]})
    got = batch_of(mr.files(path=folder, labels=table))
    assert [part.tolist() for part in got["boxes"]] == boxes
    assert [part.shape for part in got["boxes"]] == [(2, 4), (0, 4), (1, 4), (1, 4)]
    assert [part.tolist() for part in got["tags"]] == [[1, 2], [], [3], [4]]
    table = write_table(folder, ".jsonl", rows={"boxes": [[[1, 2, 3, 4]]] * 4})
    assert batch_of(mr.files(path=folder, labels=table))["boxes"].shape == (4, 1, 4)
    for bad in ([[1, 2], [3]], [5], [[1, 2, 3]], [["a"]]):
        table = write_table(folder, ".jsonl", rows={"boxes": [[[1, 2]], bad, [[1, 2]], [[1, 2]]]})
        with pytest.raises(ValueError, match="line 3 of .* inside boxes") as caught:
            batch_of(mr.files(path=folder, labels=table))
        assert caught.value.hint


def test_boxes_follow_crop_and_flip(folder):
    """Against the same in numpy."""
    from PIL import Image
    boxes = [[[1, 2, 300, 400, 7], [0, 0, 2, 2, 8]], [], [[0.5, 0, 1000, 1000, 9]], [[60, 60, 70, 75, 1]]]
    table = write_table(folder, ".jsonl", rows={"boxes": boxes})
    both = ["image", "boxes"]
    got = batch_of(mr.files(path=folder, labels=table).kinds(boxes="boxes").decode_image()
                   .center_crop(64, field=both).random_flip(p=1, field=both))
    for i, rows in enumerate(boxes):
        width, height = Image.open(folder / FILES[i]).size
        left, top = (int(round((side - 64) / 2)) for side in (width, height))
        want = []
        for x0, y0, x1, y1, number in rows:
            x0, x1 = (min(max(x - left, 0), 64) for x in (x0, x1))
            y0, y1 = (min(max(y - top, 0), 64) for y in (y0, y1))
            want += [[64 - x1, y0, 64 - x0, y1, number]] if x1 > x0 and y1 > y0 else []
        assert got["boxes"][i].tolist() == want, i
    assert sum(len(part) for part in got["boxes"]) < sum(map(len, boxes))


def test_the_example_of_the_manual(folder, monkeypatch):
    text = open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python.md"), encoding="utf-8").read()
    text = text[text.index("Boxes from files"):text.index("## Batches")]
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    table = [line for line in lines if line.startswith("{")]
    monkeypatch.chdir(folder.parent)
    os.mkdir("photos")
    for i in range(len(table)):
        shutil.copy(folder / f"{i}.jpg", "photos")
    (folder.parent / "boxes.jsonl").write_text("\n".join(table) + "\n")
    names = {"mr": mr}
    exec("\n".join(line for line in lines if not line.startswith("{")), names)
    with names["pipeline"].shuffle(False).loader(epochs=1, seed=3) as loader:
        batch, = loader
    assert batch["image"].shape[1:3] == (224, 224) and batch["boxes"][1].shape == (0, 5)
    given = {box[4] for box in json.loads(table[0])["boxes"]}
    assert {box[4] for box in batch["boxes"][0].tolist()} <= given


@pytest.mark.parametrize("change,said", [
    (lambda lines: [lines[0], *lines[1:4], "9.jpg,1"],
     "deep/3.jpg has no row in .*, whose column \"file_name\" was taken for the files' names"),
    (lambda lines: [*lines, lines[1]], "line 6 of .* names a file that a line above names too"),
    (lambda lines: [*lines[:2], "1.jpg,", *lines[3:]], "line 3 of .* has no label"),
    (lambda lines: [*lines[:2], "1.jpg,1,2", *lines[3:]], "line 3 of .* another number of columns"),
    (lambda lines: ["file_name,index", *lines[1:]], 'line 1 of .* calls a column "index"'),
    (lambda lines: ["file_name," + ",".join(f"c{k}" for k in range(65533)), lines[1] + 65532 * ",1"],
     "line 1 of .* has 65533 columns beside the files' names, more than 65532"),
    (lambda lines: [*lines[:3], ",4", *lines[4:]], "line 4 of .* names no file")])
def test_bad_tables_name_the_line(change, said, folder):
    table = folder.parent / "labels.csv"
    lines = ["file_name,label", *[f"{name},{i}" for i, name in enumerate(FILES)]]
    table.write_text("\n".join(lines) + "\n")
    assert batch_of(mr.files(path=folder, labels=table))["label"].tolist() == [0, 1, 2, 3]
    table.write_text("\n".join(change(lines)) + "\n")
    with pytest.raises(ValueError, match=said) as caught:
        batch_of(mr.files(path=folder, labels=table))
    assert caught.value.hint


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("columns", [40, 200])
def test_a_table_has_many_columns(ending, columns, folder):
    rows = {f"a{k}": [(i * k) % 7 - 3 if k % 2 else i + k / 4 + 0.125 for i in range(4)] for k in range(columns)}
    pipeline = mr.files(path=folder, labels=write_table(folder, ending, rows=rows)).fields(list(rows))
    batch = batch_of(pipeline)
    for k, (name, values) in enumerate(rows.items()):
        want = np.array(values, np.int64 if k % 2 else np.float32)
        assert batch[name].dtype == want.dtype and np.array_equal(batch[name], want)


def test_some_of_many_columns(folder):
    rows = {f"a{k}": [f"n{k} {i % 2}" for i in range(4)] for k in range(100)}
    table = write_table(folder, ".csv", rows=rows)
    some = mr.files(path=folder, labels=table, columns=["a70", "a7", "a99"], classes={"a7": ["n7 1", "n7 0"]})
    with some.fields(["a7", "a70", "a99"]).shuffle(False).batch(4).loader() as loader:
        batch = next(loader)
        assert loader.classes_of("a7") == ["n7 1", "n7 0"] and loader.classes_of("a99") == ["n99 0", "n99 1"]
    assert batch["a7"].tolist() == [1, 0, 1, 0] and batch["a70"].tolist() == [0, 1, 0, 1]
    said(mr.files(path=folder, labels=table, columns=["a7", "a100"]), 'line 1 of .* has no column "a100"')
    said(mr.files(path=folder, labels=table, classes={"b": ["x"]}), 'line 1 of .* has no column "b" of names')


def write_bytes(folder, name, text):
    (folder.parent / name).write_bytes(text)
    return folder.parent / name


@pytest.mark.parametrize("name,text,message", [
    ("t.csv", b"file,kind\n0,a\n1,caf\xe9\n2,b\n3,b\n", r'line 3 of .* has "caf\\xE9" for kind, which is not UTF-8'),
    ("t.tsv", b"file\tkind\n0\ta\n1\t\xed\xa0\x80\n2\tb\n3\tb\n", r'line 3 of .* for kind, which is not UTF-8'),
    ("t.csv", b"file,gr\xf6\xdfe\n0,1\n1,1\n2,1\n3,1\n", r'line 1 of .* calls a column "gr\\xF6\\xDFe", which is not UTF-8'),
    ("t.jsonl", b'{"file": "0", "kind": "a"}\n{"file": "1", "kind": "caf\xe9"}\n', "line 2 of .* is not UTF-8"),
    ("t.csv", "file,kind\n0,a\n".encode("utf-16"), "zero byte")])
def test_tables_that_are_not_utf_8_are_refused(name, text, message, folder):
    with pytest.raises(ValueError, match=message) as error:
        mr.files(path=folder, labels=write_bytes(folder, name, text)).loader()
    assert "UTF-8" in error.value.hint


def test_lists_and_classes_that_are_not_utf_8_are_refused(folder):
    lines = b"".join(b"%s\t%s\n" % (name.encode(), b"caf\xe9" if i == 2 else b"tea") for i, name in enumerate(FILES))
    said(mr.files(path=folder, list=write_bytes(folder, "l.txt", lines)), "line 3 of .*l.txt .* for label, which is not UTF-8")
    good = write_bytes(folder, "good.txt", lines.replace(b"caf\xe9", "caf\u00e9".encode()))
    names = write_bytes(folder, "names.txt", b"tea\ncaf\xe9\n")
    said(mr.files(path=folder, list=good, classes=os.fspath(names)), "names.txt, the file of classes: line 2 is not UTF-8")
    with mr.files(path=folder, list=good).loader() as loader:
        assert loader.classes == ["caf\u00e9", "tea"]


def test_names_of_files_may_be_any_bytes(folder):
    os.rename(folder / "1.jpg", os.fsencode(folder) + b"/1\xe9.jpg")
    table = write_bytes(folder, "t.csv", b"file,label,gr\xf6\xdfe\n0.jpg,5,x\n1\xe9.jpg,6,\xe4\n2.jpg,7,x\n3.jpg,8,x\n")
    pipeline = mr.files(path=folder, labels=table, columns=["label"]).fields(["label"])
    assert batch_of(pipeline)["label"].tolist() == [5, 6, 7, 8]
    lines = write_bytes(folder, "l.txt", b"0.jpg\t1\n1\xe9.jpg\t2\n2.jpg\t3\ndeep/3.jpg\t4\n")
    assert batch_of(mr.files(path=folder, list=lines).fields(["label"]))["label"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
@pytest.mark.parametrize("text", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_empty_tables_are_told(name, text, folder):
    with pytest.raises(ValueError, match=f"{name} is empty") as error:
        mr.files(path=folder, labels=write_bytes(folder, name, text)).loader()
    assert "column" not in str(error.value) and error.value.hint


@pytest.mark.parametrize("name,text", [("t.csv", "file,label\n"), ("t.tsv", "file\tlabel"), ("t.json", "[]")])
def test_tables_without_rows_are_told(name, text, folder):
    assert "column" not in said(labelled(folder, name, text), f"{name} has no rows")


@pytest.mark.parametrize("row", ["0.jpg;3", "0.jpg;0,5"])
def test_semicolons_separate_no_columns(row, folder):
    with pytest.raises(ValueError, match='line 1 of .* calls the only column "file;label"') as error:
        labelled(folder, "t.csv", f"file;label\n{row}\n").loader()
    assert "commas, or by tabs" in error.value.hint
    both = labelled(folder, "t.csv", "file,a;b\n" + "".join(f"{name},1\n" for name in FILES))
    assert batch_of(both.fields(["a;b"]))["a;b"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e39", "3.5e38"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_numbers_beyond_float32_are_refused(name, number, folder):
    rows = [0.5, "inf", number, "-Infinity"]
    line = (lambda n, x: f"{n},{x}\n") if name == "t.csv" else (lambda n, x: json.dumps({"file": n, "x": str(x)}) + "\n")
    text = "file,x\n" * (name == "t.csv") + "".join(line(n, x) for n, x in zip(FILES, rows))
    message = f"line {4 if name == 't.csv' else 3} of .* has {number} for x, which does not fit into float32"
    assert said(labelled(folder, name, text), message)
    got = batch_of(labelled(folder, name, text.replace(number, "3.4e38")).fields(["x"]))["x"]
    assert np.array_equal(got, np.array([0.5, np.inf, 3.4e38, -np.inf], np.float32))


def test_blanks_around_cells_are_no_part_of_labels(folder):
    (folder.parent / "t.csv").write_text("file , label, kind\n" + "".join(
        f'{name}, {i + 9},  "a b" \n' for i, name in enumerate(FILES)))
    pipeline = mr.files(path=folder, labels=folder.parent / "t.csv").fields(["label", "kind"])
    assert batch_of(pipeline)["label"].tolist() == [9, 10, 11, 12]
    with pipeline.loader() as loader:
        assert loader.classes_of("kind") == ["a b"]


def test_lists_in_lists_are_no_labels(folder):
    (folder.parent / "t.jsonl").write_text("".join(
        json.dumps({"file_name": name, "n": i, "boxes": [[1.0], 2.0] if i else [5]}) + "\n" for i, name in enumerate(FILES)))
    with pytest.raises(Exception, match="lists or objects inside boxes") as caught:
        batch_of(mr.files(path=folder, labels=folder.parent / "t.jsonl"))
    assert "line 2" in str(caught.value) or ":2" in str(caught.value)
    pipeline = mr.files(path=folder, labels=folder.parent / "t.jsonl", columns=["n"]).fields(["n"])
    assert batch_of(pipeline)["n"].tolist() == [0, 1, 2, 3]


def test_a_row_belongs_to_one_file(folder):
    shutil.copy(folder / "0.jpg", folder / "deep" / "0.jpg")
    table = write_table(folder, ".csv", ["0", "1", "2", "3"])
    with pytest.raises(ValueError, match="deep/0.jpg and a file before it have the same row"):
        batch_of(mr.files(path=folder, labels=table))
    with pytest.raises(ValueError, match="not both"):
        mr.files(path=folder, labels=table, list=table)


def test_a_changed_label_is_another_dataset(folder):
    with write_list(folder, ["0.5", "1.5", "2.5", "3.5"]).loader() as loader:
        state = loader.state_dict()
    with pytest.raises(mr.StateError, match="dataset"):
        write_list(folder, ["0.5", "1.5", "2.5", "3.25"]).loader(state=state)


def test_another_name_of_a_class_is_another_dataset(folder):
    """Its number stays, so that nothing else would show it."""
    with write_list(folder, ["dog", "ant", "dog", "cat"]).loader() as loader:
        state = loader.state_dict()
    with write_list(folder, ["dog", "ant", "dog", "cat"]).loader(state=state) as loader:
        assert loader.state_dict() == state
    with pytest.raises(mr.StateError, match="dataset"):
        write_list(folder, ["wolf", "ant", "wolf", "cat"]).loader(state=state)


def test_a_report_has_the_classes(tmp_path):
    path = tmp_path / "trace"
    with mr.files(PHOTOS).batch(4).loader(trace=path, epochs=1) as loader:
        list(loader)
    report = mr.report(path)
    assert report.figures["header"]["classes"] == sorted(os.listdir(PHOTOS))
    assert ", 2 classes, " in str(report)


# ---- Names of classes ----------------------------------------------------------------------------


def test_classes_are_folders_or_names(folder, tmp_path):
    with mr.files(PHOTOS).loader() as loader:
        assert loader.classes == sorted(os.listdir(PHOTOS)) and loader.classes_of("image") == []
    with write_list(folder, ["dog", "ant", "dog", "cat"]).loader() as loader:
        assert loader.classes == ["ant", "cat", "dog"]
    with write_list(folder, ["2", "1", "2", "0"]).loader() as loader:
        assert loader.classes == []
    with mr.files(path=folder, labels=write_table(folder, ".csv")).loader() as loader:
        assert loader.classes == loader.classes_of("kind") == sorted(set(ROWS["kind"]))
    with mr.files(path=folder, labels=write_table(folder, ".csv", rows={**ROWS, "label": [1, 2, 3, 4]})).loader() as loader:
        assert loader.classes == [] and loader.classes_of("kind") == sorted(set(ROWS["kind"]))
    with mr.files(path=folder, labels=write_table(folder, ".csv", rows={"a": "xxyz", "b": "uvvv"})).loader() as loader:
        assert loader.classes == {"a": ["x", "y", "z"], "b": ["u", "v"]} and loader.classes_of("a") == ["x", "y", "z"]
    with mr.synthetic(samples=3, shape=[2]).loader() as loader:
        assert loader.classes == []
    del tmp_path


def test_a_sheet_shows_names(tmp_path):
    """The sheet with names differs from one with numbers above the pictures, and only there."""
    from PIL import Image
    with mr.files(PHOTOS).decode_image().center_crop(64).batch(5).loader(seed=1) as loader:
        batch = next(loader)
    mr.show(batch, tmp_path / "names.png", columns=5)
    batch._classes = []
    mr.show(batch, tmp_path / "numbers.png", columns=5)
    named, numbered = (np.asarray(Image.open(tmp_path / f"{name}.png")) for name in ("names", "numbers"))
    assert named.shape == numbered.shape and (named[:20] != numbered[:20]).any()
    assert (named[20:] == numbered[20:]).all()


def copied(tmp_path, names):
    """A photo in a folder for each class."""
    photo = next(os.path.join(d, f) for d, _, files in os.walk(PHOTOS) for f in files if f.endswith(".jpg"))
    folder = tmp_path / "-".join(names)
    for name in names:
        (folder / name).mkdir(parents=True)
        shutil.copy(photo, folder / name / "0.jpg")
    return mr.files(path=folder).batch(1)


def test_a_state_has_the_classes_and_another_dataset_is_told_by_them(tmp_path):
    with copied(tmp_path, ["ant", "bee", "k\u00e4fer \"x\""]).loader(seed=1) as loader:
        next(loader)
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["classes"] == {"label": loader.classes} == {"label": ["ant", "bee", "k\u00e4fer \"x\""]}
        rest = [batch.samples.tolist() for batch in loader.one_epoch()]
    with copied(tmp_path / "again", ["ant", "bee", "k\u00e4fer \"x\""]).loader(seed=1) as loader:
        loader.load_state_dict(state)
        assert [batch.samples.tolist() for batch in loader.one_epoch()] == rest
    for names, said in ((["ant", "cow", "k\u00e4fer \"x\""], "class 1 was bee and is cow"),
                        (["ant", "bee"], r"had 3, and has 2; class 2 was .* and is \(none\)")):
        with copied(tmp_path, names).loader(seed=1) as loader:
            with pytest.raises(mr.StateError, match=said):
                loader.load_state_dict(state)


def test_a_state_has_the_classes_of_every_field(folder):
    path = folder.parent / "rows.csv"
    path.write_text("file,kind,size\n" + "".join(f"{f},{k},{s}\n" for f, k, s in zip(FILES, "abca", "xxyz")))
    pipeline = mr.files(path=folder, labels=path).fields(["kind", "size"])
    with pipeline.batch(2).loader() as loader:
        assert loader.state_dict()["classes"] == {"kind": ["a", "b", "c"], "size": ["x", "y", "z"]}


def test_too_many_classes_are_left_to_the_fingerprint(folder):
    for length, there in ((100, True), (900, True), (20000, False)):
        with write_list(folder, [name * length for name in "abcd"]).batch(2).loader() as loader:
            assert len(loader.classes) == 4 and ("classes" in loader.state_dict()) == there


# ---- Conditions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition,want", [
    ("kind == b", [0, 2]), ("kind != b", [1, 3]), ("kind == 'a, or not'", [1]), ('kind == "a, or not"', [1]),
    ("kind!=b and age > 3", [3]), ("age > 3 and kind == b", [2]), ("kind == 1", [0, 2]), ("tag == 3d", [1]),
    ("tag == '7'", [2])])
def test_conditions_by_the_names_of_classes(condition, want, folder):
    rows = {**ROWS, "tag": ["x", "3d", "7", "y"]}
    pipeline = mr.files(path=folder, labels=write_table(folder, ".jsonl", rows=rows)).where(condition).shuffle(False)
    with pipeline.batch(4).loader(epochs=1) as loader:
        assert next(loader).samples.tolist() == want


@pytest.mark.parametrize("condition,said,hint", [
    ("kind == bb", 'field "kind" has no class "bb"', 'did you mean "b"?'),
    ("kind < b", "names of classes have no order", "=="), ("age == b", 'field "age" has numbers, and no classes', "number"),
    ("kind ==", "is not a condition", "name of a class"), ("kind == 'b", "is not a condition", "name of a class"),
    ("knid == b", 'has no field "knid"', 'did you mean "kind"?'),
    ("box == 1", 'field "box" is int64', "a view compares numbers")])
def test_conditions_that_cannot_be_asked(condition, said, hint, folder):
    pipeline = mr.files(path=folder, labels=write_table(folder, ".jsonl")).where(condition)
    with pytest.raises(ValueError) as caught:
        pipeline.loader()
    assert said in str(caught.value) and hint in caught.value.hint


@pytest.mark.parametrize("quote", ["'", '"', "`"])
def test_conditions_on_fields_with_any_name(quote, folder):
    rows = {"age (years)": [3, 30, 31, 5], "kind": ["a", "a", "b", "b"]}
    pipeline = mr.files(path=folder, labels=write_table(folder, ".csv", rows=rows)).shuffle(False).batch(4)
    with pipeline.where(f"{quote}age (years){quote} >= 30 and kind == b").loader(epochs=1) as loader:
        assert next(loader).samples.tolist() == [2]
    with pytest.raises(ValueError, match="is not a condition") as caught:
        pipeline.where("age (years) > 3").loader()
    assert "between quotes" in caught.value.hint
    with pytest.raises(ValueError, match='has no field "age"'):
        pipeline.where(f"{quote}age{quote} > 3").loader()
    with pytest.raises(ValueError, match="is not a condition"):
        pipeline.where(f"{quote}age (years) > 3").loader()


def test_conditions_on_text_say_what_to_do(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": "x", "n": 1}\n{"a": "y", "n": 2}\n')
    with pytest.raises(ValueError, match='field "a" is .*, not a single number') as caught:
        mr.lines(tmp_path / "a.jsonl").where("a == x").loader()
    assert "names of classes, which come from folders" in caught.value.hint
    with mr.lines(tmp_path / "a.jsonl").where("n == 2").loader() as loader:
        assert next(loader)["n"].tolist() == [2]


# ---- Tables as people have them ------------------------------------------------------------------


def labelled(folder, name, text):
    path = folder.parent / name
    path.write_text(text)
    return mr.files(path=folder, labels=path)


def said(pipeline, text):
    with pytest.raises(ValueError, match=text) as error:
        pipeline.loader()
    return str(error.value)


NAMED = list(zip(FILES, [3, 1, 4, 1]))


@pytest.mark.parametrize("header", ["file_name", "filename", "Filename", "file", "path", "image", "image_path", "img", "fname", "name", "photo"])
def test_the_column_of_the_names_has_many_names(header, folder):
    lines = [f"id,label,{header}"] + [f"{i},{label},{name}" for i, (name, label) in enumerate(NAMED)]
    assert batch_of(labelled(folder, "t.csv", "\n".join(lines)).fields(["label"]))["label"].tolist() == [3, 1, 4, 1]


def test_names_may_begin_with_a_dot(folder):
    lines = ["file,label"] + [f"./{name.replace('/', '//')},{label}" for name, label in NAMED]
    assert batch_of(labelled(folder, "t.csv", "\n".join(lines)).fields(["label"]))["label"].tolist() == [3, 1, 4, 1]


@pytest.mark.parametrize("header", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_no_column(header, folder):
    lines = [f"{header},filename,label"] + [f"{i},{name},{label}" for i, (name, label) in enumerate(NAMED)]
    pipeline = labelled(folder, "t.csv", "\n".join(lines))
    assert batch_of(pipeline.fields(["label"]))["label"].tolist() == [3, 1, 4, 1]
    assert list(batch_of(pipeline).keys()) == ["image", "label"]


def test_an_array_of_json_is_read_too(folder):
    rows = [{"file_name": name, "label": label} for name, label in NAMED]
    for text in (json.dumps(rows), json.dumps(rows, indent=2)):
        assert batch_of(labelled(folder, "t.json", text).fields(["label"]))["label"].tolist() == [3, 1, 4, 1]
    rows[2]["label"] = "cat"
    said(labelled(folder, "t.json", json.dumps(rows)), 'entry 3 of .*t.json has "cat" for label')


def test_coco_is_told(folder):
    pipeline = labelled(folder, "t.json", json.dumps({"images": [], "annotations": []}, indent=1))
    said(pipeline, 'one object with "images" in it, as COCO has it')


def test_two_columns_of_one_name_are_told_with_the_line(folder):
    pipeline = labelled(folder, "t.csv", "file,label,label\n" + "".join(f"{n},{v},{v}\n" for n, v in NAMED))
    said(pipeline, 'line 1 of .*t.csv calls two columns "label"')


def test_quoted_numbers_are_numbers(folder):
    def lines(values):
        return "".join(json.dumps({"file": name, "label": value}) + "\n" for name, value in zip(FILES, values))

    got = batch_of(labelled(folder, "t.jsonl", lines(["10", "2", "7", "2"])).fields(["label"]))["label"]
    assert got.dtype == np.int64 and got.tolist() == [10, 2, 7, 2]
    got = batch_of(labelled(folder, "t.jsonl", lines([["1", "10"], ["2"], [], ["3"]])).fields(["label"]))["label"]
    assert [part.tolist() for part in got] == [[1, 10], [2], [], [3]]
    pipeline = labelled(folder, "t.jsonl", lines(["10", "2", "cat", "2"])).fields(["label"])
    with pipeline.loader() as loader:
        assert loader.classes == ["10", "2", "cat"]


@pytest.mark.parametrize("values", [[f"masks/{i}.npz" for i in range(4)], [f"masks/{i}" for i in range(4)],
                                    [f"{i}.nrrd" for i in range(4)]])
def test_files_that_are_not_there_are_no_classes(values, folder):
    lines = ["file,mask"] + [f"{name},{value}" for name, value in zip(FILES, values)]
    said(labelled(folder, "t.csv", "\n".join(lines)), f'line 2 of .*t.csv names "{values[0]}" for mask, which is not below')


def test_files_without_endings_are_files(folder):
    (folder.parent / "masks").mkdir()
    for i in range(4):
        (folder.parent / "masks" / str(i)).write_bytes(bytes([i] * 5))
    lines = ["file,mask"] + [f"{name},masks/{i}" for i, name in enumerate(FILES)]
    got = batch_of(labelled(folder, "t.csv", "\n".join(lines)).fields(["mask"]))["mask"]
    assert [part.tolist() for part in got] == [[i] * 5 for i in range(4)]


@pytest.mark.parametrize("values", [["v1.0", "v2.0", "v1.1", "v3.0"], ["a/b", "a/b", "c/d", "c/d"], ["St. Bernard", "Mr. X", "b", "c"]])
def test_classes_that_look_a_little_like_files_are_classes(values, folder):
    lines = ["file,label"] + [f"{name},{value}" for name, value in zip(FILES, values)]
    with labelled(folder, "t.csv", "\n".join(lines)).loader() as loader:
        assert loader.classes == sorted(set(values))


def test_masks_in_a_folder_are_told(folder, caplog):
    shutil.copytree(folder / "deep", folder / "masks")
    lines = ["file,label"] + [f"{name},{label}" for name, label in NAMED]
    pipeline = labelled(folder, "t.csv", "\n".join(lines))
    error = said(pipeline, "masks/3.jpg has no row in .* was taken for the files' names")
    assert "if it is a mask, name it in a column of the table" in error
    with caplog.at_level("WARNING", "millrace"), mr.files(path=folder).loader():
        assert "folder masks was taken for a class" in caplog.text


# ---- What is made of labels ----------------------------------------------------------------------


def test_several_classes_become_one_row(folder):
    tags = [["cat", "dog"], [], ["ant"], ["dog", "ant", "cat"]]
    lines = "".join(json.dumps({"file": name, "tags": value}) + "\n" for name, value in zip(FILES, tags))
    pipeline = labelled(folder, "t.jsonl", lines).fields(["tags"])
    with pipeline.loader() as loader:
        assert loader.classes == ["ant", "cat", "dog"]
    got = batch_of(pipeline.multi_hot(3, field="tags"))["tags"]
    assert got.dtype == np.float32 and got.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1]]
    with pytest.raises(mr.SampleError, match="number 1 is 2, which is none of 2 classes"):
        batch_of(pipeline.multi_hot(2, field="tags"))
    with pytest.raises(TypeError, match="needs a list of whole numbers"):
        labelled(folder, "t.csv", "file,label\n" + "".join(f"{n},{v}\n" for n, v in NAMED)).multi_hot(3, field="label")


def test_classes_of_several_fields(folder):
    lines = "file,kind,colour\n" + "".join(f"{n},k{i % 2},c{i}\n" for i, n in enumerate(FILES))
    with labelled(folder, "t.csv", lines).loader() as loader:
        assert loader.classes == {"kind": ["k0", "k1"], "colour": ["c0", "c1", "c2", "c3"]}
    with labelled(folder, "t.csv", lines.replace("kind", "label")).loader() as loader:
        assert loader.classes == ["k0", "k1"] and loader.classes_of("colour") == ["c0", "c1", "c2", "c3"]


def test_filling_up_whole_numbers_takes_whole_numbers(folder):
    tags = batch_of(labelled(folder, "t.csv", "file,tags\n" + "".join(
        f'{n},"{",".join(map(str, range(i + 1)))}"\n' for i, n in enumerate(FILES))).fields(["tags"]))["tags"]
    values, _ = tags.pad(-1)
    assert values[0].tolist() == [0, -1, -1, -1]
    with pytest.raises(ValueError, match="the values are int64, which cannot be filled up with 0.5"):
        tags.pad(0.5)
    with pytest.raises(ValueError, match="cannot be filled up with 18446744073709551616"):
        tags.to_padded(2**64)
    assert tags.pad(2.0)[0][0].tolist() == [0, 2, 2, 2]
