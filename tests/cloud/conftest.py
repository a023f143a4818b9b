"""Fixtures of the tests of what is deployed."""

from __future__ import annotations

import os

import pytest
from tests.cloud.looked_on import Looked, forget_logger


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
