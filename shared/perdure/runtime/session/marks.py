"""Marks at work: the fold of an idle session is kept, so that who comes next reads only the rest.

A mark is a hint. Whatever is wrong with it, the journal is read from its beginning instead.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import Corrupt, NotFound
from perdure.kernel.session.fold import Fold, Waiting
from perdure.kernel.session.frames import PayloadRef, Place
from perdure.kernel.session.journal import payload_name
from perdure.kernel.session.mark import FoldMark, ReadMark, SetMark
from perdure.kernel.session.messages import (
    AssistantMessage,
    Message,
    ToolAnswers,
    UserMessage,
)
from perdure.kernel.session.records import SessionRef
from perdure.runtime.ports import Executes
from perdure.runtime.session.payloads import Objects

MARK_FRAMES_MIN: Final = 64
"""Frames behind a mark below which no new one is made."""

MARK_SHARE: Final = 4
"""A mark is made when a quarter as many frames lie behind it as before: so all marks of a session
together cost no more than a few times the last."""

FORM: Final = "fold/1"

_KINDS: Final[dict[str, type[Message]]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tools": ToolAnswers,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_WAITING: Final = TypeAdapter(list[Waiting])
_MESSAGES: Final = {name: TypeAdapter(kind) for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Marked:
    """A fold read from its object, and the frame it goes up to."""

    fold: Fold
    place: Place


async def read(authority: Executes, objects: Objects, ref: SessionRef) -> Marked | None:
    """Return the fold that is kept of a session, None if there is none that can be used.

    Raises: Unavailable kinds.
    """
    mark = await authority.execute(ReadMark(ref))
    if mark is None:
        return None
    try:
        spelled = await objects.get(payload_name(ref, mark.ref.sha256))
    except NotFound:
        return None
    if hashlib.sha256(spelled).hexdigest() != mark.ref.sha256:
        return None
    try:
        return Marked(_read(strict(spelled), mark), mark.place)
    except (ValidationError, ValueError, KeyError, TypeError, Corrupt):
        return None


async def keep(
    authority: Executes, objects: Objects, ref: SessionRef, fold: Fold, place: Place, last: Place
) -> bool:
    """Keep the fold of an idle session, if enough has come since the last mark.

    ``last`` is that mark's place. Raises: Unavailable kinds.
    """
    fresh = place.seq - last.seq
    if fold.run is not None or fold.steered:
        return False
    if fresh < max(MARK_FRAMES_MIN, last.seq // MARK_SHARE):
        return False
    spelled = canonical(_spelled(fold))
    kept = PayloadRef(hashlib.sha256(spelled).hexdigest(), len(spelled))
    await objects.put(payload_name(ref, kept.sha256), spelled)
    mark = FoldMark(partition=ref.partition, seq=place.seq, digest=place.digest, ref=kept)
    left = await authority.execute(SetMark(ref, mark))
    if left is not None:
        await objects.delete(payload_name(ref, left.sha256))
    return True


def _spelled(fold: Fold) -> dict[str, Any]:
    return {
        "form": FORM,
        "lineage": fold.lineage,
        "seq": fold.seq,
        "messages": [
            [name, _MESSAGES[name].dump_python(each, mode="json")]
            for each in fold.messages
            for name in (_NAMES[type(each)],)
        ],
        "runs": fold.runs,
        "queue": _WAITING.dump_python(list(fold.queue.values()), mode="json"),
        "last_reason": fold.last_reason,
        "model_steps": fold.model_steps,
        "tool_results": fold.tool_results,
    }


def _read(told: Any, mark: FoldMark) -> Fold:
    if told["form"] != FORM or told["seq"] != mark.seq:
        raise ValueError("another form, or another frame")
    waiting = _WAITING.validate_python(told["queue"])
    return Fold(
        lineage=told["lineage"],
        seq=mark.seq,
        messages=[_MESSAGES[name].validate_python(each) for name, each in told["messages"]],
        runs=told["runs"],
        queue={each.submission_id: each for each in waiting},
        last_reason=told["last_reason"],
        model_steps=told["model_steps"],
        tool_results=told["tool_results"],
    )
