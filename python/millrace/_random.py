# SPDX-License-Identifier: Apache-2.0
"""The generators that Python code draws from without being given one: torch's, Python's and numpy's.
Seeded by the law, they make such code repeatable; set apart, nobody else notices."""
import contextlib
import random

import numpy as np
import torch

_MASK = 2**64 - 1
SAMPLE, COLLATE, ORDER, STREAM = range(4)  # what is drawn for: words of the key


def mixed(*words):
    """64 bits of a key (splitmix64 over its words, one after the other)."""
    value = 0
    for word in words:
        value = (value + word * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
        value ^= value >> 31
    return value


def seed_all(*key):
    """Seeds the three of this process."""
    value = mixed(*key)
    torch.default_generator.manual_seed(value >> 1)
    random.seed(value)
    np.random.seed(value & 0xFFFFFFFF)


def states():
    """Of the three of this process."""
    return torch.default_generator.get_state(), random.getstate(), np.random.get_state()


def set_states(found):
    """To what states() gave."""
    torch.default_generator.set_state(found[0])
    random.setstate(found[1])
    np.random.set_state(found[2])


def equal(a, b):
    """Whether nothing was drawn between two states."""
    return torch.equal(a[0], b[0]) and a[1] == b[1] and a[2][2:] == b[2][2:] and \
        (a[2][1] == b[2][1]).all()


class Apart:
    """Generators of one's own: what is done within `with` draws from them, and afterwards those of
    the program are as they were."""

    def __init__(self, *key):
        self._key, self._states, self._begun = key, None, None

    def __enter__(self):
        self._program = states()
        if self._states is None:
            seed_all(*self._key)
            self._begun = states()
        else:
            set_states(self._states)
        return self

    def __exit__(self, *_):
        self._states = states()
        set_states(self._program)

    def drew(self):
        """Whether anything was drawn from them yet."""
        return self._states is not None and not equal(self._begun, self._states)


def made_for(apart, *key):
    """For `with`: generators seeded by a key. apart: those of the program stay as they are; where it
    has none to lose, as in a worker process, there is no need to."""
    if apart:
        return Apart(*key)
    seed_all(*key)
    return contextlib.nullcontext()
