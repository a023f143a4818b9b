"""Who keeps a storage takes no commit under way for a damage, and lets nothing go for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.harness import Clock, Harness, Place, no_pause, tokens
from tests.runtime.keeping import STORAGE, Keeping, moving_app
from tests.runtime.trimming import HOUR, archiving, everything, trim
from tests.support.forking import wish
from tests.support.half_shown import HalfShown

from perdure import Spawn
from perdure.kernel import limits
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Holder, Seq, Tick, WorldId
from perdure.kernel.log import log_key
from perdure.kernel.pages import Page
from perdure.kernel.records import manifest_key
from perdure.kernel.trim import archive_key
from perdure.lake import audit
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.fork import fork
from perdure.runtime.project import Projection

pytestmark = pytest.mark.lifecycle

TICKS = 6


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 2)


@asynccontextmanager
async def kept(root: Path) -> AsyncIterator[tuple[Keeping, HalfShown]]:
    """A world that has lived, on a store that can be told what not to show yet."""
    store, objects = HalfShown(), LocalObjects(root / "objects")
    catalog = open_local(root)
    h = Harness(archiving(store, objects), objects, moving_app(), Clock())
    h.new_token = tokens("k")
    try:
        keeping = Keeping(h, Lake(catalog, "main"), catalog)
        await keeping.live(TICKS, many=2)
        yield keeping, store
    finally:
        catalog.close()


def partition(keeping: Keeping, world: str = "w") -> Any:
    return keeping.harness.worlds.ref(world).partition


def last_entry(keeping: Keeping, store: HalfShown) -> Any:
    world = partition(keeping)
    seqs = [int(key.sort[4:]) for key in store._records if key[0] == world and "log/" in key[1]]
    return log_key(world, Seq(max(seqs)))


async def test_a_world_is_whole_while_its_last_commit_shows_in_part(tmp_path):
    async with kept(tmp_path) as (keeping, store):
        store.hide(manifest_key(partition(keeping), Tick(TICKS - 1)), last_entry(keeping, store))

        verified = await keeping.verify()

    assert (verified.checked_ticks, verified.findings) == (TICKS, ())
    assert store.looks


@pytest.mark.parametrize("what", ["manifest", "log"])
async def test_what_is_lost_of_a_world_is_found_beside_a_commit_that_shows_in_part(tmp_path, what):
    async with kept(tmp_path) as (keeping, store):
        world = partition(keeping)
        store.lose(manifest_key(world, Tick(2)) if what == "manifest" else log_key(world, Seq(4)))
        store.hide(manifest_key(world, Tick(TICKS - 1)))

        verified = await keeping.verify()

    assert what in {each.kind for each in verified.findings}
    assert not [each for each in verified.findings if each.where == f"manifest {TICKS - 1}"]


async def test_pages_are_looked_at_again_until_they_show_whole(tmp_path):
    async with kept(tmp_path) as (keeping, store):
        await keeping.harness.worlds.submit("w", [Spawn(Place(x=1, y=1), tick=90)])
        (page,) = [key for key in store._records if key.of is Page]
        store.hide(page)
        verifier = keeping.verifier()

        async def shown(_: float) -> None:
            store.instead.clear()

        hidden = await verifier.verify(WorldId("w"))
        whole = await replace(verifier, pause=shown).verify(WorldId("w"))

    assert [each.kind for each in hidden.findings] == ["page"]
    assert whole.findings == ()


async def test_no_archive_goes_while_the_record_that_names_it_does_not_show(tmp_path):
    async with kept(tmp_path) as (keeping, store):
        await keeping.land()
        before = await everything(keeping, TICKS)
        keeping.harness.clock.advance(2 * HOUR)
        trimmed = await trim(keeping)
        assert trimmed.archived == 10
        world = partition(keeping)
        store.hide(archive_key(world, Seq(5)))

        again = await trim(keeping)
        store.instead.clear()

        assert again.orphans == 0
        assert await everything(keeping, TICKS) == before


async def projected(keeping: Keeping, world: str) -> Any:
    h = keeping.harness
    projection = Projection(h.authority, keeping.lake, STORAGE)
    return await projection.project(
        [WorldId(world)], holder=Holder(h.new_token()), new_token=h.new_token
    )


async def forked(keeping: Keeping) -> list[Any]:
    """Fork the world with an open command that has a name, and let the fork apply it."""
    h = keeping.harness
    await h.worlds.submit("w", [Spawn(Place(x=1, y=1), command_id="named")])
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    await h.run("child", TICKS)
    return [log_key(partition(keeping), Seq(seq)) for seq in (2, 3)]


async def test_what_a_fork_took_over_is_told_by_name_beside_a_gap_in_its_parents_log(tmp_path):
    async with kept(tmp_path) as (keeping, store):
        store.hide(*await forked(keeping))

        done = await projected(keeping, "child")

        table = keeping.lake.opened_as(audit.AUDIT)
        told = [row for row in table.scan().to_arrow().to_pylist() if row["kind"] == "applied"]

    assert done.failed == ()
    assert "named" in {row["command_id"] for row in told}
    assert store.looks


async def test_what_a_parents_log_has_lost_is_told_to_whoever_projects_its_fork(tmp_path):
    async with kept(tmp_path) as (keeping, store):
        store.lose(*await forked(keeping))

        done = await projected(keeping, "child")

    ((world, error),) = done.failed
    assert (world, type(error)) == ("child", Corrupt)
