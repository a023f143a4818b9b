"""What each request answers in each state of a session, and that a refusal writes nothing."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import asking_first, counting, sessions_on, within

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Holder, Seq, StepId, Token
from perdure.kernel.session.facts import StepStarted
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.owner import Append, Behind
from perdure.runtime.session.journal import Journal

pytestmark = pytest.mark.sessions

LEASE_MS = 20_000


async def session_in(state):
    """Return sessions with one in a state: idle, active, cancelled, paused or full of sends."""
    tool = counting("launch", needs_approval=True)
    sessions = sessions_on(script=asking_first, tools=[tool])
    await sessions.create("pilot", session_id="s")
    if state == "idle":
        return sessions
    await sessions.send("s", "one", send_id="first")
    if state == "paused":
        await sessions.drive("s", deadline=within(sessions))
    if state == "ended":
        await sessions.cancel("s", "first")
        await sessions.drive("s", deadline=within(sessions))
    if state == "cancelled":
        await sessions.cancel("s", "first")
    if state in {"waited for", "full"}:
        for number in range(100 if state == "full" else 1):
            await sessions.send("s", "next", send_id=f"queued{number}")
    return sessions


def send(text="in", **more):
    return lambda sessions: sessions.send("s", text, **{"send_id": "new", **more})


def told(coroutine):
    """Return what a call came to: the state it tells, or the code of its refusal."""

    async def call(sessions):
        try:
            reply = await coroutine(sessions)
        except PerdureError as error:
            return error.code
        return f"{reply.state}{' again' if getattr(reply, 'replayed', False) else ''}"

    return call


async def call_key(sessions):
    return (await sessions.describe("s")).waiting_calls[0].call_key


def resolve(*words):
    async def resolved(sessions):
        key = await call_key(sessions)
        for word in words:
            reply = await sessions.resolve("s", key, word)
        return reply

    return resolved


async def _resolve_cancelled(sessions):
    key = await call_key(sessions)
    await sessions.cancel("s", "first")
    return await sessions.resolve("s", key, "approved")


FIRST = {"text": "one", "send_id": "first"}
SECOND_ID = send(text="one", run_id="first")

CASES = [
    # state, what is asked, what is told, frames written
    ("idle", send(), "active", 1),
    ("idle", send(delivery="steer"), "active", 1),
    ("idle", send(delivery="interrupt"), "active", 1),
    ("idle", send(delivery="later"), "unknown_delivery", 0),
    ("active", send(), "pending", 1),
    ("active", send(delivery="steer"), "active", 1),
    ("active", send(delivery="interrupt"), "pending", 2),
    ("active", send(**FIRST), "active again", 0),
    ("active", send(**{**FIRST, "text": "other"}), "send_id_reuse", 0),
    ("active", send(**FIRST, delivery="steer"), "send_id_reuse", 0),
    ("active", send(**FIRST, run_id="first"), "send_id_reuse", 0),
    ("active", send(**FIRST, overrides={"max_steps": 2}), "send_id_reuse", 0),
    ("active", SECOND_ID, "active again", 0),
    ("active", send(text="other", run_id="first"), "conflict", 0),
    ("paused", send(), "run_paused", 0),
    ("paused", send(delivery="steer"), "run_paused", 0),
    ("paused", send(delivery="interrupt"), "run_paused", 0),
    ("paused", send(**FIRST), "paused again", 0),
    ("cancelled", send(), "pending", 1),
    ("cancelled", send(delivery="interrupt"), "pending", 2),
    ("ended", send(**FIRST), "finished again", 0),
    ("ended", send(), "active", 1),
    ("waited for", send("next", send_id="queued0"), "pending again", 0),
    ("full", send(), "queue_full", 0),
    ("full", send(delivery="steer"), "active", 1),
    ("full", send("next", send_id="queued7"), "pending again", 0),
    ("idle", lambda sessions: sessions.cancel("s", "first"), "not_found", 0),
    ("active", lambda sessions: sessions.cancel("s", "first"), "active", 1),
    ("active", lambda sessions: sessions.cancel("s", "other"), "not_found", 0),
    ("cancelled", lambda sessions: sessions.cancel("s", "first"), "active again", 0),
    ("cancelled", lambda sessions: sessions.cancel("s", "first", "now"), "active", 1),
    ("paused", lambda sessions: sessions.cancel("s", "first"), "active", 1),
    ("ended", lambda sessions: sessions.cancel("s", "first"), "finished again", 0),
    ("waited for", lambda sessions: sessions.cancel("s", "queued0"), "not_found", 0),
    ("idle", lambda sessions: sessions.retract("s", "first"), "not_found", 0),
    ("active", lambda sessions: sessions.retract("s", "first"), "not_found", 0),
    ("waited for", lambda sessions: sessions.retract("s", "queued0"), "retracted", 1),
    ("paused", resolve("approved"), "decided", 1),
    ("paused", resolve("denied"), "decided", 1),
    ("paused", resolve("approved", "approved"), "repeated", 1),
    ("paused", resolve("approved", "denied"), "already_decided", 1),
    ("paused", _resolve_cancelled, "already_decided", 1),
    ("active", lambda sessions: sessions.resolve("s", "no", "approved"), "not_found", 0),
]


@pytest.mark.parametrize(
    ("state", "asked", "expected", "frames"),
    CASES,
    ids=[f"{number}-{row[0]}-{row[2]}" for number, row in enumerate(CASES)],
)
def test_each_request_has_its_answer_in_each_state(state, asked, expected, frames):
    async def case():
        sessions = await session_in(state)
        before = await sessions.describe("s")
        records = dict(sessions.means.authority._store._records)

        found = await told(asked)(sessions)

        after = await sessions.describe("s")
        assert (found, after.seq - before.seq) == (expected, frames)
        if not frames:
            now = sessions.means.authority._store._records
            new = {key.sort for key in now.keys() - records.keys()}
            # A second send id of a run is remembered; whatever else is refused or repeated is not.
            assert new == ({"key/send/new"} if asked is SECOND_ID else set())
            assert {key: now[key] for key in records} == records

    asyncio.run(case())


def test_a_send_taken_back_stays_so_and_one_that_has_begun_can_not_be():
    async def case():
        sessions = await session_in("waited for")
        await sessions.send("s", "second", send_id="other")
        await sessions.retract("s", "queued0")
        await sessions.cancel("s", "first")
        await sessions.drive("s", deadline=within(sessions))

        again = await told(lambda _: sessions.retract("s", "queued0"))(sessions)
        begun = await told(lambda _: sessions.retract("s", "other"))(sessions)

        assert (again, begun) == ("retracted again", "not_retractable")

    asyncio.run(case())


@pytest.mark.parametrize("delivery", ["queue", "steer", "interrupt"])
def test_an_append_behind_a_control_frame_writes_nothing_and_says_so(delivery):
    async def case():
        sessions = await session_in("active")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        await sessions.send("s", "next", send_id="new", delivery=delivery)
        before = await sessions.describe("s")

        found = await sessions.means.authority.execute(append(journal, "one"))

        assert found == Behind(before.seq)
        assert await sessions.describe("s") == before

    asyncio.run(case())


def test_an_append_that_landed_is_known_again_though_the_head_has_moved_on():
    async def case():
        sessions = await session_in("active")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        request = append(journal, "one")
        await sessions.means.authority.execute(request)
        await sessions.send("s", "next", send_id="new", delivery="steer")
        before = await sessions.describe("s")

        found = await sessions.means.authority.execute(request)

        assert (found.replayed, found.frames[-1].seq) == (True, Seq(journal.seq + 1))
        assert await sessions.describe("s") == before

    asyncio.run(case())


def append(journal, token):
    fact = prepared(StepStarted(step_id=StepId("s1-1"), episode=1))
    grip = journal.grip
    return Append(
        journal.ref, grip.epoch, grip.holder, journal.seq, (fact,), Token(token), LEASE_MS
    )
