# SPDX-License-Identifier: Apache-2.0
"""Masks follow their images through the ops that bend, turn and cut: the same draws, by nearest, and
outside of the image is 0."""
import numpy as np
import pytest

import millrace as mr
from test_py_fields import TYPES, Pairs, run

OPS = {"rotate": {"degrees": 40}, "affine": {"degrees": 20, "translate": 0.2, "shear": 10},
       "perspective": {"p": 0.8}, "elastic": {"alpha": 90, "sigma": 3}, "letterbox": {"size": 50},
       "erasing": {"p": 0.8}}


class Masks(Pairs):
    """The masks of the same pairs, as images of three equal channels."""

    def __getitem__(self, i):
        return {"image": np.repeat(self.arrays(i)[1], 3, axis=2)}


@pytest.mark.parametrize("name", OPS)
def test_masks_follow(name):
    filtered = {} if name == "erasing" else {"filter": "bilinear"}
    plain = {} if name == "erasing" else {"filter": "nearest"}
    both = getattr(mr.dataset(Pairs(), TYPES).kinds(mask="mask"), name)(
        **OPS[name], **filtered, fill=[9, 8, 7], field=["image", "mask"])
    alone = getattr(mr.dataset(Masks(), {"image": TYPES["image"]}), name)(
        **OPS[name], **plain, fill=0)
    got, want = run(both, seed=3), run(alone, seed=3)
    for i in range(len(Pairs())):
        assert np.array_equal(got[i]["mask"], want[i]["image"][..., :1])
    assert any(not np.array_equal(got[i]["mask"], Pairs().arrays(i)[1]) for i in got)
