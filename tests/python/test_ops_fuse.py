# SPDX-License-Identifier: Apache-2.0
"""Every image op fused with others against the same ops one after the other, where all of the output is
wanted and where a later op wants only a part, on photos that are made here."""
import numpy as np
import pytest
from PIL import Image

from mrlib import Loader

OPS = {
    "rotate": {"degrees": 40}, "rotate nearest": {"degrees": [90, 90], "expand": True},
    "rotate around": {"degrees": 180, "center": [3, 4], "filter": "bilinear", "fill": 9},
    "affine": {"degrees": 30, "translate": 0.2, "scale": [0.6, 1.5], "shear": 15},
    "affine bilinear": {"degrees": 30, "scale": [0.6, 1.5], "filter": "bilinear"},
    "affine scale": {"scale": [0.3, 3], "translate": [0.3, 0]},
    "affine far": {"scale": 0.001, "degrees": 10},
    "perspective": {"filter": "bilinear"}, "perspective nearest": {"p": 1},
    "elastic": {"alpha": 90, "sigma": 3, "filter": "bilinear"},
    "posterize": {"p": 0.5}, "solarize": {"p": 0.5}, "invert": {"p": 0.5},
    "equalize": {"p": 0.5}, "autocontrast": {"p": 0.5},
    "sharpness": {"factor": [0, 3], "p": 0.7},
    "gaussian_blur": {"size": [9, 5], "sigma": [0.5, 3]}, "gaussian_blur wide": {"size": 101},
    "gaussian_noise": {}, "erasing": {"count": 3, "p": 0.7},
    "letterbox": {"size": [70, 50]}, "letterbox large": {"size": 120, "filter": "lanczos"},
    "resize": {"size": [30, 41], "filter": "lanczos"}, "resize box": {"size": 30, "filter": "box"},
    "rand_augment": {"num_ops": 3}, "trivial_augment": {"filter": "bilinear"},
    "auto_augment": {"policy": "svhn"}, "auto_augment imagenet": {},
    "random_apply": {"ops": [{"rotate": {"degrees": 30}}, "random_flip", "sharpness"]},
    "random_apply gathered": {"ops": [{"color_jitter": {"hue": 0.3}}, "random_flip"], "p": 0.8},
    "one_of": {"ops": [{"resize": {"size": [40, 50]}}, {"letterbox": {"size": [40, 50]}},
                       {"random_resized_crop": {"size": [40, 50]}}], "weights": [1, 2, 1]},
    "random_order": {"ops": [{"gaussian_blur": {"size": 5}}, "gaussian_noise", "equalize",
                             {"random_apply": {"ops": [{"affine": {"shear": 20}}]}}]},
}
ENDS = {"alone": [], "cropped": [{"random_crop": {"size": [17, 23], "pad_if_needed": True}}],
        "to_float": [{"center_crop": {"size": 20}}, {"to_float": {}}],
        "permute": [{"resize": {"size": [19, 21]}}, {"permute": {}}]}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(1)
    for i, (h, w) in enumerate([(60, 80), (45, 33), (33, 97), (64, 64), (24, 30), (71, 50)]):
        small = rng.integers(0, 256, (h // 6 + 1, w // 6 + 1, 3), dtype=np.uint8)
        image = Image.fromarray(small).resize((w, h), Image.Resampling.BICUBIC)
        image.save(folder / (f"{i}.png" if i % 2 else f"{i}.jpg"))
    return folder


def digest(folder, ops, fuse):
    pipeline = {"source": {"files": {"path": str(folder)}}, "batch": 4, "epochs": 2, "fuse": fuse,
                "ops": [{"decode_image": {}}, *ops]}
    with Loader(pipeline, threads=2, digest=True) as loader:
        for _ in loader:
            pass
        return loader.digest()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", OPS)
def test_fused_ops_give_the_same(photos, name, end):
    ops = [{name.split()[0]: OPS[name]}, *ENDS[end]]
    assert digest(photos, ops, True) == digest(photos, ops, False)
