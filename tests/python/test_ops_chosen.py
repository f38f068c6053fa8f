# SPDX-License-Identifier: Apache-2.0
"""Ops that run other ops: which they choose, and that those draw by the law."""
import ctypes
import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mrlib import Error, MrError, _check, apply, lib
from test_ops import Draws, KEYS, both, equal, noise, refused

LIST = [{"posterize": {"bits": 3}}, "invert", {"solarize": {"threshold": 90}}, "equalize"]


def run(ops, array):
    for op in ops:
        name, params = (op, {}) if isinstance(op, str) else next(iter(op.items()))
        array = apply(name, params, array)
    return array


@given(st.floats(0, 1), KEYS)
def test_random_apply(p, key):
    array = noise(12, 17)
    want = run(LIST, array) if Draws(**key).unit(0) < p else array
    equal(both("random_apply", {"ops": LIST, "p": p}, array, **key), want)


@given(st.lists(st.floats(0, 9), min_size=4, max_size=4).filter(lambda w: sum(w) > 0), KEYS)
def test_one_of(weights, key):
    array, draws = noise(12, 17), Draws(**key)
    equal(both("one_of", {"ops": LIST}, array, **key), run([LIST[draws.below(0, 4)]], array))
    left, at = draws.unit(0) * sum(weights), 0
    while at < 3 and left >= weights[at]:
        left, at = left - weights[at], at + 1
    equal(both("one_of", {"ops": LIST, "weights": weights}, array, **key), run([LIST[at]], array))


@given(KEYS)
def test_random_order(key):
    array, draws, order = noise(12, 17), Draws(**key), list(range(4))
    for draw, i in enumerate([3, 2, 1]):
        j = draws.below(draw, i + 1)
        order[i], order[j] = order[j], order[i]
    equal(both("random_order", {"ops": LIST}, array, **key), run([LIST[i] for i in order], array))


def turned(sample, ops, **key):
    """Which of two flips, along rows and along columns, were done."""
    out = apply("random_apply", {"ops": ops, "p": 1}, np.arange(4, dtype=np.uint8).reshape(2, 2, 1),
                sample=sample, **key)
    return int(out[0, 0, 0]) & 1, int(out[0, 0, 0]) >> 1


def test_inner_ops_draw_by_themselves():
    """All four outcomes of two flips are equally likely, and another outer op gives others."""
    two = ["random_flip", {"random_flip": {"direction": "vertical"}}]
    seen = [turned(s, two) for s in range(800)]
    counts = [seen.count((a, b)) for a in (0, 1) for b in (0, 1)]
    assert all(150 < n < 250 for n in counts), counts
    other = [turned(s, two, opword=5) for s in range(800)]
    assert 480 < sum(a != b for a, b in zip(seen, other)) < 720
    assert seen == [turned(s, two) for s in range(800)]


def test_an_op_before_another_does_not_change_its_draws():
    one, two = ["random_flip"], ["invert", "random_flip"]
    array = noise(8, 9)
    for sample in range(30):
        equal(255 - apply("random_apply", {"ops": one, "p": 1}, array, sample=sample),
              apply("random_apply", {"ops": two, "p": 1}, array, sample=sample))


def test_refusals():
    image = noise(9, 9)
    refused("PARAM", "random_apply", {"ops": ["rotat"]}, image, "unknown op", "rotate")
    refused("PARAM", "random_apply", {"ops": [{"rotate": {"degree": 3}}]}, image, "degrees")
    refused("PARAM", "random_apply", {"ops": [{"rotate": {}}]}, image, "needs degrees")
    refused("PARAM", "random_apply", {"ops": ["decode_image"]}, image, "cannot stand inside")
    refused("PARAM", "random_apply", {"ops": ["cache"]}, image, "cannot stand inside")
    refused("PARAM", "random_apply", {"ops": []}, image, "ops")
    refused("PARAM", "random_apply", {"ops": ["invert"] * 17}, image, "ops")
    refused("PARAM", "random_apply", {"ops": 3}, image, "op")
    refused("TYPE", "random_apply", {"ops": [{"resize": {"size": 3}}]}, image, "depend on the draw")
    refused("TYPE", "random_order", {"ops": [{"resize": {"size": 3}}]}, image, "order")
    refused("TYPE", "one_of", {"ops": ["invert", {"resize": {"size": 3}}]}, image, "same type")
    refused("TYPE", "one_of", {"ops": ["to_float"]}, image, "image")
    refused("PARAM", "one_of", {"ops": ["invert"], "weights": [1, 2]}, image, "weights")
    refused("PARAM", "one_of", {"ops": ["invert"], "weights": [0]}, image, "weights")


def test_ops_stand_inside_ops_not_too_deeply():
    ops, depth = ["invert"], 0
    while depth < 50:
        try:
            apply("random_apply", {"ops": ops, "p": 1}, noise(5, 5))
        except MrError as error:
            assert "too deeply" in error.text and depth >= 3
            return
        ops, depth = [{"random_apply": {"ops": ops, "p": 1}}], depth + 1
    raise AssertionError("no end")


def parse(ops):
    """The ops behind decode_image as the library writes them out, and the fingerprint."""
    text = json.dumps({"source": {"files": {"path": "/nowhere"}}, "ops": ["decode_image", *ops]})
    pipeline, err = ctypes.c_void_p(), Error()
    _check(lib().mr_pipeline_parse(pipeline, text.encode(), len(text), None, err), err)
    try:
        shown = json.loads(lib().mr_pipeline_json(pipeline))["ops"][1:]
        return shown, lib().mr_pipeline_fingerprint(pipeline)
    finally:
        lib().mr_pipeline_free(pipeline)


def test_documents_show_inner_ops_with_their_defaults():
    shown, fingerprint = parse([{"random_apply": {"ops": ["random_flip"]}}])
    assert shown == [{"random_apply": {"ops": [{"random_flip": {"p": 0.5,
                                                                "direction": "horizontal"}}],
                                       "p": 0.5}}]
    assert parse(shown) == (shown, fingerprint)
    other = parse([{"random_apply": {"ops": [{"random_flip": {"p": 0.4}}]}}])[1]
    assert other != fingerprint


def test_no_cache_behind_what_is_chosen():
    with_cache = [{"random_apply": {"ops": ["invert"]}}, "cache"]
    with pytest.raises(MrError, match="random"):
        parse(with_cache)
