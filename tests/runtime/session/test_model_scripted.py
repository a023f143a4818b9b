"""The scripted model: what its script says, each step from the messages alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.house.sources import environment
from tests.runtime.session.asking import Listener, asked, request_of

from perdure.kernel.session.messages import AssistantMessage, ToolCall, UserMessage
from perdure.runtime.session.model_scripted import (
    Fails,
    Hangs,
    Refuses,
    ScriptedModel,
    calling,
)
from perdure.runtime.session.ports import ModelRefused, ModelUnavailable

pytestmark = pytest.mark.sessions


def scripted(script):
    return ScriptedModel(script, now=lambda: 1_000)


async def test_the_messages_alone_decide_which_step_comes_next():
    script = [calling(("look", {"at": 1})), "done"]
    first = await asked(scripted(script), request_of(UserMessage(text="go")))

    again = await asked(scripted(script), request_of(UserMessage(text="go"), first.message))

    assert first.message.calls == (ToolCall(tool_call_id="call_0", name="look", args={"at": 1}),)
    assert (again.message.text, again.message.stop) == ("done", "end")


async def test_a_function_is_told_the_request_and_how_much_was_said():
    def echo(request, said):
        return f"{said}: {request.messages[0].text}"

    reply = await asked(scripted(echo), request_of(UserMessage(text="hello")))

    assert reply.message.text == "0: hello"


async def test_the_pieces_make_up_the_text():
    listener = Listener()

    reply = await asked(scripted(["to the  very\nend "]), request_of(), listener)

    assert listener.pieces == ["to ", "the  ", "very\n", "end "]
    assert "".join(listener.pieces) == reply.message.text


async def test_the_same_request_is_measured_alike():
    one, other = Listener(), Listener()

    for listener in (one, other):
        await asked(scripted(["x"]), request_of(UserMessage(text="hello")), listener)

    assert one.attempts == other.attempts
    assert [each.outcome for each in one.attempts] == ["completed"]


async def test_a_step_that_fails_is_tried_again_and_each_attempt_told():
    listener = Listener()

    reply = await asked(scripted([Fails(2, "at last", after="at ")]), request_of(), listener)

    assert reply.message.text == "at last"
    assert [(each.attempt, each.outcome) for each in listener.attempts] == [
        (1, "cut"),
        (2, "cut"),
        (3, "completed"),
    ]
    assert listener.pieces == ["at ", "at ", "at ", "last"]


async def test_a_step_that_fails_too_often_is_unavailable():
    listener = Listener()

    with pytest.raises(ModelUnavailable):
        await asked(scripted([Fails(3)]), request_of(), listener)

    assert [each.http_status for each in listener.attempts] == [503, 503, 503]


@pytest.mark.parametrize("script", [[Refuses("no")], []], ids=["told to", "at its end"])
async def test_a_script_may_refuse(script):
    with pytest.raises(ModelRefused):
        await asked(scripted(script), request_of())


async def test_a_step_that_hangs_ends_at_the_deadline():
    listener, waited = Listener(), []

    async def pause(seconds):
        waited.append(seconds)

    with pytest.raises(ModelUnavailable):
        await asked(ScriptedModel([Hangs()], lambda: 1_000, pause), request_of(), listener)

    assert waited == [listener.deadline / 1_000 - 1]
    assert [each.outcome for each in listener.attempts] == ["failed"]


async def test_a_cancelled_step_is_told_of():
    listener = Listener()
    step = asyncio.create_task(asked(scripted([Hangs("so far")]), request_of(), listener))
    await listener.told(2)

    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step

    assert [each.outcome for each in listener.attempts] == ["cancelled"]


async def test_ids_that_a_script_repeats_are_told_apart():
    call = ToolCall(tool_call_id="a", name="look", args={})
    script = [AssistantMessage(calls=(call, call), stop="tool_calls")]

    reply = await asked(scripted(script), request_of())

    assert [each.tool_call_id for each in reply.message.calls] == ["a", "a#2"]


def test_it_can_be_loaded_without_anything_heavy():
    script = (
        "import sys, perdure.runtime.session.model_scripted\n"
        "print(*{'boto3', 'botocore', 'httpx', 'pyarrow', 'pydantic'} & {*sys.modules})"
    )

    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.strip() == ""
