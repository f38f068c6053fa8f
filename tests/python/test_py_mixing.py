# SPDX-License-Identifier: Apache-2.0
"""Ops on batches: mix_up and cut_mix against numpy with the same draws; what they do depends on seed,
epoch and batch, not on threads, and goes on after a state."""
import math

import numpy as np
import pytest

import millrace as mr

N, CLASSES = 23, 5


class Rows:
    def __len__(self):
        return N

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        return {"image": rng.normal(size=(3, 12, 16)).astype(np.float32),
                "mask": rng.integers(0, 9, (12, 16), np.int32), "label": i % CLASSES}


def source(*fields):
    return mr.dataset(Rows()).one_hot(CLASSES, field="label").fields(list(fields) or ["image", "label"])


def batches(pipeline, **options):
    with pipeline.batch(4).loader(**{"seed": 3, "threads": 2, "epochs": 2, **options}) as loader:
        return [(b.epoch, b.samples.tolist(), {k: np.array(v) for k, v in b.items()})
                for b in loader.all_epochs()]


def whole(samples):
    """The batch before anything was mixed."""
    rows = [Rows()[i] for i in samples]
    made = {name: np.stack([row[name] for row in rows]) for name in ("image", "mask")}
    made["label"] = np.eye(CLASSES, dtype=np.float32)[[row["label"] for row in rows]]
    return made


def rolled_blend(x, own, other):
    """torchvision's: x.roll(1, 0).mul_(1 - share).add_(x.mul(share)), in float32."""
    return np.roll(x, 1, 0) * other + x * own


def shares_of(got, want):
    """(own, other) as float32, read off the labels: what a sample has of its own class and of that
    of the one before it, where they differ."""
    classes = want.argmax(axis=1)
    shares = {(got[i][classes[i]], got[i][classes[i - 1]]) for i in range(len(got))
              if classes[i] != classes[i - 1]}
    assert len(shares) <= 1
    return shares.pop() if shares else None


def test_mix_up_blends_with_the_one_before():
    shares = []
    for _, samples, got in batches(source().mix_up(0.4)):
        want = whole(samples)
        share = shares_of(got["label"], want["label"])
        if share is None:
            continue
        shares.append(share)
        assert share[0] + share[1] == pytest.approx(1)
        assert np.array_equal(got["image"], rolled_blend(want["image"], *share))
        assert np.array_equal(got["label"], rolled_blend(want["label"], *share))
    assert len(set(shares)) > 8  # each batch draws for itself, in every epoch


def test_cut_mix_pastes_a_rectangle_and_masks_go_with_it():
    areas = []
    for _, samples, got in batches(source("image", "mask", "label").cut_mix()):
        want = whole(samples)
        before = {name: np.roll(value, 1, 0) for name, value in want.items()}
        pasted = (got["image"] != want["image"]).any(axis=(0, 1)) if len(samples) > 1 else \
            np.zeros((12, 16), bool)
        ys, xs = np.nonzero(pasted)
        box = (slice(ys.min(), ys.max() + 1), slice(xs.min(), xs.max() + 1)) if len(ys) else \
            (slice(0, 0), slice(0, 0))
        for name in ("image", "mask"):
            expected = want[name].copy()
            expected[(..., *box)] = before[name][(..., *box)]
            assert np.array_equal(got[name], expected)
        area = (box[0].stop - box[0].start) * (box[1].stop - box[1].start)
        areas.append(area)
        left = 1 - area / 192
        assert np.array_equal(got["label"], rolled_blend(want["label"], np.float32(left), np.float32(1 - left)))
    assert len(set(areas)) > 5


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1, 1.5, 8, 400])
def test_shares_are_of_a_beta_distribution(alpha):
    """Kolmogorov and Smirnov's distance to numpy's own draws, and the mean of (x - 1/2)^2."""
    class Two:
        def __len__(self):
            return 2 * 4000

        def __getitem__(self, i):
            return {"x": np.float32(i % 2)}  # 0 after 1, 1 after 0: the share can be read off

    pipeline = mr.dataset(Two()).shuffle(False).mix_up(alpha).batch(2)
    with pipeline.loader(seed=1, epochs=1) as loader:
        shares = np.sort([float(batch["x"][1]) for batch in loader])
    theirs = np.sort(np.random.default_rng(0).beta(alpha, alpha, 200_000))
    ranks = np.searchsorted(theirs, shares) / len(theirs)
    distance = np.abs(ranks - (np.arange(4000) + 0.5) / 4000).max()
    if alpha >= 0.2:  # below, many are 0 or 1 to the last bit of float32
        assert distance < 1.95 / math.sqrt(4000)
    assert np.mean((shares - 0.5) ** 2) == pytest.approx(0.25 / (2 * alpha + 1), rel=0.12)


# ---- The law -------------------------------------------------------------------------------------


PIPELINES = {
    "mix_up": lambda: source().mix_up(0.4), "cut_mix": lambda: source().cut_mix(),
    "one_of": lambda: source().one_of([{"mix_up": {"alpha": 0.2}}, "cut_mix"]),
    "random_apply": lambda: source().random_apply(["mix_up", "cut_mix"], p=0.5),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_threads_and_states_change_nothing(name):
    pipeline = PIPELINES[name]().batch(4)

    def digests(**options):
        with pipeline.loader(seed=5, digest=True, epochs=2, **options) as loader:
            return [batch.digest for batch in loader.all_epochs()]
    want = digests(threads=1)
    assert want == digests(threads=4) and len(set(want)) == len(want)
    with pipeline.loader(seed=5, epochs=2) as loader:
        for _ in range(4):
            next(loader)
        state = loader.state_dict()
    assert digests(state=state) == want[4:]


def test_one_of_chooses_for_each_batch():
    """Batches that were cut have pixels of two images, those that were blended have not."""
    cut = blended = 0
    for _, samples, got in batches(PIPELINES["one_of"](), epochs=8):
        if len(samples) == 4:
            of_one = (got["image"] == whole(samples)["image"]).mean()
            cut, blended = cut + (0 < of_one < 1), blended + (of_one == 0)
    assert cut > 5 and blended > 5


def test_random_apply_leaves_some_batches():
    left = [np.array_equal(got["image"], whole(samples)["image"])
            for _, samples, got in batches(source().random_apply("mix_up", p=0.5), epochs=6)
            if len(samples) > 1]
    assert 5 < sum(left) < len(left) - 5


def test_ranks_mix_within_their_batch():
    seen = set()
    for rank in (0, 1):
        for _, samples, got in batches(source().mix_up(), rank=rank, world=2, epochs=1):
            want = whole(samples)
            share = shares_of(got["label"], want["label"])
            if share is not None:
                assert np.array_equal(got["image"], rolled_blend(want["image"], *share))
                seen.add((rank, share))
    assert len(seen) > 4


# ---- What cannot be done is told -----------------------------------------------------------------


def test_what_cannot_be_mixed_is_told():
    raw = mr.dataset(Rows())
    for wrong, text in (
            (lambda: raw.mix_up(), "mix_up cannot blend field mask, int32"),
            (lambda: raw.drop("mask").mix_up(), r"mix_up cannot blend field label.*one_hot"),
            (lambda: raw.cut_mix(), r"cut_mix cannot blend field label.*one_hot"),
            (lambda: raw.cut_mix(field="label"), "cut_mix cannot blend field label"),
            (lambda: source().cut_mix(field="label"), "needs an image among its fields"),
            (lambda: source().mix_up(field="image").cast("float16"), "put it before mix_up"),
            (lambda: source().mix_up(field="image").cache("1GB"), "put it before mix_up"),
            (lambda: source("image").mix_up(field=["image", "label"]).types,
             "works on field label, which is not delivered"),
            (lambda: source().one_of(["mix_up", "invert"]), "mix_up works on batches and invert on"),
            (lambda: mr.dataset([{"x": np.zeros(3, np.float32)}, {"x": np.zeros(4, np.float32)}],
                                {"x": ("float32", (None,))}).mix_up(), "field x varies in size")):
        with pytest.raises((ValueError, TypeError), match="(?s)" + text):
            wrong()
