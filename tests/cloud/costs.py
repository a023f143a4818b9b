"""Costs: the requests and units of each operation, counted in the local stand-in for AWS.

python -m tests.cloud.costs          write docs/reference/costs.md
python -m tests.cloud.costs --show   print it instead

Every request goes over a wire that counts it. Units of DynamoDB follow its rules, as the store
spells them: what a stand-in says it consumed is left out of its answers. Clock and tokens are
by hand, so that two runs count the same.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
from botocore.config import Config
from tests.bench.bench import moving_app, spawn
from tests.bench.units import Unreported
from tests.cloud.costs_page import HUNDRED, Cost, page
from tests.runtime.harness import Clock, Harness
from tests.support.ministack import ROOT, account, ministack
from tests.support.wire import Asked, Wire, wire_to

from perdure.api.queue import message_of
from perdure.api.wiring_lake_aws import CloudCatalog
from perdure.api.wiring_queue_aws import SqsQueue
from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import client_config, table_definition
from perdure.kernel.ids import Holder, Instant, StorageId, WorldId
from perdure.lake.iceberg import Lake
from perdure.lake.s3 import S3Objects
from perdure.runtime.close import destroy
from perdure.runtime.dispatch import Due
from perdure.runtime.documents.jobs import dispatch as jobs
from perdure.runtime.history import History, HistoryAsked
from perdure.runtime.land import Landing
from perdure.runtime.project import Projection
from perdure.runtime.read import Reader
from perdure.runtime.serve import serve
from perdure.runtime.session import dispatch as sessions

PAGE = ROOT / "docs" / "reference" / "costs.md"
STORAGE = StorageId("storage")
MINUTE_MS = 60_000
TICKS = 12
"""Ticks that a landing brings in: an hour of a world that ticks every five minutes."""

_NUMBERS = count(500_000)


@dataclass
class Bill:
    """Adds up what operations cost, in the order in which they were done."""

    store: DynamoStore
    wire: Wire
    costs: dict[str, Cost] = field(default_factory=dict)

    async def of(self, name: str, work: Awaitable[Any]) -> Any:
        counters = self.store.counters
        writes, reads, retries = counters.write_units, counters.read_units, counters.retries
        self.wire.seen.clear()
        result = await work
        assert counters.retries == retries, "nobody else uses the table"
        kinds = Counter(kind_of(asked) for asked in self.wire.seen)
        self.costs[name] = Cost(
            requests=kinds["dynamodb"],
            write_units=counters.write_units - writes,
            read_units=counters.read_units - reads,
            put=kinds["put"],
            get=kinds["get"],
            glue=kinds["glue"],
            sqs=kinds["sqs"],
        )
        return result


def kind_of(asked: Asked) -> str:
    """Say what a request is billed as."""
    service = asked.target.partition(".")[0]
    if service:
        return {"DynamoDB_20120810": "dynamodb", "AWSGlue": "glue", "AmazonSQS": "sqs"}[service]
    is_list = asked.method == "GET" and "list-type=" in asked.path
    if asked.method in {"PUT", "POST"} or is_list:
        return "put"
    return "free" if asked.method == "DELETE" else "get"


@dataclass
class Rig:
    """A storage in AWS with everything that its functions have."""

    bill: Bill
    h: Harness
    lake: Lake
    queue: SqsQueue

    @property
    def landing(self) -> Landing:
        return Landing(self.h.authority, self.h.objects, self.lake, STORAGE)

    @property
    def reader(self) -> Reader:
        return Reader(self.h.authority, self.h.objects, self.lake, STORAGE, self.h.app.registry)

    def land(self, *worlds: str) -> Awaitable[Any]:
        names = [WorldId(each) for each in worlds]
        holder = Holder(str(self.h.new_token()))
        return self.landing.land(names, holder=holder, new_token=self.h.new_token)

    def project(self, *worlds: str) -> Awaitable[Any]:
        names = [WorldId(each) for each in worlds]
        holder = Holder(str(self.h.new_token()))
        return Projection(self.h.authority, self.lake, STORAGE).project(
            names, holder=holder, new_token=self.h.new_token
        )

    async def dispatched(self) -> None:
        async def nobody(_: Any) -> None:
            return

        found = await self.h.look()
        for look in (sessions.look, jobs.look):
            now = self.h.clock
            await look(self.h.authority, STORAGE, now=now, go_on=lambda: True, tell=nobody)
        await self.queue.send([message_of(due) for due in found.due])

    async def due(self, world: str) -> Due:
        """Find a world that is due, as a dispatch does."""
        return next(due for due in (await self.h.look()).due if due.ref.world == world)

    async def ticks(self, number: int) -> None:
        """Publish ticks of the world that is landed, and settle a command on the way."""
        await self.h.worlds.submit("w", [spawn(number)])
        before = (await self.h.worlds.describe("w")).next_tick
        await self.h.run("w", before + number - 1, self.h.ticker("lander"))


@asynccontextmanager
async def rig_at(address: str) -> AsyncIterator[Rig]:
    """Open an empty storage in an account of its own."""
    number = next(_NUMBERS)
    name = f"costs-{number}"
    with ExitStack() as stack:
        wire = stack.enter_context(wire_to(address))
        access = account(number)

        def client(service: str, config: Config | None = None) -> Any:
            found: Any = boto3.client(
                service,
                "us-east-1",
                endpoint_url=wire.address,
                aws_access_key_id=access,
                aws_secret_access_key="test",
                config=config,
            )
            stack.callback(found.close)
            return found

        client("dynamodb").create_table(**table_definition(name))
        client("s3").create_bucket(Bucket=name)
        url = client("sqs").create_queue(
            QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"}
        )["QueueUrl"]
        store = DynamoStore(Unreported(client("dynamodb", client_config(4))), name, threads=4)
        catalog = CloudCatalog(
            "perdure",
            client=client("glue"),
            **{
                "warehouse": f"s3://{name}/warehouse",
                "py-io-impl": "perdure.lake.remote.RemoteFileIO",
                "s3.endpoint": wire.address,
                "s3.region": "us-east-1",
                "s3.access-key-id": access,
                "s3.secret-access-key": "test",
            },
        )
        catalog.create_namespace("main")
        h = Harness(store, S3Objects(client("s3"), name), moving_app(), Clock())
        try:
            yield Rig(Bill(store, wire), h, Lake(catalog, "main"), SqsQueue(client("sqs"), url))
        finally:
            await h.authority.close()
            catalog.close()


async def counted(address: str) -> dict[str, Cost]:
    """Do every operation once, and return what each cost."""
    async with rig_at(address) as rig:
        await _admitting(rig)
        await _ticking(rig)
        await _dispatching(rig)
        await _landing(rig)
        await _reading(rig)
        await _ending(rig)
        return rig.bill.costs


async def _admitting(rig: Rig) -> None:
    bill, worlds = rig.bill, rig.h.worlds
    await bill.of("create a world", worlds.create("w", world_id="w"))
    await worlds.submit("w", [spawn(0)])
    await rig.h.run("w", 0, rig.h.ticker("first"))
    own = spawn(1).model_copy(update={"command_id": "mine"})
    await bill.of("command with an id of its own", worlds.submit("w", [own]))
    await bill.of("the same command again", worlds.submit("w", [own]))
    await bill.of("batch of 1 command", worlds.submit("w", [spawn(2)], batch_id="b"))
    many = [spawn(number) for number in range(HUNDRED)]
    await bill.of("batch of 100 commands", worlds.submit("w", many, batch_id="many"))
    await bill.of("status of a command", worlds.command("w", "mine"))
    await bill.of("status of a world", worlds.describe("w"))


async def _ticking(rig: Rig) -> None:
    bill, h = rig.bill, rig.h
    ref, ticker = h.worlds.ref("w"), h.ticker("writer")
    first = await ticker.take(ref)
    _, grip = await ticker.tick(ref, first, keep=True)  # settles what was admitted above
    _, grip = await bill.of("tick, warm, nothing asked", ticker.tick(ref, grip, keep=True))
    await h.worlds.submit("w", [spawn(3)])
    _, grip = await bill.of("tick, warm, 1 command", ticker.tick(ref, grip, keep=True))
    await h.worlds.submit("w", [spawn(number) for number in range(HUNDRED)])
    _, grip = await bill.of("tick, warm, 100 commands", ticker.tick(ref, grip, keep=True))
    await bill.of("tick, warm, lets its fence go", ticker.tick(ref, grip))
    grip = await bill.of("take the fence", ticker.take(ref))
    await ticker.tick(ref, grip)

    async def resumed() -> None:
        other = h.ticker("another")
        await other.tick(ref, await other.take(ref))

    await bill.of("tick, resumed, with its fence", resumed())


async def _dispatching(rig: Rig) -> None:
    bill, h = rig.bill, rig.h
    await h.look()  # lays to rest what the worlds above have left
    h.clock.advance(MINUTE_MS)
    await h.look()
    await bill.of("dispatch, nothing due", rig.dispatched())
    for number in range(10):
        await h.worlds.create(f"s{number}", world_id=f"s{number}", every_ms=MINUTE_MS)
    h.clock.advance(2 * MINUTE_MS)
    await h.look()
    await bill.of("dispatch, 10 worlds due", rig.dispatched())
    ticker = h.ticker("served")
    for name in ("scheduled tick, resumed", "scheduled tick, warm"):
        due = await rig.due("s0")
        await bill.of(name, serve(ticker, due, deadline=Instant(h.clock.time + 600_000)))
        h.clock.advance(MINUTE_MS)


async def _landing(rig: Rig) -> None:
    bill = rig.bill
    await rig.land("w")
    await rig.project("w")
    await bill.of("landing, nothing new", rig.land("w"))
    await rig.ticks(1)
    await bill.of("landing of 1 tick into 1 table", rig.land("w"))
    await rig.ticks(TICKS)
    await bill.of(f"landing of {TICKS} ticks into 1 table", rig.land("w"))
    await bill.of("projection of a log", rig.project("w"))


async def _reading(rig: Rig) -> None:
    bill, reader = rig.bill, rig.reader
    world, last = WorldId("w"), (await rig.h.worlds.describe("w")).next_tick - 1
    await bill.of("query of the state", reader.query(world, ["Position"]))
    past = range(last - TICKS, last)
    await bill.of(f"query of {TICKS} landed ticks", reader.query(world, ["Position"], ticks=past))
    history = History(rig.h.authority, rig.lake, STORAGE)
    await bill.of("page of history", history.read("w", HistoryAsked()))


async def _ending(rig: Rig) -> None:
    bill, h = rig.bill, rig.h
    await bill.of("fork a world", h.worlds.fork("w", "f", world_id="f"))
    means = h.ticker("end").means
    await bill.of("destroy a world", destroy(means, h.worlds.ref("w"), lease_ms=60_000))


def main(arguments: list[str]) -> None:
    """Count, then write the page or print it."""
    with TemporaryDirectory() as directory, ministack(Path(directory) / "log") as address:
        text = page(asyncio.run(counted(address)))
    if "--show" in arguments:
        print(text)  # noqa: T201
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
