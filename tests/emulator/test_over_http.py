"""The emulator as a black box: what a client of the deployment would see, over HTTP."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

STREAM = "application/vnd.apache.arrow.stream"


def spawn(x=1.0, **fields):
    return {"operation": "spawn", "components": {"Position": {"x": x, "y": 0.0}}, **fields}


def submit(http, world, *commands, batch="b"):
    reply = http.post(f"{world}/commands", json={"commands": commands, "batch_id": batch})
    assert reply.status_code == 202, reply.text
    return reply.json()["receipts"]


def tick(http, world, to_tick):
    reply = http.post(f"{world}/tick", json={"to_tick": to_tick})
    assert reply.status_code == 200, reply.text
    assert reply.json()["done"]
    return reply.json()


def rows(http, world, **query):
    reply = http.get(f"{world}/entities", params={"components": "Position", **query})
    assert reply.status_code == 200, reply.text
    return reply.json()


def places(page):
    return [(row["entity_id"], row["position__x"]) for row in page["rows"]]


def test_command_becomes_a_row_that_processors_move(http, world):
    (receipt,) = submit(http, world, spawn(x=10.0, tick=2))

    ran = tick(http, world, 4)

    assert (ran["published_tick"], ran["ticks"], ran["applied"]) == (4, 5, 1)
    assert places(rows(http, world)) == [(receipt["entity_id"], 13.0)]
    assert places(rows(http, world, tick=2)) == [(receipt["entity_id"], 11.0)]
    assert places(rows(http, world, tick=1)) == []
    status = http.get(f"{world}/commands/b.0").json()
    assert (status["status"], status["applied_tick"]) == ("applied", 2)


def test_ticks_asked_for_under_one_key_run_once(http, world):
    key = {"Idempotency-Key": "three"}

    once = http.post(f"{world}/tick", json={"ticks": 3}, headers=key).json()
    again = http.post(f"{world}/tick", json={"ticks": 3}, headers=key).json()

    assert (once["published_tick"], once["ticks"]) == (2, 3)
    assert (again["published_tick"], again["ticks"]) == (2, 0)


def test_ticks_asked_for_without_a_key_run_each_time(http, world):
    once = http.post(f"{world}/tick", json={"ticks": 2}).json()
    again = http.post(f"{world}/tick", json={"ticks": 2}).json()

    assert (once["published_tick"], again["published_tick"]) == (1, 3)


def test_rows_of_many_ticks_come_page_by_page(http, world):
    submit(http, world, spawn(), spawn(x=5.0))
    tick(http, world, 4)

    pages = [rows(http, world, from_tick=1, to_tick=3, limit=4)]
    while "next" in pages[-1]:
        following = pages[-1]["next"]
        pages.append(rows(http, world, from_tick=1, to_tick=3, limit=4, next=following))

    assert [len(page["rows"]) for page in pages] == [4, 2]
    read = [(row["tick"], row["entity_id"]) for page in pages for row in page["rows"]]
    assert read == [(t, entity) for t in (1, 2, 3) for entity in (1, 2)]


def test_page_of_the_present_keeps_to_the_tick_of_the_first(http, world):
    submit(http, world, spawn(), spawn(x=5.0))
    tick(http, world, 0)
    first = rows(http, world, limit=1)
    tick(http, world, 3)

    second = rows(http, world, limit=1, next=first["next"])

    assert (first["tick"], second["tick"]) == (0, 0)
    assert places(first) + places(second) == [(1, 2.0), (2, 6.0)]


def test_rows_are_chosen_by_entity_and_by_a_condition(http, world):
    submit(http, world, spawn(), spawn(x=5.0), spawn(x=9.0))
    tick(http, world, 0)

    assert places(rows(http, world, entity_id="3,1")) == [(1, 2.0), (3, 10.0)]
    assert places(rows(http, world, where="position__x > 5")) == [(2, 6.0), (3, 10.0)]


def test_rows_come_as_an_arrow_stream_too(http, world):
    submit(http, world, spawn(), spawn(x=5.0))
    tick(http, world, 0)

    reply = http.get(
        f"{world}/entities", params={"components": "Position"}, headers={"Accept": STREAM}
    )

    assert reply.headers["content-type"] == STREAM
    assert reply.headers["perdure-tick"] == "0"
    table = pa.ipc.open_stream(io.BytesIO(reply.content)).read_all()
    assert table["entity_id"].to_pylist() == [1, 2]
    assert table["position__x"].to_pylist() == [2.0, 6.0]


def test_landing_changes_where_rows_lie_and_not_what_they_are(http, world):
    submit(http, world, spawn())
    tick(http, world, 3)
    before = rows(http, world, from_tick=0)

    landed = http.post("/v1/land").json()
    again = http.post("/v1/land").json()

    assert landed["rows"] >= 4
    assert landed["events"] >= 3
    assert (again["rows"], again["files"], again["events"]) == (0, 0, 0)
    assert rows(http, world, from_tick=0) == before


def test_log_tells_what_happened(http, world):
    submit(http, world, spawn())
    tick(http, world, 0)

    page = http.get(f"{world}/log", params={"after": 1}).json()

    assert [entry["kind"] for entry in page["entries"]] == ["admitted", "published"]


def test_log_is_waited_for_while_others_are_answered(http, world):
    with ThreadPoolExecutor(1) as waiting:
        polled = waiting.submit(http.get, f"{world}/log", params={"after": 1, "wait": 10})
        submit(http, world, spawn())
        page = polled.result().json()

    assert [entry["kind"] for entry in page["entries"]] == ["admitted"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (
            {"operation": "update", "entity_id": 77, "components": {"Position": {"x": 0, "y": 0}}},
            "entity_not_found",
        ),
        ({"operation": "despawn", "entity_id": 77}, "entity_not_found"),
        (
            {"operation": "update", "entity_id": 1, "components": {"Cargo": {"tons": 1}}},
            "component_absent",
        ),
        (
            {"operation": "remove_components", "entity_id": 1, "components": ["Cargo"]},
            "component_absent",
        ),
    ],
)
def test_command_that_cannot_be_applied_is_rejected_with_its_code(http, world, command, code):
    submit(http, world, spawn())
    submit(http, world, command, batch="bad")

    ran = tick(http, world, 0)

    assert (ran["applied"], ran["rejected"]) == (1, 1)
    status = http.get(f"{world}/commands/bad.0").json()
    assert (status["status"], status["code"]) == ("rejected", code)
    assert places(rows(http, world)) == [(1, 2.0)]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"components": "Position", "tick": 9}, 404, "not_published"),
        ({"components": "Position", "from_tick": 0, "to_tick": 9}, 404, "not_published"),
        ({"components": "Anchor"}, 400, "unknown_component"),
        ({"components": ""}, 400, "invalid_value"),
        ({"components": "Position,"}, 400, "invalid_value"),
        ({}, 400, "missing_field"),
        ({"components": "Position", "tick": -1}, 400, "out_of_range"),
        ({"components": "Position", "tick": "soon"}, 400, "wrong_type"),
        ({"components": "Position", "tick": 2**64}, 400, "out_of_range"),
        ({"components": "Position", "tick": 0, "to_tick": 0}, 400, "invalid_value"),
        ({"components": "Position", "from_tick": 1, "to_tick": 0}, 400, "invalid_value"),
        ({"components": "Position", "entity_id": "one"}, 400, "invalid_value"),
        ({"components": "Position", "entity_id": 2**63}, 400, "invalid_value"),
        ({"components": "Position", "where": "__import__('os')"}, 400, "invalid_filter"),
        ({"components": "Position", "limit": 0}, 400, "out_of_range"),
        ({"components": "Position", "next": "garbage"}, 400, "invalid_value"),
        ({"components": "Position", "colour": "red"}, 400, "unknown_field"),
    ],
)
def test_query_with_bad_input_is_refused_with_its_code(http, world, query, status, code):
    submit(http, world, spawn())
    tick(http, world, 0)

    reply = http.get(f"{world}/entities", params=query)

    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    assert reply.headers["content-type"] == "application/problem+json"


def test_query_of_a_world_that_never_ticked_is_refused(http, world):
    reply = http.get(f"{world}/entities", params={"components": "Position"})

    assert (reply.status_code, reply.json()["code"]) in {
        (404, "not_published"),
        (400, "unknown_component"),
    }


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_value"),
        ({"ticks": 1, "to_tick": 1}, 400, "invalid_value"),
        ({"ticks": 0}, 400, "out_of_range"),
        ({"to_tick": -1}, 400, "out_of_range"),
        ({"to_tick": True}, 400, "wrong_type"),
        ({"to_tick": 2**70}, 400, "out_of_range"),
        ({"to_tick": 1, "speed": 2}, 400, "unknown_field"),
    ],
)
def test_tick_with_bad_input_is_refused_with_its_code(http, world, body, status, code):
    reply = http.post(f"{world}/tick", json=body)

    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    assert http.get(world).json()["published_tick"] is None


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("GET", "/nowhere", b"", 404, "not_found"),
        ("PUT", "/v1/worlds", b"{}", 404, "not_found"),
        ("POST", "/v1/worlds/nowhere/tick", b'{"to_tick": 1}', 404, "not_found"),
        ("GET", "/v1/worlds/nowhere/entities?components=Position", b"", 404, "not_found"),
        ("POST", "/v1/worlds", b'{"name": NaN}', 400, "not_finite"),
        ("POST", "/v1/worlds", b'{"name": "\xff"}', 400, "invalid_json"),
        ("POST", "/v1/worlds", b"x" * 10_000_001, 413, "too_large"),
        ("GET", "/v1/worlds/a%2Fb", b"", 404, "not_found"),
        ("GET", "/v1/worlds/%00", b"", 400, "invalid_id"),
        ("GET", "/v1/worlds/%00/entities?components=Position&tick=0", b"", 400, "invalid_id"),
    ],
)
def test_request_with_bad_input_is_refused_with_its_code(http, method, path, content, status, code):
    reply = http.request(method, path, content=content)

    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text


def test_many_callers_of_one_world_are_all_answered(http, world):
    with ThreadPoolExecutor(16) as callers:
        answers = list(
            callers.map(lambda n: submit(http, world, spawn(x=float(n)), batch=f"b{n}"), range(64))
        )

    sequences = sorted(receipt["sequence"] for (receipt,) in answers)
    assert sequences == list(range(1, 65))
    assert tick(http, world, 0)["applied"] == 64
