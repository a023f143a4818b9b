"""Cold reads: a process that knows where a storage is sees all of it, and changes none of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys

import pytest
from pyiceberg.types import StringType
from tests.migrate.storages import SHIPS, opened, tree
from tests.support.lifecycle import Overwrite

import perdure
from perdure.api.settings import local
from perdure.api.wiring import opened_authority
from perdure.kernel.carry import Raw, ReadRaw
from perdure.kernel.errors import (
    Corrupt,
    NewerSchema,
    NotFound,
    SchemaMismatch,
    StoreUnavailable,
)
from perdure.kernel.floor import Floor
from perdure.kernel.places import catalog_partition
from perdure.lake.catalog import open_local

pytestmark = pytest.mark.lifecycle


ROWS = range(2)
"""Ticks that have landed. The rows of a range are read from tables, a state from segments."""


def readonly(root):
    return perdure.open_readonly(root.as_uri())


async def positions(root, **options):
    async with readonly(root) as storage:
        world = await storage.open_readonly("harbour")
        return (await world.query("Position", **options)).num_rows


def test_reader_that_knows_nothing_lists_describes_and_queries(source):
    async def visit():
        async with readonly(source) as storage:
            world = await storage.open_readonly("harbour")
            listed = [info.world_id for info in await storage.discover()]
            log = [entry.kind for entry in await world.log()]
            command = await world.command("ships.0")
            return listed, (await world.info()).published_tick, log[0], command.status

    assert asyncio.run(visit()) == (["fresh", "harbour", "yard"], 4, "created", "applied")
    assert asyncio.run(positions(source)) == SHIPS
    assert asyncio.run(positions(source, ticks=1)) == SHIPS


def test_readonly_world_has_no_word_for_writing(source):
    async def visit():
        async with readonly(source) as storage:
            return await storage.open_readonly("harbour")

    world = asyncio.run(visit())

    assert not {"submit", "run", "land", "cancel", "cancel_all"} & set(dir(world))


def test_open_storage_hands_out_readonly_worlds_too(source):
    async def visit():
        async with opened(source) as storage:
            world = await storage.open_readonly("harbour")
            with pytest.raises(NotFound):
                await storage.open_readonly("nowhere")
            return (await world.query("Position")).num_rows

    assert asyncio.run(visit()) == SHIPS


def test_world_that_does_not_exist_is_not_found(source):
    async def visit():
        async with readonly(source) as storage:
            await storage.open_readonly("nowhere")

    with pytest.raises(NotFound):
        asyncio.run(visit())


def test_reading_changes_no_byte_and_leaves_no_file(source):
    before = tree(source)

    asyncio.run(positions(source, ticks=range(5)))

    assert tree(source) == before


def test_reading_what_has_not_landed_makes_no_catalog_of_tables(tmp_path):
    root = tmp_path / "young"

    async def begin():
        async with opened(root) as storage:
            world = await storage.create_world("harbour", world_id="harbour")
            await world.run(to_tick=0)

    asyncio.run(begin())
    before = tree(root)

    async def read():
        async with readonly(root) as storage:
            return await storage.discover()

    assert len(asyncio.run(read())) == 1
    assert tree(root) == before
    assert not list(root.rglob("iceberg.db"))


def test_storage_that_is_not_there_is_unavailable_and_is_not_made(tmp_path):
    with pytest.raises(StoreUnavailable, match="no such directory"):
        asyncio.run(positions(tmp_path / "nowhere"))

    assert list(tmp_path.iterdir()) == []


def test_cold_query_imports_no_module_of_the_writer(source):
    program = f"""
import asyncio, json, sys, perdure
async def main():
    async with perdure.open_readonly({source.as_uri()!r}) as storage:
        world = await storage.open_readonly("harbour")
        return (await world.query("Position")).num_rows, (await world.query("Cargo")).num_rows
found = asyncio.run(main())
print(json.dumps([found, [name for name in sys.modules if name.split(".")[0] in ("tests", "airspace")]]))
"""

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[SHIPS, 1], []]


# --- tampered with ----------------------------------------------------------------------------


def renamed(table):
    with table.update_schema() as update:
        update.rename_column("position__x", "position__longitude")


def dropped(table):
    with table.update_schema() as update:
        update.delete_column("position__y")


def reordered(table):
    with table.update_schema() as update:
        update.move_first("position__y")


def retyped(table):

    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("position__x")
    with table.update_schema() as update:
        update.add_column("position__x", StringType())


@pytest.mark.parametrize("change", [renamed, dropped, reordered, retyped])
def test_table_that_is_not_what_its_record_says_is_not_read(source, change):
    catalog = open_local(source / "default")
    for name in catalog.list_tables("default"):
        if name[-1].startswith("a_"):  # an archetype's, not the audit table
            change(catalog.load_table(name))
    catalog.close()

    with pytest.raises(SchemaMismatch):
        asyncio.run(positions(source, ticks=ROWS))


async def written(root, record):
    async with opened_authority(local(root)) as authority:
        await authority.execute(Overwrite(record))


def signature(root) -> Raw:
    """Return the record of the table of positions alone."""
    catalog = catalog_partition(local(root).storage)

    async def find():

        async with opened_authority(local(root)) as authority:
            found = await authority.execute(ReadRaw(catalog))
        return next(each for each in found if each.sort.startswith("signature/a_1c"))

    return asyncio.run(find())


@pytest.mark.parametrize(
    ("before", "after"),
    [(b'"position__x","float64"', b'"position__x","int64"'), (b"position__y", b"position__z")],
)
def test_record_of_a_table_that_was_tampered_with_is_not_believed(source, before, after):
    held = signature(source)
    assert before in held.spelled
    changed = Raw(
        partition=held.partition, sort=held.sort, spelled=held.spelled.replace(before, after)
    )
    asyncio.run(written(source, changed))

    with pytest.raises(SchemaMismatch):
        asyncio.run(positions(source, ticks=ROWS))


# --- unavailable, or newer --------------------------------------------------------------------


def test_catalog_with_features_of_a_newer_version_is_refused_by_everybody(source):
    floor = Floor(partition=catalog_partition(local(source).storage), features=("cubes",))
    asyncio.run(written(source, floor))
    before = tree(source)

    async def write():
        async with opened(source) as storage:
            await storage.create_world("another")

    for use in (positions(source), write()):
        with pytest.raises(NewerSchema, match="cubes"):
            asyncio.run(use)
    assert tree(source) == before


def test_file_of_a_newer_schema_is_refused(source):
    (file,) = source.rglob(".perdure-catalog-sqlite.db")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE meta SET value = 99")
    database.close()

    with pytest.raises(NewerSchema):
        asyncio.run(positions(source))


@pytest.mark.parametrize("fault", ["gone", "broken"])
def test_catalog_of_tables_that_does_not_answer_is_an_error_never_an_empty_answer(source, fault):
    file = source / "default" / "iceberg.db"
    if fault == "gone":
        file.unlink()
    else:
        file.write_bytes(b"no database at all")

    with pytest.raises((Corrupt, StoreUnavailable)):
        asyncio.run(positions(source, ticks=ROWS))


def test_tables_whose_files_are_gone_are_an_error_never_an_empty_answer(source):
    for file in (source / "default" / "warehouse").rglob("*.metadata.json"):
        file.unlink()

    with pytest.raises(StoreUnavailable):
        asyncio.run(positions(source, ticks=ROWS))
