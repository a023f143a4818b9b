"""Routes: what each answers, and that the answer is what the interface describes."""

from __future__ import annotations

import asyncio
import json

from tests.api.rig import Caller, Context, bearer, sandbox_on, spawn

from perdure.api import faces, models
from perdure.api.gateway import REPLY_BYTES_MAX, http_event
from perdure.authority.memory import Fault, FaultPlan, MemoryStore

COMMANDS = "/v1/worlds/harbour/commands"


def test_world_is_created_and_told_of(call):
    made = call("POST", "/v1/worlds", {"name": "quay", "world_id": "q", "every_ms": 60_000})

    told = call("GET", "/v1/worlds/q")

    assert (made.status, told.status) == (201, 200)
    assert told.body == made.body
    info = models.World.model_validate(told.body)
    assert (info.published_tick, info.next_tick, info.every_ms) == (None, 0, 60_000)


def test_creating_the_same_world_again_changes_nothing(rig, harbour):
    before = rig.snapshot()

    again = rig.caller("POST", "/v1/worlds", {"name": "harbour", "world_id": "harbour"})

    assert again.status == 201
    assert rig.snapshot() == before


def test_id_of_a_world_may_hold_any_text_that_is_allowed(call):
    call("POST", "/v1/worlds", {"name": "a", "world_id": 'ü "50%" <a> #?&'})

    told = call("GET", "/v1/worlds/%C3%BC%20%2250%25%22%20%3Ca%3E%20%23%3F%26")

    assert told.status == 200
    assert told.body["world_id"] == 'ü "50%" <a> #?&'


def test_worlds_are_listed_page_by_page(call):
    for name in "abcde":
        call("POST", "/v1/worlds", {"name": name, "world_id": name})

    first = call("GET", "/v1/worlds", query="limit=3")
    second = call("GET", "/v1/worlds", query=f"limit=3&next={first.body['next']}")

    models.Worlds.model_validate(first.body)
    assert [world["world_id"] for world in first.body["worlds"]] == ["a", "b", "c"]
    assert [world["world_id"] for world in second.body["worlds"]] == ["d", "e"]
    assert "next" not in second.body


def test_batch_is_answered_with_a_receipt_for_each_command(call, harbour):
    reply = call(
        "POST",
        COMMANDS,
        {"commands": [spawn(), spawn(tick=7, priority=-2)]},
        idempotency_key="first",
    )

    assert reply.status == 202
    models.Submitted.model_validate(reply.body)
    assert reply.body == {
        "batch_id": "first",
        "replayed": False,
        "receipts": [
            {
                "command_id": "first.0",
                "sequence": 1,
                "entity_id": 1,
                "tick": 0,
                "priority": 0,
                "status": "pending",
            },
            {
                "command_id": "first.1",
                "sequence": 2,
                "entity_id": 2,
                "tick": 7,
                "priority": -2,
                "status": "pending",
            },
        ],
    }


def test_batch_sent_again_is_answered_the_same_and_writes_nothing(rig, harbour):
    body = {"commands": [spawn()], "batch_id": "first"}
    once = rig.caller("POST", COMMANDS, body)
    before = rig.snapshot()

    again = rig.caller("POST", COMMANDS, body)

    assert again.status == 202
    assert again.body["replayed"]
    assert rig.snapshot() == before
    assert again.body["receipts"] == once.body["receipts"]


def test_batch_sent_again_tells_what_became_of_it(call, harbour):
    body = {"commands": [spawn(), spawn(command_id="mine", tick=7), spawn()], "batch_id": "first"}
    call("POST", COMMANDS, body)
    call("DELETE", f"{COMMANDS}/mine")

    again = call("POST", COMMANDS, body)

    models.Submitted.model_validate(again.body)
    told = [receipt["status"] for receipt in again.body["receipts"]]
    assert told == ["pending", "rejected", "pending"]


def test_commands_known_by_their_own_ids_are_answered_as_they_were(call, harbour):
    command = spawn(command_id="mine")
    once = call("POST", COMMANDS, {"commands": [command], "batch_id": "first"})

    again = call("POST", COMMANDS, {"commands": [command], "batch_id": "second"})

    assert again.body["replayed"]
    assert again.body["receipts"] == once.body["receipts"]


def test_ledger_is_listed_page_by_page(call, harbour):
    for batch in "ab":
        call("POST", COMMANDS, {"commands": [spawn(), spawn()], "batch_id": batch})

    first = call("GET", COMMANDS, query="limit=3")
    second = call("GET", COMMANDS, query=f"limit=3&next={first.body['next']}")

    models.Commands.model_validate(first.body)
    listed = [each["command_id"] for each in (*first.body["commands"], *second.body["commands"])]
    assert listed == ["a.0", "a.1", "b.0", "b.1"]
    assert "next" not in second.body


def test_cursor_of_one_world_is_no_use_in_another(call, harbour):
    call("POST", "/v1/worlds", {"name": "quay", "world_id": "quay"})
    call("POST", COMMANDS, {"commands": [spawn(), spawn()]})
    following = call("GET", COMMANDS, query="limit=1").body["next"]

    reply = call("GET", "/v1/worlds/quay/commands", query=f"next={following}")

    assert (reply.status, reply.body["code"]) == (400, "invalid_value")


def test_command_can_be_cancelled_and_tells_so(call, harbour):
    call("POST", COMMANDS, {"commands": [spawn(command_id="mine")]})

    cancelled = call("DELETE", f"{COMMANDS}/mine")
    told = call("GET", f"{COMMANDS}/mine")

    assert (cancelled.status, told.status) == (200, 200)
    assert cancelled.body == told.body
    assert models.Command.model_validate(told.body).status == "rejected"
    assert told.body["code"] == "cancelled"


def test_everything_open_can_be_cancelled_once_by_its_key(rig, harbour):
    rig.caller("POST", COMMANDS, {"commands": [spawn(), spawn()], "batch_id": "a"})

    once = rig.caller("DELETE", COMMANDS, idempotency_key="stop")
    rig.caller("POST", COMMANDS, {"commands": [spawn()], "batch_id": "b"})
    again = rig.caller("DELETE", COMMANDS, idempotency_key="stop")

    assert once.body == again.body == {"cancelled_below": 3}
    told = [each["status"] for each in rig.caller("GET", COMMANDS).body["commands"]]
    assert told == ["rejected", "rejected", "pending"]


def test_log_is_read_behind_a_place(call, harbour):
    call("POST", COMMANDS, {"commands": [spawn()], "batch_id": "a"})

    page = call("GET", "/v1/worlds/harbour/log", query="after=1")

    models.LogPage.model_validate(page.body)
    (entry,) = page.body["entries"]
    assert (entry["seq"], entry["kind"], entry["facts"]["batch"]) == (2, "admitted", "a")
    assert entry["payload"]["commands"] == [spawn()]
    assert entry["payload"]["origin"] == entry["facts"]["origin"] == "gateway"
    assert entry["payload"]["principal"] == entry["facts"]["actor"] == "ann"
    assert page.body["next"] == 2


def test_log_without_news_answers_where_it_was_asked(call, harbour):
    page = call("GET", "/v1/worlds/harbour/log", query="after=7")

    assert page.body == {"entries": [], "next": 7}


def test_log_waits_no_longer_than_it_was_asked_to(rig, harbour):
    page = rig.caller("GET", "/v1/worlds/harbour/log", query="after=1&wait=2")

    assert page.body["entries"] == []
    assert sum(rig.pauses) == 2


def test_page_of_the_log_ends_before_it_is_too_large_to_send(call, harbour):
    large = spawn(components={"Crew": {"size": 1, "captain": "x" * 50_000}})
    for batch in range(3):
        body = {"commands": [large] * 50, "batch_id": f"b{batch}"}
        assert call("POST", COMMANDS, body).status == 202

    first = call("GET", "/v1/worlds/harbour/log")
    second = call("GET", "/v1/worlds/harbour/log", query=f"after={first.body['next']}")

    read = [entry["seq"] for entry in (*first.body["entries"], *second.body["entries"])]
    assert read == [1, 2, 3, 4]
    assert len(json.dumps(first.body)) < REPLY_BYTES_MAX


def test_batch_whose_outcome_is_unknown_is_told_its_id_and_when_to_ask_again():
    store = MemoryStore()
    Caller(sandbox := sandbox_on(store, []))("POST", "/v1/worlds", {"name": "h", "world_id": "h"})
    sandbox.close()
    store.plan = FaultPlan(loads=dict.fromkeys(range(1_000), Fault.THROTTLE))
    caller = Caller(sandbox := sandbox_on(store, []))

    reply = caller("POST", "/v1/worlds/h/commands", {"commands": [spawn()]})

    sandbox.close()
    assert reply.status in {429, 503}
    assert reply.headers["retry-after"] == "1"
    assert reply.body["batch_id"]


def test_what_nobody_foresaw_is_answered_without_anything_of_the_inside(rig, caplog):
    async def failing(*_):
        raise RuntimeError("the secret of the house")

    rig.store.load = failing

    reply = rig.caller("GET", "/v1/worlds/harbour")

    (logged,) = caplog.records
    assert (reply.status, reply.body["code"]) == (500, "internal")
    assert "secret" not in json.dumps(reply.body)
    assert "secret" not in str(vars(logged))
    assert vars(logged)["kind"] == "builtins.RuntimeError"


def test_callers_of_one_world_who_wait_together_share_commits():
    store, event = MemoryStore(), _submission
    sandbox = sandbox_on(store, [])

    async def together():
        made = {"name": "harbour", "world_id": "harbour"}
        await sandbox.answer(_event("/v1/worlds", made), Context())
        before = store.commits
        replies = await asyncio.gather(
            *(sandbox.answer(event(f"b{number}"), Context()) for number in range(32))
        )
        await sandbox.aclose()
        return replies, store.commits - before

    replies, commits = asyncio.run(together())

    assert [reply["statusCode"] for reply in replies] == [202] * 32
    assert commits <= 4


def test_interface_describes_every_route(call):
    reply = call("GET", "/openapi.json")

    models.OpenApi.model_validate(reply.body)
    described = {
        f"{method.upper()} {path}"
        for path, methods in reply.body["paths"].items()
        for method in methods
    }
    answered = [
        (each.method, each.path) for each in (*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS)
    ]
    named = {f"{method} {path.replace('<', '{').replace('>', '}')}" for method, path in answered}
    assert described == named


def test_interface_describes_what_a_batch_may_hold(call):
    reply = call("GET", "/openapi.json")

    body = reply.body["paths"]["/v1/worlds/{world}/commands"]["post"]["requestBody"]
    schema = json.dumps(body) + json.dumps(reply.body["components"]["schemas"])
    for operation in ("spawn", "despawn", "update", "add_components", "remove_components"):
        assert f'"{operation}"' in schema


def test_health_is_told(call):
    assert call("GET", "/healthz").body == {"status": "ok"}


def test_body_in_base64_is_read_like_any_other(rig, harbour):
    body = json.dumps({"commands": [spawn()]}).encode()

    reply = rig.caller("POST", COMMANDS, text=body, content_type="application/octet-stream")

    assert reply.status == 202


def _event(path, body, role="admin"):
    return http_event(
        "POST",
        path,
        headers={},
        body=json.dumps(body).encode(),
        request_id="r",
        authorizer=bearer(role),
    )


def _submission(batch):
    return _event(COMMANDS, {"commands": [spawn()], "batch_id": batch}, role="player")
