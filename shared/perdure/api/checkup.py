"""Checkup: checks that each find something out about an installation, and say what to do.

A check changes nothing, unless its name says so. None is waited for longer than it may take,
whatever it hangs on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from perdure.kernel.errors import PerdureError, StoreRefused, Unavailable
from perdure.kernel.shown import text_of

Level = Literal["ok", "warn", "fail", "skip"]

CHECK_SECONDS: Final = 6.0
"""What one check may take. Its requests give up sooner, and say of what."""

MEND: Final = (
    "mend what the message names: give the permission, get new credentials, or deploy what is gone"
)
"""What to do about a store that refuses, whatever the check was about."""

HIDDEN: Final = "[hidden]"
SECRET_CHARACTERS_MIN: Final = 4
"""What is shorter is no secret, and would be found in every second word."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; where it is not well, also what to do."""

    level: Level
    found: str
    remedy: str = ""
    may_pass: bool = False
    """Nothing answered, or not in time: the same check may find it well later."""
    check: str = ""

    def __post_init__(self) -> None:
        assert bool(self.remedy) == (self.level in {"warn", "fail"}), (
            "a remedy for what is not well"
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One question under a stable name."""

    name: str
    ask: Callable[[], Iterable[Finding]]
    remedy: str
    """What to do when it fails in a way that nobody foresaw."""
    after: tuple[str, ...] = ()
    """Checks without whose success there is nothing to ask."""
    seconds: float = CHECK_SECONDS


def ok(found: str) -> Finding:
    return Finding("ok", found)


def warn(found: str, remedy: str) -> Finding:
    return Finding("warn", found, remedy)


def fail(found: str, remedy: str, *, may_pass: bool = False) -> Finding:
    return Finding("fail", found, remedy, may_pass=may_pass)


def skip(why: str) -> Finding:
    return Finding("skip", why)


def refused(error: PerdureError, remedy: str) -> Finding:
    """Return what an error of ours means for a check."""
    found = f"{error.code}: expected {error.expected}, found {error.found}"
    if isinstance(error, StoreRefused):
        return fail(found, MEND)
    return fail(found, remedy, may_pass=isinstance(error, Unavailable))


def run_checks(checks: Sequence[Check], *, secrets: Iterable[str] = ()) -> list[Finding]:
    """Run checks side by side, each when those before it went well; findings in their order.

    ``secrets`` are in none of them, wherever they came from.
    """
    hidden = sorted({each for each in secrets if len(each) >= SECRET_CHARACTERS_MIN}, key=len)
    told: dict[str, list[Finding]] = {}
    while len(told) < len(checks):
        ready = [
            check
            for check in checks
            if check.name not in told and all(each in told for each in check.after)
        ]
        assert ready, "checks that wait for each other"
        for check, found in _side_by_side(ready, told):
            told[check.name] = [_scrubbed(each, check.name, hidden[::-1]) for each in found]
    return [finding for check in checks for finding in told[check.name]]


def failed(findings: Iterable[Finding]) -> list[Finding]:
    return [each for each in findings if each.level == "fail"]


@dataclass(slots=True)
class _Asked:
    """A check that runs in a thread which nobody need wait for."""

    check: Check
    found: list[Finding] | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=self.check.name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = list(self.check.ask())
        except PerdureError as error:
            self.found = [refused(error, self.check.remedy)]
        except Exception as error:  # noqa: BLE001  # whatever it is, it was found out
            self.found = [fail(f"{type(error).__name__}: {text_of(error)}", self.check.remedy)]

    def answer(self, seconds: float) -> list[Finding]:
        self.thread.join(max(0.0, seconds))
        if self.found is not None:
            return self.found
        late = f"no answer within {self.check.seconds:g} s"
        return [fail(late, self.check.remedy, may_pass=True)]


def _side_by_side(
    checks: Sequence[Check], told: dict[str, list[Finding]]
) -> Iterator[tuple[Check, list[Finding]]]:
    lacking = {check.name: _lacking(check, told) for check in checks}
    asked = [_Asked(check) for check in checks if lacking[check.name] is None]
    for check in checks:
        missing = lacking[check.name]
        if missing is not None:
            yield check, [skip(f"not asked: it takes {missing} to be well")]
    began = time.monotonic()  # all of them: what one is waited for, the others have as well
    for each in sorted(asked, key=lambda one: one.check.seconds):
        yield each.check, each.answer(each.check.seconds - (time.monotonic() - began))


def _lacking(check: Check, told: dict[str, list[Finding]]) -> str | None:
    return next(
        (
            name
            for name in check.after
            if any(found.level in {"fail", "skip"} for found in told[name])
        ),
        None,
    )


def _scrubbed(finding: Finding, name: str, secrets: Sequence[str]) -> Finding:
    return replace(
        finding,
        check=name,
        found=_without(finding.found, secrets),
        remedy=_without(finding.remedy, secrets),
    )


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return " ".join(text.split())
