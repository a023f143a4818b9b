"""Fixtures that every suite may use, and tests that are coroutines."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support.leftovers import forget
from tests.support.ministack import account, ministack
from tests.support.queue import PaperQueue
from tests.support.stores import dynamodb_client

from perdure.api import wiring_queue

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # a machine may be as slow as it likes


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines, each in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep what was imported and collected, which stays, out of each later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let what a failed test leaves behind be told of no other."""
    failures = item.session.testsfailed
    answer = yield
    if item.session.testsfailed > failures:
        forget()
    return answer


@pytest.fixture
def queue(monkeypatch) -> PaperQueue:
    """The queue of due worlds that every function of this process opens."""
    queue = PaperQueue()
    monkeypatch.setattr(wiring_queue, "opened", lambda _: queue)
    return queue


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a local stand-in for AWS."""
    with ministack(tmp_path_factory.mktemp("ministack") / "log") as address:
        yield address


@pytest.fixture(scope="session")
def dynamodb(aws: str) -> Iterator[Any]:
    """A client of a local DynamoDB, over HTTP."""
    client = dynamodb_client(aws, account(), threads=8)
    yield client
    client.close()
