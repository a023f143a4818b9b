"""The dispatcher's script: what it says follows from what its tools have answered."""

from __future__ import annotations

import pytest

from dispatcher.script import AND, TELL, WATCH, dispatch, nearest_open
from perdure.kernel.session.answers import told_error
from perdure.kernel.session.messages import AssistantMessage, ToolAnswer, ToolAnswers, UserMessage
from perdure.runtime.session.ports import ModelRequest

pytestmark = pytest.mark.sessions

FLIGHT = {
    "entity_id": 7,
    "route__origin": "JFK",
    "route__destination": "ORD",
    "position__latitude": 41.0,
    "position__longitude": -80.0,
}


def after(asked, *outputs):
    """Return the next message behind a question and some turns of one answer each."""
    messages = [UserMessage(text=asked)]
    for output in outputs:
        answer = ToolAnswer(tool_call_id="call_0", name="any", output=output)
        messages += [AssistantMessage(), ToolAnswers(answers=(answer,))]
    return dispatch(ModelRequest(system="", messages=messages, tools=()), len(outputs))


def closed(*airports):
    return {"tick": 3, "rows": [{"closed__airport": each} for each in airports], "more": False}


def bound(*flights):
    return {"tick": 3, "rows": list(flights), "more": False}


def test_where_every_airport_is_open_nobody_is_sent_elsewhere():
    assert after(WATCH, closed()) == "Every airport is open."


def test_a_flight_to_a_closed_airport_is_sent_to_the_nearest_open_one_from_where_it_is():
    message = after(WATCH, closed("ORD"), bound(FLIGHT))

    (call,) = message.calls
    (command,) = call.args["commands"]
    route = command["components"]["Route"]
    assert (call.name, command["operation"], command["entity_id"]) == ("submit", "update", 7)
    assert (route["destination"], route["departure_tick"]) == ("MDW", 3)
    assert (route["origin_latitude"], route["origin_longitude"]) == (41.0, -80.0)
    assert route["arrival_tick"] > 3


def test_an_airport_that_is_closed_as_well_is_no_way_out():
    assert nearest_open("ORD", ["ORD", "MDW"]).code not in {"ORD", "MDW"}


def test_the_same_answers_lead_to_the_same_calls():
    turns = (closed("ORD"), bound(FLIGHT))

    assert after(WATCH, *turns) == after(WATCH, *turns)


def test_what_may_have_been_heard_is_not_said_again():
    message = after(AND, told_error("unknown_outcome", "It may have happened."))

    assert "can not say" in message


def test_airlines_are_called_once_each():
    names = [call.args["carrier"] for call in after(TELL).calls]

    assert names == ["UA", "AA"]
