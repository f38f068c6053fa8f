# SPDX-License-Identifier: Apache-2.0
"""Masks follow their images through the ops that bend, turn and cut: the same draws, by nearest, and
outside of the image is 0."""
import numpy as np
import pytest

import millrace as mr
from test_py_fields import TYPES, Pairs, run

OPS = {"rotate": {"degrees": 40}, "affine": {"degrees": 20, "translate": 0.2, "shear": 10},
       "perspective": {"p": 0.8}, "elastic": {"alpha": 90, "sigma": 3}, "letterbox": {"size": 50}}

COLOURS = {"autocontrast": {}, "color_jitter": {"brightness": 0.5, "hue": 0.2}, "equalize": {}, "erasing": {"p": 1},
           "gaussian_blur": {"size": 5}, "gaussian_noise": {}, "grayscale": {}, "invert": {}, "normalize": {},
           "posterize": {"bits": 2}, "sharpness": {"factor": 3}, "solarize": {"threshold": 100}, "to_float": {},
           "random_apply": {"ops": ["invert", "equalize"], "p": 1}, "one_of": {"ops": ["invert", "solarize"]},
           "random_order": {"ops": ["invert", {"posterize": {"bits": 2}}]}}

AUGMENTS = {"rand_augment": {"num_ops": 4, "magnitude": 20}, "trivial_augment": {}, "auto_augment": {"policy": "svhn"}}


class Masks(Pairs):
    """The masks of the same pairs, as images of three equal channels."""

    def __getitem__(self, i):
        return {"image": np.repeat(self.arrays(i)[1], 3, axis=2)}


@pytest.mark.parametrize("name", OPS)
def test_masks_follow(name):
    both = getattr(mr.dataset(Pairs(), TYPES).kinds(mask="mask"), name)(
        **OPS[name], filter="bilinear", fill=[9, 8, 7], field=["image", "mask"])
    alone = getattr(mr.dataset(Masks(), {"image": TYPES["image"]}), name)(
        **OPS[name], filter="nearest", fill=0)
    got, want = run(both, seed=3), run(alone, seed=3)
    for i in range(len(Pairs())):
        assert np.array_equal(got[i]["mask"], want[i]["image"][..., :1])
    assert any(not np.array_equal(got[i]["mask"], Pairs().arrays(i)[1]) for i in got)


class Things:
    """An image, its mask, boxes and points."""

    def __init__(self, n=24):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        image, mask = Pairs(self.n).arrays(i % 12)
        boxes = np.array([[20, 18, 32, 26, i]], np.float32)
        return {"image": image // 2, "mask": mask, "boxes": boxes, "points": np.array([[20, 18], [32, 26]], np.float32)}


THINGS = dict(TYPES, boxes=("float32", (None, 5)), points=("float32", (2, 2)))
KINDS = {"mask": "mask", "boxes": "boxes", "points": "points"}


def things(**options):
    return mr.dataset(Things(), THINGS, **options).kinds(**KINDS)


@pytest.mark.parametrize("name", COLOURS)
def test_colours_leave_masks_boxes_and_points(name):
    got = run(getattr(things(), name)(**COLOURS[name], field=list(THINGS)), seed=3)
    alone = run(getattr(things(), name)(**COLOURS[name], field="image"), seed=3)
    for i, sample in enumerate(Things()[i] for i in range(24)):
        for field in KINDS:
            assert got[i][field].dtype == sample[field].dtype
            assert np.array_equal(got[i][field], sample[field]), (name, field)
        assert np.array_equal(got[i]["image"], alone[i]["image"])  # whose draws they are not
    assert any(not np.array_equal(got[i]["image"], Things()[i]["image"]) for i in got)


def test_a_mask_that_is_named_alone_is_meant():
    got = run(things().invert(field="mask"))
    assert all(np.array_equal(got[i]["mask"], 255 - Things()[i]["mask"]) for i in got)


@pytest.mark.parametrize("name", ["random_apply", "one_of", "random_order"])
def test_only_places_inside_of_an_op_reach_the_mask(name):
    ops = ["invert", {"rotate": {"degrees": 30, "filter": "bilinear"}}, {"gaussian_noise": {}}, {"random_flip": {"p": 1}}]
    got = run(getattr(things(), name)(ops=ops, field=["image", "mask", "boxes"]), seed=5)
    moved = 0
    for i in got:
        values = set(np.unique(got[i]["mask"]))
        assert values <= set(np.unique(Things()[i]["mask"])) | {0}
        moved += not np.array_equal(got[i]["mask"], Things()[i]["mask"])
    assert moved > 0
    assert name == "random_order" or moved < len(got)


class Marked:
    """A grey image with one bright block, which is also what its mask shows and where its box is."""

    def __len__(self):
        return 60

    def __getitem__(self, i):
        image, mask = np.full((61, 83, 3), 90, np.uint8), np.zeros((61, 83, 1), np.uint8)
        image[20:35, 30:50] = 250
        mask[20:35, 30:50] = 7
        return {"image": image, "mask": mask, "boxes": np.array([[30, 20, 50, 35]], np.float32)}


@pytest.mark.parametrize("name", AUGMENTS)
def test_augments_move_masks_and_boxes_as_the_image_and_leave_their_values(name):
    types = {"image": ("uint8", (61, 83, 3)), "mask": ("uint8", (61, 83, 1)), "boxes": ("float32", (None, 4))}
    pipeline = mr.dataset(Marked(), types).kinds(mask="mask", boxes="boxes")
    got = run(getattr(pipeline, name)(**AUGMENTS[name], fill=90, filter="bilinear", field=list(types)), seed=2)
    moved = 0
    for sample in got.values():
        assert set(np.unique(sample["mask"])) <= {0, 7}
        ys, xs = np.nonzero(sample["mask"][..., 0])
        if len(sample["boxes"]) == 0:
            assert len(ys) < 8  # all of it, but for pixels at the edge, is outside
            continue
        left, top, right, bottom = sample["boxes"][0]
        around = xs.min(), ys.min(), xs.max() + 1, ys.max() + 1
        assert np.abs(np.array(around) - [left, top, right, bottom]).max() < 1.6
        moved += around != (30, 20, 50, 35)
    assert moved > 5


@pytest.mark.parametrize("name", AUGMENTS)
def test_augments_on_masks_are_those_of_places_alone(name):
    """A mask's pixels are those of an image of the same values wherever colours were not drawn."""
    both = run(getattr(mr.dataset(Pairs(), TYPES).kinds(mask="mask"), name)(**AUGMENTS[name], field=list(TYPES)), seed=4)
    alone = run(getattr(mr.dataset(Masks(), {"image": TYPES["image"]}), name)(**AUGMENTS[name]), seed=4)
    same = sum(np.array_equal(both[i]["mask"], alone[i]["image"][..., :1]) and
               not np.array_equal(both[i]["mask"], Pairs().arrays(i)[1]) for i in both)
    assert same >= 1


def told(caplog, pipeline):
    caplog.clear()
    run(pipeline)
    return [r.getMessage() for r in caplog.records if "as a picture" in r.getMessage()]


def test_a_field_that_is_called_mask_and_is_none_is_told(caplog):
    plain = mr.dataset(Pairs(), TYPES)
    both = ["image", "mask"]
    (line,) = told(caplog, plain.resize(32, field=both).random_flip(field=both).invert(field=both))
    assert line.startswith("resize treats mask as a picture") and line.endswith('add .kinds(mask="mask")')
    (line,) = told(caplog, plain.resize(32, filter="nearest", field=both).rand_augment(field=both))
    assert line.startswith("rand_augment treats mask")
    (line,) = told(caplog, plain.random_apply(["invert"], field=both))
    assert line.startswith("random_apply treats mask")
    assert not told(caplog, plain.kinds(mask="mask").resize(32, field=both).invert(field=both))
    assert not told(caplog, plain.resize(32, filter="nearest", field=both).random_flip(field=both))
    assert not told(caplog, plain.resize(32, field="image").resize(32, filter="nearest", field="mask"))


# ---- Masks with a palette -------------------------------------------------------------------------


@pytest.fixture(name="voc")
def masks_with_a_palette(tmp_path):
    """Pascal VOC's way: numbers of classes, and colours to look at them."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    numbers = np.arange(48, dtype=np.uint8).reshape(6, 8) % 5
    mask = image.fromarray(numbers, "P")
    mask.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 0, 128])
    mask.save(tmp_path / "0_mask.png")
    image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(tmp_path / "0.png")
    (tmp_path / "table.csv").write_text("file,mask\n0.png,0_mask.png\n")
    return mr.files(tmp_path, labels=tmp_path / "table.csv").kinds(mask="mask"), numbers


@pytest.mark.parametrize("mode,said", [
    ("index", None), ("grey16", None), ("grey", "grey is the brightness of the colours where a PNG has a palette"),
    ("rgb", "rgb makes three channels of colours")])
def test_colours_of_a_mask_are_told_of(voc, mode, said, caplog):
    pipeline, numbers = voc
    with pipeline.decode_image(field="mask", mode=mode).batch(1).loader() as loader:
        found = next(loader)["mask"]
    assert (said in caplog.text and 'mode="index"' in caplog.text.replace('"mode": "index"', 'mode="index"')) if said \
        else not caplog.text
    assert np.array_equal(found[0][..., 0] if mode != "rgb" else found[0].max(-1), numbers) == (mode == "index")


def test_an_image_beside_a_mask_is_not_told_of(voc, caplog):
    with voc[0].decode_image().decode_image(field="mask", mode="index").batch(1).loader() as loader:
        next(loader)
    assert not caplog.text
