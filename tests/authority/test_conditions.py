"""Every kind of condition is needed: a store that forgets one breaks a promise."""

from __future__ import annotations

import asyncio

import pytest

from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.authority.testing import ForgetfulStore
from perdure.authority.testing.condition_cases import NEEDED
from perdure.authority.testing.registry import Run
from perdure.authority.testing.wrappers import Condition


@pytest.mark.parametrize(
    ("case", "forgotten"), [pytest.param(*item, id=item[0].__name__) for item in NEEDED.items()]
)
def test_a_store_that_forgets_the_condition_breaks_the_promise(
    case: Run, forgotten: Condition
) -> None:
    records = MemoryStore()

    async def open_forgetful() -> Store:
        return ForgetfulStore(records.reopened(), forgotten)

    with pytest.raises(AssertionError):
        asyncio.run(case(open_forgetful))


def test_every_kind_of_condition_is_shown_to_be_needed() -> None:
    assert set(NEEDED.values()) == set(Condition)
