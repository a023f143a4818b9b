"""The session protocol keeps its promises in every order, and breaks one without each rule."""

from __future__ import annotations

import pytest
from tests.models.session_promises import SessionPromise
from tests.models.session_protocol import Cast, explore
from tests.models.session_requests import SessionRules

pytestmark = [pytest.mark.sessions, pytest.mark.proof]

STATES_MAX = 60_000
STATES_MAX_SLOW = 700_000

STEER, QUEUE, INTERRUPT = ("steer", "s"), ("queue", "q"), ("interrupt", "i")
CANCEL, RETRACT = ("cancel", "r"), ("retract", "q")

CASTS = {
    "owners alone": Cast((), faults=2, leases=2),
    "a steer": Cast((STEER,)),
    "a cancel": Cast((CANCEL,)),
    "an interrupt": Cast((INTERRUPT,), faults=0),
    "a steer and a cancel": Cast((STEER, CANCEL), owners=("A",)),
    "a send and its retraction": Cast((QUEUE, RETRACT), owners=("A",), leases=0),
}

CASTS_SLOW = {
    "three owners": Cast((), owners=("A", "B", "C"), faults=2, leases=3),
    "a queued send": Cast((QUEUE,)),
    "an interrupt that is lost": Cast((INTERRUPT,)),
    "a steer and a cancel, both owners": Cast((STEER, CANCEL)),
    "a send and its retraction, both owners": Cast((QUEUE, RETRACT)),
}

NECESSARY = [
    # rule left out, who takes part, the promise that breaks
    ("revision", Cast((STEER,)), SessionPromise.ACK_KEPT),
    ("seen", Cast((STEER,)), SessionPromise.PROMPT_TRUE),
    ("seen", Cast((CANCEL,)), SessionPromise.CANCEL_SEEN),
    ("seen", Cast((CANCEL,)), SessionPromise.FOLDS),
    ("append_id", Cast(()), SessionPromise.ADOPTED),
    ("control_on_head", Cast((STEER,)), SessionPromise.PROMPT_TRUE),
    ("control_on_head", Cast((CANCEL,)), SessionPromise.CANCEL_SEEN),
    ("control_on_head", Cast((CANCEL,)), SessionPromise.HEAD_TRUE),
    ("epoch", Cast(()), SessionPromise.FENCED),
    ("intents_first", Cast(()), SessionPromise.DISPATCHED_ONCE),
    ("thinks_again", Cast((CANCEL,)), SessionPromise.CANCEL_SEEN),
    ("thinks_again", Cast((QUEUE, RETRACT), faults=0), SessionPromise.QUEUED_ONCE),
    ("close_unknown", Cast(()), SessionPromise.DISPATCHED_ONCE),
    ("joins_at_step", Cast((STEER,)), SessionPromise.PAIRED),
    ("joins_at_end", Cast((STEER,)), SessionPromise.STEER_KEPT),
    ("send_key", Cast((QUEUE,)), SessionPromise.QUEUED_ONCE),
    ("send_key", Cast((STEER,)), SessionPromise.ACK_KEPT),
    ("nudge", Cast((QUEUE,), faults=0), SessionPromise.FOUND),
    ("rest_on_head", Cast((QUEUE,), faults=0), SessionPromise.FOUND),
]

HAPPENS = [
    "sends call-of-r",
    "landed",
    "behind",
    "stale",
    "a late commit of A",
    "result call-of-r unknown",
    "end r interrupted",
    "end r cancelled",
    "end r completed",
    "result call-of-r not sent",
]
"""Of what is told of a cancelled run's orders: without these, a promise would be empty."""


@pytest.mark.parametrize("cast", CASTS.values(), ids=list(CASTS))
def test_no_order_breaks_a_promise_with_all_rules(cast: Cast) -> None:
    explored = explore(cast, SessionRules(), STATES_MAX)

    assert explored.found is None, explored.found.told()
    assert explored.is_whole


@pytest.mark.slow
@pytest.mark.parametrize("cast", CASTS_SLOW.values(), ids=list(CASTS_SLOW))
def test_no_order_of_more_actors_and_faults_breaks_a_promise(cast: Cast) -> None:
    explored = explore(cast, SessionRules(), STATES_MAX_SLOW)

    assert explored.found is None, explored.found.told()
    assert explored.is_whole


@pytest.mark.parametrize(
    ("rule", "cast", "promise"), NECESSARY, ids=[f"{row[0]}-{row[2].name}" for row in NECESSARY]
)
def test_each_rule_is_necessary(rule: str, cast: Cast, promise: SessionPromise) -> None:
    explored = explore(cast, SessionRules().without(rule), STATES_MAX, promise)

    assert explored.found is not None, f"without {rule}, nothing breaks: {promise}"


def test_every_rule_is_shown_to_be_necessary() -> None:
    assert {row[0] for row in NECESSARY} == set(SessionRules.names())


def test_every_promise_is_shown_to_be_one_that_can_break() -> None:
    assert {row[2] for row in NECESSARY} == set(SessionPromise)


def test_what_the_promises_are_about_does_happen() -> None:
    explored = explore(CASTS["a cancel"], SessionRules(), STATES_MAX)

    told = "\n".join(explored.labels)
    assert [each for each in HAPPENS if each not in told] == []


def test_the_shortest_story_of_a_broken_promise_is_told() -> None:
    without_epochs = SessionRules().without("epoch")

    explored = explore(Cast(()), without_epochs, STATES_MAX)

    assert explored.found is not None
    assert explored.found.told().splitlines() == [
        "who has lost the fence writes nothing",
        "  A: taken",
        "  A folds what others wrote",
        "  the lease runs out",
        "  B: taken",
        "  A appends step: appended",
        "  who has lost the fence writes nothing (A)",
    ]
