# SPDX-License-Identifier: Apache-2.0
"""The generators that Python code draws from without being given one: torch's, Python's and numpy's.
Seeded by the law, they make such code repeatable; set apart, nobody else notices."""
import base64
import contextlib
import random

import numpy as np
import torch

_MASK = 2**64 - 1
SAMPLE, COLLATE, ORDER, STREAM = range(4)  # what is drawn for: words of the key
TORCH, PYTHON, NUMPY = "torch", "random", "numpy"  # whose generators
EACH = frozenset((TORCH, PYTHON, NUMPY))


def mixed(*words):
    """64 bits of a key (splitmix64 over its words, one after the other)."""
    value = 0
    for word in words:
        value = (value + word * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
        value ^= value >> 31
    return value


def seed_these(which, *key):
    """Seeds those of the three of this process that are among `which`."""
    value = mixed(*key)
    if TORCH in which:
        torch.default_generator.manual_seed(value >> 1)
    if PYTHON in which:
        random.seed(value)
    if NUMPY in which:
        np.random.seed(value & 0xFFFFFFFF)


def seed_all(*key):
    """Seeds the three of this process."""
    seed_these(EACH, *key)


def _states():
    return torch.default_generator.get_state(), random.getstate(), np.random.get_state()


def _set_states(found):
    torch.default_generator.set_state(found[0])
    random.setstate(found[1])
    np.random.set_state(found[2])


def _unlike(a, b):
    """Whose states differ."""
    same = {TORCH: torch.equal(a[0], b[0]), PYTHON: a[1] == b[1],
            NUMPY: a[2][2:] == b[2][2:] and (a[2][1] == b[2][1]).all()}
    return frozenset(name for name, is_same in same.items() if not is_same)


class Twins:
    """Tells which of the three of this process were drawn from, which it seeds: each has a twin that draws
    in step with it. So much cheaper than comparing their states."""

    _SEED = 0x5EED_7A1E

    def __init__(self):
        self._torch, self._random, self._numpy = torch.Generator(), random.Random(), np.random.RandomState()
        self._pairs = {
            TORCH: (lambda: torch.rand(()).item(), lambda: torch.rand((), generator=self._torch).item()),
            PYTHON: (random.random, self._random.random),
            NUMPY: (np.random.random_sample, self._numpy.random_sample)}
        self.begin()

    def begin(self):
        """In step again."""
        for one in (torch.default_generator, self._torch):
            one.manual_seed(self._SEED)
        for other in (random, self._random, np.random, self._numpy):
            other.seed(self._SEED)

    def drew(self, which=EACH):
        """Those among `which` that were, since the last call or the beginning."""
        return frozenset(name for name in which if self._pairs[name][0]() != self._pairs[name][1]())


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
        """Those that were drawn from yet."""
        return _unlike(self._begun, self._states) if self._states is not None else frozenset()


def made_for(apart, *key):
    """For `with`: generators seeded by a key. apart: those of the program stay as they are; where it
    has none to lose, as in a worker process, there is no need to."""
    if apart:
        return Apart(*key)
    seed_all(*key)
    return contextlib.nullcontext()


# ---- Generators that an object keeps -------------------------------------------------------------


def _plain(value):
    """Arrays as lists: a state is to be written as JSON."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _state_of(one):
    if isinstance(one, torch.Generator):
        return base64.b64encode(one.get_state().numpy().tobytes()).decode()
    if isinstance(one, random.Random):
        return one.getstate()
    return _plain(one.get_state(legacy=False) if isinstance(one, np.random.RandomState) else one.bit_generator.state)


def _set_state_of(one, state):
    if isinstance(one, torch.Generator):
        one.set_state(torch.frombuffer(bytearray(base64.b64decode(state)), dtype=torch.uint8))
    elif isinstance(one, random.Random):
        version, numbers, rest = state
        one.setstate((version, tuple(numbers), rest))
    elif isinstance(one, np.random.RandomState):
        one.set_state(state)
    else:
        one.bit_generator.state = state


_KINDS = torch.Generator, random.Random, np.random.RandomState, np.random.Generator


class Kept:
    """The generators that a sampler has as attributes, and those of the sampler that it is made of. Who goes on
    from a state must have them as they were when the epoch began: its order comes from them."""

    def __init__(self, sampler):
        self._found, inner = {}, sampler
        for depth in range(8):
            for name, value in getattr(inner, "__dict__", {}).items():
                if isinstance(value, _KINDS) and value is not torch.default_generator:
                    self._found["sampler." * depth + name] = value
            inner = getattr(inner, "sampler", None)

    def states(self):
        return {name: _state_of(one) for name, one in self._found.items()}

    def set(self, states):
        for name, state in states.items():
            if name in self._found:
                _set_state_of(self._found[name], state)
