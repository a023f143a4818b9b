"""Durable's storage writes, as its Session spells them."""

from __future__ import annotations

from typing import Any

Write = dict[str, Any]

SESSION = {"kind": "session"}


def conversation(id: int, **more: Any) -> Write:
    return {"type": "conversation", "value": {"id": id, **more}}


def entry(id: int, conversation: int = 1, **more: Any) -> Write:
    value = {"id": id, "conversationId": conversation, "kind": "note", **more}
    return {"type": "entry", "value": value}


def task(id: int, status: str = "pending", conversation: int = 1, **more: Any) -> Write:
    state = {"status": status, "checkpoint": {"phase": status}}
    value = {
        "id": id,
        "conversationId": conversation,
        "kind": "test.task",
        "version": 1,
        "input": {"value": id},
        "state": state,
        "background": False,
        "abortRequested": False,
    }
    return {"type": "task", "value": {**value, **more}}


def submission(id: int, status: str = "queued", conversation: int = 1, **more: Any) -> Write:
    value = {"id": id, "conversationId": conversation, "type": "input", "status": status}
    return {"type": "submission", "value": {**value, **more}}


def scope_of(conversation: int) -> dict[str, Any]:
    return {"kind": "conversation", "conversationId": conversation}


def rewindable(id: int, kind: str = "notes", conversation: int = 1, **more: Any) -> Write:
    """Return the record of a document that keeps all it ever said."""
    scope = scope_of(conversation)
    return {"id": id, "kind": kind, "scope": scope, "history": "rewindable", "fork": "asOf", **more}


def latest(id: int, kind: str = "notes", conversation: int = 1, **more: Any) -> Write:
    """Return the record of a document that keeps what it says now."""
    scope = scope_of(conversation)
    return {"id": id, "kind": kind, "scope": scope, "history": "latest", "fork": "current", **more}


def of_session(id: int, kind: str = "notes", **more: Any) -> Write:
    """Return the record of a document of the session."""
    return {"id": id, "kind": kind, "scope": SESSION, **more}


def base(value: Any, version: int = 1) -> Write:
    return {"kind": "base", "version": version, "value": value}


def delta(*ops: list[Any], version: int = 1) -> Write:
    return {"kind": "delta", "version": version, "ops": list(ops)}


def create(record: Write, content: Write) -> Write:
    return {"type": "document.create", "record": record, "content": content}


def copy(record: Write, source: int, at: int | str = "current") -> Write:
    return {"type": "document.copy", "record": record, "source": {"id": source, "at": at}}


def change(id: int, content: Write) -> Write:
    return {"type": "document.change", "id": id, "content": content}


def retire(id: int) -> Write:
    return {"type": "document.retire", "id": id}
