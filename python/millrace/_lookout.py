# SPDX-License-Identifier: Apache-2.0
"""Whether a call holds the lock of the interpreter: a thread that wants it again and again, and notes
when it had it. While the call computes outside of the lock or sleeps, the thread gets it at once; while
the call holds it, only after the time slice of a thread."""
import os
import threading
import time

_NAP = 20e-6        # seconds
_AT_ONCE = 200_000  # nanoseconds: what a nap takes where nobody is in the way
_MOST = 3 / 4       # of a call's time


class Lookout:
    """For `with`, around calls of watch(). Where `wanted` is false or there is one CPU it only calls."""

    def __init__(self, wanted):
        self._wanted = wanted and (os.cpu_count() or 1) > 1
        self._times, self._ended, self._holds = [], False, False

    def __enter__(self):
        if self._wanted:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended = True
        if self._wanted:
            self._thread.join()

    def _look(self):
        while not self._ended:
            time.sleep(_NAP)
            self._times.append(time.perf_counter_ns())

    def watch(self, call, *arguments):
        """What the call returns."""
        began, cpu = time.perf_counter_ns(), time.thread_time_ns()
        result = call(*arguments)
        cpu, ended = time.thread_time_ns() - cpu, time.perf_counter_ns()
        self._holds = held_most(began, self._times, ended, cpu)
        self._times.clear()
        return result

    def holds(self):
        """Whether the last call computed for long, and held the lock for most of its time."""
        return self._wanted and self._holds


def held_most(began, times, ended, cpu):
    """Whether a call of so much CPU time computed, and the other thread, which ran at `times`, had to
    wait for it most of the time, each time for longer than a nap takes. All in nanoseconds."""
    ends = [began, *(at for at in times if began < at < ended), ended]
    held = sum(b - a for a, b in zip(ends, ends[1:]) if b - a > _AT_ONCE)
    return cpu * 2 > ended - began and held > _MOST * (ended - began)
