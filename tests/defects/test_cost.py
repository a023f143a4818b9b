"""Defects that systems of this kind are known to have: costs that grow, counted instead of timed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest
from tests.house.sources import ROOT, environment
from tests.runtime.harness import Fuel, Place, fresh_app, harness
from tests.support.worlds import Position, position, signature_of

from perdure import Spawn, Update
from perdure.kernel import limits
from perdure.kernel.component import Registry, table_id
from perdure.kernel.ids import StorageId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.read import Reader

pytestmark = pytest.mark.lifecycle

CHUNKS = 20
"""Pieces in which the body of the largest batch is put."""


class CountingObjects:
    """Objects that count how often they are asked for what."""

    def __init__(self, objects):
        self._objects = objects
        self.calls = Counter()

    def __getattr__(self, name):
        method = getattr(self._objects, name)

        async def counted(*args):
            self.calls[name] += 1
            return await method(*args)

        return counted


class CountingStore:
    """A store that counts loads, commits and the records that were loaded."""

    def __init__(self, store):
        self._store = store
        self.calls = Counter()

    async def load(self, reads):
        self.calls["loads"] += 1
        view = await self._store.load(reads)
        self.calls["records"] += len(view.stored)
        return view

    async def commit(self, commit):
        self.calls["commits"] += 1
        await self._store.commit(commit)

    async def close(self):
        await self._store.close()


def moving_app():
    app = fresh_app()

    @app.processor(Place)
    def drift(rows, tick):
        moved = rows.column("place__x").to_numpy() + 1.0
        return rows.set_column(rows.schema.get_field_index("place__x"), "place__x", [moved])

    return app


def counting(tmp_path, app=None):
    h = harness(tmp_path, app)
    h.store = CountingStore(h.store)
    h.objects = CountingObjects(h.objects)
    h.__post_init__()
    return h


async def cost(h, run):
    before, objects = Counter(h.store.calls), Counter(h.objects.calls)
    await run
    return h.store.calls - before, h.objects.calls - objects


async def test_a_tick_costs_the_same_after_hundreds_of_ticks(tmp_path):
    """Where each tick appends and reads back the whole state, the thousandth costs far more."""
    h = counting(tmp_path, moving_app())
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(400)])
    ticker = h.ticker()
    await h.run("w", 10, ticker)

    early = await cost(h, h.run("w", 15, ticker))
    await h.run("w", 400, ticker)
    late = await cost(h, h.run("w", 405, ticker))

    assert late == early
    assert late[1]["get"] == 0, "a warm tick reads nothing back"


async def test_a_cold_start_reads_no_more_than_what_a_checkpoint_leaves(tmp_path):
    """Where a resume scans every table, it takes as long as the world is old."""
    h = counting(tmp_path, moving_app())
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(400)])
    await h.run("w", 6 * limits.CHECKPOINT_TICKS + 5)

    store, objects = await cost(h, h.run("w", 6 * limits.CHECKPOINT_TICKS + 6, h.ticker("cold")))

    assert objects["get"] <= limits.CHECKPOINT_TICKS + 1
    assert store["records"] <= limits.CHECKPOINT_TICKS + 30


async def test_a_thousand_updates_read_as_much_as_one(tmp_path):
    """Where every update reads the table for its entity, a tick of updates crawls."""
    h = counting(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(1_000)])
    ticker = h.ticker()
    await h.run("w", 0, ticker)

    await h.worlds.submit("w", [Update(Place(x=0, y=1), entity_id=1)])
    one = await cost(h, h.run("w", 1, ticker))
    await h.worlds.submit("w", [Update(Place(x=0, y=2), entity_id=n) for n in range(1, 1_001)])
    thousand = await cost(h, h.run("w", 2, ticker))

    assert thousand[0]["loads"] == one[0]["loads"]
    assert thousand[1]["get"] == one[1]["get"] == 0


def test_a_query_of_one_tick_opens_the_files_of_that_tick_alone(place, monkeypatch):
    """Where filters are dropped on the way to the table, one row costs a scan of everything."""
    world = place.world()
    for tick in range(4):
        world.publish({(Position,): [position(1, float(tick))]})
        place.land()
    opened = Counter()
    file_io = type(place.lake.opened(signature_of(Position)).io)
    whole = file_io.new_input

    def counted(self, location):
        opened["data" if location.endswith(".parquet") else "metadata"] += 1
        return whole(self, location)

    monkeypatch.setattr(file_io, "new_input", counted)

    rows = place.latitudes(ticks=range(2, 3))

    assert rows == [(2, 1, 2.0)]
    assert opened["data"] == 1


async def test_ten_thousand_spawns_are_one_commit_to_take_and_one_tick_to_settle(tmp_path):
    """Where every spawn is a row of its own, ten thousand are as many writes, read back after."""
    h = counting(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    ticker = h.ticker()
    await h.run("w", 0, ticker)

    spawns = [Spawn(Place(x=n, y=0)) for n in range(10_000)]
    one, _ = await cost(h, h.worlds.submit("w", spawns[:1], batch_id="one"))
    many, _ = await cost(h, h.worlds.submit("w", spawns, batch_id="many"))
    settled, objects = await cost(h, h.run("w", 1, ticker))
    await h.worlds.submit("w", spawns[:1])
    quiet, _ = await cost(h, h.run("w", 2, ticker))

    found = await h.worlds.describe("w")
    assert found.entities == 10_002
    assert many["commits"] - one["commits"] <= CHUNKS
    assert settled["commits"] - quiet["commits"] <= 1, "its manifest may be put first"
    assert (objects["put"], objects["get"]) == (1, 0)


@pytest.mark.parametrize("ticks", [None, range(100, 102)])
async def test_a_query_of_a_long_history_reads_what_it_answers_from_and_no_more(tmp_path, ticks):
    """Where every manifest is listed for every query, looking at one tick costs all of them."""
    h = counting(tmp_path, moving_app())
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(400)])
    catalog = open_local(tmp_path)
    reader = Reader(h.authority, h.objects, Lake(catalog, "main"), StorageId("storage"))
    await h.run("w", 4 * limits.CHECKPOINT_TICKS + 5)

    store, objects = await cost(h, reader.query("w", ["Place"], ticks=ticks))

    catalog.close()
    most = 2 if ticks else limits.CHECKPOINT_TICKS + 1
    assert objects["get"] <= most
    assert store["records"] <= most + 10


def test_a_function_that_admits_commands_loads_nothing_that_is_not_for_that(tmp_path):
    """Where an import brings in every engine there is, a cold start takes longer than its work."""
    (tmp_path / "default").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", ADMITS],
        cwd=ROOT,
        env=environment(
            PERDURE_STORAGE=tmp_path.as_uri(), PERDURE_APP="tests.emulator.harbour:app"
        ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    statuses, loaded = json.loads(run.stdout)
    assert statuses == [201, 202, 200]
    assert {*loaded} & HEAVY == set()


def test_the_id_of_a_table_is_made_from_what_it_holds_and_from_no_library():
    """Where it hashes another library's spelling of a schema, an upgrade orphans every table."""
    signature = Registry([Place, Fuel])

    assert table_id([model.component for model in signature]) == "a_2c_a195a8fc46935f48"


HEAVY = {"boto3", "botocore.session", "numpy", "pandas", "pyarrow", "pyiceberg", "sqlalchemy"}

ADMITS = """
import json, sys
sys.path.insert(0, "functions/api")
from app import handler, sandbox
from tests.api.rig import Context, bearer, spawn
from perdure.api.gateway import http_event

def asked(method, path, body=None):
    raw = b"" if body is None else json.dumps(body).encode()
    event = http_event(
        method, path, query="", headers={}, body=raw, request_id="r", authorizer=bearer("admin")
    )
    return handler(event, Context(remaining_ms=29_000))["statusCode"]

statuses = [
    asked("POST", "/v1/worlds", {"name": "harbour", "world_id": "h"}),
    asked("POST", "/v1/worlds/h/commands", {"commands": [spawn()], "batch_id": "b"}),
    asked("GET", "/v1/worlds/h/commands/b.0"),
]
sandbox.close()
print(json.dumps([statuses, sorted(sys.modules)]))
"""
