"""Stores agree: whatever is asked of three of them, all answer alike and end with the same records."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.proof.agreeing_keeps import Keeping
from tests.proof.agreeing_reads import Asking
from tests.proof.agreeing_writes import Writing
from tests.proof.thrice import new_tables

import perdure.kernel

pytestmark = pytest.mark.proof

FEW = settings(
    max_examples=12,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Agreement(Writing, Asking, Keeping):
    """Everything that can be asked, in any order."""


def requests() -> set[type]:
    """Return every class of the kernel that can be asked of an authority."""
    found = set()
    for module in pkgutil.iter_modules(perdure.kernel.__path__, "perdure.kernel."):
        held = importlib.import_module(module.name)
        for each in vars(held).values():
            is_here = inspect.isclass(each) and each.__module__ == module.name
            if is_here and hasattr(each, "decide") and not getattr(each, "_is_protocol", False):
                found.add(each)
    return found


def test_whatever_is_asked_of_three_stores_all_answer_alike():
    Agreement.seen, Agreement.answered = set(), set()
    with new_tables(None) as opener:
        Agreement.opener = staticmethod(opener)
        run_state_machine_as_test(Agreement, settings=FEW)

    print({each.__name__ for each in requests() - Agreement.answered})
    assert {each.__name__ for each in requests() - Agreement.seen} == set()
