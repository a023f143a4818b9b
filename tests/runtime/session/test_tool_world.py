"""World tools: an agent changes a world at most once, and may no more than its owner may."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
from tests.support.world_sessions import (
    SESSION,
    SPAWN,
    WORLD,
    app_of,
    opened,
)

from perdure.api.operations import LEAST_ROLE, ROLES
from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.errors import Invalid, OutcomeUnknown, StoreUnavailable
from perdure.kernel.ids import AgentRunId, CallKey, Instant, SessionId
from perdure.kernel.operations import OPERATIONS
from perdure.runtime.session.ports import CallRequest, Completed, NotSent, OutcomeNotKnown
from perdure.runtime.session.tool_world import OWNERS_OPERATIONS, Reach, world_tools

pytestmark = pytest.mark.sessions

KEYS = itertools.count(1)


def request_of(name, args, *, actor=None, key=None, ms=60_000, now=None):
    return CallRequest(
        session=SessionId(SESSION),
        run=AgentRunId("run"),
        call_key=CallKey(f"lineage-{next(KEYS)}-0" if key is None else key),
        tool_call_id="call_0",
        name=name,
        args=args,
        deadline=Instant((now or 10**14) + ms),
        actor=actor,
    )


async def called(storage, name, args, *, tools=None, **more):
    """Make one call of a tool on a storage, and return what it came to."""
    tool = next(each for each in tools or world_tools(WORLD) if each.spec.name == name)
    reach = storage.sessions.reach
    return await replace(tool, reach=reach).call(request_of(name, args, **more))


def told(root, story):
    """Run a story on a new storage with one world."""

    async def whole():
        async with opened(root) as storage:
            await storage.create_world(WORLD, world_id=WORLD)
            return await story(storage)

    return asyncio.run(whole())


def error_of(outcome):
    assert isinstance(outcome, Completed)
    assert outcome.is_error
    return outcome.output["error"]


def test_a_spawn_lands_once_however_often_its_call_is_made(tmp_path):
    async def story(storage):
        args = {"commands": [SPAWN]}
        first = await called(storage, "submit", args, key="one")
        again = await called(storage, "submit", args, key="one")
        other = await called(storage, "submit", args, key="two")
        return first, again, other, await storage.worlds.commands(WORLD)

    first, again, other, (commands, _) = told(tmp_path, story)

    assert first.output["replayed"] is False
    assert again.output["replayed"] is True
    assert first.output["commands"] == again.output["commands"]
    assert other.output["commands"] != first.output["commands"]
    assert len(commands) == 2


def test_a_number_that_is_an_integer_to_json_schema_is_one(tmp_path):
    async def story(storage):
        await called(storage, "submit", {"commands": [SPAWN]})
        ran = await called(storage, "run_ticks", {"ticks": 1.0}, now=storage.now())
        args = {"components": ["Ship"], "limit": 5.0, "tick": 0.0, "entity_ids": [1.0]}
        return ran, await called(storage, "query", args)

    ran, seen = told(tmp_path, story)

    assert repr(ran.output["published_tick"]) == "0"
    assert seen.output["rows"] == [{"entity_id": 1, "ship__tons": 7}]
    assert repr(seen.output["tick"]) == "0"


def test_what_was_submitted_is_ticked_and_then_seen(tmp_path):
    async def story(storage):
        commands = [SPAWN, {"operation": "spawn", "components": {"Ship": {"tons": 900}}}]
        done = await called(storage, "submit", {"commands": commands})
        ran = await called(storage, "run_ticks", {"ticks": 2}, now=storage.now())
        command = done.output["commands"][0]["command_id"]
        return (
            ran.output,
            (await called(storage, "query", {"components": ["Ship"]})).output,
            (await called(storage, "query", {"components": ["Ship"], "limit": 1})).output,
            (
                await called(storage, "query", {"components": ["Ship"], "where": "ship__tons > 99"})
            ).output,
            (await called(storage, "world_info", {})).output,
            (await called(storage, "command_status", {"command_id": command})).output,
        )

    ran, rows, one, heavy, info, status = told(tmp_path, story)

    assert (ran["published_tick"], ran["done"], ran["applied"]) == (1, True, 2)
    assert rows["rows"] == [
        {"entity_id": 1, "ship__tons": 7},
        {"entity_id": 2, "ship__tons": 900},
    ]
    assert rows["more"] is False
    assert (len(one["rows"]), one["more"]) == (1, True)
    assert [row["entity_id"] for row in heavy["rows"]] == [2]
    assert (info["published_tick"], info["entities"], info["status"]) == (1, 2, "active")
    assert (status["status"], status["applied_tick"]) == ("applied", 0)


def test_ticks_asked_for_again_are_not_run_again(tmp_path):
    async def story(storage):
        more = {"key": "one", "now": storage.now()}
        await called(storage, "run_ticks", {"ticks": 2}, **more)
        return await called(storage, "run_ticks", {"ticks": 2}, **more)

    again = told(tmp_path, story)

    assert (again.output["published_tick"], again.output["done"]) == (1, True)


def test_rows_that_nobody_could_read_at_once_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.runtime.session.tool_world.ROWS_BYTES_MAX", 100)

    async def story(storage):
        await called(storage, "submit", {"commands": [SPAWN] * 20})
        await called(storage, "run_ticks", {"ticks": 1}, now=storage.now())
        return await called(storage, "query", {"components": ["Ship"]})

    rows = told(tmp_path, story).output

    assert 0 < len(rows["rows"]) < 20
    assert rows["more"] is True


def test_a_refusal_of_the_world_is_the_tools_answer(tmp_path):
    async def story(storage):
        anywhere = world_tools()

        async def on(world, name, **args):
            args = {"world_id": world, **args}
            return error_of(await called(storage, name, args, tools=anywhere))

        async with storage.private_world("secret", world_id="secret"):
            private = (
                await on("secret", "submit", commands=[SPAWN]),
                await on("secret", "run_ticks", ticks=1),
            )
        unpublished = await on(WORLD, "query", components=["Ship"])
        unknown = await on(WORLD, "command_status", command_id="none")
        wrong = await on(
            WORLD, "submit", commands=[{"operation": "spawn", "components": {"Boat": {}}}]
        )
        nowhere = await on("atlantis", "world_info")
        await (await storage.world(WORLD)).destroy()
        return {
            "private": private,
            "others": (unpublished, unknown, wrong, nowhere),
            "destroyed": await on(WORLD, "submit", commands=[SPAWN]),
        }

    found = told(tmp_path, story)

    assert found == {
        "private": ("not_permitted", "not_resumable"),
        "others": ("not_published", "not_found", "unknown_component", "not_found"),
        "destroyed": "world_destroyed",
    }


def test_what_was_admitted_is_answered_also_after_the_end_of_the_world(tmp_path):
    async def story(storage):
        await called(storage, "submit", {"commands": [SPAWN]}, key="one")
        await (await storage.world(WORLD)).destroy()
        return await called(storage, "submit", {"commands": [SPAWN]}, key="one")

    again = told(tmp_path, story)

    assert again.output["replayed"] is True
    assert again.output["commands"][0]["status"] == "rejected"


def test_what_an_earlier_version_admitted_is_known_to_one_that_would_refuse_it(tmp_path):
    async def story(storage):
        await called(storage, "submit", {"commands": [SPAWN, SPAWN]}, key="one")
        changed = {"commands": [{"operation": "spawn", "components": {"Boat": {}}}] * 2}
        return await called(storage, "submit", changed, key="one")

    again = told(tmp_path, story)

    assert not again.is_error
    assert [each["operation"] for each in again.output["commands"]] == ["spawn", "spawn"]


def test_the_log_of_a_world_says_for_whom_an_agent_acted(tmp_path):
    async def story(storage):
        await called(storage, "submit", {"commands": [SPAWN]}, actor="ann")
        return (await storage.worlds.log(WORLD))[-1].facts

    facts = told(tmp_path, story)

    assert (facts["actor"], facts["origin"]) == ("ann", "session")


def test_an_agent_may_no_more_than_every_owner_of_a_session():
    player = ROLES.index("player")

    allowed = {name for name in OPERATIONS if ROLES.index(LEAST_ROLE[name]) <= player}

    assert allowed == OWNERS_OPERATIONS
    assert ROLES.index(LEAST_ROLE["run_ticks"]) > player


def test_an_agent_of_an_actor_is_refused_what_its_owner_would_be(tmp_path):
    adding = {"operation": "add_components", "entity_id": 1, "components": {"Ship": {"tons": 1}}}

    async def story(storage):
        return (
            error_of(await called(storage, "submit", {"commands": [adding]}, actor="ann")),
            error_of(await called(storage, "run_ticks", {"ticks": 1}, actor="ann")),
            await storage.worlds.commands(WORLD),
        )

    adds, ticks, (commands, _) = told(tmp_path, story)

    assert (adds, ticks) == ("not_permitted", "not_permitted")
    assert commands == []


def test_an_agent_pays_from_what_its_owner_may_spend(tmp_path):
    async def story(storage):
        allowance = Allowance(units=2, window_ms=10**12)
        reach = replace(storage.sessions.reach, allowance=allowance)
        submit = replace(world_tools(WORLD)[0], reach=reach)
        twice = request_of("submit", {"commands": [SPAWN, SPAWN]}, actor="ann")
        more = request_of("submit", {"commands": [SPAWN]}, actor="ann")
        return await submit.call(twice), await submit.call(more), await submit.call(twice)

    paid, refused, again = told(tmp_path, story)

    assert isinstance(paid, Completed)
    assert isinstance(refused, NotSent)
    assert refused.code == "quota_exceeded"
    assert again.output["replayed"] is True


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(OutcomeUnknown, OutcomeNotKnown), (StoreUnavailable, OutcomeNotKnown)],
)
def test_a_world_that_does_not_answer_leaves_the_outcome_open(tmp_path, raised, expected):
    class Silent:
        async def submit(self, *_arguments, **_options):
            raise raised(expected="an answer", found="none")

    submit = replace(world_tools(WORLD)[0], reach=Reach(Silent()))

    outcome = asyncio.run(submit.call(request_of("submit", {"commands": [SPAWN]})))

    assert isinstance(outcome, expected)
    assert outcome.code == raised.code


def test_where_no_world_is_reached_a_call_provably_never_left():
    async def story():
        request = request_of("query", {"components": ["Ship"]})
        query = world_tools(WORLD, only=["query"])[0]
        return await query.call(request), await replace(query, reach=Reach(None)).call(request)

    unbound, without_rows = asyncio.run(story())

    assert isinstance(unbound, NotSent)
    assert unbound.code == "tool_gone"
    # It asks which tick is published only where it could read that.
    assert isinstance(without_rows, NotSent)


def test_tools_are_chosen_by_name():
    chosen = world_tools(only=["query", "submit"], needs_approval=["submit"])

    assert [(each.spec.name, each.spec.needs_approval) for each in chosen] == [
        ("submit", True),
        ("query", False),
    ]
    with pytest.raises(Invalid):
        world_tools(only=["destroy"])


def test_a_tool_of_an_app_reaches_the_storage_of_its_session_only_while_it_is_driven():
    app = app_of()

    tool = app.agent_named("pilot").tools.named("submit")

    assert tool.reach is None
    assert Caller().origin == "local"
