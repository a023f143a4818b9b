"""One authority on three stores: each request is asked of all, and all must answer alike."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moto import mock_aws
from tests.proof.records import Held, held_in
from tests.support.ministack import fresh_account
from tests.support.stores import TABLE, OpenerOf, closing, dynamodb_client, memory, sqlite

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.packing import unpacked
from perdure.authority.store import Store
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.quota import metered
from perdure.kernel.view import Key, Request

BEGIN = Instant(1_800_000_000_000)

NAMES = ("memory", "sqlite", "dynamodb")

Dump = dict[Partition, dict[str, Held]]


class Disagreed(AssertionError):
    """Stores that should be one and the same answered differently."""


class Thrice:
    """Three authorities with one clock and one row of tokens, asked together.

    Its own loop runs in a thread, so that it can be asked from code that awaits and from code
    that does not.
    """

    def __init__(self, openers: Sequence[OpenerOf]) -> None:
        self.now = BEGIN
        self.asked: Counter[type] = Counter()
        """Requests by their class, and those that were answered and not refused."""

        self.answered: Counter[type] = Counter()

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._opened = contextlib.AsyncExitStack()
        self._stores: list[Store] = []
        self._authorities: list[Authority] = []
        try:
            self._run(self._open(openers))
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request[Any]) -> Any:
        """Return what all three answer, or raise the error that all three raise."""
        (answer,) = self._run(self._answers([request]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_at_once(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Return what each of these comes to, asked as by the callers of one process."""
        return self._run(self._answers(requests))

    async def execute(self, request: Request[Any]) -> Any:
        """Do as :meth:`ask`, for code of the runtime that is run on these three."""
        return self.ask(request)

    def held(self, key: Key[Any]) -> Any:
        """Return the record at ``key`` or None."""
        stored = self._memory._records.get(key)
        if stored is None:
            return None
        return key.of.read(key.partition, key.sort, unpacked(stored.body))

    def keys_under(self, partition: Partition, prefix: str) -> list[str]:
        """Return the sort keys of a partition that begin so, in order."""
        sorts = (key.sort for key in self._memory._records if key.partition == partition)
        return sorted(sort for sort in sorts if sort.startswith(prefix))

    def check(self) -> None:
        """Compare all records: revisions, tokens and exact bytes."""
        dumps = self._run(self._dumps())
        for name, dump in zip(NAMES[1:], dumps[1:], strict=True):
            if dump != dumps[0]:
                raise Disagreed(
                    f"records of {NAMES[0]} and of {name}: {_difference(dumps[0], dump)}"
                )

    def close(self) -> None:
        self._run(self._opened.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def _memory(self) -> MemoryStore:
        store = self._stores[0]
        assert isinstance(store, MemoryStore)
        return store

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self, openers: Sequence[OpenerOf]) -> None:
        for opener in openers:
            open_store = await self._opened.enter_async_context(opener())
            self._stores.append(await open_store())
            tokens = count(1)
            authority = Authority(
                self._stores[-1],
                lambda: self.now,
                lambda tokens=tokens: Token(f"token-{next(tokens)}"),
                chance=lambda: 0.0,
                pause=_no_pause,
            )
            self._authorities.append(authority)
            self._opened.push_async_callback(authority.close)

    async def _answers(self, requests: Sequence[Request[Any]]) -> list[Any]:
        for request in requests:
            self.asked.update(_classes(request))
        answers = [
            await asyncio.gather(
                *(each.execute(request) for request in requests), return_exceptions=True
            )
            for each in self._authorities
        ]
        for answer in chain.from_iterable(answers):
            if isinstance(answer, BaseException) and not isinstance(answer, PerdureError):
                raise answer  # no refusal: a fault, though all three have it
        for name, answer in zip(NAMES[1:], answers[1:], strict=True):
            if list(map(_comparable, answer)) != list(map(_comparable, answers[0])):
                raise Disagreed(f"{requests}: {NAMES[0]} {answers[0]}, {name} {answer}")
        for request, answer in zip(requests, answers[0], strict=True):
            if not isinstance(answer, Exception):
                self.answered.update(_classes(request))
        return list(answers[0])

    async def _dumps(self) -> list[Dump]:
        partitions = {key.partition for key in self._memory._records}
        for store in self._stores:
            partitions |= await _partitions(store)
        return [
            {partition: await held_in(store.load, partition) for partition in sorted(partitions)}
            for store in self._stores
        ]


def _classes(request: Request[Any]) -> set[type]:
    return {type(request), type(metered(request))}


def _comparable(answer: Any) -> Any:
    return (type(answer), str(answer)) if isinstance(answer, Exception) else answer


async def _partitions(store: Any) -> set[Partition]:
    """Ask a store in its own words for every partition it has."""
    if isinstance(store, MemoryStore):
        return set()
    if hasattr(store, "_client"):
        pages = store._client.get_paginator("scan").paginate(TableName=store._table)
        return {Partition(item["pk"]["S"]) for page in pages for item in page["Items"]}
    return set(await asyncio.to_thread(_partitions_of_file, store.path))


def _partitions_of_file(path: Path) -> list[Partition]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return [
            Partition(name) for (name,) in file.execute("SELECT DISTINCT partition FROM record")
        ]


def _difference(left: Dump, right: Dump) -> str:
    for partition in left:
        for sort in sorted({*left[partition], *right[partition]}):
            pair = (left[partition].get(sort), right[partition].get(sort))
            if pair[0] != pair[1]:
                return f"at {partition} {sort}: {pair[0]} and {pair[1]}"
    return "nowhere"


async def _no_pause(_: float) -> None:
    await asyncio.sleep(0)


@contextlib.contextmanager
def thrice(dynamodb: OpenerOf) -> Iterator[Thrice]:
    """Open three stores with nothing in them, and close them."""
    with TemporaryDirectory() as directory:
        three = Thrice([memory, lambda: sqlite(Path(directory)), dynamodb])
        try:
            yield three
        finally:
            three.close()


@contextlib.contextmanager
def new_tables(address: str | None) -> Iterator[OpenerOf]:
    """Yield an opener of a table of its own each time, at an address or in this process.

    Tokens are the same each time, and remembered by account: over HTTP each table has its own.
    """
    names = count(1)
    with contextlib.ExitStack() as opened:
        if address is None:
            opened.enter_context(mock_aws())
        shared = opened.enter_context(_client(address))

        async def open_one() -> Store:
            client = shared if address is None else opened.enter_context(_client(address))
            name = f"{TABLE}-{next(names)}"
            client.create_table(**table_definition(name))
            return DynamoStore(client, name, threads=2, pause=_no_pause)

        yield lambda: closing(open_one)


@contextlib.contextmanager
def _client(address: str | None) -> Iterator[Any]:
    client = dynamodb_client(address, fresh_account(), threads=2)
    yield client
    client.close()
