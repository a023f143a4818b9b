"""Outcomes of jobs: errors spelled so that a store keeps them, and made into errors again."""

from __future__ import annotations

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
from perdure.kernel.errors import PerdureError, code_of, kinds_of
from perdure.kernel.shown import text_of

CANCELLED: Final = WireError("cancelled", "The function was cancelled from inside.")
"""Error of a function that was cancelled, and not by who runs it."""

CODE_CHARACTERS_MAX: Final = 64

DETAILS_BYTES_MAX = 4_096
"""Canonical bytes of an error's details; larger ones are left out."""


def threw(error: BaseException) -> Failed:
    """Return the outcome of a function that raised."""
    return Failed(Threw(wire_of(error)))


def wire_of(error: BaseException) -> WireError:
    """Spell an error: its code, or that of its class; its text; its ``details`` if they are JSON.

    Whatever it is: one whose own code fails while it is spelled is told of by its class.
    """
    if isinstance(error, JobThrew) and isinstance(error.error, WireError):
        return error.error
    try:
        return _wire_of(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # it has failed once already; its class must do
        return WireError(code_of(type(error))[:CODE_CHARACTERS_MAX], type(error).__name__)


def _wire_of(error: BaseException) -> WireError:
    message = text_of(error)[:TEXT_CHARACTERS_MAX]
    code = _attribute(error, "code")
    if not isinstance(code, str):
        code = code_of(type(error))
    details = _details(_attribute(error, "details"))
    if isinstance(error, PerdureError):
        halves = {name: _attribute(error, name) for name in ("expected", "found")}
        if all(isinstance(half, str) for half in halves.values()):
            cut = TEXT_CHARACTERS_MAX // 2
            details = _printable({name: half[:cut] for name, half in halves.items()})
    return WireError(code[:CODE_CHARACTERS_MAX], message, details)


def _attribute(error: BaseException, name: str) -> Any:
    """Return what an error says beside its text, None if it says nothing or fails to."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001  # whoever raised it is not to be trusted
        return None


def error_of(wire: WireError) -> PerdureError:
    """Return the error that was spelled: of its own class if that is one of ours."""
    kind = next((each for each in kinds_of(PerdureError) if each.code == wire.code), None)
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
    except Exception:  # noqa: BLE001  # no JSON, or something of theirs that fails when looked at
        return None


def _printable(details: dict[str, str]) -> dict[str, str]:
    return {name: text.encode(errors="backslashreplace").decode() for name, text in details.items()}
