"""Landing exactly once: whoever dies, is slow, or hears nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.day import BOTH, ONLY, a_day, expected
from tests.support.place import Place
from tests.support.steps import Died, DyingAuthority, Steps, dying_catalog
from tests.support.worlds import (
    STORAGE,
    Published,
    position,
    signature_of,
    table_of,
)

from perdure.kernel.errors import FenceHeld, StaleWriter, StoreUnavailable
from perdure.kernel.ids import Holder, Tick, Token, WorldId
from perdure.kernel.landing import (
    IntentPart,
    IntentTable,
    OpenIntent,
    TakeLandingFence,
    landing_head_key,
)
from perdure.kernel.places import landing_partition
from perdure.lake import iceberg
from perdure.lake.catalog import LocalCatalog, open_local
from perdure.lake.iceberg import Lake
from perdure.lake.segment import Origin
from perdure.runtime import land as land_module
from perdure.runtime.land import Bounds, Landed, Landing


def steps_of_a_landing(place: Place, steps: Steps) -> None:
    catalog = open_local(place.root, dying_catalog(steps))
    try:
        place.land(
            "w",
            "v",
            holder="the dead",
            authority=DyingAuthority(place.authority, steps),
            lake=Lake(catalog, "main"),
            bounds=Bounds(ticks_max=3),
        )
    finally:
        catalog.close()


def count_of_steps(root: Path) -> int:
    place = Place(root)
    a_day(place, "w")
    a_day(place, "v")
    steps = Steps()
    steps_of_a_landing(place, steps)
    place.catalog.close()
    return steps.taken


@pytest.mark.proof
@pytest.mark.slow
def test_whoever_dies_at_any_step_rows_land_exactly_once(tmp_path):
    total = count_of_steps(tmp_path / "dry")
    assert total > 20

    for number in range(1, total + 1):
        for after in (False, True):
            place = Place(tmp_path / f"{number}-{after}")
            worlds = [a_day(place, "w"), a_day(place, "v")]
            with pytest.raises(Died):
                steps_of_a_landing(place, Steps(number, after=after))
            place.authority.now += land_module.LEASE_MS

            place.land("w", "v")

            assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
            assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
            assert [world.landed_tick() for world in worlds] == [4, 4]
            assert place.authority.held(landing_head_key(landing_partition(STORAGE))).intent is None
            place.catalog.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 12))
def test_a_successor_finishes_what_one_intent_left(place, number, after):
    world = a_day(place, "w")
    place.world("v")
    with pytest.raises(Died):
        steps_of_a_landing(place, Steps(number, after=after))
    place.authority.now += land_module.LEASE_MS

    place.land("w")

    assert place.keys(*BOTH) == expected("w", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,))
    assert world.landed_tick() == 4


def test_a_live_landing_is_not_disturbed(place):
    a_day(place)
    with pytest.raises(Died):
        steps_of_a_landing(place, Steps(4))

    with pytest.raises(FenceHeld):
        place.land("w")


def test_one_who_was_taken_over_in_the_middle_lands_nothing_twice(place):
    """The slow one opens its intent, loses its fence, and wakes up before its append."""
    worlds = [a_day(place, "w"), a_day(place, "v")]

    class Slow(LocalCatalog):
        rival: Callable[[], None] = staticmethod(lambda: None)

        def commit_table(self, *arguments):
            rival, Slow.rival = Slow.rival, staticmethod(lambda: None)
            rival()
            return super().commit_table(*arguments)

    def take_over() -> None:
        place.authority.now += land_module.LEASE_MS
        place.land("w", "v")

    Slow.rival = staticmethod(take_over)
    catalog = open_local(place.root, Slow)

    with pytest.raises(StaleWriter):
        place.land("w", "v", lake=Lake(catalog, "main"))

    catalog.close()
    assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
    assert [world.landed_tick() for world in worlds] == [4, 4]


def test_two_landings_of_one_holder_cannot_both_open_the_same_ticks(place):
    a_day(place)
    landing = Landing(place.authority, place.objects, Lake(place.catalog, "main"), STORAGE)
    tokens = count(1)

    async def story() -> list[object]:
        lands = [
            landing.land(
                [WorldId("w")],
                holder=Holder("same"),
                new_token=lambda: Token(f"batch-{next(tokens)}"),
            )
            for _ in range(2)
        ]
        return await asyncio.gather(*lands, return_exceptions=True)

    outcomes = asyncio.run(story())

    assert any(isinstance(each, Landed) for each in outcomes)
    assert place.keys(*BOTH) == expected("w", (1, 2, 3))


class Loses(LocalCatalog):
    """Answers to commits are lost: some after they were applied, some before."""

    script: list[bool]

    def commit_table(self, *arguments):
        if not self.script:
            return super().commit_table(*arguments)
        if self.script.pop(0):
            super().commit_table(*arguments)
        raise ConnectionError("no answer")


@pytest.mark.parametrize("script", [[True], [False], [False, True], [False, False, False]])
def test_lost_answers_of_the_catalog_lead_to_a_look_never_to_a_second_copy(place, script):
    a_day(place)
    catalog = open_local(place.root, Loses)
    catalog.script = list(script)

    landed = place.land("w", lake=Lake(catalog, "main"))

    catalog.close()
    assert landed.rows == 16
    assert place.keys(*BOTH) == expected("w", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,))


def test_a_catalog_that_never_takes_it_leaves_the_intent_for_the_next(place):
    world = a_day(place)
    catalog = open_local(place.root, Loses)
    catalog.script = [False] * 100

    with pytest.raises(StoreUnavailable):
        place.land("w", lake=Lake(catalog, "main"))
    catalog.close()
    assert world.landed_tick() == -1

    place.land("w")

    assert place.keys(*BOTH) == expected("w", (1, 2, 3))


def opened_intent(place: Place, world: Published, table: pa.Table) -> Token:
    """Open an intent for the world's last tick as a landing does that dies right after."""
    batch = Token("half done")

    async def story() -> None:
        take = TakeLandingFence(STORAGE, Holder("the dead"), land_module.LEASE_MS)
        grip = await place.authority.execute(take)
        last = world.manifests[-1]
        part = IntentPart(world=world.world, first=last.tick, last=last.tick, seq=last.seq)
        parent = iceberg.head_of(table)
        held = IntentTable(table=signature_of(*ONLY).table, parent=parent, rows=1)
        await place.authority.execute(
            OpenIntent(STORAGE, grip.epoch, land_module.LEASE_MS, batch, (part,), (held,))
        )

    asyncio.run(story())
    place.authority.now += land_module.LEASE_MS
    return batch


@pytest.mark.parametrize("has_landed", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_with_the_chain_of_snapshots_cut_the_rows_themselves_decide(place, has_landed, is_first):
    """An open intent meets a table whose history somebody expired."""
    lake = Lake(place.catalog, "main")
    world = a_day(place, ticks=0 if is_first else 5)
    place.land("w")
    last = world.publish({ONLY: [position(9, 5.0)]})
    batch = opened_intent(place, world, lake.created(signature_of(*ONLY)))
    rows = table_of(ONLY, [position(9, 5.0)], Origin(world.world, world.run, last.tick, last.token))
    rivals = table_of(ONLY, [position(1, 1.0)], Origin("x", "x", Tick(0), Token("x")))
    if has_landed:
        iceberg.append(lake.opened(signature_of(*ONLY)), rows, batch)
    for number in range(2):
        iceberg.append(lake.opened(signature_of(*ONLY)), rivals, f"rival {number}")
    table = lake.opened(signature_of(*ONLY))
    old = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()

    place.land("w")

    assert place.keys(*ONLY)["w", last.tick, 9] == 1
    assert world.landed_tick() == last.tick
