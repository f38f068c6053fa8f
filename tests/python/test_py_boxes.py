# SPDX-License-Identifier: Apache-2.0
"""Boxes as people have them: corners, sizes, one for each image, whole numbers in a table."""
import logging

import numpy as np
import pytest
from PIL import Image

import millrace as mr
from test_py_fields import run

BOTH = ["image", "bbox"]


def source(boxes, dtype="float32", shape=(None, 4)):
    image = np.zeros((40, 60, 3), np.uint8)
    return mr.dataset([{"image": image, "boxes": np.array(boxes, dtype)}],
                      {"image": ("uint8", (None, None, 3)), "boxes": (dtype, shape)})


CROP = {"top": 5, "left": 10, "height": 20, "width": 30, "field": ["image", "boxes"]}


@pytest.mark.parametrize("form, box, want", [
    ("boxes", [8, 10, 30, 20], [0, 5, 20, 15]), ("boxes_xywh", [8, 10, 22, 10], [0, 5, 20, 10]),
    ("boxes_cxcywh", [19, 15, 22, 10], [10, 10, 20, 10])])
def test_boxes_keep_their_format(form, box, want):
    pipeline = source([box]).kinds(boxes=form).crop(**CROP)
    assert run(pipeline)[0]["boxes"].tolist() == [want]
    corners = source([box]).kinds(boxes="boxes").crop(**CROP)
    assert (pipeline.fingerprint == corners.fingerprint) == (form == "boxes")
    most = source([box]).kinds(boxes={form: {"min_visible": 0.95}}).crop(**CROP)
    assert run(most)[0]["boxes"].tolist() == []


def test_boxes_of_another_format_are_told():
    with pytest.raises(mr.SampleError, match=r"box 1 of boxes is \[50, 30, 8, 9\]: as left, top, right, bottom") as error:
        run(source([[1, 2, 3, 4], [50, 30, 8, 9]]).kinds(boxes="boxes").crop(**CROP))
    assert '.kinds(boxes="boxes_xywh")' in str(error.value)
    with pytest.raises(ValueError, match='a kind must be "mask", "boxes", "boxes_xywh"'):
        source([]).kinds(boxes="yolo").crop(**CROP)


@pytest.fixture
def photos(tmp_path):
    rows = ["file,bbox"]
    for i in range(3):
        Image.new("RGB", (60, 40)).save(tmp_path / f"{i}.png")
        rows.append(f'{i}.png,"{20 + i},10,{30 + i},20"')
    (tmp_path / "boxes.csv").write_text("\n".join(rows))
    return tmp_path


def test_a_box_for_each_image_from_a_table(photos, caplog):
    plain = mr.files(str(photos), labels=str(photos / "boxes.csv")).decode_image()
    with caplog.at_level(logging.WARNING, "millrace"):
        run(plain.crop(top=0, left=0, height=20, width=25))
    assert 'bbox stays where it is' in caplog.text and '.kinds(bbox="boxes")' in caplog.text
    named = plain.kinds(bbox="boxes")
    with pytest.raises(TypeError, match=r"bbox must be float32") as error:
        named.crop(top=0, left=0, height=20, width=25, field=BOTH)
    assert '.cast(dtype="float32", field="bbox")' in str(error.value) or \
        '.cast("float32", field="bbox")' in str(error.value)
    moved = named.cast("float32", field="bbox").crop(top=0, left=22, height=20, width=30, field=BOTH)
    got = run(moved)
    assert [got[i]["bbox"].tolist() for i in range(3)] == [[0, 10, 8, 20], [0, 10, 9, 20], [0, 10, 10, 20]]
    away = run(named.cast("float32", field="bbox").crop(top=30, left=0, height=10, width=10, field=BOTH))
    assert away[0]["bbox"].tolist() == [10, 0, 10, 0]  # nothing of it is left, and it is the image's only one
