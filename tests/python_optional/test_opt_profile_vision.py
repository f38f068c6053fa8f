# SPDX-License-Identifier: Apache-2.0
"""Profiles of torchvision's own datasets and transforms: every step once, and the same pixels."""
import os

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import millrace as mr
from profiled import KINDS, spans_of
from vision import torchvision

tv = torchvision()
v1, v2 = tv.transforms, tv.transforms.v2
PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")
FLIPPED = ["RandomHorizontalFlip", "ToImage", "ToDtype", "Normalize"]


def new():
    return [v2.Resize((9, 9)), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3)]


CHAINS = {
    "one step": (lambda: v2.Compose([v1.Resize((9, 9)), v1.ToTensor()]).transforms[1], ["ToTensor"]),
    "v1": (lambda: v1.Compose([v1.Resize((9, 9)), v1.RandomHorizontalFlip(), v1.ToTensor()]),
           ["Resize", "RandomHorizontalFlip", "ToTensor"]),
    "v2": (lambda: v2.Compose(new()), ["Resize", *FLIPPED]),
    "nested": (lambda: v2.Compose([v2.Resize((9, 9)), v2.Compose(new()[1:])]), ["Resize", *FLIPPED]),
    "sequential": (lambda: torch.nn.Sequential(*new()), ["Resize", *FLIPPED]),
}


def doubled(label):
    return 2 * label


def seen(loader):
    torch.manual_seed(5)
    return [(x.numpy().tobytes(), labels.tolist()) for x, labels in loader]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_steps_of_torchvision(tmp_path, name, workers):
    make, names = CHAINS[name]
    def loader():
        photos = tv.datasets.ImageFolder(PHOTOS, make(), target_transform=doubled)
        # Photos of one size go into one batch.
        return DataLoader(photos, batch_size=1 if name == "one step" else 4, shuffle=True, num_workers=workers)
    wanted, profiled, path = seen(loader()), loader(), tmp_path / "run.trace"
    before = repr(profiled.dataset)
    with mr.profile(profiled, path):
        assert seen(profiled) == wanted
    assert repr(profiled.dataset) == before
    part, tracks = spans_of(path)
    names = [op["name"] for op in part.header["ops"]]
    assert sorted(names) == sorted([*CHAINS[name][1], "default_loader", "doubled"])
    spans = np.concatenate(list(tracks.values()))
    for op in range(len(names)):
        assert np.sum((spans["kind"] == KINDS["op"]) & (spans["op"] == op)) == 10, names[op]
    figures = mr.report(path).figures
    assert {op["name"]: op["count"] for op in figures["ops"]} == dict.fromkeys(names, 10)
    assert figures["slowest"][0]["name"].endswith((".jpg", ".png"))


class Arrays(torch.utils.data.Dataset):
    """As albumentations wants it: arrays in, by name."""

    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 10

    def __getitem__(self, i):
        picture = np.full((12, 12, 3), 10 * i, np.uint8)
        return self.transform(image=picture)["image"], i


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_of_albumentations(tmp_path, workers):
    A = pytest.importorskip("albumentations", reason="albumentations is not installed")
    def loader():
        return DataLoader(Arrays(A.Compose([A.RandomCrop(8, 8), A.HorizontalFlip(), A.Normalize()], seed=3)),
                          batch_size=5, num_workers=workers)
    wanted, profiled, path = seen(loader()), loader(), tmp_path / "run.trace"
    with mr.profile(profiled, path):
        assert seen(profiled) == wanted
    ops = mr.report(path).figures["ops"]
    assert {op["name"]: op["count"] for op in ops} == {"RandomCrop": 10, "HorizontalFlip": 10, "Normalize": 10}
    assert ops[0]["bytes_in"] == 10 * 12 * 12 * 3 and type(profiled.dataset.transform.transforms[0]) is A.RandomCrop
