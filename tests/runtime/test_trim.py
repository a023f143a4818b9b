"""Trimming: less lies about, and everything that could be read can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.harness import Fuel
from tests.runtime.keeping import keeping
from tests.runtime.trimming import HOUR, archiving, everything, planted, trim, trimming

from perdure import Spawn
from perdure.kernel import limits
from perdure.kernel.errors import Conflict, Invalid
from perdure.kernel.ids import Seq, Tick, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.places import number
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import Ancestor
from perdure.kernel.trim import FindUnread, RecordTrim
from perdure.kernel.upkeep import Consumer, Required
from perdure.kernel.view import Range, Reads
from perdure.runtime.trim import GRACE_MS_MIN, Trimmed, thinned

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


async def test_all_that_could_be_read_before_a_trim_can_be_read_after_it(where):
    async with keeping(**where, wrap=archiving) as kept:
        await kept.live(ticks=10)
        before = await everything(kept, 10)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        names = await kept.objects.names("")

        would = await trim(kept, dry_run=True)
        untouched = await kept.objects.names("")
        trimmed = await trim(kept)

        after = await everything(kept, 10)
        verified = await kept.verify()
        left = await kept.objects.names("")
        await kept.harness.run("w", 10)
        resumed = (await kept.verify()).findings
        again = await trim(kept)

    assert after == before
    assert (would, untouched) == (trimmed, names)
    assert (trimmed.segments, trimmed.checkpoints, trimmed.archived) == (8, 0, 15)
    assert trimmed.bytes > 8 * 4_096
    assert len(left) == len(names) - 8 + 3
    assert (verified.findings, verified.checked_ticks, resumed) == ((), 10, ())
    assert (again.segments, again.checkpoints, again.orphans, again.archived) == (0, 0, 0, 0)


async def test_the_log_is_read_from_any_place_on_as_if_nothing_had_moved(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=9, many=2)
        worlds, world = kept.harness.worlds, kept.harness.worlds.ref("w").partition
        places = [(after, limit) for after in range(17) for limit in (1, 4, 5, 100)]
        before = [await worlds.log("w", after, limit) for after, limit in places]
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)

        trimmed = await trim(kept)

        after = [await worlds.log("w", after, limit) for after, limit in places]
        sort = f"log/{number(3)}"
        raw = [Range(world, first, "m", LogEntry) for first in (f"{sort}\0", "a", sort)]
        copied = await kept.harness.store.load(Reads(ranges=tuple(raw)))
        upto = Range(world, sort, f"log/{number(7)}", LogEntry)
        part = await kept.harness.store.load(Reads(ranges=(upto,)))

    assert trimmed.archived == 10
    assert after == before
    assert {key.sort for each in raw for key in copied.keys_of(each)} >= {f"log/{number(11)}"}
    assert all(key.sort > f"log/{number(10)}" for key in copied.keys_of(raw[0]))
    assert [key.sort for key in part.keys_of(upto)] == [f"log/{number(n)}" for n in range(3, 7)]


async def test_checkpoints_are_thinned_and_never_all_removed(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=34, many=160)
        before = await everything(kept, 34)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)

        trimmed = await trim(kept)

        unread = await kept.harness.authority.execute(FindUnread(kept.harness.worlds.ref("w")))
        after = await everything(kept, 34)
        verified = await kept.verify()
        left = await kept.objects.names("checkpoint/")
        await kept.harness.run("w", 44)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        await trim(kept)
        resumed = await everything(kept, 34)

    assert unread.trim.checkpoints == (3, 19, 27, 31)
    assert trimmed.checkpoints == 4
    assert {int(name.split("/")[-1][:19]) for name in left} == {3, 19, 27, 31}
    assert (after, verified.findings) == (before, ())
    assert resumed[0] == before[0]


def test_one_checkpoint_of_each_doubling_of_distance_stays():
    checkpoints = [Tick(tick) for tick in range(0, 100_000, 64)]

    kept = thinned(checkpoints, Tick(100_032))
    later = thinned([*kept, *map(Tick, range(100_032, 200_000, 64))], Tick(200_000))

    assert len(kept) == 11
    assert kept[0] == later[0] == 0
    assert len(later) <= 13
    assert thinned([], Tick(5)) == []


async def test_what_is_not_landed_or_young_or_after_the_last_checkpoint_stays(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=7, many=160)
        await kept.live(ticks=5, world="unlanded", many=160)
        await kept.land("w")

        kept.harness.clock.advance(60_000)
        young = await trim(kept, "w")
        kept.harness.clock.advance(2 * HOUR)
        unlanded = await trim(kept, "unlanded")
        old = await trim(kept, "w")

        world = kept.harness.worlds.ref("w").partition.replace("/", ".")
        left = await kept.objects.names(f"segment/{world}/")

    assert (young, unlanded.segments, unlanded.archived) == (Trimmed(), 0, 0)
    assert old.segments == 4
    assert {int(name.split("/")[-1][:19]) for name in left} == {4, 5, 6}


async def test_a_trim_beyond_what_is_landed_is_refused_and_writes_nothing(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=6, many=2)
        ref = kept.harness.worlds.ref("w")

        with pytest.raises(Conflict):
            await kept.harness.authority.execute(RecordTrim(ref, Tick(2), Tick(-1), ()))
        await kept.land()
        with pytest.raises(Conflict):
            await kept.harness.authority.execute(RecordTrim(ref, Tick(4), Tick(-1), ()))
        with pytest.raises(Invalid):
            await trimming(kept).trim([WorldId("w")], grace_ms=GRACE_MS_MIN - 1)

        unread = await kept.harness.authority.execute(FindUnread(ref))
    assert unread.trim.segments_through == -1


async def test_log_entries_stay_until_every_consumer_and_every_page_is_done_with_them(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=9, many=2)
        ref = kept.harness.worlds.ref("w")
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)

        await planted(kept, Consumer(partition=ref.partition, name="audit", seq=Seq(6)))
        behind = await trim(kept)
        await planted(kept, Consumer(partition=ref.partition, name="audit", seq=Seq(16)))
        await planted(kept, Required(partition=ref.partition, names=("webhook",)))
        lacking = await trim(kept)
        await planted(kept, Required(partition=ref.partition, names=()))
        await kept.harness.worlds.submit("w", [Spawn(Fuel(litres=1), tick=90)], batch_id="far")
        await kept.harness.run("w", 9)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        await planted(kept, Consumer(partition=ref.partition, name="audit", seq=Seq(17)))
        read = await trim(kept)

    assert (behind.archived, lacking.archived, read.archived) == (5, 0, 10)


async def test_what_a_fork_rebuilds_from_stays_until_it_has_a_checkpoint_of_its_own(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=14, many=160)
        await kept.land()
        await kept.harness.worlds.create("child", world_id="child")
        child = await kept.harness.authority.execute(FindWorld(kept.harness.worlds.ref("child")))
        ancestor = Ancestor(world=WorldId("w"), run=child.world.run, up_to=Tick(5))
        forked = replace(child.world, parent=WorldId("w"), lineage=(ancestor,))
        await planted(kept, forked)
        kept.harness.clock.advance(2 * HOUR)

        held = await trim(kept)
        ticks = {int(name.split("/")[-1][:19]) for name in await kept.objects.names("segment/")}
        await planted(kept, replace(child.head, checkpoint=Tick(6)))
        free = await trim(kept)

    assert held.segments == 4
    assert {4, 5} <= ticks
    assert free.segments == 8


async def test_a_fork_of_which_nothing_has_landed_holds_up_no_trim(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=6, many=160)
        await kept.land("w")
        await kept.harness.worlds.fork("w", "what if", world_id="fork")
        for tick in range(6, 12):
            await kept.harness.run("fork", tick)
        kept.harness.clock.advance(2 * HOUR)
        before = [await kept.rows("Place", tick, "fork") for tick in range(12)]

        unlanded = await trim(kept, "fork", "w")
        await kept.land("fork")
        landed = await trim(kept, "fork")

        assert [await kept.rows("Place", tick, "fork") for tick in range(12)] == before
        assert (await kept.verify("fork")).findings == ()
    assert (unlanded.segments, landed.segments) == (4, 6)
