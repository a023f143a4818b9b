"""What is done again after a call, and what never is."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.tooling import AskedPlayed, Clock, Played, request

from perdure.runtime.session.ports import Completed, NotSent, OutcomeNotKnown, ScopeDrained
from perdure.runtime.session.resolve import PAUSES_SECONDS, resolve

pytestmark = pytest.mark.sessions

DONE = Completed({"moved": True})
UNKNOWN = OutcomeNotKnown("reset", "The connection broke.")
UNSENT = NotSent("connect_failed", "Nobody listens.")
REFUSED = NotSent("access_denied", "It may not.")
REPEATS = len(PAUSES_SECONDS)


async def resolved(tool, clock=None, effect=None, deadline=1_000_000):
    clock = clock or Clock()
    given = request(deadline=deadline)
    return await resolve(tool, given, now=clock.now, pause=clock.pause, effect=effect)


async def hanging():
    await asyncio.Event().wait()


async def stubborn():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "unknown", [UNKNOWN, ConnectionResetError("gone"), hanging, asyncio.CancelledError()]
)
async def test_an_effectful_call_of_which_nothing_is_known_is_never_made_again(unknown):
    tool = AskedPlayed("effectful", unknown, told=[])

    outcome = await resolved(tool)

    assert isinstance(outcome, OutcomeNotKnown)
    assert (len(tool.calls), tool.asks) == (1, 0)


async def test_an_effectful_call_that_was_not_sent_is_made_again_until_it_may_have_happened():
    tool = Played("effectful", UNSENT, UNSENT, UNKNOWN)

    assert await resolved(tool) == UNKNOWN
    assert len(tool.calls) == 3


@pytest.mark.parametrize("effect", ["pure", "idempotent", "effectful"])
async def test_a_call_that_cannot_be_sent_is_tried_a_few_times(effect):
    tool = Played(effect, *[UNSENT] * 9)

    assert await resolved(tool) == UNSENT
    assert len(tool.calls) == 1 + REPEATS


async def test_a_refusal_that_stays_is_not_asked_for_again():
    tool = Played("pure", REFUSED)

    assert await resolved(tool) == REFUSED


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_does_no_harm_twice_is_made_again_with_the_same_key(effect):
    tool = Played(effect, UNKNOWN, TimeoutError(), DONE)

    assert await resolved(tool) == DONE
    assert len(tool.calls) == 3
    assert len(set(tool.calls)) == 1


async def test_it_is_given_up_after_so_many_times():
    tool = Played("idempotent", *[UNKNOWN] * 9)

    assert await resolved(tool) == UNKNOWN
    assert len(tool.calls) == 1 + REPEATS


@pytest.mark.parametrize("later", [[UNSENT] * 3, [REFUSED]])
async def test_a_repetition_that_was_not_sent_does_not_make_the_call_before_it_unsent(later):
    tool = Played("idempotent", UNKNOWN, *later)

    assert await resolved(tool) == UNKNOWN


async def test_a_scope_that_ends_after_a_call_may_have_happened_was_sent_to():
    tool = Played("pure", UNKNOWN, ScopeDrained("scope_ended", sent=False))

    assert await resolved(tool) == ScopeDrained("scope_ended", sent=True)


async def test_who_can_be_asked_is_asked_and_not_called_again():
    tool = AskedPlayed("idempotent", UNKNOWN, told=[None, ConnectionError(), DONE])

    assert await resolved(tool) == DONE
    assert (len(tool.calls), tool.asks) == (1, 3)


async def test_who_can_be_asked_and_says_nothing_is_not_called_again():
    tool = AskedPlayed("idempotent", UNKNOWN, told=[None, UNKNOWN, None])

    assert await resolved(tool) == UNKNOWN
    assert len(tool.calls) == 1


async def test_a_call_that_never_arrived_is_made_again():
    tool = AskedPlayed("idempotent", UNKNOWN, UNSENT, DONE, told=[UNSENT])

    assert await resolved(tool) == DONE
    assert (len(tool.calls), tool.asks) == (3, 1)


async def test_nothing_is_done_again_past_the_deadline():
    tool, clock = Played("pure", UNKNOWN, UNKNOWN, DONE), Clock()

    outcome = await resolved(tool, clock, deadline=1_100)

    assert outcome == UNKNOWN
    assert len(tool.calls) == 2
    assert clock.instant < 1_100


async def test_nothing_is_sent_past_the_deadline():
    tool = Played("pure", DONE)

    outcome = await resolved(tool, Clock(5_000), deadline=5_000)

    assert outcome == NotSent("out_of_time", "There was no time left to make the call.")
    assert tool.calls == []


@pytest.mark.parametrize("work", [hanging, stubborn])
async def test_a_call_under_way_at_its_deadline_is_unknown(work):
    outcome = await resolved(Played("effectful", work), deadline=50)

    assert isinstance(outcome, OutcomeNotKnown)
    assert outcome.code == "timeout"


async def test_who_is_cancelled_cancels_the_call_and_says_nothing_of_it():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def watched():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tool, given = Played("pure", watched, DONE), request()
    task = asyncio.ensure_future(
        resolve(tool, given, now=Clock().now, pause=lambda _: asyncio.sleep(3_600))
    )
    await begun.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert len(tool.calls) == 1


async def test_plan_and_tool_must_agree_that_a_call_may_be_made_again():
    tool = Played("pure", UNKNOWN, DONE)

    assert await resolved(tool, effect="effectful") == UNKNOWN
    assert await resolved(Played("pure", UNKNOWN, DONE), effect="pure") == DONE
