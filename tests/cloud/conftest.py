"""Fixtures of the tests of what is deployed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.cloud.looked_on import Looked, forget_logger
from tests.support import deployed as deployment
from tests.support.deployed import Cloud, Pool, Stack
from tests.support.ministack import ROOT


@pytest.fixture
def in_lambda(monkeypatch):
    """The environment that Lambda gives the function ``api``; metrics have their namespace."""
    for name in [name for name in os.environ if name.startswith(("PERDURE_", "AWS_", "POWER"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "stack-ApiFunction-1")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "api")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "perdure/stack")
    return monkeypatch


@pytest.fixture
def looked_on(in_lambda, capsys):
    """Makes sandboxes whose logs and metrics are seen."""
    made = []

    def make(**options):
        looked = Looked(capsys, **options)
        made.append(looked)
        return looked

    forget_logger()
    yield make
    for looked in made:
        looked.sandbox.close()
    forget_logger()


@pytest.fixture
def api(looked_on):
    return looked_on()


# What is deployed is one for every module that asks for it: to build it takes a minute.


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Iterator[Cloud]:
    with deployment.cloud(tmp_path_factory.mktemp("cloud")) as place:
        yield place


@pytest.fixture(scope="session")
def pool(place) -> Pool:
    """Users named as their roles; tokens of `other` are for somebody else, those of `hasty` expire."""
    pool = Pool.made(place)
    for role in ("viewer", "player", "operator", "admin"):
        pool.user(role, role)
    return pool


@pytest.fixture(scope="session")
def template(place, tmp_path_factory) -> Path:
    template = deployment.built(tmp_path_factory.mktemp("built") / "build")
    deployment.with_module(template, ROOT / "tests" / "support" / "errands.py")
    return deployment.packaged(place, template)


@pytest.fixture(scope="session")
def parameters(pool) -> dict[str, str]:
    return {
        "App": "errands:app",
        "Architecture": deployment.architecture(),
        "Issuer": pool.issuer,
        "Audience": f"{pool.client('app')},{pool.client('hasty', seconds=1)}",
        "RoleClaim": "cognito:groups",
    }


@pytest.fixture(scope="session")
def stack(place, template, parameters) -> Stack:
    return deployment.deployed(place, template, parameters)


@pytest.fixture(scope="session")
def admin(stack, pool) -> httpx.Client:
    return stack.http(pool.token("admin", "app"))
