"""Trimming: less lies about, and everything that could be read can be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.runtime.harness import Fuel, no_pause, tokens
from tests.runtime.keeping import STORAGE, Keeping, keeping

from perdure import Spawn
from perdure.authority.engine import Authority
from perdure.kernel import limits
from perdure.kernel.errors import Conflict, Invalid
from perdure.kernel.ids import Seq, TableId, Tick, Token, WorldId
from perdure.kernel.publish import Publish
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import Ancestor
from perdure.kernel.trim import FindUnread, RecordTrim, TrimRequest
from perdure.kernel.upkeep import Consumer, Required
from perdure.kernel.view import Decision, Reads
from perdure.lake.segment import segment_name
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.read import Reader
from perdure.runtime.trim import GRACE_MS_MIN, Trimmed, Trimming, thinned

pytestmark = pytest.mark.lifecycle

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


def archiving(store, objects):
    return ArchivedStore(store, lambda: objects)


def trimming(kept: Keeping, block: int = 5) -> Trimming:
    h = kept.harness
    return Trimming(h.authority, h.objects, STORAGE, h.clock, block_entries=block)


async def trim(kept: Keeping, *worlds: str, **options):
    trimmed, rest = await trimming(kept).trim(
        [WorldId(each) for each in worlds or ("w",)], grace_ms=HOUR, **options
    )
    assert rest is None
    return trimmed


async def everything(kept: Keeping, ticks: int, world: str = "w"):
    """Read all that can be read of a world."""
    worlds = kept.harness.worlds
    states = [
        await kept.rows(component, tick, world)
        for tick in range(ticks)
        for component in ("Place", "Fuel")
    ]
    log = await worlds.log(world, 0, 1_000)
    commands, after = await worlds.commands(world, limit=1_000)
    assert after is None
    status = [await worlds.command(world, command.command_id) for command in commands[-5:]]
    return states, log, commands, status


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
    assert (trimmed.segments, trimmed.checkpoints, trimmed.entries) == (8, 0, 15)
    assert trimmed.bytes > 8 * 4_096
    assert len(left) == len(names) - 8 + 3
    assert (verified.findings, verified.checked_ticks, resumed) == ((), 10, ())
    assert (again.segments, again.checkpoints, again.orphans, again.entries) == (0, 0, 0, 0)


async def test_checkpoints_are_thinned_and_never_all_removed(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=34, many=120)
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

    assert unread.trim.checkpoints == (3, 19, 23, 27, 31)
    assert trimmed.checkpoints == 3
    assert {int(name.split("/")[-1][:19]) for name in left} == {3, 19, 23, 27, 31}
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
        await kept.live(ticks=7, many=120)
        names = await kept.objects.names("")

        kept.harness.clock.advance(2 * HOUR)
        unlanded = await trim(kept)
        await kept.land()
        kept.harness.clock.advance(-2 * HOUR + 60_000)
        young = await trim(kept)
        kept.harness.clock.advance(2 * HOUR)
        old = await trim(kept)

        left = await kept.objects.names("segment/")

    assert (unlanded.segments, unlanded.entries) == (0, 0)
    assert (young.segments, young.entries) == (0, 0)
    assert old.segments == 4
    assert {int(name.split("/")[-1][:19]) for name in left} == {4, 5, 6}
    assert len(names) == 8


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

    assert (behind.entries, lacking.entries, read.entries) == (5, 0, 10)


@dataclass
class Plant(TrimRequest):
    """Write one record over whatever is there."""

    record: Any

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        view.get(self.record.key)
        return Decision(None, (self.record,))


async def planted(kept: Keeping, record) -> None:
    await kept.harness.authority.execute(Plant(kept.harness.worlds.ref("w"), record))


async def test_what_a_fork_rebuilds_from_stays_until_it_has_a_checkpoint_of_its_own(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=14, many=120)
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


class Died(Exception):
    """The process is gone."""


class DyingStore:
    """A store whose process dies right after its next step."""

    def __init__(self, inner, steps):
        self.inner, self.steps = inner, steps

    async def load(self, reads):
        return await self.inner.load(reads)

    async def commit(self, commit):
        await self.inner.commit(commit)
        self.steps.taken()

    async def close(self):
        pass


class DyingObjects:
    """Objects whose process dies right after its next step."""

    def __init__(self, inner, steps):
        self.inner, self.steps = inner, steps

    async def put(self, name, data):
        await self.inner.put(name, data)
        self.steps.taken()

    async def delete(self, name):
        await self.inner.delete(name)
        self.steps.taken()

    async def get(self, name):
        return await self.inner.get(name)

    async def names(self, prefix):
        return await self.inner.names(prefix)

    async def sizes(self, prefix):
        return await self.inner.sizes(prefix)


class Steps:
    def __init__(self):
        self.count = 0

    def taken(self):
        self.count += 1
        raise Died


async def test_a_trim_that_dies_after_any_step_loses_nothing_and_is_finished_by_the_next(where):
    async with keeping(**where, wrap=archiving) as kept:
        ticks = 6 if where["aws"] is None else 5
        await kept.live(ticks=ticks, many=120)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        before = await everything(kept, ticks)
        deaths = 0
        while True:
            h, steps = kept.harness, Steps()
            authority = Authority(
                ArchivedStore(DyingStore(h.store, steps), lambda held=h: held.objects),
                h.clock,
                tokens(f"dying{deaths}-"),
                pause=no_pause,
            )
            dying = Trimming(
                authority, DyingObjects(h.objects, steps), STORAGE, h.clock, block_entries=5
            )
            try:
                await dying.trim([WorldId("w")], grace_ms=HOUR)
            except Died:
                deaths += 1
                assert await everything(kept, ticks) == before, f"after death {deaths}"
                if where["aws"] is None:
                    assert (await kept.verify()).findings == ()
            else:
                break
        left = await kept.objects.names("")
        again = await trim(kept)

    assert deaths >= 4 + 2 * 3 + 1
    assert again == Trimmed()
    assert sum(name.startswith("archive/") for name in left) == 2
    assert sum(name.startswith("segment/") for name in left) == ticks - 4


async def test_orphans_go_by_reference_and_those_that_may_still_be_published_stay(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=3, many=120)
        h, ref = kept.harness, kept.harness.worlds.ref("w")
        (name, *_) = await kept.objects.names("segment/")
        table = name.split(".")[-2]

        def attempt(tick, token, kind="segment"):
            world = ref.partition
            return segment_name(
                world, Tick(tick), Token(token), TableId(table), is_checkpoint=kind == "checkpoint"
            )

        dead = [attempt(1, "dead"), attempt(2, "dead", "checkpoint")]
        early = [attempt(3, "early"), attempt(3, "early", "checkpoint"), attempt(7, "early")]
        for each in (*dead, *early):
            await kept.objects.put(each, b"rows")
        grip = await h.ticker("bob").take(ref)

        held = await trim(kept)
        names = await kept.objects.names("")
        await h.ticker("bob").release(ref, grip)
        free = await trim(kept)
        left = await kept.objects.names("")

    assert (held.orphans, held.undecided, held.bytes) == (2, 3, 8)
    assert set(early) <= set(names)
    assert not {*dead} & {*names}
    assert (free.orphans, free.undecided) == (3, 0)
    assert sorted({*left, *early}) == names


async def test_objects_of_a_tick_that_a_writer_is_about_to_publish_outlive_a_trim(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=2, many=120)
        h = kept.harness

        class Trimmer:
            """An authority before whose publication a trim runs."""

            async def execute(self, request):
                if isinstance(request, Publish):
                    self.trimmed = await trim(kept)
                return await h.authority.execute(request)

        between = Trimmer()
        await h.run("w", 2, h.ticker("bob", authority=between))

        rows = await kept.rows("Place", 2)
        verified = await kept.verify()

    assert (between.trimmed.orphans, between.trimmed.undecided > 0) == (0, True)
    assert (len(rows), verified.findings) == (121 - 1, ())


async def test_a_read_that_is_overtaken_by_a_trim_is_planned_again(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=6, many=120)
        h = kept.harness
        before = await kept.rows("Place", 2)
        h.clock.advance(2 * HOUR)

        class Overtaken:
            """Objects of which a trim takes some before the first is read."""

            done = False

            async def get(self, name):
                if not self.done:
                    self.done = True
                    await kept.land()
                    await trim(kept)
                return await h.objects.get(name)

        reader = Reader(h.authority, Overtaken(), kept.lake, STORAGE)
        rows = await reader.query(WorldId("w"), ["Place"], ticks=Tick(2))

    assert rows.to_pylist() == before


async def test_a_flipped_byte_in_an_archive_names_its_entries(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=9, many=2)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        await trim(kept)
        first, *_ = await kept.objects.names("archive/")
        path = tmp_path / "objects" / first
        data = path.read_bytes()

        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        fresh = ArchivedStore(kept.harness.store._store, lambda: kept.objects)
        kept.harness.authority._store = fresh
        verified = await kept.verify()

    assert {each.kind for each in verified.findings} == {"log"}
    assert [each.where for each in verified.findings] == [f"log entry {n}" for n in range(1, 6)]
