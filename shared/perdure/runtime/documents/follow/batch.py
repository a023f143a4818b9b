"""Batches: what happens together is told together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Marked(Protocol):
    """Something whose value may have changed in a batch."""

    @property
    def depth(self) -> int:
        """How many computations lie between it and what is followed: the longest way counts."""
        ...

    def settle(self) -> None:
        """Tell of the change, and mark what is derived from it. Never raises."""
        ...


class Batch:
    """The batches of one host, one at a time, never across an ``await``.

    At the end of the outermost ``within``, each source that was marked settles once, those nearest
    to what is followed first: what is derived from several of them is computed once.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._marked: dict[Marked, None] = {}
        self._queue: deque[Callable[[], None]] = deque()
        self._is_due = False

    @property
    def is_running(self) -> bool:
        return self._depth > 0

    @contextmanager
    def within(self) -> Iterator[None]:
        """Join the batch that is running, or run one."""
        self._depth += 1
        try:
            yield
        finally:
            try:
                if self._depth == 1:
                    self._settle()
            finally:  # whatever raises, the next batch is one
                self._depth -= 1

    def mark(self, source: Marked) -> None:
        """Let a source settle at the end of the batch that is running."""
        assert self._depth, "only a batch has an end"
        self._marked[source] = None

    def call(self, apply: Callable[[], None]) -> None:
        """Apply something in order: now if a batch is running, else with the loop's next turn.

        What has waited is applied first. ``apply`` never raises.
        """
        self._queue.append(apply)
        if self._depth:
            self._apply()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        with self.within():
            self._apply()

    def _apply(self) -> None:
        while self._queue:
            self._queue.popleft()()

    def _settle(self) -> None:
        while self._marked:
            nearest = min(each.depth for each in self._marked)
            for source in [each for each in self._marked if each.depth == nearest]:
                del self._marked[source]
                source.settle()
