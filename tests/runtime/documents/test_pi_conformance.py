"""Durable's own suite for storages, which nobody here wrote, passes on every store."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pi_durable.testing.storage_conformance import create_storage_conformance
from tests.support import stores
from tests.support.documents import opened

from perdure.authority.testing import Opener
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores

OpenerOf = Callable[[], AbstractAsyncContextManager[Opener]]
Use = Callable[[Any], Awaitable[None]]


class Assertions:
    """The vocabulary that the cases are written in."""

    def ok(self, value: object, message: str | None = None) -> None:
        assert value, message

    def strict_equal(self, actual: object, expected: object) -> None:
        assert type(actual) is type(expected) or actual == expected
        assert actual == expected

    def deep_equal(self, actual: object, expected: object) -> None:
        assert actual == expected

    def partial_deep_equal(self, actual: Any, expected: Any) -> None:
        if isinstance(expected, dict):
            for name, value in expected.items():
                self.partial_deep_equal(actual[name], value)
        elif isinstance(expected, list):
            assert len(actual) == len(expected)
            for one, other in zip(actual, expected, strict=True):
                self.partial_deep_equal(one, other)
        else:
            assert actual == expected

    def greater_than(self, actual: float, expected: float) -> None:
        assert actual > expected

    async def rejects(self, operation: Awaitable[object], message_includes: str) -> None:
        with pytest.raises(Exception) as raised:  # it is awaited
            await operation
        assert message_includes in str(raised.value)


class Reopening:
    """A storage that is closed and opened again after every commit."""

    def __init__(
        self, enter: Callable[[], Awaitable[Any]], leave: Callable[[Any], Awaitable[None]]
    ) -> None:
        self._enter = enter
        self._leave = leave
        self.storage: Any = None

    async def start(self) -> Reopening:
        self.storage = await self._enter()
        return self

    async def commit(self, writes: Any, context: Any) -> Any:
        seq = await self.storage.commit(writes, context)
        await self._leave(self.storage)
        self.storage = await self._enter()
        return seq

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)


def cases(opener_of: OpenerOf, *, reopens: bool = False) -> dict[str, Any]:
    async def with_storage(use: Use) -> None:
        async with opener_of() as open_store:
            numbers = itertools.count()
            held: dict[int, Any] = {}

            async def enter() -> PiStorage:
                context = opened(await open_store(), prefix=f"o{next(numbers)}")
                storage = await PiStorage.open(await context.__aenter__())
                held[id(storage)] = context
                return storage

            async def leave(storage: Any) -> None:
                await storage.close(None)
                await held.pop(id(storage)).__aexit__(None, None, None)

            storage: Any = await enter() if not reopens else await Reopening(enter, leave).start()
            try:
                await use(storage)
            finally:
                await leave(storage.storage if reopens else storage)

    options: Any = {"assertions": Assertions(), "with_storage": with_storage}
    return {each.name: each for each in create_storage_conformance(options)}


NAMES = list(cases(stores.memory))


def test_there_are_as_many_cases_as_the_suite_is_said_to_have() -> None:
    assert len(NAMES) == 25


@pytest.mark.parametrize("name", NAMES)
def test_memory_passes(name: str) -> None:
    asyncio.run(cases(stores.memory)[name].run())


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_passes(name: str, tmp_path: Path) -> None:
    asyncio.run(cases(lambda: stores.sqlite(tmp_path))[name].run())


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_reopened_after_every_commit_passes(name: str, tmp_path: Path) -> None:
    asyncio.run(cases(lambda: stores.sqlite(tmp_path), reopens=True)[name].run())


@pytest.mark.cloud
@pytest.mark.parametrize("name", NAMES)
def test_dynamodb_passes(name: str, aws: str) -> None:
    asyncio.run(cases(lambda: stores.dynamodb_http(aws))[name].run())
