"""What the agent says: computed from what its tools have answered, and from nothing else.

It stands where a model would. Asked about the sky, it looks for closed airports and for flights
on their way there, sends each to the nearest open airport, lets a minute pass, and looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final

from airspace.flights import Airport, known_airports
from perdure.kernel.session.answers import UNKNOWN_OUTCOME
from perdure.kernel.session.messages import AssistantMessage, ToolAnswer, ToolAnswers, UserMessage
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import ModelRequest

WATCH: Final = "Look at the sky."
TELL: Final = "Tell the airlines."
AND: Final = "What do you know?"

Row = dict[str, Any]

KILOMETRES_A_MINUTE: Final = 13.0
"""How fast an aircraft goes on, once it has been sent elsewhere."""


def dispatch(request: ModelRequest, _said: int) -> AssistantMessage | str:
    """Return the next message of the agent."""
    last = max(i for i, each in enumerate(request.messages) if isinstance(each, UserMessage))
    asked, since = request.messages[last], request.messages[last + 1 :]
    assert isinstance(asked, UserMessage)
    answers = [each.answers for each in since if isinstance(each, ToolAnswers)]
    if asked.text == WATCH:
        return _watching(answers)
    if asked.text == TELL:
        return _telling(answers)
    return _knowing(request)


def _watching(answers: Sequence[Sequence[ToolAnswer]]) -> AssistantMessage | str:
    if not answers:
        return calling(("query", {"components": ["Closed"]}), text="I look for closed airports. ")
    closed = [str(row["closed__airport"]) for row in answers[0][0].output["rows"]]
    flights = _bound_for(closed)
    if len(answers) == 1:
        return flights if closed else "Every airport is open."
    if len(answers) == 2:
        rerouting = _rerouting(answers[1][0].output, closed)
        return rerouting or f"Nobody flies to {', '.join(closed)}."
    if len(answers) == 3:
        return calling(("run_ticks", {"ticks": 1}), text="I let a minute pass. ")
    if len(answers) == 4:
        return flights
    rows = answers[4][0].output["rows"]
    left = sum(row["route__destination"] in closed for row in rows)
    return f"Rerouted {len(answers[2])} flights; {left} still fly to {', '.join(closed)}."


def _bound_for(closed: Sequence[str]) -> AssistantMessage:
    # A filter knows no "or": of several closed airports the flights are picked out below.
    where = f"route__destination = '{closed[0]}'" if len(closed) == 1 else None
    components = ["Flight", "Route", "Position"]
    return calling(
        ("query", {"components": components, "limit": 500} | ({"where": where} if where else {})),
        text="Who flies there? ",
    )


def _rerouting(found: dict[str, Any], closed: Sequence[str]) -> AssistantMessage | None:
    """Return a call for each flight, so that each has an answer of its own."""
    calls = [
        ("submit", {"commands": [_update(row, found["tick"], closed)]})
        for row in found["rows"]
        if row["route__destination"] in closed
    ]
    return calling(*calls, text=f"{len(calls)} flights must go elsewhere. ") if calls else None


def _update(row: Row, tick: int, closed: Sequence[str]) -> dict[str, Any]:
    to = nearest_open(row["route__destination"], closed)
    here = (row["position__latitude"], row["position__longitude"])
    minutes = max(1, round(kilometres(here, (to.latitude, to.longitude)) / KILOMETRES_A_MINUTE))
    route = {
        "origin": row["route__origin"],
        "destination": to.code,
        "origin_latitude": here[0],
        "origin_longitude": here[1],
        "destination_latitude": to.latitude,
        "destination_longitude": to.longitude,
        "departure_tick": tick,
        "arrival_tick": tick + minutes,
    }
    return {"operation": "update", "entity_id": row["entity_id"], "components": {"Route": route}}


def nearest_open(code: str, closed: Sequence[str]) -> Airport:
    """Return the open airport that lies nearest to a closed one."""
    airports = known_airports()
    there = airports[code]
    return min(
        (each for each in airports.values() if each.code not in closed),
        key=lambda each: (
            kilometres((there.latitude, there.longitude), (each.latitude, each.longitude)),
            each.code,
        ),
    )


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the length of the great circle between two places in degrees."""
    lat1, lon1, lat2, lon2 = map(radians, (*one, *other))
    half = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 2 * 6_371.0 * asin(min(1.0, sqrt(half)))


def _telling(answers: Sequence[Sequence[ToolAnswer]]) -> AssistantMessage | str:
    if answers:
        return "The airlines know."
    text = "Your flights to the closed airport go elsewhere."
    return calling(
        *(("notify_airline", {"carrier": carrier, "text": text}) for carrier in ("UA", "AA")),
        text="I call them. ",
    )


def _knowing(request: ModelRequest) -> str:
    """Say what became of the last calls, as the conversation has it."""
    last = [each for each in request.messages if isinstance(each, ToolAnswers)][-1]
    codes = [_code_of(answer) for answer in last.answers]
    unknown = codes.count(UNKNOWN_OUTCOME)
    if unknown:
        return f"Of {unknown} calls I can not say whether they were heard; I make none again by myself."
    return "Every call was answered."


def _code_of(answer: ToolAnswer) -> str | None:
    return answer.output.get("error") if isinstance(answer.output, dict) else None
