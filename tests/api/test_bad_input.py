"""Bad input: each kind has its status and its code, says what it found, and leaves no trace."""

from __future__ import annotations

import json

import pytest
from tests.api.rig import spawn

from perdure.api.problems import problem
from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue

HARBOUR = "/v1/worlds/harbour"
COMMANDS = f"{HARBOUR}/commands"


def batch(*commands, **fields):
    return {"commands": list(commands), **fields}


def position(x):
    return spawn(components={"Position": {"x": x, "y": 2.0}})


def text_of(x):
    """A batch of one spawn whose x is spelled as given."""
    return json.dumps(batch(position(0.5))).replace("0.5", x)


WORLDS = [
    ("a name that is no text", {"name": 7}, 400, "wrong_type"),
    ("no name", {}, 400, "missing_field"),
    ("an empty name", {"name": ""}, 400, "invalid_id"),
    ("a name too long", {"name": "x" * 129}, 400, "invalid_id"),
    ("a slash in a name", {"name": "a/b"}, 400, "invalid_id"),
    ("an extra field", {"name": "a", "colour": "red"}, 400, "unknown_field"),
    ("an empty id", {"name": "a", "world_id": ""}, 400, "invalid_id"),
    ("an id too long", {"name": "a", "world_id": "x" * 129}, 400, "invalid_id"),
    ("an id too long in bytes", {"name": "a", "world_id": "ü" * 65}, 400, "invalid_id"),
    ("a slash in an id", {"name": "a", "world_id": "a/b"}, 400, "invalid_id"),
    ("a control character", {"name": "a", "world_id": "a\nb"}, 400, "invalid_id"),
    ("half a surrogate pair", {"name": "a", "world_id": "\ud800"}, 400, "invalid_id"),
    ("true as a number", {"name": "a", "every_ms": True}, 400, "wrong_type"),
    ("text as a number", {"name": "a", "every_ms": "60000"}, 400, "wrong_type"),
    ("a duration of no unit", {"name": "a", "every": "10"}, 400, "invalid_value"),
    ("two schedules", {"name": "a", "every": "1m", "every_ms": 60_000}, 400, "invalid_value"),
    ("a schedule too fast", {"name": "a", "every_ms": 1}, 400, "invalid"),
    ("a list", ["a"], 400, "wrong_type"),
    ("a name that is taken", {"name": "harbour", "world_id": "other"}, 409, "name_taken"),
    ("an id with another name", {"name": "quay", "world_id": "harbour"}, 409, "conflict"),
]

BATCHES = [
    ("no command", batch(), 400, "invalid_batch"),
    ("no list of commands", {"batch_id": "b"}, 400, "missing_field"),
    ("commands that are no list", {"commands": {}}, 400, "invalid_batch"),
    ("commands too many", batch(*[spawn()] * 10_001), 413, "too_large"),
    ("ticks too many", batch(*[spawn(tick=n) for n in range(91)]), 413, "too_large"),
    ("an extra field of a batch", batch(spawn(), colour="red"), 400, "unknown_field"),
    ("an extra field of a command", batch(spawn(colour="red")), 400, "unknown_field"),
    (
        "an extra field of a component",
        batch(spawn(components={"Position": {"x": 1, "y": 2, "z": 3}})),
        400,
        "unknown_field",
    ),
    (
        "a missing field of a component",
        batch(spawn(components={"Position": {"x": 1}})),
        400,
        "missing_field",
    ),
    ("no operation", batch({"components": {}}), 400, "unknown_operation"),
    ("an unknown operation", batch(spawn(operation="explode")), 400, "unknown_operation"),
    ("an operation that cannot wait", batch({"operation": "spawn_reserved"}), 400, "direct_only"),
    ("a command that is no object", batch(7), 400, "wrong_type"),
    ("no component", batch(spawn(components={})), 400, "invalid_value"),
    ("an unknown component", batch(spawn(components={"Anchor": {}})), 400, "unknown_component"),
    (
        "another schema of a component",
        batch(spawn(components={"Position@ffff": {"x": 1, "y": 2}})),
        400,
        "unknown_component",
    ),
    ("text for a float", batch(position("1")), 400, "wrong_type"),
    ("true for a float", batch(position(x=True)), 400, "wrong_type"),
    (
        "a float for an integer",
        batch(spawn(components={"Crew": {"size": 1.5, "captain": "a"}})),
        400,
        "wrong_type",
    ),
    (
        "an integer beyond 64 bits",
        batch(spawn(components={"Crew": {"size": 2**63, "captain": "a"}})),
        400,
        "out_of_range",
    ),
    ("a tick below zero", batch(spawn(tick=-1)), 400, "out_of_range"),
    ("a tick beyond the last", batch(spawn(tick=limits.TICK_MAX + 1)), 400, "out_of_range"),
    ("a tick beyond 64 bits", batch(spawn(tick=2**64)), 400, "out_of_range"),
    ("true as a tick", batch(spawn(tick=True)), 400, "wrong_type"),
    ("no attempt", batch(spawn(max_attempts=0)), 400, "out_of_range"),
    (
        "an entity that is no number",
        batch({"operation": "despawn", "entity_id": "1"}),
        400,
        "wrong_type",
    ),
    (
        "an entity beyond 64 bits",
        batch({"operation": "despawn", "entity_id": 2**63}),
        400,
        "out_of_range",
    ),
    ("an empty command id", batch(spawn(command_id="")), 400, "invalid_id"),
    ("a command id too long", batch(spawn(command_id="x" * 129)), 400, "invalid_id"),
    ("a command id like those of a batch", batch(spawn(command_id="a.7")), 400, "invalid_id"),
    ("a slash in a command id", batch(spawn(command_id="a/b")), 400, "invalid_id"),
    (
        "a command id twice",
        batch(spawn(command_id="a"), spawn(command_id="a")),
        400,
        "invalid_batch",
    ),
    ("an empty batch id", batch(spawn(), batch_id=""), 400, "invalid_id"),
    ("a batch id too long", batch(spawn(), batch_id="x" * 121), 400, "invalid_id"),
    ("a control character in a batch id", batch(spawn(), batch_id="a\0b"), 400, "invalid_id"),
    ("a batch id that is no text", batch(spawn(), batch_id=7), 400, "wrong_type"),
    ("a batch id with other content", batch(spawn(tick=9), batch_id="known"), 409, "conflict"),
    ("a command id with other content", batch(spawn(tick=9, command_id="mine")), 409, "conflict"),
]

TEXTS = [
    ("nothing", "", 400, "invalid_json"),
    ("no JSON", "{", 400, "invalid_json"),
    ("two values", "{} {}", 400, "invalid_json"),
    ("bytes that are no text", b'{"commands": "\xff"}', 400, "invalid_json"),
    ("NaN", text_of("NaN"), 400, "not_finite"),
    ("infinity", text_of("-Infinity"), 400, "not_finite"),
    ("a number that overflows", text_of("1e999"), 400, "not_finite"),
    ("an integer beyond 64 bits", text_of("9" * 400), 400, "wrong_type"),
    ("an integer of many digits", text_of("9" * 5_000), 400, "out_of_range"),
    ("a key twice", '{"commands": [], "commands": []}', 400, "invalid_json"),
    ("a key twice inside", text_of('1, "x": 2'), 400, "invalid_json"),
    ("nesting without end", "[" * 200_000, 400, "invalid_json"),
    ("a body over the limit", '{"commands": "%s"}' % ("x" * 10_000_000), 413, "too_large"),
]

ASKED = [
    ("GET", "/v1/worlds/nowhere", "", 404, "not_found"),
    ("GET", "/v1/worlds/%00", "", 400, "invalid_id"),
    ("GET", f"/v1/worlds/{'x' * 129}", "", 400, "invalid_id"),
    ("GET", "/v1/worlds/nowhere/log", "", 404, "not_found"),
    ("GET", "/v1/worlds/nowhere/commands", "", 404, "not_found"),
    ("GET", f"{COMMANDS}/unheard", "", 404, "not_found"),
    ("GET", f"{COMMANDS}/known.99", "", 404, "not_found"),
    ("DELETE", f"{COMMANDS}/unheard", "", 404, "not_found"),
    ("DELETE", COMMANDS, "", 400, "invalid_value"),
    ("GET", "/v1/worlds", "limit=0", 400, "out_of_range"),
    ("GET", "/v1/worlds", "limit=1001", 400, "out_of_range"),
    ("GET", "/v1/worlds", "limit=many", 400, "wrong_type"),
    ("GET", "/v1/worlds", "limit=1&limit=2", 400, "wrong_type"),
    ("GET", "/v1/worlds", "colour=red", 400, "unknown_field"),
    ("GET", "/v1/worlds", "next=garbage", 400, "invalid_value"),
    ("GET", COMMANDS, "next=d29ybGRzCmE", 400, "invalid_value"),
    ("GET", f"{HARBOUR}/log", "after=-1", 400, "out_of_range"),
    ("GET", f"{HARBOUR}/log", f"after={2**64}", 400, "out_of_range"),
    ("GET", f"{HARBOUR}/log", "wait=21", 400, "out_of_range"),
    ("GET", f"{HARBOUR}/log", "wait=nan", 400, "not_finite"),
    ("GET", HARBOUR, "colour=red", 400, "unknown_field"),
    ("GET", "/v2/worlds", "", 404, "not_found"),
    ("PATCH", "/v1/worlds", "", 404, "not_found"),
    ("GET", "/v1/worlds/a/b/c", "", 404, "not_found"),
]


@pytest.fixture(autouse=True)
def known(call, harbour):
    """A world with a batch and a command of its own id in it."""
    assert call("POST", COMMANDS, batch(spawn(), batch_id="known")).status == 202
    assert call("POST", COMMANDS, batch(spawn(command_id="mine"), batch_id="own")).status == 202


def refused(rig, before, reply, status, code):
    assert (reply.status, reply.body["code"]) == (status, code), reply.body
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["status"] == status
    assert reply.body["expected"]
    assert reply.body["found"]
    assert len(json.dumps(reply.body)) < 2_000
    assert rig.snapshot() == before


@pytest.mark.parametrize(
    ("body", "status", "code"), [case[1:] for case in WORLDS], ids=[case[0] for case in WORLDS]
)
def test_world_with_bad_input_is_refused_without_a_trace(rig, body, status, code):
    before = rig.snapshot()

    reply = rig.caller("POST", "/v1/worlds", body)

    refused(rig, before, reply, status, code)


@pytest.mark.parametrize(
    ("body", "status", "code"), [case[1:] for case in BATCHES], ids=[case[0] for case in BATCHES]
)
def test_batch_with_bad_input_is_refused_without_a_trace(rig, body, status, code):
    before = rig.snapshot()

    reply = rig.caller("POST", COMMANDS, body)

    refused(rig, before, reply, status, code)


@pytest.mark.parametrize(
    ("text", "status", "code"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS]
)
def test_body_that_is_no_good_json_is_refused_without_a_trace(rig, text, status, code):
    before = rig.snapshot()

    reply = rig.caller("POST", COMMANDS, text=text)

    refused(rig, before, reply, status, code)


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "code"),
    ASKED,
    ids=[" ".join(case[:3])[:60] for case in ASKED],
)
def test_question_with_bad_input_is_refused_without_a_trace(rig, method, path, query, status, code):
    before = rig.snapshot()

    reply = rig.caller(method, path, query=query)

    refused(rig, before, reply, status, code)


def test_batch_for_a_world_that_does_not_exist_is_refused_without_a_trace(rig):
    before = rig.snapshot()

    reply = rig.caller("POST", "/v1/worlds/nowhere/commands", batch(spawn()))

    refused(rig, before, reply, 404, "not_found")


def test_two_different_ids_for_one_batch_are_refused_without_a_trace(rig):
    before = rig.snapshot()

    reply = rig.caller("POST", COMMANDS, batch(spawn(), batch_id="a"), idempotency_key="b")

    refused(rig, before, reply, 400, "invalid_value")


def test_fault_in_a_batch_is_named_by_its_place(call):
    reply = call("POST", COMMANDS, batch(spawn(), spawn(tick="soon")))

    assert reply.body["expected"].startswith("commands.1.tick: ")
    assert reply.body["found"] == "'soon'"


@pytest.mark.parametrize("body", [["a"], 7, "a", None])
@pytest.mark.parametrize("path", ["/v1/worlds", COMMANDS])
def test_body_that_is_no_object_is_told_without_the_words_of_a_library(call, path, body):
    reply = call("POST", path, text=json.dumps(body))

    assert (reply.status, reply.body["code"]) == (400, "wrong_type")
    assert reply.body["expected"] == "body: a JSON object"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (7, "commands.0: a JSON object"),
        (spawn(components=[]), "commands.0.components: a JSON object"),
        (spawn(components={"Position": []}), "commands.0.components.Position: a JSON object"),
    ],
)
def test_part_of_a_batch_that_is_no_object_is_told_in_the_same_words(call, command, expected):
    reply = call("POST", COMMANDS, batch(command))

    assert reply.status == 400
    assert reply.body["expected"] == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_body_in_another_encoding_is_refused_for_not_all_readers_guess_it(rig, call, encoding):
    before = rig.snapshot()

    reply = call("POST", "/v1/worlds", text='{"name":"quay"}'.encode(encoding))

    assert (reply.status, reply.body["code"]) == (400, "invalid_json")
    assert rig.snapshot() == before


@pytest.mark.parametrize("name", ["\ud800", "x" * 1_000_000, "\x00", ""])
@pytest.mark.parametrize("path", ["/v1/worlds", COMMANDS])
def test_name_of_a_field_is_told_cut_and_printable(call, path, name):
    good = {"name": "quay"} if path == "/v1/worlds" else batch(spawn())

    reply = call("POST", path, {**good, name: 1})

    assert reply.status == 400
    assert reply.body["code"] in {"unknown_field", "invalid_value"}
    assert len(json.dumps(reply.body)) < 1_000


def test_refusal_of_megabytes_does_not_send_them_back():
    error = InvalidValue(expected="x" * 7_000_000, found="\ud800" * 7_000_000)

    answer = problem(error, is_inside=True)

    assert answer.status == 400
    assert len(answer.body) < 50_000


@pytest.mark.parametrize("depth", range(800, 1_000, 9))
def test_body_of_any_depth_is_refused(call, depth):
    reply = call("POST", f"{HARBOUR}/fork", text='{"name":' + "[" * depth + "]" * depth + "}")

    assert reply.status == 400
