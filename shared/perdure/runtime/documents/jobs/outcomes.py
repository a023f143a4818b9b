"""Outcomes of jobs: errors spelled so that a store keeps them, and made into errors again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.errors import JobAborted, JobInterrupted, JobThrew
from perdure.kernel.documents.jobs.value import (
    TEXT_CHARACTERS_MAX,
    Aborted,
    Done,
    Failed,
    Outcome,
    Threw,
    WireError,
)
from perdure.kernel.errors import PerdureError, code_of
from perdure.kernel.shown import text_of

CANCELLED: Final = WireError("cancelled", "The function was cancelled from inside.")
"""Error of a function that was cancelled, and not by who runs it."""

DETAILS_BYTES_MAX = 4_096
"""Canonical bytes of an error's details; larger ones are left out."""


def threw(error: BaseException) -> Failed:
    """Return the outcome of a function that raised."""
    return Failed(Threw(wire_of(error)))


def wire_of(error: BaseException) -> WireError:
    """Spell an error: its code, or that of its class; its text; its ``details`` if they are JSON."""
    message = text_of(error)[:TEXT_CHARACTERS_MAX]
    if isinstance(error, JobThrew) and isinstance(error.error, WireError):
        return error.error
    if isinstance(error, PerdureError):
        cut = TEXT_CHARACTERS_MAX // 2
        details: Any = {"expected": error.expected[:cut], "found": error.found[:cut]}
        return WireError(error.code, message, _printable(details))
    code = getattr(error, "code", None)
    if not isinstance(code, str):
        code = code_of(type(error))
    return WireError(code[:64], message, _details(getattr(error, "details", None)))


def error_of(wire: WireError) -> PerdureError:
    """Return the error that was spelled: of its own class if that is one of ours."""
    kind = next((each for each in _kinds(PerdureError) if each.code == wire.code), None)
    details = wire.details if isinstance(wire.details, dict) else {}
    expected, found = details.get("expected"), details.get("found")
    if kind is not None and isinstance(expected, str) and isinstance(found, str):
        return kind(expected=expected, found=found)
    threw = JobThrew(expected="a result of the job", found=f"{wire.code}: {wire.message}")
    threw.error = wire
    return threw


def result_of(outcome: Outcome) -> Any:
    """Return the JSON of what a job came to.

    Raises: the error of its function if that is one of ours, else JobThrew; JobAborted,
    JobInterrupted.
    """
    if isinstance(outcome, Done):
        return outcome.result
    error = outcome.error
    if isinstance(error, Threw):
        raise error_of(error.error)
    expected = "a result of the job"
    if isinstance(error, Aborted):
        raise JobAborted(expected=expected, found=f"its end: {error.reason}")
    raise JobInterrupted(expected=expected, found=f"{error.restarts} processes that died at it")


def _details(given: Any) -> Any:
    try:
        spelled = canonical(given)
        # As a store gives them back: who asks again for the same outcome must be known by it.
        return strict(spelled) if len(spelled) <= DETAILS_BYTES_MAX else None
    except (TypeError, ValueError, RecursionError):
        return None


def _printable(details: dict[str, str]) -> dict[str, str]:
    return {name: text.encode(errors="backslashreplace").decode() for name, text in details.items()}


def _kinds(of: type[PerdureError]) -> Iterator[type[PerdureError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)
