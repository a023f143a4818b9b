"""What a journal can not hold is refused or told of, and never stops a session."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.support.sessions import asking_first, counting, sessions_on, within

from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue, SessionTooLarge, TooLarge
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import CallOutcome, Completed, NotSent, OutcomeNotKnown

pytestmark = pytest.mark.sessions

HALF = "\ud800"


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"in": value}
    return value


async def standing(sessions):
    await sessions.create("pilot", session_id="talk")
    await sessions.send("talk", "go", send_id="go")
    await sessions.drive("talk", deadline=within(sessions))
    return await sessions.send("talk", "go", send_id="go")


class Saying:
    def __init__(self, outcome: CallOutcome) -> None:
        self.spec = counting("launch").spec
        self.outcome = outcome

    async def call(self, request):
        return self.outcome


def launching(request, said):
    return calling(("launch", {})) if said == 0 else "Done."


@pytest.mark.parametrize("options", [nested(300), {HALF: 1}], ids=("deep", "half a pair"))
def test_overrides_that_no_journal_holds_are_refused(options):
    async def told():
        sessions = sessions_on()
        await sessions.create("pilot", session_id="talk")
        with pytest.raises(InvalidValue):
            await sessions.send("talk", "go", overrides={"options": options})
        return await sessions.describe("talk")

    assert asyncio.run(told()).seq == 1


@pytest.mark.parametrize(
    "outcome",
    [
        Completed(nested(300)),
        Completed({HALF: 1}),
        NotSent("refused", "x" * 5_000_000),
    ],
    ids=("too deep", "a name that is no text", "too much to say"),
)
def test_answer_that_no_journal_holds_is_told_as_an_error_and_the_run_goes_on(outcome):
    tool = Saying(outcome)

    found = asyncio.run(standing(sessions_on(script=launching, tools=[tool])))

    assert (found.state, found.reason) == ("finished", "completed")


def test_unknown_outcome_with_too_much_to_say_stays_unknown():
    tool = Saying(OutcomeNotKnown("broken", "x" * 5_000_000))

    found = asyncio.run(standing(sessions_on(script=launching, tools=[tool])))

    assert (found.state, found.reason) == ("finished", "interrupted")


def test_message_that_no_journal_holds_ends_its_run_at_once():
    def deep(request, said):
        return calling(("launch", nested(300)))

    found = asyncio.run(standing(sessions_on(script=deep, tools=[counting("launch")])))

    assert (found.reason, found.code) == ("error", "invalid_value")


def test_detail_that_no_frame_holds_inline_is_refused_and_the_call_still_waits():
    async def told():
        tool = counting("launch", needs_approval=True)
        sessions = sessions_on(script=asking_first, tools=[tool])
        await standing(sessions)
        (waiting,) = (await sessions.describe("talk")).waiting_calls
        with pytest.raises(TooLarge):
            await sessions.resolve("talk", waiting.call_key, "denied", detail="x" * 100_000)
        await sessions.resolve("talk", waiting.call_key, "denied", detail="x" * 2_000)
        await sessions.drive("talk", deadline=within(sessions))
        return await sessions.send("talk", "go", send_id="go")

    found = asyncio.run(told())

    assert (found.state, found.reason) == ("finished", "completed")


def test_title_is_as_long_as_the_interface_says_whoever_sends():
    async def told():
        sessions = sessions_on()
        await sessions.create("pilot", session_id="talk")
        with pytest.raises(TooLarge):
            await sessions.send("talk", "go", title="x" * 201)

    asyncio.run(told())


async def filled(sessions):
    """Steer until not a byte is left that a steer could take."""
    for size in (10_000, 1_000, 100, 10, 1):
        with contextlib.suppress(SessionTooLarge):
            while True:
                await sessions.send("talk", "z" * size, delivery="steer")


def test_full_journal_takes_back_as_many_sends_as_may_wait():
    async def told():
        sessions = sessions_on()
        await sessions.create("pilot", session_id="talk", ceiling_bytes=2 * limits.CLOSE_OUT_BYTES)
        await sessions.send("talk", "go")
        for number in range(limits.QUEUED_SENDS_MAX):
            await sessions.send("talk", "y" * 400, send_id=f"waits-{number}")
        await filled(sessions)
        driven = await sessions.drive("talk", deadline=within(sessions))
        last = await sessions.send("talk", "y" * 400, send_id="waits-99")
        return driven, last, await sessions.describe("talk")

    driven, last, info = asyncio.run(told())

    assert (driven.state, last.state, info.queued) == ("idle", "retracted", 0)
