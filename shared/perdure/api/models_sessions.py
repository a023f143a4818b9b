"""The words of sessions in the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from perdure.api.models import WAIT_SECONDS_MAX, Body, Paging, Query, Reply
from perdure.kernel import limits

FRAMES_DEFAULT: Final = 200
FRAMES_MAX: Final = 500
"""Frames of a page of a transcript."""

TRANSCRIPT_BYTES_DEFAULT: Final = 4 * 1_024 * 1_024
TRANSCRIPT_BYTES_MAX: Final = 4_400_000
"""Bytes of a page of a transcript: in base64 they fit a reply of 6 MB."""

Number = Annotated[int, Field(ge=0, le=limits.INTEGER_MAX)]


class CreateSession(Body):
    agent: str
    """Which agent of the application it is held with."""
    session_id: str | None = None
    ceiling_bytes: Annotated[
        int, Field(ge=2 * limits.CLOSE_OUT_BYTES, le=limits.JOURNAL_BYTES_MAX)
    ] = limits.JOURNAL_BYTES_MAX
    """Bytes that its journal may have, payloads included."""
    retained: bool = False
    """It is kept for good: what is refused for its size is refused for good."""
    evidence: bool = False
    """The facts of each run are written as rows of a private world, too."""


class Send(Body):
    """What is delivered. ``send_id`` may come as the header ``Idempotency-Key`` instead."""

    input: str
    delivery: str = "queue"
    """How it meets a run that goes on: `queue` waits for its end, `steer` joins it at its next
    step, `interrupt` ends it and comes next. An idle session begins a run with it."""
    send_id: str | None = None
    run_id: str | None = None
    """Id of the run that it begins; that of the send if not given."""
    overrides: dict[str, Any] | None = None
    """What a run that it begins does otherwise than the agent: `system`, `max_steps`, `options`."""
    title: Annotated[str, Field(max_length=limits.TITLE_CHARACTERS_MAX)] | None = None


class Steer(Body):
    """What joins the run that goes on, or begins one."""

    input: str
    send_id: str | None = None
    title: Annotated[str, Field(max_length=limits.TITLE_CHARACTERS_MAX)] | None = None


class Cancel(Body):
    run_id: str
    at: Literal["boundary", "now"] = "boundary"
    """After the calls that are under way, or without waiting for the model; calls that have left
    are waited for in both cases."""


class Approval(Body):
    decision: Literal["approved", "denied"]
    detail: Annotated[str, Field(max_length=limits.DETAIL_CHARACTERS_MAX)] | None = None
    """Of a denial it is what the model reads."""


class ListSessions(Paging):
    mine: bool = False
    """Only those that whoever asks has created."""


class Transcript(Query):
    after: Number = 0
    limit: Annotated[int, Field(ge=1, le=FRAMES_MAX)] = FRAMES_DEFAULT
    bytes: Annotated[int, Field(ge=1, le=TRANSCRIPT_BYTES_MAX)] = TRANSCRIPT_BYTES_DEFAULT
    """Size at which a page ends. A frame that is larger is a page of its own, whole."""
    lineage: str | None = None
    """That of the journal which was read before; of another it is refused."""


class Events(Query):
    after: Number = 0
    """The header `Last-Event-ID` goes before it."""
    lineage: str | None = None
    wait: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX, allow_inf_nan=False)] = 0
    """Seconds to wait for an event when there is none."""


RunState = Literal["idle", "active", "paused"]


class WaitingCall(Reply):
    call_key: str
    """The name to approve or deny it by."""
    tool_call_id: str
    tool: str
    requested_at: int


class Session(Reply):
    session_id: str
    agent: str
    owner: str | None
    """Who created it and alone may send to it; None for somebody trusted."""
    lineage: str
    """Identity of its journal."""
    created_at: int
    """Milliseconds since 1970."""
    run_state: RunState
    """`paused`: calls of the run wait for somebody's word."""
    run_id: str | None
    cancel: Literal["boundary", "now"] | None
    """That the present run shall end."""
    runs: int
    seq: int
    """The last frame of the journal."""
    bytes: int
    ceiling_bytes: int
    retained: bool
    evidence: bool
    lacks_evidence: bool
    """Rows of runs that have ended are not written yet."""
    queued: int
    """Sends that wait for the run to end."""
    epoch: int
    fence_held_until: int | None
    """End of the lease of whoever goes on with it; None if nobody does."""
    waiting_calls: list[WaitingCall]
    """Calls that wait for a word; told with one session, empty in a list of sessions."""


class Sessions(Reply):
    sessions: list[Session]
    next: str | None = None


class Standing(Reply):
    """Where a send, or a run, stands."""

    state: Literal["active", "paused", "pending", "retracted", "finished"]
    run_id: str
    send_id: str | None = None
    """What the send is called, also if it came without an id."""
    submission_id: str | None
    """Id by which a send that waits is taken back."""
    reason: Literal["completed", "max_steps", "cancelled", "error", "interrupted"] | None
    """Why the run has ended."""
    code: str | None
    """Of the error that ended it."""
    replayed: bool
    """It was known before, and nothing was done."""


class Approved(Reply):
    call_key: str
    decision: Literal["approved", "denied"]
    state: Literal["decided", "repeated"]
    waiting: int
    """Calls of the run that still wait for a word."""


class Frame(Reply):
    seq: int
    at: int
    type: str
    payload: Any
    fence: int
    requires: list[str]
    digest: str


class Gate(Reply):
    """Why nothing more is shown: a newer version wrote what must not be missed."""

    code: str
    seq: int
    """The frame that is not shown, nor any behind it."""
    ver: int
    features: list[str]


class TranscriptPage(Reply):
    session_id: str
    lineage: str
    seq: int
    """The last frame of the journal."""
    frames: list[Frame]
    next: int
    """The ``after`` of the next call."""
    more: bool
    """There are frames behind these that can be shown."""
    note: Gate | None = None
