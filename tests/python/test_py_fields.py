# SPDX-License-Identifier: Apache-2.0
"""Ops on several fields: an image and its mask are changed alike, as Pillow would with the same
draws; boxes and points follow; columns by pattern."""
import io
import json
import logging

import numpy as np
import pytest
from PIL import Image

import millrace as mr
from test_ops import FILTERS, Draws, reference_box

# The law's op words: of the first op of that name.
WORDS = {"random_resized_crop": 0x15192e09, "random_flip": 0x0c9d6682, "random_crop": 0x5ad72367}


def noise(n, height, width, channels):
    return np.random.default_rng(n).integers(0, 256, (height, width, channels), np.uint8)


def png(array):
    out = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(out, "png")
    return np.frombuffer(out.getvalue(), np.uint8)


class Pairs:
    """Images with masks of the same size, decoded or as files."""

    def __init__(self, n=12, encoded=False, shrink=1):
        self.n, self.encoded, self.shrink = n, encoded, shrink

    def __len__(self):
        return self.n

    def arrays(self, i):
        height, width = 40 + 3 * i, 70 - 2 * i
        return noise(i, height, width, 3), \
            noise(100 + i, height // self.shrink, width // self.shrink, 1) // 16

    def __getitem__(self, i):
        image, mask = self.arrays(i)
        return {"image": png(image), "mask": png(mask)} if self.encoded else \
            {"image": image, "mask": mask}


TYPES = {"image": ("uint8", (None, None, 3)), "mask": ("uint8", (None, None, 1))}
ENCODED = {"image": ("uint8", (None,), "plain"), "mask": ("uint8", (None,), "plain")}


def pairs(dataset):
    if not dataset.encoded:
        return mr.dataset(dataset, TYPES).kinds(mask="mask")
    return mr.dataset(dataset, ENCODED).kinds(mask="mask").decode_image(field="image") \
        .decode_image("grey", field="mask")


def run(pipeline, **options):
    """All samples by index: {field: array}."""
    out = {}
    with pipeline.batch(5).loader(threads=2, **options) as loader:
        for batch in loader:
            for k, index in enumerate(batch.samples):
                out[int(index)] = {name: np.array(batch[name][k]) for name in batch.keys()}
    return out


def pillow_like(array, box, size, name, flipped):
    top, left, height, width = box
    image = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    image = image.crop((left, top, left + width, top + height)).resize(size[::-1], FILTERS[name])
    image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flipped else image
    return np.asarray(image).reshape(*size, array.shape[2])


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_image_and_mask_are_changed_alike(encoded, fuse):
    dataset, size, seed = Pairs(encoded=encoded), (24, 32), 5
    pipeline = pairs(dataset) \
        .random_resized_crop(list(size), filter="bicubic", field=["image", "mask"]) \
        .random_flip(field=["image", "mask"]).fuse(fuse)
    samples, flips = run(pipeline, seed=seed), 0
    for i in range(len(dataset)):
        image, mask = dataset.arrays(i)
        box = reference_box(Draws(seed, 0, i, WORDS["random_resized_crop"]), *image.shape[:2])
        flipped = Draws(seed, 0, i, WORDS["random_flip"]).unit(0) < 0.5
        flips += flipped
        assert np.array_equal(samples[i]["image"], pillow_like(image, box, size, "bicubic", flipped))
        assert np.array_equal(samples[i]["mask"], pillow_like(mask, box, size, "nearest", flipped))
    assert 0 < flips < len(dataset)


def test_a_mask_keeps_its_numbers():
    mask = np.zeros((30, 30, 1), np.uint8)
    mask[10:, :] = 7
    pipeline = mr.dataset([{"mask": mask}], {"mask": TYPES["mask"]}).resize([17, 17])
    assert set(np.unique(run(pipeline)[0]["mask"])) > {0, 7}
    assert set(np.unique(run(pipeline.kinds(mask="mask"))[0]["mask"])) == {0, 7}


def test_other_sizes_are_refused_by_name():
    alike = ["image", "mask"]
    half = pairs(Pairs(shrink=2))
    for pipeline in (half.random_crop(8, field=alike), half.center_crop(8, field=alike)):
        with pytest.raises(Exception, match="image is of 40 x 70 pixels and mask of 20 x 35"):
            run(pipeline.shuffle(False))
    assert len(run(half.resize([8, 8], field=alike).random_crop(4, field=alike))) == 12
    assert len(run(half.random_flip(field=alike).resize([8, 8], field=alike))) == 12


def test_two_random_ops_that_should_be_one_are_told(caplog):
    twice = pairs(Pairs()).random_crop(8, field="image").random_crop(8, field="mask")
    with caplog.at_level(logging.WARNING, "millrace"):
        run(twice)
    assert '.random_crop(field=["image", "mask"], ...)' in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "millrace"):
        run(pairs(Pairs()).random_crop(8, field=["image", "mask"]))
    assert caplog.text == ""


def said_of(pipeline, caplog):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "millrace"):
        run(pipeline)
    return [record.message for record in caplog.records]


class Scenes(Pairs):
    """With boxes and points."""

    def __getitem__(self, i):
        image, mask = self.arrays(i)
        return {"image": image, "mask": mask, "objects": np.array([[1, 2, 30, 30]], np.float32),
                "points": np.array([[4, 5], [6, 7], [8, 9]], np.float32)}


def test_fields_that_stay_behind_their_image_are_told(caplog):
    plain = mr.dataset(Scenes())
    scenes = plain.kinds(mask="mask", objects="boxes", points="points")
    boxes, masks = scenes.fields(["image", "objects"]), scenes.fields(["image", "mask"])
    said = said_of(boxes.random_crop(8), caplog)
    assert len(said) == 1 and "random_crop changes image alone, and objects stays where it is" in said[0]
    assert '.random_crop(field=["image", "objects"], ...)' in said[0] and "kinds" not in said[0]
    assert len(said_of(scenes.random_flip(), caplog)) == 3
    said = said_of(plain.resize([8, 8]), caplog)  # by name and shape; nobody knows what objects are
    assert len(said) == 2 and '.resize(field=["image", "mask"], ...) and .kinds(mask="mask")' in said[0]
    assert '.kinds(points="points")' in said[1]
    every = ["image", "mask", "objects", "points"]
    assert said_of(scenes.random_crop(8, field=every).resize([4, 4], field=every), caplog) == []
    assert said_of(masks.resize([4, 4], field="image").resize([4, 4], field="mask"), caplog) == []
    assert said_of(scenes.random_apply(["invert"]), caplog) == []
    assert said_of(scenes.fields(["image"]).random_crop(8), caplog) == []
    assert len(said_of(masks.random_apply([{"random_flip": {}}]), caplog)) == 1


def test_sharing_draws_is_part_of_the_fingerprint():
    once = pairs(Pairs()).random_crop(8, field=["image", "mask"])
    twice = pairs(Pairs()).random_crop(8, field="image").random_crop(8, field="mask")
    assert once.fingerprint != twice.fingerprint
    assert json.loads(once.to_json())["ops"][0]["random_crop"]["field"] == ["image", "mask"]
    assert json.loads(once.to_json())["kinds"] == {"mask": "mask"}


def test_columns_by_pattern():
    rows = [{f"feature_{k}": np.float32(i * 10 + k) for k in range(12)} | {"label": i}
            for i in range(20)]
    pipeline = mr.dataset(rows).cast("float16", field="feature_*").fields(["label", "feature_1*"])
    assert list(pipeline.types) == ["label", "feature_1", "feature_10", "feature_11"]
    assert {dtype for name, (dtype, *_) in pipeline.types.items() if name != "label"} == {"float16"}
    samples = run(pipeline)
    for i, sample in samples.items():
        assert sample["label"] == i and sample["feature_11"] == np.float16(i * 10 + 11)
    with pytest.raises(ValueError, match="there is no field \"nothing_"):
        pipeline.cast("float32", field="nothing_*")


def test_kinds_are_checked():
    with pytest.raises(ValueError, match='"mask", "boxes", .* or "points"'):
        mr.dataset(Pairs(), TYPES).kinds(mask="masque")


# ---- Which fields there are ----------------------------------------------------------------------


class Row(dict):
    """A row that does not like to be asked for everything."""

    def __getitem__(self, name):
        assert name != "never", "nobody wants this"
        return super().__getitem__(name)


def table(n=9):
    rng = np.random.default_rng(3)
    rows = [Row({"a1": np.float32(rng.normal()), "v": rng.normal(size=3).astype(np.float32),
                 "a2": np.float32(rng.normal()), "m": rng.integers(0, 9, (2, 3), np.int32),
                 "k": rng.integers(0, 9, (4, 3), np.int32), "label": i, "never": np.float32(0)})
            for i in range(n)]
    types = {"a1": "float32", "v": ("float32", (3,)), "a2": "float32", "m": ("int32", (2, 3)),
             "k": ("int32", (4, 3)), "label": "int64", "never": "float32"}
    return rows, mr.dataset(rows, types)


def test_stack_and_concat_are_numpys():
    rows, source = table()
    pipeline = source.drop("never").concat("row", field=["v", "a2", "a1"]) \
        .concat("both", field=["k", "m"])
    assert list(pipeline.types) == ["row", "both", "label"]
    assert pipeline.types["row"][:2] == ("float32", (5,))
    for i, sample in run(pipeline).items():
        row = rows[i]
        assert np.array_equal(sample["row"], np.concatenate([row["v"], [row["a2"], row["a1"]]]))
        assert np.array_equal(sample["both"], np.concatenate([row["k"], row["m"]]))
    stacked = source.select(["label", "a*"]).stack("a", field=["a2", "a1"])
    assert list(stacked.types) == ["label", "a"] and stacked.types["a"][1] == (2,)
    for i, sample in run(stacked).items():
        assert np.array_equal(sample["a"], np.stack([rows[i]["a2"], rows[i]["a1"]]))
        assert sample["label"] == i


def test_select_drop_and_rename_touch_no_value():
    rows, source = table()
    pipeline = source.select(["label", "a*", "v"]).rename(["a1", "a2", "v"], ["a2", "a1", "x"]) \
        .drop("a1").cast("float16", field="x").cast("float16", field="a2")
    assert list(pipeline.types) == ["label", "a2", "x"]
    for i, sample in run(pipeline).items():
        assert sample["label"] == i
        assert sample["a2"] == np.float16(rows[i]["a1"])
        assert np.array_equal(sample["x"], rows[i]["v"].astype(np.float16))
    document = '{"source": "synthetic", "ops": [{"select": {"fields": "index"}}]}'
    again = mr.Pipeline.from_json(mr.Pipeline.from_json(document).to_json())
    assert list(again.types) == ["index"]


def test_what_cannot_be_arranged_is_told():
    _, source = table()
    for wrong, text in (
            (lambda: source.select("nothing"), 'there is no field "nothing"'),
            (lambda: source.drop("*"), "no field is left"),
            (lambda: source.rename("a1", "a2"), 'two fields would be called "a2"'),
            (lambda: source.rename(["a1", "a2"], ["x"]), "there are 2 fields and 1 names for them"),
            (lambda: source.stack("x", field=["a1", "v"]), "fields a1 and v differ in shape"),
            (lambda: source.stack("x", field=["a1", "label"]), "field a1 is of float32 and field"),
            (lambda: source.concat("x", field=["v", "m"]), "field v is of float32 and field m"),
            (lambda: source.concat("x", field=["m", "label"]), "of int32 and field label"),
            (lambda: source.select("a1", field="a1"), "works on the whole sample"),
            (lambda: source.stack("label", field=["a1", "a2"]), 'gives a field "label"')):
        with pytest.raises((ValueError, TypeError), match=text.replace("[", r"\[").replace("*", r"\*")):
            wrong()


# ---- Boxes and points ----------------------------------------------------------------------------


class Objects(Pairs):
    """With a box around a bright rectangle, its class as a fifth number, and the box's corners."""

    def box(self, i):
        height, width = 40 + 3 * i, 70 - i
        rng = np.random.default_rng(i)
        left, top = rng.integers(0, width - 12), rng.integers(0, height - 12)
        return np.array([left, top, left + 4 + i % 7, top + 5 + i % 5], np.float32)

    def __getitem__(self, i):
        height, width = 40 + 3 * i, 70 - i
        left, top, right, bottom = self.box(i).astype(int)
        image = np.zeros((height, width, 3), np.uint8)
        image[top:bottom, left:right] = 255
        box = self.box(i)
        return {"image": png(image) if self.encoded else image,
                "boxes": np.array([[*box, i]], np.float32),
                "points": np.array([box[:2], box[2:]], np.float64)}


def objects(encoded=False, n=30, **kinds):
    types = {"image": ENCODED["image"] if encoded else TYPES["image"],
             "boxes": ("float32", (None, 5)), "points": ("float64", (2, 2))}
    source = mr.dataset(Objects(n, encoded), types) \
        .kinds(**{"boxes": "boxes", "points": "points", **kinds})
    return source.decode_image() if encoded else source


FOLLOWERS = ["boxes", "image", "points"]


def seen_box(image):
    """Around the bright pixels, or None."""
    ys, xs = np.nonzero(image[..., 0] > 127)
    return None if len(ys) == 0 else [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("steps", [
    [("crop", {"top": 5, "left": 7, "height": 20, "width": 30})],
    [("center_crop", {"size": [30, 20]})],
    [("center_crop", {"size": [200, 150]})],
    [("random_crop", {"size": [30, 25]})],
    [("random_flip", {"p": 0.5}), ("random_flip", {"p": 0.5, "direction": "vertical"})],
    [("pad", {"padding": [3, 4, 5, 6]}), ("random_crop", {"size": 35}), ("random_flip", {})],
])
def test_boxes_lie_where_the_pixels_are(encoded, steps):
    pipeline = objects(encoded)
    for name, values in steps:
        pipeline = getattr(pipeline, name)(**values, field=FOLLOWERS)
    kept = 0
    for i, sample in run(pipeline, seed=3).items():
        want = seen_box(sample["image"])
        if want is None:
            assert len(sample["boxes"]) == 0
        else:
            kept += 1
            assert sample["boxes"].tolist() == [[*want, i]]
        assert sample["points"].shape == (2, 2)
    assert kept > 5


def test_boxes_and_points_follow_a_resized_crop_to_the_fraction():
    seed, size, dataset = 9, (50, 40), Objects(30)
    samples = run(objects().random_resized_crop(list(size), field=FOLLOWERS), seed=seed)
    kept = 0
    for i, sample in samples.items():
        box = dataset.box(i).astype(np.float64)
        height, width = 40 + 3 * i, 70 - i
        draws = Draws(seed, 0, i, WORDS["random_resized_crop"])
        top, left, h, w = reference_box(draws, height, width)
        scale = np.array([size[1] / w, size[0] / h, size[1] / w, size[0] / h])
        moved = (box - [left, top, left, top]) * scale
        assert np.allclose(sample["points"].ravel(), moved, atol=1e-9)
        clipped = np.clip(moved, 0, [size[1], size[0], size[1], size[0]])
        if clipped[2] > clipped[0] and clipped[3] > clipped[1]:
            kept += 1
            assert np.allclose(sample["boxes"][0], [*clipped, i], atol=1e-4)
        else:
            assert len(sample["boxes"]) == 0
    assert 5 < kept < 30


FLIP_OR_NOT = {"ops": [{"random_flip": {"p": 1}}, {"random_flip": {"p": 1, "direction": "vertical"}}]}


@pytest.mark.parametrize("name, values", [
    ("rotate", {"degrees": 50}), ("rotate", {"degrees": [90, 90], "expand": True}),
    ("affine", {"degrees": 20, "translate": 0.1, "scale": [0.7, 1.2], "shear": [-9, 9, -5, 5]}),
    ("perspective", {"p": 0.8, "distortion": 0.6}), ("letterbox", {"size": [90, 120]}),
    ("one_of", {"ops": [{"rotate": {"degrees": 30}}, {"affine": {"degrees": 0, "translate": 0.2}}]}),
    ("random_order", FLIP_OR_NOT | {"ops": FLIP_OR_NOT["ops"] + [{"rotate": {"degrees": 40}}, {"posterize": {"bits": 2}}]}),
    ("random_apply", {"ops": [{"perspective": {"p": 1}}, {"random_flip": {"p": 1}}]}),
])
def test_boxes_and_points_follow_what_bends_and_turns(name, values):
    """Where nothing is cut off: the box around the pixels, and the corners inside of it."""
    class Larger(Objects):
        def box(self, i):
            return np.array([20 + i % 5, 14 + i % 3, 38 + i % 9, 25 + i % 7], np.float32)

    types = {"image": TYPES["image"], "boxes": ("float32", (None, 5)), "points": ("float64", (2, 2))}
    source = mr.dataset(Larger(30), types).kinds(boxes="boxes", points="points")
    pipeline, compared, moved = getattr(source, name)(**values, field=FOLLOWERS), 0, 0
    for i, sample in run(pipeline, seed=3).items():
        height, width = sample["image"].shape[:2]
        want, corners = seen_box(sample["image"]), sample["points"]
        box = sample["boxes"][0, :4] if len(sample["boxes"]) else np.zeros(4)
        moved += not np.array_equal(box, Larger().box(i))
        if 0 < min(box[:2]) and box[2] < width and box[3] < height:
            compared += 1
            assert np.abs(box - want).max() <= 2.5, (i, box, want)
            assert (corners > np.array(want[:2]) - 2.5).all()
            assert (corners < np.array(want[2:]) + 2.5).all()
    assert compared > 10 and moved > 10


@pytest.mark.parametrize("inside", [{"rotate": {"degrees": 40, "filter": "bilinear", "fill": 9}},
                                    {"random_apply": {"ops": {"affine": {
                                        "degrees": 40, "filter": "bilinear"}}, "p": 1}}])
def test_a_mask_keeps_its_numbers_inside_other_ops(inside):
    mask = np.zeros((30, 30, 1), np.uint8)
    mask[10:, :] = 200
    pipeline = mr.dataset([{"mask": mask}] * 4, {"mask": TYPES["mask"]}).random_apply([inside], p=1)
    assert set(np.unique(run(pipeline)[0]["mask"])) > {0, 200}
    for sample in run(pipeline.kinds(mask="mask")).values():
        assert set(np.unique(sample["mask"])) == {0, 200}
    pad = mr.dataset([{"mask": mask}], {"mask": TYPES["mask"]}).kinds(mask="mask").pad(2, fill=77)
    assert set(np.unique(run(pad)[0]["mask"])) == {0, 200}


def test_boxes_of_which_too_little_is_left_are_dropped():
    image = np.zeros((10, 10, 3), np.uint8)
    boxes = np.array([[0, 0, 10, 10], [4, 0, 8, 2], [5, 0, 9, 2], [6, 6, 9, 9]], np.float32)
    source = mr.dataset([{"image": image, "boxes": boxes}],
                        {"image": TYPES["image"], "boxes": ("float32", (4, 4))})
    left = {"height": 10, "width": 6, "field": ["image", "boxes"]}
    some = run(source.kinds(boxes="boxes").crop(**left))[0]["boxes"]
    assert some.tolist() == [[0, 0, 6, 10], [4, 0, 6, 2], [5, 0, 6, 2]]
    half = source.kinds(boxes={"boxes": {"min_visible": 0.5}}).crop(**left)
    assert run(half)[0]["boxes"].tolist() == [[0, 0, 6, 10], [4, 0, 6, 2]]
    assert half.fingerprint != source.kinds(boxes="boxes").crop(**left).fingerprint


def test_what_cannot_follow_is_told():
    for wrong, text in (
            (lambda: objects().crop(height=5, width=5, field="boxes"), "none is named"),
            (lambda: objects().elastic(field=FOLLOWERS), "elastic cannot move boxes"),
            (lambda: objects().random_apply(["invert", "elastic"], field=FOLLOWERS),
             "elastic cannot move boxes"),
            (lambda: objects(image="boxes").crop(height=5, width=5, field="*"), "none is named"),
            (lambda: mr.dataset(Pairs(), TYPES).kinds(mask="boxes")
             .crop(height=5, width=5, field="*"), "mask must be float32 or float64 of shape"),
            (lambda: objects(points={"points": {"min_visible": 1}}), "a kind may say"),
            (lambda: objects(boxes={"boxes": {"min_visible": 2}}), "a kind may say")):
        with pytest.raises((ValueError, TypeError), match=text):
            wrong()
