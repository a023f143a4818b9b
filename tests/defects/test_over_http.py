"""Defects that systems of this kind are known to have: over HTTP, without them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from tests.api.rig import Caller, Context, bearer, spawn
from tests.api.test_functions import (  # noqa: F401  # fixtures
    Functions,
    environment,
    functions,
    on_aws,
    on_sqlite,
)
from tests.emulator.test_front import asked as asked_at_the_front

from perdure_emulator.dev import _bound

pytestmark = pytest.mark.lifecycle

WORLD = "/v1/worlds/h"
COMMANDS = f"{WORLD}/commands"
LONG_MS = 10**12
"""A window of a quota that no test outlives: it ends in 2033."""

ROUTES_OF_A_WORLD = [
    ("api", "GET", "", None),
    ("api", "GET", "/log", None),
    ("api", "GET", "/commands", None),
    ("api", "GET", "/commands/c", None),
    ("api", "DELETE", "/commands/c", None),
    ("api", "DELETE", "/commands", None),
    ("api", "POST", "/commands", {"commands": [spawn()]}),
    ("api", "POST", "/fork", {"name": "child", "world_id": "child"}),
    ("api", "GET", "/consumers", None),
    ("api", "PUT", "/consumers/hook", {"required": True}),
    ("api", "DELETE", "/consumers/hook", None),
    ("api", "POST", "/consumers/hook", {"seq": 1}),
    ("query", "GET", "/entities?components=Position", None),
    ("query", "GET", "/history", None),
    ("tick", "POST", "/tick", {"ticks": 1}),
    ("tick", "POST", "/resume", None),
    ("tick", "POST", "/verify", {}),
    ("tick", "GET", "/processors", None),
    ("tick", "PUT", "/processors/drift", {}),
    ("tick", "DELETE", "/processors/drift", None),
    ("tick", "DELETE", "", None),
]


@contextmanager
def fresh() -> Iterator[Functions]:
    """Every function in a process that has seen nothing yet."""
    functions = Functions()  # noqa: F811
    yield functions
    functions.close()


def asked(functions, name, method, path, body=None, *, role="admin", actor="ann", **headers):  # noqa: F811
    context = Context(remaining_ms=29_000)
    caller = Caller(functions.module(name).sandbox, context, bearer(role, actor))
    parts = urlsplit(path)
    return caller(method, parts.path, body, query=parts.query, **headers)


def records(tmp_path):
    """Return every record of the one storage below a directory."""
    (path,) = tmp_path.rglob("*.db")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        found = database.execute("SELECT * FROM record ORDER BY 1, 2").fetchall()
    database.close()
    return found


def test_a_process_that_has_seen_nothing_answers_as_the_one_before_it(functions):  # noqa: F811
    """Where worlds live in the memory of a process, a restart lists none and ends none."""
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    functions.http("api", "POST", COMMANDS, {"commands": [spawn()], "batch_id": "b"})
    functions.http("tick", "POST", f"{WORLD}/tick", {"ticks": 1})
    told = functions.http("api", "GET", WORLD)
    functions.close()

    with fresh() as second:
        listed = second.http("api", "GET", "/v1/worlds")["worlds"]
        again = second.http("api", "GET", WORLD)
        command = second.http("api", "GET", f"{COMMANDS}/b.0")
        rows = second.http("query", "GET", f"{WORLD}/entities", query="components=Position")["rows"]
        ticked = second.http("tick", "POST", f"{WORLD}/tick", {"ticks": 1})
    with fresh() as third:
        ended = third.http("tick", "DELETE", WORLD)
    with fresh() as fourth:
        after = fourth.http("api", "GET", WORLD)

    assert (listed, again, command["status"]) == ([told], told, "applied")
    assert [row["entity_id"] for row in rows] == [1]
    assert (ticked["published_tick"], ticked["ticks"]) == (1, 1)
    assert (ended["status"], after) == ("destroyed", ended)


def test_a_world_that_never_was_is_not_found_by_any_route_and_leaves_no_trace(
    on_sqlite,  # noqa: F811
    tmp_path,
):
    """Where an empty answer or a 204 is given, a misspelled id looks like a world."""
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "other", "world_id": "other"})
    before = records(tmp_path)

    replies = {
        (method, path): asked(
            on_sqlite, name, method, f"/v1/worlds/nowhere{path}", body, idempotency_key="k"
        )
        for name, method, path, body in ROUTES_OF_A_WORLD
    }

    told = {route: (each.status, each.body.get("code")) for route, each in replies.items()}
    assert told == dict.fromkeys(told, (404, "not_found"))
    assert records(tmp_path) == before


def test_a_command_sent_again_is_one_command_that_can_be_followed_and_cancelled(functions):  # noqa: F811
    """Where commands have no name, a client that lost the answer sends them twice."""
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    body = {"commands": [spawn(), spawn(tick=9, command_id="late")]}
    first = functions.http("api", "POST", COMMANDS, body, idempotency_key="b")

    with fresh() as second:
        again = second.http("api", "POST", COMMANDS, body, idempotency_key="b")
        other = asked(second, "api", "POST", COMMANDS, {"commands": [spawn()]}, idempotency_key="b")
        second.http("tick", "POST", f"{WORLD}/tick", {"ticks": 1})
        applied = second.http("api", "GET", f"{COMMANDS}/b.0")
        pending = second.http("api", "GET", f"{COMMANDS}/late")
        cancelled = second.http("api", "DELETE", f"{COMMANDS}/late")
        twice = second.http("api", "DELETE", f"{COMMANDS}/late")
        too_late = asked(second, "api", "DELETE", f"{COMMANDS}/b.0")
        ticked = second.http("tick", "POST", f"{WORLD}/tick", {"to_tick": 9})

    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["receipts"] == first["receipts"]
    assert (other.status, other.body["code"]) == (409, "conflict")
    assert (applied["status"], pending["status"]) == ("applied", "pending")
    assert (cancelled["status"], cancelled["code"], twice) == ("rejected", "cancelled", cancelled)
    assert (too_late.status, too_late.body["code"]) == (409, "not_cancellable")
    assert (ticked["applied"], ticked["published_tick"]) == (0, 9)


def test_ticks_asked_for_again_under_one_key_are_run_once(functions):  # noqa: F811
    """Where a run says how many steps and nothing else, a lost answer doubles it."""
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    first = functions.http("tick", "POST", f"{WORLD}/tick", {"ticks": 3}, idempotency_key="r")

    with fresh() as second:
        again = second.http("tick", "POST", f"{WORLD}/tick", {"ticks": 3}, idempotency_key="r")
        to_tick = second.http("tick", "POST", f"{WORLD}/tick", {"to_tick": 2})

    assert first["published_tick"] == again["published_tick"] == to_tick["published_tick"] == 2


@pytest.mark.parametrize("given", ["", "admin", "Bearer admin", "Bearer viewer", "Basic YTpi"])
def test_no_header_and_no_word_of_a_role_gets_anybody_in(given):
    """Where the bearer's word is believed, whoever says "admin" is one, as is who says nothing."""
    reply, events = asked_at_the_front("GET", "/v1/worlds", authorization=given)

    assert (reply.status_code, events) == (401, [])


@pytest.mark.parametrize("authorizer", [None, {}, {"lambda": {"role": "admin"}}])
def test_a_function_that_nobody_vouched_to_answers_nothing(on_sqlite, tmp_path, authorizer):  # noqa: F811
    """Where a missing header means a default role, every mistake in front is an open door."""
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    before = records(tmp_path)

    replies = [
        Caller(on_sqlite.module(name).sandbox, authorizer=authorizer)(
            method, f"{WORLD}{path}", body
        )
        for name, method, path, body in ROUTES_OF_A_WORLD
        if "?" not in path
    ]

    assert {(reply.status, reply.body["code"]) for reply in replies} == {(401, "unauthenticated")}
    assert records(tmp_path) == before


def test_the_local_server_listens_to_this_machine_alone():
    """Where it listens everywhere, a laptop in a café serves the café."""
    with _bound(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_reading_is_free_however_often_and_a_quota_outlives_its_process(
    environment,  # noqa: F811
    functions,  # noqa: F811
):
    """Where reads spend the budget of writes, the 501st look is refused; a restart refills it."""
    environment.setenv("PERDURE_QUOTA_PLAYER", "2")
    environment.setenv("PERDURE_QUOTA_WINDOW_MS", str(LONG_MS))
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    sent = [
        asked(functions, "api", "POST", COMMANDS, {"commands": [spawn()]}, role="player").status
        for _ in range(3)
    ]
    read = [asked(functions, "api", "GET", WORLD, role="player").status for _ in range(501)]
    functions.close()

    with fresh() as second:
        late = asked(second, "api", "POST", COMMANDS, {"commands": [spawn()]}, role="player")
        bob = asked(
            second, "api", "POST", COMMANDS, {"commands": [spawn()]}, role="player", actor="bob"
        )

    assert (sent, read) == ([202, 202, 429], [200] * 501)
    assert (late.status, late.body["code"]) == (429, "quota_exceeded")
    assert 1 <= int(late.headers["retry-after"]) <= LONG_MS // 1_000
    assert bob.status == 202
