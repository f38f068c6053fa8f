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


def _states():
    return torch.default_generator.get_state(), random.getstate(), np.random.get_state()


def _set_states(found):
    torch.default_generator.set_state(found[0])
    random.setstate(found[1])
    np.random.set_state(found[2])


def _equal(a, b):
    return torch.equal(a[0], b[0]) and a[1] == b[1] and a[2][2:] == b[2][2:] and \
        (a[2][1] == b[2][1]).all()


class Twins:
    """Tells whether anything was drawn from the three of this process, which it seeds: each has a twin
    that draws in step with it. So much cheaper than comparing their states."""

    _SEED = 0x5EED_7A1E

    def __init__(self):
        self._torch, self._random, self._numpy = torch.Generator(), random.Random(), np.random.RandomState()
        self.begin()

    def begin(self):
        """In step again."""
        for one in (torch.default_generator, self._torch):
            one.manual_seed(self._SEED)
        for other in (random, self._random, np.random, self._numpy):
            other.seed(self._SEED)

    def drew(self):
        """Whether anything was, since the last call or the beginning."""
        same = random.random() == self._random.random() and \
            np.random.random_sample() == self._numpy.random_sample() and \
            torch.rand(()).item() == torch.rand((), generator=self._torch).item()
        return not same


class Apart:
    """Generators of one's own: what is done within `with` draws from them, and afterwards those of
    the program are as they were."""

    def __init__(self, *key):
        self._key, self._states, self._begun = key, None, None

    def __enter__(self):
        self._program = _states()
        if self._states is None:
            seed_all(*self._key)
            self._begun = _states()
        else:
            _set_states(self._states)
        return self

    def __exit__(self, *_):
        self._states = _states()
        _set_states(self._program)

    def drew(self):
        """Whether anything was drawn from them yet."""
        return self._states is not None and not _equal(self._begun, self._states)


def made_for(apart, *key):
    """For `with`: generators seeded by a key. apart: those of the program stay as they are; where it
    has none to lose, as in a worker process, there is no need to."""
    if apart:
        return Apart(*key)
    seed_all(*key)
    return contextlib.nullcontext()
