# SPDX-License-Identifier: Apache-2.0
"""Policies of one's own for rehearse(policy="custom"): numpy on one side, memory of the engine on the other."""
from typing import Any, NamedTuple

import numpy as np


class Kept(NamedTuple):
    """What a rehearsal buffer has at a step, by place."""

    step: int
    size: int  # how many samples it may have
    samples: np.ndarray  # int64
    labels: np.ndarray  # int64


class Adapter:
    """What the loader calls: it gives memoryviews, and writes are its answers."""

    def __init__(self, policy: Any) -> None:
        for name in ("insert", "draw"):
            if not callable(getattr(policy, name, None)):
                raise TypeError(f"a policy has a method {name}(), and {type(policy).__name__} has none")
        self._policy = policy

    def place(self, step, size, there, there_labels, samples, labels, keys, places):
        offered = (np.array(samples.cast("q")), np.array(labels.cast("q")), np.array(keys.cast("Q")))
        _write(places, np.int64, self._ask("insert", step, size, there, there_labels, *offered), "insert")

    def draw(self, step, size, there, there_labels, keys, places, weights):
        answer = self._ask("draw", step, size, there, there_labels, np.array(keys.cast("Q")))
        if isinstance(answer, tuple):
            answer, given = answer
            _write(weights, np.float64, given, "draw")
        _write(places, np.int64, answer, "draw")

    def _ask(self, method, step, size, there, there_labels, *values):
        """Copies: nobody can tell how long a policy keeps an array, and memory of the engine goes."""
        kept = Kept(step, size, np.array(there.cast("q")), np.array(there_labels.cast("q")))
        return getattr(self._policy, method)(kept, *values)


def _write(memory, dtype, values, method):
    out = np.frombuffer(memory, dtype)
    values = np.asarray(values)
    if values.shape != out.shape or (dtype is np.int64 and values.dtype.kind not in "iu"):
        wanted = "whole numbers" if dtype is np.int64 else "numbers"
        raise TypeError(f"{method}() returns {len(out)} {wanted}, not {values.dtype} of shape {values.shape}")
    out[:] = values
