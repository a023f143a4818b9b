"""Verification where a first look passes over: heads, archives, tables' own files, the departed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from tests.runtime.harness import Fuel, Place, fresh_app
from tests.runtime.keeping import keeping
from tests.runtime.trimming import HOUR, archiving, trim

from perdure import AddComponents, Spawn
from perdure.kernel import limits
from perdure.kernel.errors import StoreUnavailable
from perdure.runtime.archive import ArchivedStore

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


async def test_a_checkpoint_that_a_tick_shares_with_those_who_left_is_sound(tmp_path):
    app = fresh_app()

    @app.processor(Place)
    def drift(rows, tick):
        there = rows.schema.get_field_index("place__x")
        return rows.set_column(there, "place__x", [[float(tick.number)] * rows.num_rows])

    async with keeping(tmp_path, app=app) as kept:
        worlds = kept.harness.worlds
        await worlds.create("harbour", world_id="w")
        await worlds.submit("w", [Spawn(Place(x=0.5, y=0))] * 3, batch_id="fleet")
        await worlds.submit(
            "w", [AddComponents(Fuel(litres=1), entity_id=1, tick=3)], batch_id="fuel"
        )
        for tick in range(5):
            await kept.harness.run("w", tick)

        verified = await kept.verify()

    assert verified.findings == ()


async def test_an_archive_is_read_again_by_a_process_that_has_read_it(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=9, many=2)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        await trim(kept)
        before = await kept.verify()
        first, *_ = await kept.objects.names("archive/")
        path = tmp_path / "objects" / first
        data = path.read_bytes()

        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        flipped = await kept.verify()
        path.unlink()
        gone = await kept.verify()

    assert before.findings == ()
    for verified in (flipped, gone):
        (finding,) = verified.findings
        assert (finding.kind, finding.where) == ("log", "log entries 1 to 5")


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"])
async def test_a_damaged_file_of_a_table_is_named_and_no_reader_breaks_over_it(tmp_path, kind):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=4, many=2)
        await kept.land()
        for path in (tmp_path / "warehouse").rglob(kind):
            data = path.read_bytes()
            path.write_bytes(data.replace(b'"long"', b',long"').replace(b'"int"', b',int"'))

        verified = await kept.verify()
        with pytest.raises(StoreUnavailable):
            await kept.rows(Place, range(2))  # a state would be read from segments

    assert {finding.kind for finding in verified.findings} == {"landed"}


CHANGED = {
    "status": "closing",
    "writer_mode": "cleanup_only",
    "next_sequence": 1,
    "next_entity_id": 2,
    "checkpoint": 2,
    "open_commands": 7,
    "cancelled_below": 3,
}


async def test_a_head_that_says_other_than_log_and_manifests_is_named(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=6, many=2)
        at = (kept.harness.worlds.ref("w").partition, "head")
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
            ask = "SELECT body FROM record WHERE partition = ? AND sort = ?"
            ((body,),) = database.execute(ask, at).fetchall()
            head = json.loads(body[1:])
            found = {}
            for name, value in {**CHANGED, "next_enTity_id": 4}.items():
                spelled = json.dumps({**head, name: value}, sort_keys=True, separators=(",", ":"))
                write = "UPDATE record SET body = ? WHERE partition = ? AND sort = ?"
                database.execute(write, (body[:1] + spelled.encode(), *at))
                found[name] = {each.kind for each in (await kept.verify()).findings}

    assert set(map(frozenset, found.values())) == {frozenset({"head"})}


async def test_heads_of_worlds_that_ended_forked_or_cancelled_are_sound(tmp_path):
    async with keeping(tmp_path) as kept:
        worlds = kept.harness.worlds
        await kept.live(ticks=5, many=2)
        await worlds.submit("w", [Spawn(Place(x=1, y=1), tick=9)] * 2, batch_id="far")
        await worlds.fork("w", "fork", world_id="f")
        await worlds.cancel_all("w", "all")
        await kept.harness.run("w", 5)
        await worlds.submit("w", [Spawn(Place(x=1, y=1), tick=9)] * 2, batch_id="farther")

        verified = [await kept.verify(world) for world in ("w", "f")]

    assert [each.findings for each in verified] == [(), ()]


@pytest.mark.parametrize("change", [(b'"object":"', b'"object":".'), (b'"sha256"', b'"sha\xff56"')])
async def test_a_damaged_record_of_an_archive_is_named(tmp_path, change):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=9, many=2)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        await trim(kept)
        ask = "SELECT rowid, body FROM record WHERE sort LIKE 'archive/%' ORDER BY sort LIMIT 1"
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
            ((row, body),) = database.execute(ask).fetchall()
            damaged = (body.replace(*change), row)
            database.execute("UPDATE record SET body = ? WHERE rowid = ?", damaged)

        cold = ArchivedStore(kept.harness.store._store, lambda: kept.objects)
        kept.harness.authority._store = cold
        verified = await kept.verify()

    assert {finding.kind for finding in verified.findings} == {"log"}


async def test_a_page_of_a_fork_that_names_a_stranger_is_named(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=2, many=2)
        await kept.harness.worlds.submit("w", [Spawn(Fuel(litres=1), tick=9)], batch_id="far")
        await kept.harness.worlds.fork("w", "fork", world_id="f")
        partition = kept.harness.worlds.ref("f").partition
        before = await kept.verify("f")
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
            ask = "SELECT rowid, body FROM record WHERE partition = ? AND sort LIKE 'due/%' LIMIT 1"
            ((row, body),) = database.execute(ask, (partition,)).fetchall()
            damaged = (body.replace(b'"w/', b'"x/'), row)
            database.execute("UPDATE record SET body = ? WHERE rowid = ?", damaged)

        after = await kept.verify("f")

    assert before.findings == ()
    assert {finding.kind for finding in after.findings} == {"page"}
