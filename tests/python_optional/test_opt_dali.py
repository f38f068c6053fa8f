# SPDX-License-Identifier: Apache-2.0
"""Our batches in a DALI pipeline, on the CPU: what comes out is what the loader gives, epoch after
epoch, without a copy on the way in."""
import io
import os

import numpy as np
import pytest

dali = pytest.importorskip("nvidia.dali", reason="nvidia-dali is not installed")

from nvidia.dali import fn  # noqa: E402

import millrace as mr  # noqa: E402
import packs  # noqa: E402

PHOTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "data", "photos")


def photos():
    return mr.files(PHOTOS).decode_image().random_resized_crop(8).normalize().batch(4)


def dali_pipeline(source, outputs, operate=lambda *fields: fields, depth=2, **options):
    @dali.pipeline_def(batch_size=64, num_threads=2, device_id=None, prefetch_queue_depth=depth)
    def make():
        given = fn.external_source(source=source, num_outputs=outputs, cycle="raise", **options)
        return operate(*given)
    pipeline = make()
    pipeline.build()
    return pipeline


def epochs(pipeline, n):
    for epoch in range(n):
        while True:
            try:
                yield epoch, [np.array(out.as_array()) for out in pipeline.run()]
            except StopIteration:
                pipeline.reset()
                break


@pytest.mark.parametrize("no_copy", [False, True])
def test_batches_arrive_as_they_are(no_copy):
    want = [{k: np.array(v) for k, v in batch.items()}
            for batch in photos().loader(seed=1, epochs=2).all_epochs()]
    with photos().loader(seed=1) as loader:
        source = loader.as_dali_source(["image", "label"])
        assert len(source) == 3
        got = list(epochs(dali_pipeline(source, 2, no_copy=no_copy), 2))
    assert [epoch for epoch, _ in got] == [0, 0, 0, 1, 1, 1]
    for (_, (image, label)), batch in zip(got, want):
        assert np.array_equal(image, batch["image"]) and np.array_equal(label, batch["label"])


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_memory_stays_until_dali_is_through_with_it(depth):
    """The engine's batches are used again as soon as nobody holds them."""
    pipeline = mr.synthetic(samples=6400, shape=[50, 400]).cast("float32").batch(32)
    want = [np.array(batch["data"]).sum(axis=(1, 2)) for batch in pipeline.loader(seed=2, epochs=1)]
    with pipeline.loader(seed=2, batches_ahead=2) as loader:
        source = loader.as_dali_source(["data"], prefetch_queue_depth=depth)
        made = dali_pipeline(source, 1, lambda data: data + 0, depth, no_copy=True)
        got = [outs[0].sum(axis=(1, 2)) for _, outs in epochs(made, 1)]
    assert len(got) == 200 and all(map(np.array_equal, got, want))


def test_what_varies_is_a_list_of_samples():
    """Encoded photos, decoded by DALI."""
    with mr.files(PHOTOS).shuffle(False).batch(5).loader() as loader:
        made = dali_pipeline(loader.as_dali_source(["image"]), 1,
                             lambda image: fn.resize(fn.decoders.image(image), size=[8, 8]))
        got = [outs[0] for _, outs in epochs(made, 1)]
    assert [batch.shape for batch in got] == [(5, 8, 8, 3)] * 2


def test_what_dali_cannot_take_is_told():
    with pytest.raises(ValueError, match="without map_batch"):
        photos().map_batch(dict).loader().as_dali_source()
    with pytest.raises(ValueError, match="there is no field 'picture': a batch has image, label"):
        photos().loader().as_dali_source(["picture"])
    with pytest.raises(TypeError, match="cast it to float16"):
        photos().cast("bfloat16").loader().as_dali_source()


def read_by_dali(shards, members):
    """By its reader of WebDataset, with the index that lies beside each shard."""
    @dali.pipeline_def(batch_size=10, num_threads=2, device_id=None)
    def make():
        indexes = [shard.removesuffix(".tar") + ".idx" for shard in shards]
        return tuple(fn.readers.webdataset(paths=shards, index_paths=indexes, ext=members, pad_last_batch=True))
    pipeline = make()
    pipeline.build()
    return [[np.array(out.at(i)) for i in range(10)] for out in pipeline.run()]


def test_dali_reads_packs(tmp_path):
    """Files as they are, classes and arrays, byte for byte what our own loader reads."""
    for make, member in ((packs.photos, "jpg"), (packs.arrays, "npy")):
        (tmp_path / member).mkdir()
        shards = make(tmp_path / member)
        ours, (images, classes) = packs.ours(shards), read_by_dali(shards, [member, "cls"])
        assert len(ours) == 10
        for a, image, label in zip(ours, images, classes):
            raw = np.load(io.BytesIO(image.tobytes())) if member == "npy" else image
            assert raw.dtype == np.uint8 and np.array_equal(raw, a["image"])
            assert label.tobytes() == str(a["label"]).encode()
