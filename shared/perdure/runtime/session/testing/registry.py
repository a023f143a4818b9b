"""Named cases, what they are held to, and the harness that ends processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from perdure.runtime.session.testing.points import KILLS, KillPoint
from perdure.runtime.session.testing.story import SESSION

Mechanism = Literal["fault_hook", "fault_hook_then_process_kill", "process_signal"]
"""How a harness ends a process: an error that nothing catches; a signal that the process sends
itself where a hook says so; a signal from outside."""

Notes = Sequence[tuple[str, Any]]
"""What all processes noted, in order."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process came to its end at a kill point."""

    point: KillPoint
    process: int | None = None
    """Its id, if it was one of its own; it is gone, and was waited for."""

    signal: int | None = None


class Harness(Protocol):
    """Runs processes at the story, each on what the one before left."""

    @property
    def mechanism(self) -> Mechanism: ...

    async def spawn(self) -> None:
        """Make a place for one story, with nothing in it."""
        ...

    async def kill_at(self, point: KillPoint) -> Ended:
        """Let a process live the story until it reaches a point, and end it there.

        Raises AssertionError if it came to its end without.
        """
        ...

    async def restart(self) -> None:
        """Let a process live the story to its end."""
        ...

    def noted(self) -> Notes:
        """Return what the processes of this story noted."""
        ...


@dataclass(frozen=True, slots=True)
class Story:
    """What is left of a story whose processes ended at a point."""

    point: KillPoint
    notes: Notes

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The journal as the last process read it."""
        frames: list[dict[str, Any]] = self.all_of("transcript")[-1]["frames"]
        return frames

    def all_of(self, word: str) -> list[Any]:
        """Return what was noted with a word, in order."""
        return [body for noted, body in self.notes if noted == word]

    def facts(self, *types: str) -> list[dict[str, Any]]:
        """Return the payloads of some types, in order."""
        return [each["payload"] for each in self.frames if each["type"] in types]


Run = Callable[[Story], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One promise. Its name is the promise, in words. It raises AssertionError if it is broken."""

    name: str
    run: Run
    points: frozenset[KillPoint]
    """Where processes end for it to say something."""


CASES: Final[list[Case]] = []


def promise(*points: KillPoint) -> Callable[[Run], Run]:
    """Register a case for some points, or for all."""

    def registered(run: Run) -> Run:
        CASES.append(Case(run.__name__, run, frozenset(points or KillPoint)))
        return run

    return registered


async def lived(harness: Harness, point: KillPoint) -> Story:
    """Live one story with deaths that reach a point.

    Raises AssertionError if a process was not ended where and how the harness says.
    """
    await harness.spawn()
    for each in KILLS[point]:
        check_ended(harness.mechanism, each, await harness.kill_at(each))
    await harness.restart()
    story = Story(point, harness.noted())
    assert story.all_of("transcript"), f"the last process never read session {SESSION!r}"
    return story


def check_ended(mechanism: Mechanism, point: KillPoint, ended: Ended) -> None:
    """Hold a harness that declares real kills to having ended a real process."""
    assert ended.point is point, f"expected an end at {point}, found {ended.point}"
    if mechanism == "fault_hook":
        return
    assert ended.process is not None, f"{mechanism} must end a process, and ended none"
    assert ended.process != os.getpid(), "a process that was ended does not look on"
    assert ended.signal is not None, f"process {ended.process} ended by itself"
    assert _is_gone(ended.process), f"process {ended.process} lives"


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # somebody else's
        pass
    return False
