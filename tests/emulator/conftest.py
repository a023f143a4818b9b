"""Fixtures of the emulator's tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import httpx
import pytest
from tests.emulator.deployment import Deployment, deployed

_NAMES = count(1)


@pytest.fixture(scope="package")
def deployment(tmp_path_factory) -> Iterator[Deployment]:
    """One emulator for all tests that leave it running."""
    with deployed(tmp_path_factory.mktemp("emulator") / "root") as running:
        yield running


@pytest.fixture
def http(deployment) -> httpx.Client:
    return deployment.http


@pytest.fixture
def world(http) -> str:
    """The path of a new world."""
    name = f"world-{next(_NAMES)}"
    assert http.post("/v1/worlds", json={"name": name, "world_id": name}).status_code == 201
    return f"/v1/worlds/{name}"
