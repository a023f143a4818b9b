"""Fixtures of the HTTP tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.api.rig import Caller, Rig, sandbox_on
from tests.api.session_rig import TALK, Talk, talking
from tests.api.store_rig import filled
from tests.support.sessions import asking_first, counting

from perdure.authority.memory import MemoryStore


@pytest.fixture
def rig() -> Iterator[Rig]:
    store, pauses = MemoryStore(), []
    sandbox = sandbox_on(store, pauses)
    yield Rig(store, Caller(sandbox), pauses)
    sandbox.close()


@pytest.fixture
def call(rig: Rig) -> Caller:
    return rig.caller


@pytest.fixture
def harbour(call: Caller) -> str:
    """A world named harbour; returns its path."""
    made = call("POST", "/v1/worlds", {"name": "harbour", "world_id": "harbour"})
    assert made.status == 201, made
    return "/v1/worlds/harbour"


@pytest.fixture
def notes(rig: Rig) -> Rig:
    """A document store called notes, with documents and rows."""
    filled(rig.caller)
    return rig


@pytest.fixture
def talk() -> Iterator[Talk]:
    """A session of ann with nothing in it."""
    made = talking()
    yield made
    made.sandbox.close()


@pytest.fixture
def asking() -> Iterator[Talk]:
    """A session whose run waits for a word on a call."""
    made = talking(asking_first, tools=[counting("launch", needs_approval=True)])
    made.ann("POST", f"{TALK}/send", {"input": "go", "send_id": "first"})
    made.run()
    yield made
    made.sandbox.close()
