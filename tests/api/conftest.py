"""Fixtures of the HTTP tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.api.rig import Caller, Rig, sandbox_on

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
