"""The demo of sessions: what it promises is checked by itself, and it fails if that is not so."""

from __future__ import annotations

import asyncio

import pytest

from dispatcher import demo
from dispatcher.airlines import AIRLINES
from dispatcher.demo import Untrue, check, told

pytestmark = pytest.mark.sessions


@pytest.fixture(autouse=True)
def _telephones():
    yield
    AIRLINES.file = None


@pytest.mark.slow  # `scripts/demo --session` does the same
def test_killed_in_the_middle_of_its_calls_an_agent_repeats_none_and_its_runs_end(tmp_path):
    said = []

    asyncio.run(told(tmp_path, said.append))

    assert len(said) == 6
    assert "6 reroutes to MDW, each in the world exactly once" in said[2]
    assert len(AIRLINES.heard) == 1


def test_a_promise_that_is_not_kept_fails_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "killed", lambda *_: None)

    with pytest.raises(Untrue, match="admitted before the kill: expected 3; found 0"):
        asyncio.run(told(tmp_path, lambda _: None))

    with pytest.raises(Untrue):
        check("two are one", found=2, expected=1)
