"""Sources: values that change in batches, what is derived from them, and who watches."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.ops import patched
from perdure.kernel.ids import Seq
from perdure.runtime.documents.follow.batch import Batch

PENDING_FRAMES_MAX: Final = 100
"""Frames that wait for one reader: one more makes all of them one. Source: Durable's watches."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One change of a value: operations that lead to it from the frame before, and the value.

    Values share their parts with one another: whoever changes one, copies it first.
    """

    ops: Sequence[Any]
    value: Any
    seq: Seq | None = None
    """The last commit that is in it, if commits are what it follows."""


class Watch:
    """The frames of one source, for one reader: ``async for frame in watch``.

    ``value`` is what the source was when the watch opened, then what the last frame read came to.
    """

    def __init__(self, source: Source) -> None:
        self.value = source.value
        self._source = source
        self._pending: deque[Frame] = deque()
        self._waits: asyncio.Future[None] | None = None
        self._is_over = source.has_ended

    @property
    def pending(self) -> int:
        """Frames that wait to be read."""
        return len(self._pending)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Frame:
        while not self._pending:
            if self._is_over:
                raise StopAsyncIteration
            self._waits = asyncio.get_running_loop().create_future()
            self._source.awaited.add(self)
            try:
                await self._waits
            finally:
                self._waits = None
                self._source.awaited.discard(self)
        frame = self._pending.popleft()
        self.value = frame.value
        return frame

    def stop(self) -> None:
        """End it at once: what waits is dropped."""
        self._pending.clear()
        self.end()

    def end(self) -> None:
        """Let it end behind the frames that wait."""
        self._is_over = True
        self._wake()

    def push(self, frame: Frame) -> None:
        """Add a frame; too many become one that replaces all."""
        if self._is_over:
            return
        if len(self._pending) >= PENDING_FRAMES_MAX:
            self._pending.clear()
            frame = Frame((["r", frame.value],), frame.value, frame.seq)
        self._pending.append(frame)
        self._wake()

    def _wake(self) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)


class Source:
    """A value that changes in the batches of a host. It holds nobody who watches or derives."""

    depth = 0

    def __init__(self, batch: Batch, value: Any = None) -> None:
        self.batch = batch
        self.value = value
        self.has_ended = False
        self.awaited: set[Watch] = set()
        """Watches whose reader waits: nothing else may hold those."""
        self._ops: list[Any] = []
        self._seq: Seq | None = None
        self._numbers = itertools.count()
        self._watches: weakref.WeakValueDictionary[int, Watch] = weakref.WeakValueDictionary()
        self._derived: weakref.WeakValueDictionary[int, Derived] = weakref.WeakValueDictionary()

    def watch(self) -> Watch:
        """Open a watch at the present value. Of a source that has ended it ends at once."""
        watch = Watch(self)
        if not self.has_ended:
            self._watches[next(self._numbers)] = watch
        return watch

    def change(self, ops: Sequence[Any], seq: Seq | None = None) -> None:
        """Apply checked operations within the batch that runs. Raises DeltaDoesNotApply."""
        if self.has_ended or not ops:
            return
        self.value = patched(self.value, ops)
        self._ops += ops
        self._seq = seq
        self.batch.mark(self)

    def begin(self, value: Any, seq: Seq | None = None) -> None:
        """Be ``value`` from now on, within the batch that runs; nothing if it is that already."""
        if not same(value, self.value):
            self.change([["r", value]], seq)

    def end(self) -> None:
        """Change no more. Watches end behind what they have been told; the value stays."""
        if self.has_ended:
            return
        self.settle()
        self.has_ended = True
        for watch in list(self._watches.values()):
            watch.end()
        for derived in list(self._derived.values()):
            derived.input_ended()
        self._watches.clear()
        self._derived.clear()

    def settle(self) -> None:
        if not self._ops:
            return
        frame = Frame(tuple(self._ops), self.value, self._seq)
        self._ops.clear()
        for watch in list(self._watches.values()):
            watch.push(frame)
        for derived in list(self._derived.values()):
            derived.input_changed(self._seq)

    def feeds(self, derived: Derived) -> None:
        """Let something derived from this be marked when this changes."""
        if not self.has_ended:
            self._derived[next(self._numbers)] = derived


class Derived(Source):
    """What a function makes of other sources, computed once in a batch that changes any of them."""

    def __init__(
        self,
        batch: Batch,
        compute: Callable[..., Any],
        inputs: Sequence[Source],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(batch)
        self.depth = 1 + max((each.depth for each in inputs), default=0)
        self._compute = compute
        self._inputs = tuple(inputs)
        self._failed = failed
        self._is_due = False
        for each in inputs:
            each.feeds(self)

    def input_changed(self, seq: Seq | None) -> None:
        """Compute at the end of the batch that runs."""
        self._is_due = True
        self._seq = seq
        self.batch.mark(self)

    def input_ended(self) -> None:
        if all(each.has_ended for each in self._inputs):
            with self.batch.within():
                self.batch.call(self.end)

    def settle(self) -> None:
        if not self._is_due:
            return
        self._is_due = False
        try:
            value = self._compute(*(each.value for each in self._inputs))
            is_same = same(value, self.value)
        except Exception as error:  # noqa: BLE001  # function and value are the caller's own
            self._failed(error)
            return
        if not is_same:
            self.value = value
            self._ops.append(["r", value])
            super().settle()


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same JSON: 1 is not True, though Python has them equal."""
    if one is other:
        return True
    if one != other:
        return False
    try:
        return canonical(one) == canonical(other)
    except (TypeError, ValueError):
        return True  # no JSON: equal is all that can be said
