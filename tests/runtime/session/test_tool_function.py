"""Functions as tools: their signature is the schema, their answer JSON, their errors their own."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from tests.support.tooling import KEY, Clock, request

from perdure.kernel.errors import Invalid, NotFound, OutcomeUnknown
from perdure.runtime.session.ports import CallRequest, Completed, OutcomeNotKnown
from perdure.runtime.session.resolve import resolve
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX
from perdure.runtime.session.tool_function import tool
from perdure.runtime.session.toolbox import Toolbox

pytestmark = pytest.mark.sessions


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Moved:
    name: str
    at: Point
    on: date


@tool(effect="idempotent", needs_approval=True, timeout_ms=5_000)
async def move(name: str, at: Point, on: date, *, how: Literal["fast", "slow"] = "slow") -> Moved:
    """Move a flight.

    It stays there.

    Args:
        name: which flight,
            as the world calls it
        how (str): at what speed

    Returns:
        Where it is.
    """
    return Moved(f"{name}:{how}", at, on)


def odd(value):
    if value % 2 == 0:
        raise ValueError("even")
    return value


def failing(error):
    def work():
        raise error

    return work


def called(function, /, **args):
    return tool(function, name="it").call(request(**args))


def test_what_a_model_is_told_of_a_function_follows_from_its_signature_and_docstring():
    spec = move.spec

    assert (spec.name, spec.effect, spec.module) == ("move", "idempotent", "function")
    assert (spec.needs_approval, spec.timeout_ms) == (True, 5_000)
    assert spec.description == "Move a flight.\n\nIt stays there."
    assert spec.schema["required"] == ["name", "at", "on"]
    assert spec.schema["additionalProperties"] is False
    assert spec.schema["properties"]["name"] == {
        "type": "string",
        "description": "which flight, as the world calls it",
    }
    assert spec.schema["properties"]["how"]["description"] == "at what speed"
    assert Toolbox(move).specs() == [spec]


async def test_arguments_arrive_as_the_signature_types_and_the_answer_leaves_as_json():
    outcome = await move.call(request(name="LH1", at={"x": 3}, on="2008-01-31"))

    at = {"x": 3, "y": 0}
    assert outcome == Completed({"name": "LH1:slow", "at": at, "on": "2008-01-31"})


def test_a_function_is_effectful_unless_it_says_otherwise():
    assert tool(lambda: None, name="it").spec.effect == "effectful"


async def test_a_function_may_see_its_call_and_the_model_does_not():
    @tool
    def look(what: str, call: CallRequest) -> list[str]:
        return [what, call.call_key]

    assert list(look.spec.schema["properties"]) == ["what"]
    assert await look.call(request(what="sky")) == Completed(["sky", KEY])


async def test_a_schema_name_and_description_may_be_given():
    schema = {"type": "object", "properties": {"a": {"const": 1}}}

    @tool(name="other", description="Other.", schema=schema)
    async def whatever(**args):
        return args

    assert (whatever.spec.name, whatever.spec.description) == ("other", "Other.")
    assert whatever.spec.schema == schema
    assert await whatever.call(request(a=1, b=2)) == Completed({"a": 1, "b": 2})


@pytest.mark.parametrize("name", ["self", "copy", "model_dump", "args", "_under", "function"])
async def test_any_parameter_has_its_argument(name):
    namespace = {}
    exec(f"def it({name}: int): return {name}", namespace)

    assert await called(namespace["it"], **{name: 7}) == Completed(7)


async def test_objects_and_partial_functions_are_called_as_well():
    class Adder:
        async def __call__(self, a: int, b: int = 1) -> int:
            return a + b

    assert await called(Adder(), a=1) == Completed(2)
    assert await called(functools.partial(Adder(), b=5), a=1) == Completed(6)
    assert await called(functools.partial(Adder().__call__, b=5), a=1) == Completed(6)


def generator():
    yield 1


async def async_generator():
    yield 1


def by_position(a, /):
    return a


def any_number(*a):
    return a


def strange(a: threading.Thread):
    return a


def forward(a: "Nowhere"):  # noqa: F821, UP037
    return a


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, by_position, any_number, strange, forward, lambda: 1],
)
def test_a_function_that_no_model_can_call_is_refused(function):
    with pytest.raises(Invalid):
        tool(function)


async def test_a_blocking_function_holds_up_nobody_and_keeps_its_context():
    variable = contextvars.ContextVar("variable")
    variable.set("set")
    both = threading.Barrier(40, timeout=120)

    def meet():
        both.wait()
        return [variable.get(), threading.current_thread() is threading.main_thread()]

    outcomes = await asyncio.gather(*[called(meet) for _ in range(40)])

    assert outcomes == [Completed(["set", False])] * 40


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            NotFound(expected="a flight", found="none"),
            "not_found",
            "Expected a flight; found none.",
        ),
        (ZeroDivisionError("by nought"), "zero_division_error", "by nought"),
        (StopIteration(), "stop_iteration", "StopIteration"),
        (TimeoutError("slow"), "timeout_error", "slow"),
        (ValueError("x" * 9_000), "value_error", "x" * 2_000),
    ],
)
async def test_what_a_function_raises_is_its_answer(error, code, text):
    outcome = await called(failing(error))

    assert outcome == Completed({"error": code, "detail": text}, is_error=True)


async def test_a_function_that_lost_an_answer_itself_says_that_its_outcome_is_unknown():
    outcome = await called(failing(OutcomeUnknown(expected="an answer", found="none")))

    assert isinstance(outcome, OutcomeNotKnown)
    assert outcome.code == "outcome_unknown"


async def test_arguments_that_only_a_validator_refuses_never_reach_the_function():
    def only_odd(n: Annotated[int, AfterValidator(odd), Field(gt=0)]):
        raise AssertionError("called")

    outcome = await called(only_odd, n=2)

    assert outcome.is_error
    assert outcome.output["error"] == "schema_invalid"
    assert "$.n" in outcome.output["detail"]


class Untold:
    pass


@pytest.mark.parametrize(
    "answer", [Untold(), float("nan"), float("inf"), b"\xff", "\ud800", lambda: 1]
)
async def test_an_answer_that_is_no_json_is_an_error_of_the_tool(answer):
    outcome = await called(lambda: answer)

    assert outcome.is_error
    assert outcome.output["error"] == "tool_output_invalid"


async def test_an_answer_that_holds_itself_is_an_error_of_the_tool():
    endless = []
    endless.append(endless)

    assert (await called(lambda: endless)).output["error"] == "tool_output_invalid"


@pytest.mark.parametrize("answer", ["x" * (OUTPUT_BYTES_MAX - 1), "ä" * (OUTPUT_BYTES_MAX // 4)])
async def test_an_answer_that_is_too_large_is_an_error_with_its_size(answer):
    outcome = await called(lambda: answer)

    assert outcome.is_error
    assert outcome.output["error"] == "tool_output_too_large"
    assert str(OUTPUT_BYTES_MAX) in outcome.output["detail"]
    assert await called(lambda: "x" * (OUTPUT_BYTES_MAX - 2)) == Completed(
        "x" * (OUTPUT_BYTES_MAX - 2)
    )


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_still_running_when_time_is_over_is_unknown(is_async):
    over, gone_on = threading.Event(), threading.Event()

    async def waiting():
        await asyncio.Event().wait()

    def blocked():
        over.wait(60)
        gone_on.set()

    clock = Clock()
    outcome = await resolve(
        tool(waiting if is_async else blocked),
        request(deadline=50),
        now=clock.now,
        pause=lambda seconds: asyncio.sleep(min(seconds, 0.01)),
    )
    over.set()

    assert isinstance(outcome, OutcomeNotKnown)
    assert outcome.code == "timeout"
    assert is_async or gone_on.wait(60)


async def test_a_function_that_was_cancelled_says_nothing_of_its_outcome():
    begun, over = threading.Event(), threading.Event()

    def work():
        begun.set()
        over.wait(60)

    task = asyncio.ensure_future(called(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    over.set()
