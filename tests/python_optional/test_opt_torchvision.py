# SPDX-License-Identifier: Apache-2.0
"""torchvision itself: ops against its functions on Pillow images, with amounts that leave nothing to
draw; and its random transforms in mr.torch.DataLoader."""
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


def import_torchvision():
    """Its compiled ops do not load beside a CPU build of torch. Declaring the two that its import asks
    for is enough: transforms use none of them."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    return library


LIBRARY = import_torchvision()

from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torchvision.transforms import InterpolationMode, v2  # noqa: E402
from torchvision.transforms.functional import to_tensor  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402

import millrace as mr  # noqa: E402

BILINEAR, BICUBIC = InterpolationMode.BILINEAR, InterpolationMode.BICUBIC
SIZES = [(37, 53), (64, 48), (9, 120)]


def noise(height, width, seed=0):
    """Smooth and rough at once, as photos are."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 6, 3), np.uint8)).resize((width, height))
    rough = rng.integers(-20, 21, (height, width, 3))
    return np.clip(np.asarray(coarse) + rough, 0, 255).astype(np.uint8)


def ours(image, name, values):
    source = mr.dataset([{"image": image}], {"image": ("uint8", (None, None, 3))})
    with getattr(source, name)(**values).batch(1).loader(epochs=1) as loader:
        return np.array(next(loader)["image"][0])


CASES = [
    ("resize", {"size": [24, 31]}, lambda i: F.resize(i, [24, 31])),
    ("resize", {"size": 20}, lambda i: F.resize(i, [20])),
    ("resize", {"size": [90, 70], "filter": "bicubic"}, lambda i: F.resize(i, [90, 70], BICUBIC)),
    ("center_crop", {"size": [20, 30]}, lambda i: F.center_crop(i, [20, 30])),
    ("center_crop", {"size": 70}, lambda i: F.center_crop(i, [70, 70])),
    ("crop", {"top": 1, "left": 3, "height": 7, "width": 11}, lambda i: F.crop(i, 1, 3, 7, 11)),
    ("pad", {"padding": [1, 2, 3, 4], "fill": 7}, lambda i: F.pad(i, [1, 2, 3, 4], 7)),
    ("pad", {"padding": 3, "mode": "reflect"}, lambda i: F.pad(i, [3], padding_mode="reflect")),
    ("random_flip", {"p": 1}, F.horizontal_flip),
    ("random_flip", {"p": 1, "direction": "vertical"}, F.vertical_flip),
    ("rotate", {"degrees": [33, 33]}, lambda i: F.rotate(i, 33)),
    ("rotate", {"degrees": [-71.5, -71.5], "filter": "bilinear", "expand": True, "fill": 9},
     lambda i: F.rotate(i, -71.5, BILINEAR, expand=True, fill=9)),
    ("affine", {"degrees": [20, 20], "scale": 0.8, "shear": [5, 5, -7, -7]},
     lambda i: F.affine(i, 20, [0, 0], 0.8, [5, -7])),
    ("sharpness", {"factor": 1.7}, lambda i: F.adjust_sharpness(i, 1.7)),
    ("posterize", {"bits": 3}, lambda i: F.posterize(i, 3)),
    ("solarize", {"threshold": 100}, lambda i: F.solarize(i, 100)),
    ("equalize", {}, F.equalize),
    ("autocontrast", {}, F.autocontrast),
    ("invert", {}, F.invert),
    ("grayscale", {"channels": 3}, lambda i: F.rgb_to_grayscale(i, 3)),
    ("color_jitter", {"brightness": [1.3, 1.3]}, lambda i: F.adjust_brightness(i, 1.3)),
    ("color_jitter", {"contrast": [0.6, 0.6]}, lambda i: F.adjust_contrast(i, 0.6)),
    ("color_jitter", {"saturation": [1.8, 1.8]}, lambda i: F.adjust_saturation(i, 1.8)),
    ("color_jitter", {"hue": [0.2, 0.2]}, lambda i: F.adjust_hue(i, 0.2)),
    ("five_crop", {"size": [8, 9]}, lambda i: np.stack(F.five_crop(i, [8, 9]))),
    ("ten_crop", {"size": [8, 9]}, lambda i: np.stack(F.ten_crop(i, [8, 9]))),
    ("permute", {}, F.pil_to_tensor),
    ("to_float", {}, lambda i: to_tensor(i).permute(1, 2, 0)),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_ops_give_torchvisions_bytes(case, size):
    name, values, theirs = case
    image = noise(*size)
    want, got = np.asarray(theirs(Image.fromarray(image))), ours(image, name, values)
    assert got.dtype == want.dtype and np.array_equal(got, want)


ROUNDED = [  # by sums in an order that depends on the machine, and by its sines
    ("gaussian_blur", {"size": [3, 5], "sigma": 1.2}, lambda i: F.gaussian_blur(i, [5, 3], [1.2, 1.2])),
    ("affine", {"degrees": [20, 20], "scale": 0.8, "shear": [5, 5, -7, -7], "filter": "bilinear"},
     lambda i: F.affine(i, 20, [0, 0], 0.8, [5, -7], BILINEAR))]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("case", ROUNDED, ids=lambda c: c[0])
def test_values_between_two_bytes_may_become_the_other_one(case, size):
    name, values, theirs = case
    image = noise(*size)
    want = np.asarray(theirs(Image.fromarray(image))).astype(int)
    got = ours(image, name, values).astype(int)
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 0.01


def test_normalize_is_torchvisions_to_the_last_bits():
    image = noise(40, 50)
    got = ours(image, "normalize", {"mean": mr.IMAGENET_MEAN, "std": mr.IMAGENET_STD})
    floats = F.to_dtype(F.pil_to_tensor(Image.fromarray(image)), torch.float32, scale=True)
    want = F.normalize(floats, list(mr.IMAGENET_MEAN), list(mr.IMAGENET_STD)).numpy()
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


# ---- Its random transforms in a loader -----------------------------------------------------------


class Photos(Dataset):
    def __init__(self):
        self.transform = v2.Compose([
            v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4),
            v2.TrivialAugmentWide(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.RandomErasing()])

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return self.transform(Image.fromarray(noise(40, 50, i))), i


def epochs(kind, **options):
    torch.manual_seed(7)
    random.seed(7)
    loader = kind(Photos(), batch_size=4, shuffle=True, **options)
    return [[(images.numpy().tobytes(), labels.tolist()) for images, labels in loader] for _ in range(2)]


def test_random_transforms_repeat_whatever_the_number_of_workers():
    """torch's own loader repeats only with as many workers."""
    assert epochs(DataLoader, num_workers=2) == epochs(DataLoader, num_workers=2)
    first = epochs(mr.torch.DataLoader, num_workers=2)
    assert first[0] != first[1]
    for workers in (0, 1, 2):
        assert epochs(mr.torch.DataLoader, num_workers=workers) == first
