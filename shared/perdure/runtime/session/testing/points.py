"""Kill points: where a process at a session is ended, seen by the commits and calls it makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from perdure.authority.packing import unpacked
from perdure.authority.store import Store
from perdure.kernel.commit import Commit, Put
from perdure.kernel.session.frames import Entry, Frame
from perdure.kernel.view import Reads, View

T = TypeVar("T")


class KillPoint(StrEnum):
    """What is durable, or has happened, when the process ends; nobody was told of it."""

    ADMITTED = "Admitted"
    """A send has begun a run."""

    SEND_RECORDED = "SendRecorded"
    """A send waits for the run before it."""

    STEP_RECORDED = "StepRecorded"
    """A model's message that asks for calls."""

    DISPATCH_INTENT = "DispatchIntent"
    """The plan of the calls, with their intents; none has left."""

    DISPATCHED = "Dispatched"
    """An effectful call had its effect, and no result."""

    TOOL_RESULT_RECORDED = "ToolResultRecorded"
    """A result of a call."""

    CLOSE_OUT = "CloseOut"
    """The first of the two barriers that end a run with an unknown outcome."""

    NATURAL_END = "NaturalEnd"
    """A model's message that asks for nothing; not yet the end of its run."""

    TERMINAL = "Terminal"
    """The end of a run."""


KILLS: Final[dict[KillPoint, tuple[KillPoint, ...]]] = {
    point: (point,) for point in KillPoint if point is not KillPoint.CLOSE_OUT
} | {KillPoint.CLOSE_OUT: (KillPoint.DISPATCHED, KillPoint.CLOSE_OUT)}
"""Where one process after the other ends so that each point is reached; the last one lives."""


def point_of(entry: Entry) -> KillPoint | None:
    """Return the point that a commit to a journal is, if it is one."""
    by_type = {frame.type: frame for frame in entry.frames}
    for kind, point in _BY_TYPE.items():
        if kind in by_type:
            return point
    results = [each for each in entry.frames if each.type == "tool_result"]
    if any(_of(each, "outcome") == "unknown" for each in results):
        return KillPoint.CLOSE_OUT
    if results:
        return KillPoint.TOOL_RESULT_RECORDED
    spoken = by_type.get("model_step_finished")
    if spoken is None:
        return None
    message = _of(spoken, "assistant_message")
    return KillPoint.STEP_RECORDED if message["calls"] else KillPoint.NATURAL_END


_BY_TYPE: Final = {
    "run_finished": KillPoint.TERMINAL,
    "queued": KillPoint.SEND_RECORDED,
    "tool_dispatch_intent": KillPoint.DISPATCH_INTENT,
    "run_started": KillPoint.ADMITTED,
}


def _of(frame: Frame, name: str) -> Any:
    assert frame.payload is not None, "the story writes nothing that needs an object"
    return frame.payload[name]


@dataclass
class Doom:
    """The end of a process at its first reach of a point; without a point it lives."""

    point: KillPoint | None
    end: Callable[[], NoReturn]
    """Ends the process, or raises what nothing in it catches."""

    is_dead: bool = field(default=False, init=False)

    def reach(self, point: KillPoint | None) -> None:
        """End the process if this is where it ends."""
        if point is not None and point is self.point:
            self.is_dead = True
            self.end()

    def check_alive(self) -> None:
        """Do nothing more in the name of a process that is dead."""
        if self.is_dead:
            self.end()


class DoomedStore:
    """A store whose process ends at a commit: it is durable, and its process hears nothing."""

    def __init__(self, store: Store, doom: Doom, landed: Callable[[Entry], None]) -> None:
        self._store, self._doom, self._landed = store, doom, landed

    async def load(self, reads: Reads) -> View:
        return await self._alive(lambda: self._store.load(reads))

    async def commit(self, commit: Commit) -> None:
        await self._alive(lambda: self._store.commit(commit))
        for entry in entries_in(commit):
            self._landed(entry)
            self._doom.reach(point_of(entry))

    async def close(self) -> None:
        await self._store.close()

    async def _alive(self, act: Callable[[], Awaitable[T]]) -> T:
        self._doom.check_alive()
        return await act()


def entries_in(commit: Commit) -> list[Entry]:
    """Return what a commit adds to journals."""
    puts = [each for each in commit.actions if isinstance(each, Put)]
    return [_entry(each) for each in puts if each.key.of is Entry]


def _entry(put: Put) -> Entry:
    body = unpacked(put.body)
    assert isinstance(body, bytes), "the story writes nothing that needs chunks"
    return Entry.read(put.key.partition, put.key.sort, body)
