"""Units: what DynamoDB would bill for each operation, and how many requests it takes.

The table is moto's, in this process. Units follow DynamoDB's rules, as the store spells them:
what a local engine says it consumed is left out of its answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import boto3
from moto import mock_aws
from tests.bench.bench import Bench, Storage, moving_app, spawn, wired
from tests.bench.figures import Budget, Figure, counted

from perdure.authority.dynamodb import Counters, DynamoStore
from perdure.authority.dynamodb_wire import client_config, table_definition
from perdure.kernel.places import WorldRef
from perdure.runtime.tick import Ticker

TABLE = "bench"
HUNDRED = 100
UNITS_OF_ONE = Budget(18, of="figure")
UNITS_OF_ONE_IN_A_BATCH = Budget(0.25, of="figure")
REQUESTS_OF_A_TICK = Budget(5, of="figure")


class Unreported:
    """A client whose answers say nothing about capacity: the store counts by the rules."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)

        def called(**arguments: Any) -> Any:
            answer = call(**arguments)
            answer.pop("ConsumedCapacity", None)
            return answer

        return called


@dataclass
class _Bill:
    """Adds up what operations cost, one figure of each kind for each."""

    store: DynamoStore
    figures: list[Figure] = field(default_factory=list)

    async def of(self, name: str, work: Awaitable[Any], requests: Budget | None = None) -> Counters:
        before = replace(self.store.counters)
        await work
        after = self.store.counters
        assert after.retries == before.retries, "nobody else uses the table"
        spent = Counters(
            requests=after.requests - before.requests,
            read_units=after.read_units - before.read_units,
            write_units=after.write_units - before.write_units,
        )
        self.add(name, "write units", spent.write_units)
        self.add(name, "read units", spent.read_units)
        self.add(name, "requests", spent.requests, requests)
        return spent

    def add(self, name: str, unit: str, value: float, budget: Budget | None = None) -> None:
        if value:
            self.figures.append(Figure(name, unit, counted(value), budget=budget))


async def measure(bench: Bench) -> list[Figure]:
    """Count units and requests of admissions, the fence, and ticks warm and resumed."""
    bench.say("units on DynamoDB")
    async with AsyncExitStack() as stack:
        stack.enter_context(mock_aws())
        directory = stack.enter_context(bench.directory())
        client = boto3.client("dynamodb", "eu-west-1", config=client_config(1))
        client.create_table(**table_definition(TABLE))
        store = DynamoStore(Unreported(client), TABLE, threads=1)
        storage = wired(directory, store, moving_app())
        stack.push_async_callback(storage.authority.close)
        bill = _Bill(store)
        await _worlds(bill, storage)
        return bill.figures


async def _worlds(bill: _Bill, storage: Storage) -> None:
    submit = storage.worlds.submit
    await bill.of("create a world", storage.worlds.create("w", world_id="w"))
    await bill.of("first command of a world, with a wake", submit("w", [spawn(0)]))
    ref = storage.worlds.ref("w")
    ticker = storage.ticker()
    await _ticked(ticker, ref)  # it writes down what the table holds, once

    one = await bill.of("admit 1 command", submit("w", [spawn(1)]))
    fence = await bill.of("take the fence", ticker.take(ref))
    tick = await bill.of("tick, warm, fence held", _ticked(ticker, ref), REQUESTS_OF_A_TICK)
    whole = one.write_units + fence.write_units + tick.write_units
    bill.add("1 command with its tick", "write units", whole, UNITS_OF_ONE)

    many = await bill.of(
        f"admit {HUNDRED} commands", submit("w", [spawn(number) for number in range(HUNDRED)])
    )
    fence = await bill.of("take the fence again", ticker.take(ref))
    tick = await bill.of(f"tick that settles {HUNDRED} commands", _ticked(ticker, ref))
    whole = many.write_units + fence.write_units + tick.write_units
    bill.add(
        f"a command of {HUNDRED} with their tick",
        "write units",
        whole / HUNDRED,
        UNITS_OF_ONE_IN_A_BATCH,
    )

    own = spawn(2).model_copy(update={"command_id": "mine"})
    await bill.of("admit 1 command with an id of its own", submit("w", [own]))
    # Last: after it, the other ticker's state is not warm any more.
    await bill.of("tick, resumed, with its fence", _ticked(storage.ticker(), ref))


async def _ticked(ticker: Ticker, ref: WorldRef) -> None:
    """Publish one tick; a fence that is held already costs nothing to take."""
    await ticker.tick(ref, await ticker.take(ref))
