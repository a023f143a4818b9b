"""Facts: what a frame of a journal says happened, one class for each type of record.

A field that may be left out is left out of the payload at None, so that a later version can add
fields without changing what earlier ones have written.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import AgentRunId, CallBatchId, CallKey, Lineage, SendId, SessionId, StepId
from perdure.kernel.session.config import RunConfig, Scope
from perdure.kernel.session.features import (
    CANCEL_V1,
    MANIFEST_V1,
    MODULE_V1,
    SCOPE_V1,
    STEER_V1,
)
from perdure.kernel.session.messages import (
    AssistantMessage,
    Attempt,
    Effect,
    Outcome,
    Usage,
)
from perdure.kernel.shown import shown

Delivery = Literal["queue", "steer", "interrupt"]
CancelAt = Literal["boundary", "now"]
Reason = Literal["completed", "max_steps", "cancelled", "error", "interrupted"]
Decided = Literal["approved", "denied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Base of what frames say."""

    type: ClassVar[str]
    features: ClassVar[tuple[str, ...]] = ()

    @property
    def requires(self) -> tuple[str, ...]:
        """Features that a reader must know, or else not read on."""
        return self.features

    def payload(self) -> dict[str, Any]:
        """Return the fields as JSON, without those left out."""
        dumped: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json")
        optional = {each.name for each in dataclasses.fields(self) if each.default is None}
        return {
            name: value
            for name, value in dumped.items()
            if value is not None or name not in optional
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBegun(Fact):
    """The identity of the journal: its first frame."""

    type = "journal_begun"
    lineage: Lineage
    session_id: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Fact):
    """A run began: its configuration and input in one record, so that neither is there alone."""

    type = "run_started"
    run_id: AgentRunId
    session_id: SessionId
    config: RunConfig
    input: str
    scope: Scope | None = None
    manifest: dict[str, Any] | None = None
    """Read, never written."""

    submission_id: SendId | None = None
    """The queued send that it came from."""

    @property
    def requires(self) -> tuple[str, ...]:
        return (
            *((SCOPE_V1,) if self.scope is not None else ()),
            *((MANIFEST_V1,) if self.manifest is not None else ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Fact):
    """A model is about to be asked; what was steered before this is in its prompt."""

    type = "step_started"
    step_id: StepId
    episode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAttemptFinished(Fact):
    """One request to a model's provider ended. Informational."""

    type = "model_attempt_finished"
    step_id: StepId
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepFinished(Fact):
    """A model's whole message."""

    type = "model_step_finished"
    step_id: StepId
    assistant_message: AssistantMessage
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """What is to become of one call, decided before any of its batch is sent."""

    tool_call_id: str
    name: str
    call_key: CallKey
    disposition: Literal["dispatchable", "no_dispatch"]
    effect: Effect
    reason: str | None = None
    """Why it is not dispatched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBatchStarted(Fact):
    """The plan of all calls of a step, in the order in which the model named them."""

    type = "tool_batch_started"
    batch_id: CallBatchId
    step_id: StepId
    planned_calls: tuple[PlannedCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPin:
    """What the tool was when the call was let go."""

    schema_digest: str
    semantics: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDispatchIntent(Fact):
    """A call may leave from now on, and so may have happened."""

    type = "tool_dispatch_intent"
    batch_id: CallBatchId
    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    module_id: str | None = None
    schema_pin: SchemaPin | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        is_plain = self.module_id is None and self.schema_pin is None
        return () if is_plain else (MODULE_V1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNoDispatch(Fact):
    """A call was not sent and never will be."""

    type = "tool_no_dispatch"
    batch_id: CallBatchId
    tool_call_id: str
    reason: str
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Fact):
    """How a planned call ended."""

    type = "tool_result"
    batch_id: CallBatchId
    tool_call_id: str
    outcome: Outcome
    output: Any
    is_error: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBatchFinished(Fact):
    """Every planned call has exactly one end."""

    type = "tool_batch_finished"
    batch_id: CallBatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(Fact):
    """A step and its batch are over."""

    type = "turn_finished"
    step_id: StepId


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a resume rebuilt without calling anybody."""

    messages: int
    model_steps: int
    tool_results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeStarted(Fact):
    """Another process goes on with a run. Informational."""

    type = "resume_started"
    episode: int
    resumed_from_seq: int
    replayed: Replayed
    redone: tuple[str, ...] = ()
    """Ids of steps and calls that are done again."""

    indeterminate: tuple[str, ...] = ()
    """Call keys of calls that may have happened, and are not sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """What a queued send asks for."""

    run_id: AgentRunId
    input: str
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    scope: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Fact):
    """A send waits for the run before it to end."""

    type = "queued"
    submission_id: SendId
    request: QueuedRequest
    title: str | None = None
    delivery: Literal["interrupt"] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        return () if self.request.scope is None else (SCOPE_V1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retracted(Fact):
    """A queued send was taken back."""

    type = "retracted"
    submission_id: SendId


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered(Fact):
    """A message for the running run: it joins the prompt at the next step, or at the run's end."""

    type = "steered"
    features: ClassVar[tuple[str, ...]] = (STEER_V1,)
    send_id: SendId
    request_identity_digest: str
    input: str
    delivery: Literal["steer"] = "steer"
    title: str | None = None
    hooks: dict[str, Any] | None = None
    """Reserved: never written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Fact):
    """A call waits for somebody's word."""

    type = "approval_requested"
    tool_call_id: str
    call_key: CallKey
    tool_name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved(Fact):
    """Somebody said whether a call may be made."""

    type = "approval_resolved"
    tool_call_id: str
    call_key: CallKey
    decision: Decided
    actor: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelRequested(Fact):
    """A run shall end: after its batch, or as soon as what was sent has ended."""

    type = "run_cancel_requested"
    features: ClassVar[tuple[str, ...]] = (CANCEL_V1,)
    run_id: AgentRunId
    at: CancelAt


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Fact):
    """The one end of a run."""

    type = "run_finished"
    run_id: AgentRunId
    reason: Reason
    usage: Usage
    code: str | None = None
    """Of the error, if that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceWritten(Fact):
    """What the run did can be queried as rows of a world. Informational."""

    type = "evidence_written"
    run_id: AgentRunId
    world_id: str
    through_seq: int


KNOWN: Final[dict[str, type[Fact]]] = {
    each.type: each
    for each in (
        JournalBegun,
        RunStarted,
        StepStarted,
        ModelAttemptFinished,
        ModelStepFinished,
        ToolBatchStarted,
        ToolDispatchIntent,
        ToolNoDispatch,
        ToolResult,
        ToolBatchFinished,
        TurnFinished,
        ResumeStarted,
        Queued,
        Retracted,
        Steered,
        ApprovalRequested,
        ApprovalResolved,
        RunCancelRequested,
        RunFinished,
        EvidenceWritten,
    )
}
"""Every type of record that this version writes or reads."""

INFORMATIONAL: Final = frozenset({ModelAttemptFinished, ResumeStarted, EvidenceWritten})
"""Facts without which a replay comes to the same."""

_F = TypeVar("_F", bound=Fact)
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def fact_of(kind: str, payload: Any, *, where: str) -> Fact | None:
    """Return the fact that a payload spells; None for a type that may be skipped. Raises Corrupt."""
    known = KNOWN.get(kind)
    if known is None:
        return None
    try:
        fact: Fact = _adapter(known).validate_python(payload)
    except ValidationError as error:
        raise Corrupt(
            expected=f"a {kind} {where}", found=shown(str(error).splitlines()[0])
        ) from error
    return fact


def _adapter(of: type[_F]) -> TypeAdapter[_F]:
    if of not in _ADAPTERS:
        _ADAPTERS[of] = TypeAdapter(of)
    return _ADAPTERS[of]
