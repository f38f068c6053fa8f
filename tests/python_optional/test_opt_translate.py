# SPDX-License-Identifier: Apache-2.0
"""Torch's loaders as pipelines: what is called equal is compared with torchvision's own pixels, over Pillow."""
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (DataLoader, Dataset, IterableDataset, Subset, TensorDataset,
                              WeightedRandomSampler)

import millrace as mr
from vision import torchvision

tv = torchvision()
v1, v2 = tv.transforms, tv.transforms.v2
PHOTOS = os.path.join(os.path.dirname(__file__), "..", "cli", "data", "photos")


def folder(transform=None, **how):
    return tv.datasets.ImageFolder(PHOTOS, transform, **how)


def hows(translation):
    return {note.part: note.how for note in translation.notes}


def largest_difference(dataset):
    """Nothing is left to chance in these: each draw has one possible outcome."""
    translation = mr.torch.translate(dataset)
    translation.draws = False
    most = translation.compare(len(dataset))
    assert most["label"] == 0
    return translation, most["image"]


# Of random ones the draw is settled: p=1, or a range of one value.
EXACT = {
    "Resize": lambda t: t.Resize(20), "Resize both": lambda t: t.Resize((17, 23)),
    "Resize bicubic": lambda t: t.Resize(20, interpolation=v1.InterpolationMode.BICUBIC),
    "Resize lanczos": lambda t: t.Resize([30], interpolation=v1.InterpolationMode.LANCZOS),
    "Resize nearest": lambda t: t.Resize((9, 11), interpolation=v1.InterpolationMode.NEAREST),
    "CenterCrop": lambda t: t.CenterCrop((16, 12)), "CenterCrop larger": lambda t: t.CenterCrop(90),
    "Pad": lambda t: t.Pad(3), "Pad fill": lambda t: t.Pad((1, 2), fill=(9, 8, 7)),
    "Pad reflect": lambda t: t.Pad((1, 2, 3, 4), padding_mode="reflect"),
    "RandomHorizontalFlip": lambda t: t.RandomHorizontalFlip(1.0),
    "RandomVerticalFlip": lambda t: t.RandomVerticalFlip(1.0),
    "Grayscale": lambda t: t.Grayscale(3), "RandomGrayscale": lambda t: t.RandomGrayscale(1.0),
    "ColorJitter brightness": lambda t: t.ColorJitter(brightness=(0.5, 0.5)),
    "ColorJitter saturation": lambda t: t.ColorJitter(saturation=(1.7, 1.7)),
    "ColorJitter hue": lambda t: t.ColorJitter(hue=(0.2, 0.2)),
    "RandomRotation": lambda t: t.RandomRotation((30, 30)),
    "RandomRotation expand": lambda t: t.RandomRotation((30, 30), expand=True, fill=7),
    "RandomAffine": lambda t: t.RandomAffine((20, 20), scale=(0.8, 0.8), shear=(5, 5, -7, -7),
                                             interpolation=v1.InterpolationMode.BILINEAR),
    "RandomInvert": lambda t: t.RandomInvert(1.0), "RandomPosterize": lambda t: t.RandomPosterize(3, 1.0),
    "RandomSolarize": lambda t: t.RandomSolarize(100, 1.0),
    "RandomAutocontrast": lambda t: t.RandomAutocontrast(1.0),
    "RandomEqualize": lambda t: t.RandomEqualize(1.0),
    "RandomAdjustSharpness": lambda t: t.RandomAdjustSharpness(2.5, 1.0),
    "RandomApply": lambda t: t.RandomApply([t.RandomInvert(1.0), t.Resize((8, 8))][:1], p=1.0),
    "RandomOrder": lambda t: t.RandomOrder([t.RandomInvert(1.0)]),
    "RandomChoice": lambda t: t.RandomChoice([t.RandomVerticalFlip(1.0)]),
}


@pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
@pytest.mark.parametrize("name", EXACT)
def test_what_is_called_equal_is_equal(version, name):
    translation, difference = largest_difference(folder(version.Compose([EXACT[name](version), v1.ToTensor()])))
    assert difference == 0
    assert translation.is_equal and not translation.has_python


def test_a_random_crop_of_the_whole_is_the_whole():
    chain = v1.Compose([v1.Resize((20, 20)), v1.RandomCrop(20), v1.RandomResizedCrop(20, (1, 1), (1, 1)), v1.ToTensor()])
    assert largest_difference(folder(chain))[1] == 0


def test_the_usual_chains():
    mean, std = mr.IMAGENET_MEAN, mr.IMAGENET_STD
    old = v1.Compose([v1.Resize(40), v1.CenterCrop(32), v1.ToTensor(), v1.Normalize(mean, std)])
    translation, difference = largest_difference(folder(old))
    assert difference == 0 and translation.is_equal
    new = v2.Compose([v2.Resize(40), v2.CenterCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
                      v2.Normalize(mean, std)])
    translation, difference = largest_difference(folder(new))
    assert 0 < difference < 2e-6 and hows(translation)["ToDtype"] == "near" and not translation.is_equal
    on_tensors = v2.Compose([v2.ToImage(), v2.Resize(40), v2.CenterCrop(32), v2.ToDtype(torch.float32, scale=True)])
    translation, difference = largest_difference(folder(on_tensors))
    assert difference <= 1.01 / 255 and hows(translation)["Resize"] == "near"
    assert largest_difference(folder(v1.Compose([v1.Resize((9, 9)), v1.PILToTensor()])))[1] == 0
    assert largest_difference(folder(torch.nn.Sequential(v2.Resize((9, 9)), v2.PILToTensor())))[1] == 0
    assert largest_difference(folder(v1.Resize((9, 9))))[1] == 0  # a picture


@pytest.mark.parametrize("transform, how, most", [
    (lambda: v1.GaussianBlur((3, 5), (1.5, 1.5)), "near", 1.01 / 255),
    (lambda: v1.RandomErasing(1.0, (0.3, 0.3), (1, 1), value=0), "near", None)])
def test_what_is_called_near(transform, how, most):
    one = transform()
    before = isinstance(one, v1.GaussianBlur)
    chain = [one, v1.ToTensor()] if before else [v1.ToTensor(), v1.Normalize([0.5] * 3, [0.5] * 3), one]
    translation = mr.torch.translate(folder(v1.Compose([v1.Resize((24, 24)), *chain])))
    assert hows(translation)[type(one).__name__] == how
    if most is not None:
        translation.draws = False
        assert translation.compare(10)["image"] <= most
    else:
        assert translation.pipeline.document["ops"][-2]["erasing"]["fill"] == [128, 128, 128]


def test_random_ones_have_the_same_parameters():
    chain = v2.Compose([v2.RandomResizedCrop((24, 30), (0.2, 0.9)), v2.RandomHorizontalFlip(0.3),
                        v2.RandomCrop(20, padding=2, pad_if_needed=True), v2.ColorJitter(0.4, 0.3, 0.2, 0.1),
                        v2.RandAugment(3, 7), v2.TrivialAugmentWide(), v2.AutoAugment(), v2.RandomPerspective(0.4, 0.7)])
    translation = mr.torch.translate(folder(v2.Compose([chain, v1.ToTensor()])))
    assert translation.draws and translation.is_equal
    assert translation.pipeline.document["ops"] == [
        {"decode_image": {}},
        {"random_resized_crop": {"size": [24, 30], "scale": [0.2, 0.9]}}, {"random_flip": {"p": 0.3}},
        {"pad": {"padding": 2}}, {"random_crop": {"size": 20, "pad_if_needed": True}},
        {"color_jitter": {"brightness": [0.6, 1.4], "contrast": [0.7, 1.3], "saturation": [0.8, 1.2],
                          "hue": [-0.1, 0.1]}},
        {"rand_augment": {"num_ops": 3, "magnitude": 7}}, {"trivial_augment": {}}, {"auto_augment": {}},
        {"perspective": {"distortion": 0.4, "p": 0.7, "filter": "bilinear"}}, {"normalize": {}}]
    with pytest.raises(ValueError, match="drawn"):
        translation.compare()
    with translation.loader(epochs=1) as loader:
        batch = next(iter(loader))
    assert batch["image"].shape == (10, 3, 20, 20) and batch["image"].dtype == torch.float32


def darker(image):
    return image.point(lambda value: value // 2)


@pytest.mark.parametrize("chain", [
    [v1.Resize((12, 12)), darker, v1.ToTensor()], [v1.Resize((12, 12)), v1.PILToTensor(), lambda x: x // 2],
    [v1.Resize((12, 12)), v1.ToTensor(), v1.Lambda(lambda x: x * 2)], [darker, v1.Resize((12, 12)), v1.ToTensor()]],
    ids=["pil", "bytes", "numbers", "first"])
def test_what_stays_python(chain):
    dataset = folder(v1.Compose(chain), target_transform=lambda y: 10 * y)
    translation, difference = largest_difference(dataset)
    assert difference == 0 and translation.has_python and not translation.is_equal
    assert list(hows(translation).values()).count("python") == 2
    assert ".map(" in translation.code


def test_only_torchvisions_own_classes_are_known():
    class Resize:
        size, interpolation, max_size = 5, v1.InterpolationMode.BILINEAR, None

        def __call__(self, image):
            return image.rotate(90)
    _, difference = largest_difference(folder(v1.Compose([v1.CenterCrop(12), Resize(), v1.ToTensor()])))
    assert difference == 0


# ---- Datasets ----
def test_subsets_and_lists(tmp_path):
    dataset = Subset(Subset(folder(v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])), [9, 3, 5, 1]), [2, 0])
    translation = mr.torch.translate(dataset, tmp_path)
    assert translation.wrote == [str(tmp_path / "samples.txt")]
    assert translation.compare() == {"image": 0, "label": 0}
    with translation.loader(epochs=1) as loader:
        assert sum(len(batch["label"]) for batch in loader) == 2


def test_another_order_or_choice_of_files_is_listed(tmp_path):
    dataset = folder(v1.Compose([v1.Resize((8, 8)), v1.ToTensor()]), is_valid_file=lambda path: path.endswith(".png"))
    translation = mr.torch.translate(dataset, tmp_path)
    assert translation.wrote and translation.compare(9) == {"image": 0, "label": 0}


def test_readers_and_formats_that_are_not_known(tmp_path):
    dataset = folder(v1.PILToTensor(), loader=lambda path: tv.datasets.folder.pil_loader(path).resize((6, 6)))
    translation = mr.torch.translate(dataset)
    assert translation.notes[0].how == "python" and "read by" in translation.notes[0].text
    with translation.pipeline.shuffle(False).batch(10).loader(to="torch", epochs=1) as loader:
        batch = next(iter(loader))
    assert torch.equal(batch[translation.fields[0]], torch.stack([image for image, _ in dataset]))


def test_tensors():
    tensors = torch.rand(7, 3, 2), torch.arange(7), torch.rand(7).half()
    translation = mr.torch.translate(DataLoader(TensorDataset(*tensors), 3))
    assert translation.compare(7) == {"x0": 0, "x1": 0, "x2": 0} and translation.is_equal
    with translation.loader(epochs=1) as loader:
        batches = list(loader)
    for i, tensor in enumerate(tensors):
        assert torch.equal(torch.cat([batch[f"x{i}"] for batch in batches]), tensor)


def made(kind, data, labels, name="targets"):
    """One of torchvision's datasets, without what it downloads."""
    dataset = kind.__new__(kind)
    dataset.data, dataset.transform, dataset.target_transform = data, v1.ToTensor(), None
    setattr(dataset, name, labels)
    return dataset


def test_arrays_of_images():
    rng = np.random.default_rng(1)
    datasets = tv.datasets
    for dataset in (
            made(datasets.CIFAR10, rng.integers(0, 256, (6, 32, 32, 3), np.uint8), [3, 1, 4, 1, 5, 9]),
            made(datasets.MNIST, torch.from_numpy(rng.integers(0, 256, (6, 28, 28), np.uint8)), torch.arange(6)),
            made(datasets.SVHN, rng.integers(0, 256, (6, 3, 32, 32), np.uint8), np.arange(6), "labels")):
        for one in (dataset, Subset(dataset, [4, 2])):
            translation = mr.torch.translate(one)
            assert translation.compare(6) == {"data": 0, "label": 0} and translation.is_equal


def test_tables(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"x": datasets.Value("float32"), "y": datasets.ClassLabel(names=["a", "b"]),
                                  "image": datasets.Image()})
    paths = [path for path, _ in folder().samples][:4]
    rows = {"x": [0.5, 1.5, 2.5, -1.0], "y": [0, 1, 1, 0], "image": paths}
    table = datasets.Dataset.from_dict(rows, features=features)
    translation = mr.torch.translate(table.select([2, 0, 3]), tmp_path)
    assert translation.compare(3) == {"x": 0, "y": 0, "image": 0}
    changed = table.remove_columns("image").with_transform(lambda rows: {"z": [2 * x for x in rows["x"]]})
    translation = mr.torch.translate(changed)
    assert translation.notes[0].how == "python" and "set_transform" in translation.notes[0].text


class Own(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return torch.full((2,), float(i)), i


def test_a_dataset_of_ones_own_stays_python():
    translation = mr.torch.translate(DataLoader(Own(), 2, shuffle=True))
    assert translation.has_python and hows(translation)["Own"] == "python"
    with translation.loader(epochs=1) as loader:
        assert sorted(i for batch in loader for i in batch[translation.fields[1]].tolist()) == list(range(5))


class Nested(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.ones(3), i, {"name": f"n{i}"}


def test_a_part_that_cannot_be_a_field_is_listed():
    translation = mr.torch.translate(DataLoader(Nested(), 7, num_workers=2))
    assert hows(translation) == {"Nested": "python", "its part item2": "differs", "SequentialSampler": "equal"}
    said = str(translation)
    assert "a dict cannot be a field" in said and "mr.torch.DataLoader" in said and "mr.dataset" not in translation.code
    assert translation.pipeline is None and not translation.is_equal
    with pytest.raises(TypeError, match="no pipeline: its part item2"):
        translation.loader()
    assert next(iter(mr.torch.DataLoader(Nested(), 7)))[2] == {"name": [f"n{i}" for i in range(7)]}


def test_what_cannot_be_translated():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter(())
    with pytest.raises(TypeError, match="order of its own"):
        mr.torch.translate(DataLoader(Endless()))


# ---- Loaders ----
def test_settings_of_loaders():
    dataset = TensorDataset(torch.arange(10))
    def document(loader):
        return {k: v for k, v in mr.torch.translate(loader).pipeline.document.items() if k not in ("source", "ops")}
    assert document(DataLoader(dataset, 4)) == {"shuffle": False, "batch": 4}
    assert document(DataLoader(dataset, 4, shuffle=True, drop_last=True)) == {"batch": 4, "remainder": "drop"}
    ranks = torch.utils.data.DistributedSampler(dataset, 3, 1, shuffle=True)
    assert document(DataLoader(dataset, 4, sampler=ranks)) == {"batch": 12}
    weighted = mr.torch.translate(DataLoader(dataset, 4, sampler=WeightedRandomSampler([1.0] * 10, 10)))
    assert hows(weighted)["WeightedRandomSampler"] == "differs" and not weighted.is_equal
    assert mr.torch.translate(DataLoader(dataset, 4, num_workers=3)).threads == 3


def pairs(samples):
    return [int(x) for x, in samples]


def test_a_collate_function_of_ones_own():
    loader = DataLoader(TensorDataset(torch.arange(7)), 3, collate_fn=pairs)
    translation = mr.torch.translate(loader)
    assert hows(translation)["collate_fn pairs"] == "python"
    with translation.loader(epochs=1) as ours:
        assert list(ours) == list(loader)


def test_the_lines_run_and_give_the_same():
    chain = v1.Compose([v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize([0.5], [0.5])])
    translation = mr.torch.translate(DataLoader(folder(chain), 4, shuffle=True, num_workers=2))
    lines = translation.code.replace("for batch in loader:", "for batch in loader.one_epoch():")
    scope = {}
    exec(lines, scope)
    with translation.loader(seed=1, epochs=1) as loader:
        *_, last = loader
    assert torch.equal(scope["image"], last["image"]) and torch.equal(scope["label"], last["label"])
    scope["loader"].close()
    assert translation.code in str(translation) and translation.measure(0.05) > 0


# ---- The last word of a report ----
def test_a_folder_of_any_files():
    """DatasetFolder with torchvision's own loader is files; with another one its samples stay Python."""
    from torchvision.datasets.folder import default_loader
    chain = v1.Compose([v1.Resize((16, 16)), v1.ToTensor()])
    translation, difference = largest_difference(tv.datasets.DatasetFolder(PHOTOS, default_loader, (".jpg", ".png"), chain))
    assert difference == 0 and translation.is_equal and hows(translation)["DatasetFolder"] == "equal"
    only = tv.datasets.DatasetFolder(PHOTOS, default_loader, (".png",), chain)
    translation, difference = largest_difference(only)  # fewer than the folder has: they are listed
    assert difference == 0 and translation.is_equal and len(translation.wrote) == 1 and len(only) == 2
    def tiny(path):
        return Image.new("RGB", (4, 4), (len(path) % 7, 0, 0))
    translation = mr.torch.translate(tv.datasets.DatasetFolder(PHOTOS, tiny, (".jpg", ".png"), v1.ToTensor()))
    assert translation.has_python and set(hows(translation).values()) >= {"python"}
    translation.draws = False  # what Python functions do is not known; these draw nothing
    assert set(translation.compare(5).values()) == {0}


def profiled(path, transform, **how):
    loader = DataLoader(folder(transform), 5, num_workers=1)
    with mr.profile(loader, path, **how):
        for _ in range(3):
            list(loader)
    return mr.report(path)


def try_it(path):
    return subprocess.run([sys.executable, "-m", "millrace", "report", path, "--try"], capture_output=True, text=True)


def test_a_report_ends_with_an_outlook(tmp_path):
    chain = v1.Compose([v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor()])
    report = profiled(tmp_path / "run.trace", chain)
    outlook = report.figures["translation"]
    assert outlook["rate"] > 0 and outlook["times"] > 0 and not outlook["python"]
    document = report.figures["header"]["translation"]["pipeline"]
    wanted = mr.torch.translate(DataLoader(folder(chain), 5)).pipeline.document
    assert document["ops"] == wanted["ops"] and document["batch"] == 5
    assert "as a millrace pipeline: predicted" in report.text.splitlines()[-2] and "--try" in report.text
    tried = try_it(tmp_path / "run.trace")
    assert tried.returncode == 0 and tried.stdout.splitlines()[-1].startswith("tried: ")


def test_an_outlook_knows_what_stays_python(tmp_path):
    report = profiled(tmp_path / "run.trace", v1.Compose([v1.Resize((16, 16)), darker, v1.ToTensor()]))
    assert report.figures["translation"]["python"] and "some of it stays Python" in report.text
    assert "pipeline" not in report.figures["header"]["translation"]
    tried = try_it(tmp_path / "run.trace")
    assert tried.returncode == 2 and "no pipeline to try" in tried.stderr


def test_without_names_there_is_no_path(tmp_path):
    profiled(tmp_path / "run.trace", v1.Compose([v1.Resize((16, 16)), v1.ToTensor()]), names=False)
    assert os.path.abspath(PHOTOS).encode() not in (tmp_path / "run.trace").read_bytes()
    assert b"photos" not in (tmp_path / "run.trace").read_bytes()


def test_other_loaders_have_no_outlook(tmp_path):
    loader = DataLoader(Own(), 2)
    with mr.profile(loader, tmp_path / "run.trace"):
        list(loader)
    assert "translation" not in mr.report(tmp_path / "run.trace").figures
