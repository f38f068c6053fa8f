# SPDX-License-Identifier: Apache-2.0
"""Streams against the same ops one after the other, on real photos and on the hostile corpora of
../shared where they lie beside the repository. What is made here, for every kind of JPEG, is tested
in tests/unit/test_fuse.c."""
import pathlib

import pytest

from mrlib import Loader, MrError

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"

TRAIN = [{"random_resized_crop": {"size": 64}}, {"random_flip": {}}, {"normalize": {}}]
VALIDATE = [{"resize": {"size": 72}}, {"center_crop": {"size": 64}}, {"normalize": {}}]
CROP = [{"random_crop": {"size": [17, 23], "pad_if_needed": True}}]


def digests(source, ops, fuse, epochs=1, **decode):
    """Digest of the stream, or the text of the error that ended it."""
    pipeline = {"source": {"files": source}, "batch": 50, "epochs": epochs, "fuse": fuse,
                "ops": [{"decode_image": decode}, *ops]}
    with Loader(pipeline, threads=2, digest=True) as loader:
        try:
            for _ in loader:
                pass
        except MrError as error:
            return str(error)
        return loader.digest()


def shared(folder):
    path = SHARED / folder
    if not path.exists():
        pytest.skip(f"../shared/data/{folder} is not there")
    return path


@pytest.mark.parametrize("ops", [TRAIN, VALIDATE, CROP], ids=["train", "validate", "crop"])
def test_photos(ops):
    source = {"path": str(shared("photos"))}
    assert digests(source, ops, True, epochs=2) == digests(source, ops, False, epochs=2)


@pytest.mark.parametrize("ops", [TRAIN, VALIDATE], ids=["train", "validate"])
def test_photos_decoded_at_a_smaller_size(ops):
    source = {"path": str(shared("photos"))}
    scaled = digests(source, ops, True, epochs=2, dct_scale=True)
    assert scaled == digests(source, ops, False, epochs=2, dct_scale=True)
    assert scaled != digests(source, ops, True, epochs=2)


@pytest.mark.parametrize("folder", ["jpeg", "png", "webp"])
def test_every_file_of_a_corpus(folder, tmp_path):
    files = sorted(p for p in shared(f"corpora/{folder}").rglob("*") if p.is_file())
    listing = tmp_path / "one.txt"
    accepted = 0
    for path in files:
        listing.write_text(f"{path}\t0\n")
        source = {"list": str(listing)}
        whole = digests(source, CROP, False, verify=True)
        assert digests(source, CROP, True, verify=True) == whole, path
        if len(whole) == 32:
            accepted += 1
            assert digests(source, CROP, True) == digests(source, CROP, False), path
    assert accepted > 5
