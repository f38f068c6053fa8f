# SPDX-License-Identifier: Apache-2.0
"""What a run on a stream delivered, once more (docs/streams.md)."""
import os
from typing import NamedTuple

from . import _core
from ._pipeline import Pipeline


class Replayed(NamedTuple):
    """What was delivered again, and was as it had been."""

    steps: int
    samples: int
    compared: int  # digests of the journal
    digest: str  # of all batches


def replay(journal, pipeline=None, *, threads=0):
    """Runs again what the run of a journal delivered, and compares it with the digests that the journal has: one for
    each state that a loader(journal=..., digest=True) saved, and one for its end. StateError: something differs.

    The journal has the pipeline, but not its Python functions: where there are any, give it a pipeline that has
    them, the one of the run. Their modules may have other names now: a function of the program that ran (`__main__`)
    may be imported, or be defined in a notebook. Functions of one name are told apart by their order. They run in threads here, also those that were given processes. What map_batch() does
    comes after the batch that is compared, and is not run. It cannot be interrupted: Ctrl-C counts at its end."""
    if pipeline is not None and not isinstance(pipeline, Pipeline):
        raise TypeError(f"replay() takes the pipeline of the run, not {type(pipeline).__name__}")
    if threads < 0:
        raise ValueError(f"threads wants a whole number of at least 0, not {threads}")
    compiled = None if pipeline is None else pipeline._compile()[0]
    return Replayed(*_core.replay(os.fspath(journal), compiled, threads))
