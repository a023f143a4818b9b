"""Toolboxes refuse tools that nobody could call, and calls that no tool should see."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from tests.support.tooling import Played, asked, frozen, spec

from perdure.kernel import limits
from perdure.kernel.errors import Invalid
from perdure.runtime.session import toolbox
from perdure.runtime.session.toolbox import Toolbox, checked_call, checked_spec

pytestmark = pytest.mark.sessions

POINT = {
    "type": "object",
    "properties": {
        "at": {"$ref": "#/$defs/point"},
        "when": {"type": "string", "format": "stardate"},
    },
    "required": ["at"],
    "additionalProperties": False,
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}
MOVE = spec(schema=POINT, effect="idempotent")


class Named:
    def __init__(self, of):
        self.spec = of


def test_tools_are_kept_in_their_order_and_found_by_name():
    names = ["b", "a", "Z_9-x"]

    box = Toolbox(*[Named(spec(name)) for name in names])

    assert [each.name for each in box.specs()] == names
    assert box.named("a").spec.name == "a"
    assert box.named("c") is None


async def test_a_toolbox_asks_whether_its_scope_has_ended():
    async def ended(session):
        return f"{session}_ended"

    assert await Toolbox().scope_ended("talk") is None
    assert await Toolbox(scope_ended=ended).scope_ended("talk") == "talk_ended"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "a\n", "x" * 65])
def test_a_name_that_some_provider_refuses_is_refused(name):
    with pytest.raises(Invalid, match="letters, digits"):
        Toolbox(Named(spec(name)))


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(Invalid, match="found two"):
        Toolbox(Played("pure"), Played("pure"))


@pytest.mark.parametrize(
    "said",
    [
        {"effect": "harmless"},
        {"timeout_ms": 0},
        {"timeout_ms": 900_001},
        {"schema": {}},
        {"schema": {"type": "array"}},
        {"schema": {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}},
        {"schema": {"type": "object", "properties": {"x": {"type": "integr"}}}},
        {"schema": {"type": "object", "properties": {"x": {"pattern": "("}}}},
        {"schema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/y"}}}},
        {"schema": {"type": "object", "properties": {"x": {"$dynamicRef": "#y"}}}},
        {"schema": {"type": "object", "maximum": float("nan")}},
        {"schema": {"type": "object", "default": "x" * 70_000}},
        {"schema": {"type": "object", "const": {1, 2}}},
        {"schema": {"type": "object", "properties": 3}},
    ],
)
def test_a_tool_that_no_call_could_be_checked_by_is_refused(said):
    with pytest.raises(Invalid, match="tool 'move'"):
        Toolbox(Named(spec(**said)))


def test_a_schema_nested_too_deep_is_refused():
    deep = {}
    for _ in range(3_000):
        deep = {"not": deep}

    with pytest.raises(Invalid, match="RecursionError"):
        checked_spec(spec(schema={"type": "object", **deep}))


def test_a_reference_elsewhere_is_refused_and_never_fetched(monkeypatch):
    def connect(*_):
        raise AssertionError("nobody asks the network")

    monkeypatch.setattr(socket, "create_connection", connect)
    elsewhere = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x.json"}}}

    with pytest.raises(Invalid, match="lead into itself"):
        checked_spec(spec(schema=elsewhere))


def test_an_app_with_tools_is_loaded_where_no_schema_is_ever_checked(monkeypatch):
    monkeypatch.setattr(toolbox, "find_spec", lambda _: None)
    monkeypatch.setattr(toolbox, "SCHEMAS", "perdure.not_deployed")

    assert Toolbox(Named(MOVE)).specs() == [MOVE]


def test_a_sound_call_is_not_refused():
    assert checked_call(MOVE, asked(at={"x": 1}, when="someday"), frozen(MOVE)) is None


def test_a_tool_that_is_not_there_or_came_after_the_run_began_is_unavailable():
    for one, other in ((None, frozen(MOVE)), (MOVE, None), (None, None)):
        assert checked_call(one, asked(), other).code == "tool_unavailable"


def test_a_tool_that_changed_since_the_run_began_is_not_called():
    other = replace(MOVE, schema={**POINT, "required": []})
    harsher = replace(MOVE, effect="effectful")

    assert checked_call(other, asked(), frozen(MOVE)).code == "tool_schema_changed"
    assert checked_call(harsher, asked(), frozen(MOVE)).code == "tool_semantics_changed"


def test_arguments_that_are_too_large_are_refused():
    room = limits.CALL_ARGS_BYTES_MAX - len('{"when":""}')
    free = spec()

    refusal = checked_call(free, asked(when="x" * (room + 1)), frozen(free))

    assert refusal.code == "oversized"
    assert str(limits.CALL_ARGS_BYTES_MAX + 1) in refusal.detail
    assert checked_call(free, asked(when="x" * room), frozen(free)) is None


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"at": {"x": "one"}}, "$.at.x"),
        ({"at": 3}, "$.at"),
        ({}, "$"),
        ({"at": {}, "y" * 9_000: 1}, "$"),
        ({"at": {"x": "\ud800" * 9_000}}, "$.at.x"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_where_and_why(args, path):
    refusal = checked_call(MOVE, asked(**args), frozen(MOVE))

    assert refusal.code == "schema_invalid"
    assert refusal.detail.startswith(f"At {path}: ")
    assert len(refusal.detail.encode()) < 1_000


def test_what_is_no_json_object_is_refused():
    deep = []
    for _ in range(3_000):
        deep = [deep]

    refusals = [
        checked_call(MOVE, asked(malformed='{"at":'), frozen(MOVE)),
        checked_call(MOVE, asked(at=float("nan")), frozen(MOVE)),
        checked_call(MOVE, asked(at={1, 2}), frozen(MOVE)),
        checked_call(MOVE, asked(at=deep), frozen(MOVE)),
    ]

    assert {each.code for each in refusals} == {"schema_invalid"}
    assert '{"at":' in refusals[0].detail


def test_a_schema_that_never_ends_refuses_what_it_never_ends_for():
    endless = spec(schema={"type": "object", "$ref": "#"})

    refusal = checked_call(checked_spec(endless), asked(), frozen(endless))

    assert refusal.code == "schema_invalid"


@pytest.mark.parametrize(
    ("held", "more"),
    [
        ({"multipleOf": 0.5}, {}),
        ({"$ref": "#/required"}, {"required": ["at"]}),
        ({"$ref": "#/x-no-schema"}, {"x-no-schema": 7}),
        ({"$ref": "#/x-no-schema"}, {"x-no-schema": {"type": "strange"}}),
        ({"$ref": "#/x-no-schema"}, {"x-no-schema": {"$ref": "http://elsewhere.invalid/"}}),
    ],
)
def test_arguments_that_no_schema_can_be_held_against_are_refused_and_break_nothing(held, more):
    odd = checked_spec(spec(schema={"type": "object", "properties": {"at": held}, **more}))

    refusal = checked_call(odd, asked(at=10**400), frozen(odd))

    assert refusal.code == "schema_invalid"
