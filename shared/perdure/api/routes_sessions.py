"""Routes of sessions: begin one, send to it, end its runs, decide on its calls, read it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models_sessions as models
from perdure.api.decoding import cursor, keyed, resumed
from perdure.api.gateway import Answer, Request
from perdure.api.invocation import current
from perdure.api.ports_sessions import SessionPorts
from perdure.api.routing import Route, route
from perdure.kernel.canonical import canonical
from perdure.runtime.session.transcript import TranscriptPage

ONE: Final = "/v1/sessions/<session>"


@route("POST", "/v1/sessions", operation="create_session", reply=models.Session, status=201)
async def create_session(
    ports: SessionPorts, body: models.CreateSession, request: Request
) -> dict[str, Any]:
    """Begin a session with an agent. The same id with the same identity changes nothing."""
    info = await ports.sessions.create(
        body.agent,
        session_id=body.session_id,
        ceiling_bytes=body.ceiling_bytes,
        retained=body.retained,
        evidence=body.evidence,
        by=request.by,
    )
    return asdict(info)


@route("GET", "/v1/sessions", operation="discover_sessions", reply=models.Sessions)
async def list_sessions(
    ports: SessionPorts, query: models.ListSessions, request: Request
) -> dict[str, Any]:
    """List the sessions of the storage, by id; a page may be short though more follow."""
    scope = f"sessions {query.mine}"
    after = resumed(query.next, scope=scope)
    owner = request.by.actor if query.mine else None
    found, more = await ports.sessions.discover(after, query.limit, owner=owner)
    page: dict[str, Any] = {"sessions": [asdict(info) for info in found]}
    return page if more is None else {**page, "next": cursor(scope, more)}


@route("GET", ONE, operation="get_session", reply=models.Session)
async def describe_session(ports: SessionPorts, session: str) -> dict[str, Any]:
    """Tell what is known of one session, and which of its calls wait for a word."""
    return asdict(await ports.sessions.describe(session))


@route(
    "POST",
    f"{ONE}/send",
    operation="send_to_session",
    reply=models.Standing,
    status=202,
    key="optional",
)
async def send_to_session(
    ports: SessionPorts, session: str, body: models.Send, request: Request
) -> dict[str, Any]:
    """Deliver something, at most once by its send id."""
    send_id = keyed(request.headers, body.send_id, field="send_id")
    return await _sent(ports, session, request, {**body.model_dump(), "send_id": send_id})


@route(
    "POST",
    f"{ONE}/steer",
    operation="steer_run",
    reply=models.Standing,
    status=202,
    key="optional",
)
async def steer_run(
    ports: SessionPorts, session: str, body: models.Steer, request: Request
) -> dict[str, Any]:
    """Let something join the run that goes on, at its next step; at most once by its send id."""
    send_id = keyed(request.headers, body.send_id, field="send_id")
    said = {**body.model_dump(), "delivery": "steer", "send_id": send_id}
    return await _sent(ports, session, request, said)


async def _sent(
    ports: SessionPorts, session: str, request: Request, said: dict[str, Any]
) -> dict[str, Any]:
    if said["send_id"] is None:
        # Drawn here, so that it can be told also by an answer that comes before the store's.
        said["send_id"] = current().send_id = ports.sessions.drawn_send_id()
    reply = await ports.sessions.send(session, by=request.by, **said)
    if reply.state in {"active", "pending"}:
        await ports.nudge(session)
    return {**asdict(reply), "send_id": said["send_id"]}


@route("DELETE", f"{ONE}/sends/<send>", operation="retract_send", reply=models.Standing)
async def retract_send(
    ports: SessionPorts, session: str, send: str, request: Request
) -> dict[str, Any]:
    """Take back a send that still waits."""
    reply = await ports.sessions.retract(session, send, by=request.by)
    return {**asdict(reply), "send_id": send}


@route("POST", f"{ONE}/cancel", operation="cancel_run", reply=models.Standing, status=202)
async def cancel_run(
    ports: SessionPorts, session: str, body: models.Cancel, request: Request
) -> dict[str, Any]:
    """Ask for the end of a run. Of one that is over it changes nothing."""
    reply = await ports.sessions.cancel(session, body.run_id, body.at, by=request.by)
    if reply.state == "active":
        await ports.nudge(session)
    return asdict(reply)


@route("POST", f"{ONE}/approvals/<call>", operation="resolve_approval", reply=models.Approved)
async def resolve_approval(
    ports: SessionPorts, session: str, call: str, body: models.Approval, request: Request
) -> dict[str, Any]:
    """Say whether a call that waits may be made. The same word again changes nothing."""
    reply = await ports.sessions.resolve(
        session, call, body.decision, detail=body.detail, by=request.by
    )
    if not reply.waiting:
        await ports.nudge(session)
    return asdict(reply)


@route("GET", f"{ONE}/transcript", operation="read_transcript", reply=models.TranscriptPage)
async def read_transcript(ports: SessionPorts, session: str, query: models.Transcript) -> Answer:
    """Read the journal behind ``after``, whatever lies in objects included."""
    page = await ports.sessions.transcript(
        session,
        after=query.after,
        limit=query.limit,
        bytes_max=query.bytes,
        lineage=query.lineage,
    )
    return Answer(200, spelled(page))


def spelled(page: TranscriptPage) -> bytes:
    """Spell a page as the journal spells its payloads: text may hold half a surrogate pair."""
    return canonical(asdict(page))


ROUTES: Final[tuple[Route[Any], ...]] = (
    create_session,
    list_sessions,
    describe_session,
    send_to_session,
    steer_run,
    retract_send,
    cancel_run,
    resolve_approval,
    read_transcript,
)
