"""Time: whoever waits has an answer before Lambda or API Gateway gives up, whatever hangs."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from tests.api.rig import SCHEDULED, Context, spawn

from perdure.api.deadlines import HTTP_MS_MAX, last_ms, time_left
from perdure.api.watch import InvocationFailed
from perdure.authority.memory import MemoryStore

pytestmark = pytest.mark.cloud

REMAINING_MS = 700
HANGS_MS = 25_000
"""What an answer takes that has not looked at the time there is; a busy machine takes less."""
HARBOUR = {"name": "harbour", "world_id": "harbour"}
COMMANDS = "/v1/worlds/harbour/commands"


class Hanging(MemoryStore):
    """Answers until it is told to hang; then never again, and not even a cancelled caller goes."""

    hangs = False

    async def load(self, reads):
        await self._hang()
        return await super().load(reads)

    async def commit(self, commit):
        await self._hang()
        await super().commit(commit)

    async def _hang(self):
        while self.hangs:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not self.hangs:
                    raise


@pytest.fixture
def hanging(looked_on):
    """A sandbox with a world whose store hangs from now on, and little time."""
    store = Hanging()
    looked = looked_on(store=store)
    looked.asks("POST", "/v1/worlds", HARBOUR)
    looked.context = Context(remaining_ms=REMAINING_MS)
    looked.told()
    store.hangs = True
    yield looked
    store.hangs = False


def timed(call):
    started = time.monotonic()
    reply = call()
    return reply, (time.monotonic() - started) * 1_000


def test_reading_from_a_store_that_hangs_is_answered_before_time_is_up(hanging):
    reply, ms = timed(lambda: hanging.asks("GET", "/v1/worlds/harbour"))

    assert (reply["statusCode"], json.loads(reply["body"])["code"]) == (503, "store_unavailable")
    assert ms < HANGS_MS
    assert reply["headers"]["retry-after"] == "1"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/worlds", {"name": "quay"}),
        ("POST", COMMANDS, {"commands": [spawn()]}),
        ("DELETE", f"{COMMANDS}/b.0", None),
    ],
)
def test_change_in_a_store_that_hangs_is_answered_as_of_unknown_outcome(
    hanging, method, path, body
):
    reply, ms = timed(lambda: hanging.asks(method, path, body))

    assert (reply["statusCode"], json.loads(reply["body"])["code"]) == (503, "outcome_unknown")
    assert ms < HANGS_MS
    assert hanging.line()["code"] == "outcome_unknown"


def test_batch_whose_outcome_is_unknown_can_be_asked_for_again_by_its_id(hanging):
    given = hanging.asks("POST", COMMANDS, {"commands": [spawn()], "batch_id": "mine"})
    drawn = hanging.asks("POST", COMMANDS, {"commands": [spawn()]})

    assert json.loads(given["body"])["batch_id"] == "mine"
    assert json.loads(drawn["body"])["batch_id"].startswith("drawn-")


def test_commit_whose_outcome_is_unknown_can_be_asked_for_again_by_its_id(hanging):
    writes = [{"write": "document.retire", "id": 2}]

    late = hanging.asks("POST", "/v1/stores/notes/commits", {"writes": writes})

    problem = json.loads(late["body"])
    assert (late["statusCode"], problem["code"]) == (503, "outcome_unknown")
    assert problem["commit_id"].startswith("stores-")


def test_sandbox_answers_again_when_the_store_does(hanging):
    hanging.asks("GET", "/v1/worlds/harbour")

    hanging.store.hangs = False
    hanging.sandbox._ports.worlds._authority._lines.clear()
    reply = hanging.asks("GET", "/v1/worlds/harbour")

    assert reply["statusCode"] == 200


def test_storage_that_does_not_open_is_told_and_no_change_is_unknown(looked_on):
    looked = looked_on()
    looked.context = Context(remaining_ms=REMAINING_MS)

    async def never():
        await asyncio.sleep(3600)

    looked.sandbox.opened = never

    reply, ms = timed(lambda: looked.asks("POST", "/v1/worlds", HARBOUR))

    assert json.loads(reply["body"])["code"] == "store_unavailable"
    assert ms < HANGS_MS


def test_work_of_a_schedule_that_hangs_fails_before_time_is_up(looked_on):
    async def work(ports, remaining_ms):
        await asyncio.sleep(3600)

    looked = looked_on(scheduled=work)
    looked.context = Context(remaining_ms=REMAINING_MS)
    started = time.monotonic()

    with pytest.raises(InvocationFailed, match="outcome_unknown"):
        looked.gets(SCHEDULED)

    assert (time.monotonic() - started) * 1_000 < HANGS_MS


def test_error_that_comes_after_the_answer_is_told_to_nobody(looked_on):
    async def work(ports, remaining_ms):
        try:
            await asyncio.sleep(3600)
        finally:
            raise ValueError("hunter2")

    looked = looked_on(scheduled=work)
    looked.context = Context(remaining_ms=100)
    with pytest.raises(InvocationFailed):
        looked.gets(SCHEDULED)

    looked.context = Context()
    looked.asks("GET", "/healthz")

    assert "hunter2" not in looked.told()[2]


@pytest.mark.parametrize(
    ("remaining_ms", "most_ms"), [(15_000, 14_000), (29_000, 28_000), (900_000, 28_000), (500, 0)]
)
def test_work_that_stops_by_itself_does_so_before_it_is_given_up(remaining_ms, most_ms):
    given_up_ms = last_ms(min(remaining_ms, HTTP_MS_MAX))

    assert time_left(remaining_ms) == most_ms
    assert most_ms < given_up_ms < min(remaining_ms, 30_000)


@pytest.mark.parametrize(
    ("remaining_ms", "looks"), [(15_000, 56), (3_000, 8), (1_000, 0), (500, 0)]
)
def test_long_poll_waits_no_longer_than_the_function_may(looked_on, remaining_ms, looks):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    looked = looked_on(pause=pause)
    looked.asks("POST", "/v1/worlds", HARBOUR)
    looked.context = Context(remaining_ms=remaining_ms)

    reply = looked.asks("GET", "/v1/worlds/harbour/log", query="after=99&wait=20")

    assert json.loads(reply["body"])["entries"] == []
    assert len(pauses) == looks


def test_long_poll_on_a_slow_store_ends_in_time(looked_on):
    class Slow(MemoryStore):
        async def load(self, reads):
            await asyncio.sleep(0.3)
            return await super().load(reads)

    looked = looked_on(store=Slow())
    looked.asks("POST", "/v1/worlds", HARBOUR)
    looked.context = Context(remaining_ms=2_000)

    reply, ms = timed(
        lambda: looked.asks("GET", "/v1/worlds/harbour/log", query="after=99&wait=20")
    )

    assert (reply["statusCode"], json.loads(reply["body"])["entries"]) == (200, [])
    assert ms < HANGS_MS
