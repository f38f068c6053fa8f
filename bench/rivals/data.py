# SPDX-License-Identifier: Apache-2.0
"""What the rivals and millrace read: the list of photos, larger copies of some, one array file, and
millrace's pipelines over them. Made once, kept in build/bench-data."""

import hashlib
import json
import os
import shutil
import subprocess

LARGE_PHOTOS = 48
LARGE_PIXELS = (2e6, 12e6)
ARRAY_SHAPE = (100_000, 3072)
EXTENSIONS = (".jpg", ".jpeg")

NORMALIZE = {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
TRAIN = [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_flip": {}}, NORMALIZE]
VAL = [{"decode_image": {}}, {"resize": {"size": 256}}, {"center_crop": {"size": 224}}, NORMALIZE]


def photos_in(folder):
    found = []
    for where, _, names in os.walk(folder, followlinks=True):
        found += [os.path.join(where, name) for name in names if name.lower().endswith(EXTENSIONS)]
    return sorted(found)


def default_photos(root):
    shared = os.path.join(os.path.dirname(root), "shared/data/photos")
    if os.path.isdir(shared):
        return shared
    folder = os.path.join(root, "build/demo/photos")
    subprocess.run([os.path.join(root, "scripts/photos"), folder, "240"], check=True)
    return folder


def write_list(path, names):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"{name}\n" for name in names)
    return path


def copies_of(folder, into, n):
    """A folder with n copies of each photo: other files, so that a cache cannot take them for one."""
    names = photos_in(folder)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    path = os.path.join(into, f"photos-{key}-x{n}")
    if not os.path.exists(path):
        for i in range(n):
            for name in names:
                where, own = os.path.split(os.path.relpath(name, folder))
                copy = os.path.join(path + ".part", where, f"{i}-{own}")
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copyfile(name, copy)
        os.rename(path + ".part", path)
    return path


def make_large(folder, names):
    """Some of the photos, scaled up to sizes spread evenly from 2 to 12 megapixels."""
    from PIL import Image

    os.makedirs(folder + ".part", exist_ok=True)
    low, high = LARGE_PIXELS
    for i in range(LARGE_PHOTOS):
        with Image.open(names[i * len(names) // LARGE_PHOTOS]) as image:
            wanted = low + (high - low) * i / (LARGE_PHOTOS - 1)
            scale = (wanted / (image.width * image.height)) ** 0.5
            size = round(image.width * scale), round(image.height * scale)
            large = image.convert("RGB").resize(size, Image.BICUBIC)
            large.save(os.path.join(folder + ".part", f"{i:02}.jpg"), quality=90)
    os.rename(folder + ".part", folder)


def make_array(path):
    import numpy as np

    rows = np.random.default_rng(1).integers(0, 256, ARRAY_SHAPE, dtype=np.uint8)
    np.save(path + ".part.npy", rows)
    os.rename(path + ".part.npy", path)


def write_pipeline(path, source, ops, shuffle=True):
    document = {"source": source, "ops": ops, "batch": 128, "shuffle": shuffle, "seed": 1}
    with open(path, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=1)
    return path


def files_in(folder):
    return {"files": {"path": os.path.abspath(folder), "extensions": list(EXTENSIONS)}}


def prepare(folder, into):
    """{workload: (kind, data for the rivals, pipeline for millrace)} and the facts to report."""
    os.makedirs(into, exist_ok=True)
    names = photos_in(folder)
    if not names:
        raise SystemExit(f"rivals: there are no JPEG files in {folder}")
    at = lambda name: os.path.join(into, name)
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    large, array = at(f"large-{key}"), at("array.npy")
    if not os.path.exists(large):
        make_large(large, names)
    if not os.path.exists(array):
        make_array(array)
    small_list, large_list = at("photos.txt"), at("large.txt")
    write_list(small_list, [os.path.abspath(name) for name in names])
    write_list(large_list, [os.path.abspath(name) for name in photos_in(large)])
    photos = files_in(folder)
    train = write_pipeline(at("train.json"), photos, TRAIN)
    workloads = {
        "train": ("train", small_list, train),
        "val": ("val", small_list, write_pipeline(at("val.json"), photos, VAL, False)),
        "large": ("train", large_list, write_pipeline(at("large.json"), files_in(large), TRAIN)),
        "array": ("array", array, write_pipeline(at("array.json"), {"array": {"path": array}}, [])),
        "threads": ("train", small_list, train),
    }
    facts = {
        "photos": len(names),
        "photo_bytes": sum(map(os.path.getsize, names)) / len(names),
        "large_bytes": sum(map(os.path.getsize, photos_in(large))) / LARGE_PHOTOS,
    }
    return workloads, facts
