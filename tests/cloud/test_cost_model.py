"""The page of costs of a deployment follows from what is counted, and from the template."""

from __future__ import annotations

import pytest
from infra import cost_model
from tests.cloud import costs
from tests.cloud.rendered import functions

pytestmark = pytest.mark.cloud

COUNTED = costs.PAGE.read_text(encoding="utf-8")


def test_the_page_says_what_the_model_says():
    """If this fails, `python -m infra.cost_model` writes it."""
    assert cost_model.PAGE.read_text(encoding="utf-8") == cost_model.page()


def test_every_operation_of_the_model_is_one_that_is_counted():
    dollars = cost_model.counted(COUNTED)

    named = {name for use in cost_model.uses() for name in use.operations}

    assert named <= dollars.keys()
    assert dollars["tick, warm, nothing asked"] > 0


def test_functions_are_as_large_as_the_template_makes_them():
    assert {name: each["MemorySize"] for name, each in functions().items()} == cost_model.MEMORY_MB
    assert cost_model.ASSUMED_MS.keys() == functions().keys()


def test_a_use_costs_its_operations_executions_and_logs():
    use = cost_model.Use("x", {"a": 1_000_000}, {"api": 1_000_000}, http=1_000_000)

    data = cost_model.of_data(use, {"a": 2.5})
    work = cost_model.of_functions(use)

    seconds = cost_model.ASSUMED_MS["api"] / 1_000
    assert data == pytest.approx(2.5)
    assert work == pytest.approx(1.0 + 0.2 + 0.5 * seconds * 13.3334)


def test_whoever_does_nothing_pays_for_what_looks_after_it_and_little_else():
    fixed = cost_model.standing("Type: AWS::CloudWatch::Alarm\n" * 10)
    idle = cost_model.IDLE

    moving = cost_model.of_data(idle, cost_model.counted(COUNTED)) + cost_model.of_functions(idle)

    assert fixed["10 alarms"] == pytest.approx(1.0)
    assert moving < 1
