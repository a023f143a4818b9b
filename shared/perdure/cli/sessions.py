"""`perdure session …`: talk with an agent, and go on with what was sent, here or over there."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Place, placed, session_path
from perdure.cli.talk import Heard, carried_on
from perdure.cli.told import moment

COLUMNS = ("session_id", "agent", "owner", "run_state", "runs", "queued", "seq", "bytes")


@click.group()
def session() -> None:
    """Begin a session with an agent, send to it, decide on its calls, read it."""


@session.command()
@click.argument("agent")
@click.option("--session-id", help="Id of the session; drawn if not given.")
@click.option("--ceiling-bytes", type=click.IntRange(1), help="Bytes that its journal may have.")
@click.option("--retained", is_flag=True, help="It is kept for good.")
@click.option("--evidence", is_flag=True, help="Write what its runs do as rows, too.")
@placed
def create(agent: str, place: Place, *, as_json: bool, **said: Any) -> None:
    """Begin a session with AGENT."""
    given = {name: value for name, value in said.items() if value is not None}
    body = {"agent": agent, **given}
    with place.client(make=True) as client:
        told(client.ask("POST", "/v1/sessions", body=body), as_json=as_json)


@session.command(name="list")
@click.option("--mine", is_flag=True, help="Only those that whoever asks has created.")
@placed
def list_sessions(place: Place, *, mine: bool, as_json: bool) -> None:
    """List the sessions of a storage."""
    found: list[dict[str, Any]] = []
    following = None
    with place.client() as client:
        while True:
            query = {"limit": 1_000, "mine": "true" if mine else None, "next": following}
            page = client.ask("GET", "/v1/sessions", query=query)
            found += page["sessions"]
            following = page.get("next")
            if following is None:
                break
    if as_json:
        show.as_json({"sessions": found})
    else:
        show.table(found, COLUMNS, empty="no sessions")


@session.command(name="show")
@click.argument("session_id", metavar="SESSION")
@placed
def show_session(session_id: str, place: Place, *, as_json: bool) -> None:
    """Tell what is known of SESSION, and which of its calls wait for a word."""
    with place.client() as client:
        told(client.ask("GET", session_path(session_id)), as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("text")
@click.option("--delivery", default="queue", show_default=True, help="queue, steer or interrupt.")
@click.option("--send-id", help="Id of the send: the same again changes nothing.")
@click.option("--run-id", help="Id of the run that it begins.")
@click.option("--title", help="What people call it.")
@click.option("--system", help="Another instruction than the agent's, for this run.")
@click.option("--max-steps", type=click.IntRange(1), help="Steps of this run at most.")
@click.option("--only", is_flag=True, help="Only send, and do not go on with the session.")
@placed
def send(
    session_id: str, text: str, place: Place, *, only: bool, as_json: bool, **said: Any
) -> None:
    """Send TEXT (- is standard input) to SESSION, and look on while it goes on."""
    given = {name: value for name, value in said.items() if value is not None}
    overrides = {name: given.pop(name) for name in ("system", "max_steps") if name in given}
    body = {"input": _text(text), **given} | ({"overrides": overrides} if overrides else {})
    _sent(place, session_id, "send", body, only=only, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("text")
@click.option("--send-id", help="Id of the send: the same again changes nothing.")
@placed
def steer(session_id: str, text: str, place: Place, *, send_id: str | None, as_json: bool) -> None:
    """Let TEXT join the run that goes on in SESSION, at its next step."""
    body = {"input": _text(text), "send_id": send_id}
    _sent(place, session_id, "steer", body, only=True, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@placed
def run(session_id: str, place: Place, *, as_json: bool) -> None:
    """Go on with SESSION here, or look on where it goes on over there."""
    heard = Heard(is_quiet=as_json)
    with place.client() as client:
        after = client.ask("GET", session_path(session_id))["seq"]
        state = carried_on(client, session_id, after, heard)
    _ended(state, heard, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--run-id", help="Which run; the present one if not given.")
@click.option("--now", is_flag=True, help="Do not wait for the model or for the calls to come.")
@placed
def cancel(session_id: str, place: Place, *, run_id: str | None, now: bool, as_json: bool) -> None:
    """Ask for the end of a run of SESSION."""
    with place.client() as client:
        named = run_id or client.ask("GET", session_path(session_id))["run_id"]
        if named is None:
            raise click.UsageError("no run goes on in the session; --run-id names one")
        body = {"run_id": named, "at": "now" if now else "boundary"}
        reply = client.ask("POST", session_path(session_id, "cancel"), body=body)
    told(reply, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("send_id", metavar="SEND")
@placed
def retract(session_id: str, send_id: str, place: Place, *, as_json: bool) -> None:
    """Take back SEND, if it still waits."""
    with place.client() as client:
        reply = client.ask("DELETE", session_path(session_id, "sends", send_id))
    told(reply, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("call_key", metavar="CALL")
@click.option("--detail", help="Why.")
@placed
def approve(
    session_id: str, call_key: str, place: Place, *, detail: str | None, as_json: bool
) -> None:
    """Let CALL of SESSION be made."""
    _decided(place, session_id, call_key, "approved", detail, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("call_key", metavar="CALL")
@click.option("--detail", help="What the model reads of it.")
@placed
def deny(
    session_id: str, call_key: str, place: Place, *, detail: str | None, as_json: bool
) -> None:
    """Keep CALL of SESSION from being made."""
    _decided(place, session_id, call_key, "denied", detail, as_json=as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin behind this frame.")
@click.option("--limit", type=click.IntRange(1, 500), default=200, show_default=True)
@click.option("--lineage", help="Journal that was read before; another is refused.")
@placed
def transcript(
    session_id: str, place: Place, *, after: int, limit: int, lineage: str | None, as_json: bool
) -> None:
    """Read the journal of SESSION."""
    query = {"after": after, "limit": limit, "lineage": lineage}
    with place.client() as client:
        page = client.ask("GET", session_path(session_id, "transcript"), query=query)
    if as_json:
        show.as_json(page)
        return
    frames = [{**each, "at": moment(each["at"])} for each in page["frames"]]
    show.table(frames, ("seq", "at", "type", "payload"), empty="nothing behind that")
    if page["note"] is not None:
        click.echo("a newer version wrote frame {seq}, and what follows it".format(**page["note"]))


def told(info: dict[str, Any], *, as_json: bool) -> None:
    """Print what was answered."""
    if as_json:
        show.as_json(info)
    else:
        moments = ("created_at", "fence_held_until")
        spelled = {name: moment(info[name]) for name in moments if info.get(name) is not None}
        show.facts({**info, **spelled})


def _text(given: str) -> str:
    return sys.stdin.read() if given == "-" else given


def _sent(
    place: Place, session_id: str, how: str, body: dict[str, Any], *, only: bool, as_json: bool
) -> None:
    # Drawn here: whatever is sent again on the way, it is delivered once.
    body["send_id"] = body.get("send_id") or uuid.uuid4().hex
    heard = Heard(is_quiet=as_json)
    with place.client() as client:
        after = client.ask("GET", session_path(session_id))["seq"]
        reply = client.ask("POST", session_path(session_id, how), body=body)
        if only or reply["state"] not in {"active", "pending"}:
            told(reply, as_json=as_json)
            return
        state = carried_on(client, session_id, after, heard)
    _ended(state, heard, reply, as_json=as_json)


def _ended(
    state: str, heard: Heard, reply: Mapping[str, Any] | None = None, *, as_json: bool
) -> None:
    found = {**(reply or {}), "state": state, "runs": heard.runs, "waiting_calls": heard.waiting}
    if as_json:
        show.as_json(found)
    else:
        click.echo(f"the session is {state}")


def _decided(
    place: Place, session_id: str, call: str, decision: str, detail: str | None, *, as_json: bool
) -> None:
    body = {"decision": decision} | ({} if detail is None else {"detail": detail})
    with place.client() as client:
        reply = client.ask("POST", session_path(session_id, "approvals", call), body=body)
    told(reply, as_json=as_json)
