"""Consumers and history over HTTP: the same rules, each refusal with its code."""

from __future__ import annotations

import pytest
from tests.api.rig import Caller, spawn

from perdure.api import models_consumers as models
from perdure.api.ports import EventsAsked
from perdure.api.routes_history import ROUTES
from perdure.api.sandbox import Sandbox

pytestmark = pytest.mark.lifecycle


def test_a_consumer_is_registered_acknowledged_told_of_and_forgotten(call, harbour):
    call("POST", f"{harbour}/commands", {"commands": [spawn()]})

    made = call("PUT", f"{harbour}/consumers/hook", {"required": True})
    read = call("POST", f"{harbour}/consumers/hook", {"seq": 2})
    listed = call("GET", f"{harbour}/consumers")
    world = call("GET", harbour)
    gone = call("DELETE", f"{harbour}/consumers/hook")
    after = call("GET", f"{harbour}/consumers")

    assert made.body == {"name": "hook", "seq": 0, "lag": 3, "required": True}
    assert read.body == {"name": "hook", "seq": 2, "lag": 1, "required": True}
    assert listed.body == {"consumers": [read.body]}
    assert world.body["consumers"] == [read.body]
    assert (gone.body, after.body) == ({"removed": "hook"}, {"consumers": []})
    models.Consumers.model_validate(listed.body)


@pytest.mark.parametrize(
    ("asked", "body", "status", "code"),
    [
        (f"PUT consumers/{'x' * 33}", {}, 400, "invalid_id"),
        ("PUT consumers/more", {"required": "yes"}, 400, "wrong_type"),
        ("PUT consumers/more", {"demanded": True}, 400, "unknown_field"),
        ("PUT consumers/more", None, 400, "invalid_json"),
        ("POST consumers/hook", {}, 400, "missing_field"),
        ("POST consumers/hook", {"seq": -1}, 400, "out_of_range"),
        ("POST consumers/hook", {"seq": 2**63}, 400, "out_of_range"),
        ("POST consumers/hook", {"seq": 99}, 400, "out_of_range"),
        ("POST consumers/hook", {"seq": 1}, 409, "conflict"),
        ("POST consumers/nobody", {"seq": 1}, 404, "not_found"),
        ("POST consumers/audit", {"seq": 1}, 400, "invalid"),
        ("POST consumers/landing", {"seq": 1}, 400, "invalid"),
        ("DELETE consumers/audit", None, 400, "invalid"),
    ],
)
def test_each_refusal_has_its_code_and_changes_nothing(
    rig, call, harbour, asked, body, status, code
):
    call("PUT", f"{harbour}/consumers/hook", {})
    call("POST", f"{harbour}/consumers/hook", {"seq": 2})
    before = rig.snapshot()

    method, path = asked.split()
    reply = call(method, f"{harbour}/{path}", body)

    assert (reply.status, reply.body["code"]) == (status, code)
    assert rig.snapshot() == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "consumers", None),
        ("PUT", "consumers/hook", {}),
        ("POST", "consumers/hook", {"seq": 0}),
        ("DELETE", "consumers/hook", None),
    ],
)
def test_a_world_that_is_not_there_is_not_found(call, method, path, body):
    reply = call(method, f"/v1/worlds/nowhere/{path}", body)

    assert (reply.status, reply.body["code"]) == (404, "not_found")


def test_a_name_that_is_none_is_told_as_a_name(call, harbour):
    told = call("PUT", f"/v1/worlds/harbour/consumers/{'x' * 200}", {}).body

    assert told["expected"] == "a name of 1 to 128 bytes"


def test_the_fifth_required_consumer_is_too_many(call, harbour):
    for number in range(4):
        call("PUT", f"{harbour}/consumers/c{number}", {"required": True})

    reply = call("PUT", f"{harbour}/consumers/c4", {"required": True})

    assert (reply.status, reply.body["code"]) == (413, "too_large")


class Page:
    def __init__(self, following):
        self.events, self.through_seq, self.head_seq, self.next = (), 3, 5, following


class Told:
    """Remembers what it was asked, and answers one page with a next."""

    def __init__(self):
        self.asked: list[EventsAsked] = []

    async def history(self, world, asked):
        self.asked.append(asked)
        return Page((7, 2) if len(self.asked) == 1 else None)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


@pytest.fixture
def history():
    """What was asked of the ports, and a caller of the route."""
    told = Told()
    sandbox = Sandbox(lambda: told, ROUTES)
    yield told, Caller(sandbox)
    sandbox.close()


def test_filters_and_cursor_of_a_query_string_reach_the_table(history):
    told, call = history
    asked = "kind=applied,%20rejected&actor=ann&from_tick=3&to_seq=9&entity_id=4&limit=5"

    first = call("GET", "/v1/worlds/w/history", query=asked)
    again = call("GET", "/v1/worlds/w/history", query=f"{asked}&next={first.body['next']}")

    one, two = told.asked
    assert one.filters == {
        "kinds": ("applied", "rejected"),
        "command_id": None,
        "actor": "ann",
        "entity_id": 4,
        "from_tick": 3,
        "to_tick": None,
        "from_at": None,
        "to_at": None,
    }
    assert (one.from_seq, one.to_seq, one.after, one.limit) == (1, 9, (0, -1), 5)
    assert (two.filters, two.after) == (one.filters, (7, 2))
    assert again.body == {"events": [], "through_seq": 3, "head_seq": 5}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("kind=exploded", "invalid_value"),
        ("kind=", "invalid_value"),
        ("from_tick=-1", "out_of_range"),
        ("to_tick=soon", "wrong_type"),
        ("from_seq=-1", "out_of_range"),
        ("entity_id=x", "wrong_type"),
        ("limit=0", "out_of_range"),
        ("limit=1001", "out_of_range"),
        ("since=yesterday", "unknown_field"),
        ("next=nonsense", "invalid_value"),
    ],
)
def test_what_history_cannot_be_asked_is_refused(history, query, code):
    told, call = history

    reply = call("GET", "/v1/worlds/w/history", query=query)

    assert (reply.status, reply.body["code"]) == (400, code)
    assert told.asked == []


def test_a_cursor_of_one_question_is_no_answer_to_another(history):
    _, call = history
    following = call("GET", "/v1/worlds/w/history", query="kind=applied").body["next"]

    reply = call("GET", "/v1/worlds/w/history", query=f"kind=rejected&next={following}")

    assert (reply.status, reply.body["code"]) == (400, "invalid_value")
