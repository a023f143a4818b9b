"""Histories: what each process asked of a storage and was told, with times, as lines of JSON.

A line is written before a request is sent and another when its answer is there. Of a process
that was killed there may be a request without an answer, and half a line.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from perdure.kernel.errors import OutcomeUnknown, PerdureError, Refused

T = TypeVar("T")

Outcome = Literal["answered", "refused", "undone", "unknown"]
"""``refused``: the state machine said no. ``undone``: unavailable, and said not to have
happened. ``unknown``: nobody heard whether it happened."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of one process. Times are of the machine's monotonic clock."""

    process: str
    number: int
    what: str
    asked: dict[str, Any]
    invoked_ns: int
    returned_ns: int | None = None
    outcome: Outcome = "unknown"
    answer: Any = None
    code: str | None = None

    @property
    def world(self) -> str:
        """The world that was asked."""
        world: str = self.asked["world"]
        return world

    @property
    def is_answered(self) -> bool:
        return self.outcome == "answered"

    def __str__(self) -> str:
        told = self.answer if self.is_answered else self.code or ""
        return f"{self.process}#{self.number} {self.what} {self.asked} {self.outcome} {told}"


class Recorder:
    """Writes the history of one process; what was written outlives its process."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._number = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def call(
        self, what: str, asked: dict[str, Any], work: Awaitable[T], told: Callable[[T], Any]
    ) -> T | None:
        """Await ``work`` and write down what came of it; None if it had no answer.

        ``told`` spells the answer as JSON. An error that is none of Perdure's own goes on, and
        the call stays without an answer.
        """
        self._number += 1
        line = {"process": self._process, "number": self._number}
        self._write({**line, "what": what, "asked": asked, "at_ns": time.monotonic_ns()})
        answer: T | None = None
        outcome: dict[str, Any]
        try:
            answer = await work
        except PerdureError as error:
            at_ns = time.monotonic_ns()
            outcome = {"outcome": outcome_of(error), "code": error.code}
        else:
            at_ns = time.monotonic_ns()
            outcome = {"outcome": "answered", "answer": told(answer)}
        self._write({**line, **outcome, "at_ns": at_ns})
        return answer

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: dict[str, Any]) -> None:
        # One write to a file opened for appending: a kill leaves a whole line or a torn last one.
        os.write(self._file, json.dumps(line).encode() + b"\n")


def outcome_of(error: PerdureError) -> Outcome:
    """Say what an error claims to have come of a request."""
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    return "refused" if isinstance(error, Refused) else "undone"


def read_history(paths: Iterable[Path]) -> list[Call]:
    """Return the calls of all processes, in the order in which they were made."""
    calls: dict[tuple[str, int], Call] = {}
    for path in paths:
        for line in _lines(path):
            place = (line["process"], line["number"])
            if "what" in line:
                calls[place] = Call(*place, line["what"], line["asked"], line["at_ns"])
            else:
                calls[place] = _heard(calls[place], line)
    return sorted(calls.values(), key=lambda call: call.invoked_ns)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # else its process was killed in the middle of it
            yield json.loads(line)


def _heard(call: Call, line: dict[str, Any]) -> Call:
    outcome: Outcome = line["outcome"]
    # What nobody heard of may happen at any time from its request on.
    returned_ns = None if outcome == "unknown" else line["at_ns"]
    return replace(
        call,
        returned_ns=returned_ns,
        outcome=outcome,
        answer=line.get("answer"),
        code=line.get("code"),
    )
