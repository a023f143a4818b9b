"""What is kept of a job: its record while it lives, its end, and how it came to that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.documents.content import Content, base
from perdure.kernel.errors import Corrupt, InvalidValue, TooLarge
from perdure.kernel.ids import DocumentId, Epoch, Holder, Instant
from perdure.kernel.limits import LEASE_MS_MAX
from perdure.kernel.places import MINUTE_MS

Phase = Literal["pending", "running", "stopped", "finishing", "blocked"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)

Resume = Literal["rerun", "abandon"]
"""What becomes of a job whose process is gone: it runs again from its top, or it has failed."""

Blocked = Literal["finish_failed", "version"]

RESTARTS_MAX: Final = 5
"""Processes that may die at a job without a change of its state; the last of them ends it."""

FINISH_FAILURES_MAX: Final = 5
"""Failures of a job's finish, after which nobody tries it any more. A process that dies in it has
failed it, too."""

FINISH_BACKOFF_MS: Final = 1_000
"""Pause after the first failure of a finish; each one after it is twice as long."""

VALUE_BYTES_MAX: Final = 262_144
"""Canonical bytes of a job's arguments or result. Source: 256 KiB, the payload of an asynchronous
Lambda call; every change of a job's phase writes both."""

TEXT_CHARACTERS_MAX: Final = 2_000
"""Characters of a reason or of an error's message."""

RESTART: Final = "restart"
"""Reason of the end of a job that is not to be run again and whose process is gone."""

FORMAT: Final = 1
"""Version that the documents of jobs are written with."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WireError:
    """An error as it is stored: what its class and its instance say, and no code."""

    code: str
    message: str
    details: Any = None


FINISH_INTERRUPTED: Final = WireError(
    "finish_interrupted", "The process that was at the finish is gone, and did not say how it went."
)
"""Error of a finish whose process did not give the job back."""


@dataclass(frozen=True, slots=True)
class Threw:
    """The function raised."""

    error: WireError
    kind: Literal["threw"] = "threw"


@dataclass(frozen=True, slots=True)
class Aborted:
    """Somebody asked for its end, or its process is gone and it is not to be run again."""

    reason: str
    kind: Literal["aborted"] = "aborted"


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """Its processes died, time after time."""

    restarts: int
    kind: Literal["restart_limit"] = "restart_limit"


@dataclass(frozen=True, slots=True)
class Done:
    """It came to a result, which is JSON."""

    result: Any
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Failed:
    """It came to none."""

    error: Threw | Aborted | RestartLimit = field(metadata={"discriminator": "kind"})
    kind: Literal["failed"] = "failed"


Outcome = Done | Failed


@dataclass(frozen=True, slots=True)
class JobClaim:
    """Who works on a job and until when; given back, nobody's. The epoch only ever grows."""

    epoch: Epoch
    holder: Holder | None
    until: Instant

    def is_held(self, now: Instant) -> bool:
        """Say whether somebody works on it, as far as anybody knows.

        An ``until`` further ahead than any lease was written by a wrong clock.
        """
        return self.holder is not None and now < self.until <= now + LEASE_MS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job that has not ended."""

    version: int
    """Version of its declaration."""

    fingerprint: str
    """Digest of the shapes of its arguments, result and state."""

    args: Any
    digest: str
    """What it was started with: the same id with another digest is a conflict."""

    key: str | None = None
    """What its caller says that it is about."""

    trace: str | None = None
    created_at: Instant
    due_at: Instant
    """Not before then anybody goes on with it."""

    phase: Phase = "pending"
    restarts: int = 0
    finish_failures: int = 0
    finish_error: WireError | None = None
    """Why its finish failed last."""

    abort: str | None = None
    """Why somebody wants its end."""

    blocked: Blocked | None = None
    outcome: Done | Failed | None = None
    claim: JobClaim = JobClaim(Epoch(0), None, Instant(0))
    interrupted_at: Epoch | None = None
    """Of the claim that found its processes to have died too often."""

    state: DocumentId | None = None
    """The document of its state, if it has any."""

    hint: int | None = None
    """Minute in which the hint lies by which it is found: where that is, its store says."""

    def wakes_at(self, now: Instant) -> Instant | None:
        """Return when somebody must look at it: at the end of its claim, or when it is due.

        A claim that a wrong clock wrote is waited for by nobody.
        """
        if self.phase == "blocked":
            return None
        is_waited_for = self.claim.holder is not None and self.claim.until <= now + LEASE_MS_MAX
        return self.claim.until if is_waited_for else self.due_at

    @property
    def content(self) -> Content:
        """Spell it as a document's content. Raises TooLarge."""
        return base(FORMAT, _RECORD.dump_python(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """What is kept of a job that has ended: it is not run again, and its outcome can be read."""

    digest: str
    outcome: Done | Failed
    restarts: int
    epoch: Epoch
    """Of the claim under which it ended."""

    ended_at: Instant

    @property
    def content(self) -> Content:
        """Spell it as a document's content. Raises TooLarge."""
        return base(FORMAT, _END.dump_python(self))


_RECORD: Final = TypeAdapter(JobRecord)
_END: Final = TypeAdapter(JobEnd)


def record_of(told: Any, what: str) -> JobRecord:
    """Read a job's record. Raises Corrupt."""
    return _read(_RECORD, told, what)


def end_of(told: Any, what: str) -> JobEnd:
    """Read a job's end. Raises Corrupt."""
    return _read(_END, told, what)


def _read(of: TypeAdapter[T], told: Any, what: str) -> T:
    try:
        return of.validate_python(told)
    except ValidationError as error:
        raise Corrupt(expected=what, found=str(error).splitlines()[0]) from error


def start_digest(name: str, args: Any, key: str | None) -> str:
    """Digest what a job is started with."""
    return digest("perdure.job.v1", canonical([name, args, key]))


def check_value(value: Any, what: str) -> None:
    """Refuse arguments or a result that cannot be kept. Raises InvalidValue, TooLarge."""
    try:
        size = len(canonical(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(expected=f"{what} of JSON", found=type(error).__name__) from error
    if size > VALUE_BYTES_MAX:
        raise TooLarge(expected=f"{what} of at most {VALUE_BYTES_MAX} bytes", found=str(size))


def backoff_ms(failures: int) -> int:
    """Return how long nobody tries a finish again that has failed so often."""
    return FINISH_BACKOFF_MS << (failures - 1)


def minute_of(at: Instant) -> int:
    """Return the minute of a moment, as hints are sorted by."""
    return at // MINUTE_MS
