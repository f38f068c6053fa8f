# SPDX-License-Identifier: Apache-2.0
"""A function of items in threads: results come in the order of the items, whichever is ready first."""
from __future__ import annotations

import collections
import concurrent.futures
from typing import Any, Callable, Iterable, Iterator


class Ahead:
    """Iterates over work(item). While one result is used, later ones are made in `threads` threads, at most MOST;
    beside the one in use, one item or result more than there are threads is held. Items are asked for by the
    thread that iterates; an error of theirs is raised where the item would have come."""

    MOST = 8  # threads, whatever the number of CPUs: with them grows what is held

    def __init__(self, work: Callable[[Any], Any], items: Iterable[Any], threads: int) -> None:
        threads = min(threads, self.MOST)
        self._work, self._items, self._threads = work, iter(items), threads
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "millrace-ahead")
        self._waiting: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
        self._over = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while not self._over and len(self._waiting) <= self._threads:
            self._begin_one()
        if not self._waiting:
            self.close()
            raise StopIteration
        return self._waiting.popleft().result()

    def _begin_one(self) -> None:
        try:
            self._waiting.append(self._pool.submit(self._work, next(self._items)))
        except StopIteration:
            self._over = True
        except Exception as error:
            failed: concurrent.futures.Future[Any] = concurrent.futures.Future()
            failed.set_exception(error)
            self._waiting.append(failed)
            self._over = True

    def close(self) -> None:
        """Begins no more; what runs, ends."""
        self._over = True
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Waits for what runs, after close()."""
        self._pool.shutdown(wait=True)
