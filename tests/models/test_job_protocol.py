"""Persisted jobs keep their promises in every order of deaths, lost leases and lost answers."""

from __future__ import annotations

import dataclasses

import pytest
from tests.models.job_protocol import Broken, Job, Rules, Runner, State, explored

pytestmark = pytest.mark.stores


def cast(*, runners=2, deaths=1, expiries=1, losses=1, failures=1, aborts=1, takes=3):
    return State(
        job=Job(),
        runners=tuple(Runner(name) for name in "abc"[:runners]),
        starts=2,
        aborts=aborts,
        deaths=deaths,
        expiries=expiries,
        losses=losses,
        failures=failures,
        takes=takes,
    )


def test_every_order_of_two_runners_keeps_every_promise():
    found = explored(Rules(), cast())

    assert found.states > 5_000
    assert found.ended == {"done", "aborted", "restart_limit"}


@pytest.mark.slow
def test_every_order_of_three_runners_keeps_every_promise():
    assert explored(Rules(), cast(runners=3, deaths=2, failures=2, takes=4)).states > 50_000


@pytest.mark.parametrize("rule", [each.name for each in dataclasses.fields(Rules)])
def test_without_any_one_rule_a_promise_breaks(rule):
    with pytest.raises(Broken):
        explored(dataclasses.replace(Rules(), **{rule: False}), cast(losses=0))
