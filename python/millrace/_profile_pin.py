# SPDX-License-Identifier: Apache-2.0
"""How long a program's threads copy batches to pinned memory. Torch looks the function that does it up
for each batch; while any profile of a loader that pins is open, one that keeps time stands there."""
from __future__ import annotations

import sys
import threading
import time
from typing import Any

_lock = threading.Lock()
_spent: dict[threading.Thread, int] = {}  # nanoseconds
_inside = threading.local()
_users = 0
_original: Any = None
_standing: Any = None  # what keeps time


def _module() -> Any:
    return sys.modules["torch.utils.data._utils.pin_memory"]


def _timed(original: Any) -> Any:
    """One for each time that it is put there: somebody may still call an older one, through his own."""
    def pin_memory(*args: Any, **keywords: Any) -> Any:
        if getattr(_inside, "busy", False):  # it calls itself for parts of a batch: the outermost call counts
            return original(*args, **keywords)
        _inside.busy, begun = True, time.perf_counter_ns()
        try:
            return original(*args, **keywords)
        finally:
            _inside.busy = False
            thread = threading.current_thread()
            _spent[thread] = spent_by(thread) + time.perf_counter_ns() - begun
    return pin_memory


def spent_by(thread: threading.Thread | None) -> int:
    """By a thread, so far."""
    return 0 if thread is None else _spent.get(thread, 0)


def begin() -> None:
    """Keeps time from now on, until as many have called end()."""
    global _users, _original, _standing
    with _lock:
        _users += 1
        if _users == 1:
            _original = _module().pin_memory
            _standing = _module().pin_memory = _timed(_original)


def end() -> None:
    """What keeps time goes; unless somebody else has taken its place since, who may still call it."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _spent.clear()
            if _module().pin_memory is _standing:
                _module().pin_memory = _original
