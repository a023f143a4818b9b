"""Trimming in bad company: deaths, writers at work, readers under way, damaged archives."""

from __future__ import annotations

import pytest
from tests.runtime.harness import no_pause, tokens
from tests.runtime.keeping import STORAGE, keeping
from tests.runtime.trimming import HOUR, archiving, everything, trim

from perdure.authority.engine import Authority
from perdure.kernel import limits
from perdure.kernel.ids import TableId, Tick, Token, WorldId
from perdure.kernel.publish import Publish
from perdure.lake.segment import segment_name
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.read import Reader
from perdure.runtime.trim import Trimmed, Trimming

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


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
        self.steps.taken(f"put {name}")

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
    """Lets a process die after each step; a put that was done before is no step again."""

    def __init__(self):
        self.done = set()

    def taken(self, step=None):
        if step in self.done:
            return
        self.done |= set() if step is None else {step}
        raise Died


async def test_a_trim_that_dies_after_any_step_loses_nothing_and_is_finished_by_the_next(where):
    async with keeping(**where, wrap=archiving) as kept:
        ticks = 6 if where["aws"] is None else 5
        await kept.live(ticks=ticks, many=160)
        await kept.land()
        kept.harness.clock.advance(2 * HOUR)
        before = await everything(kept, ticks)
        deaths, steps = 0, Steps()
        h = kept.harness
        while deaths < 100:
            authority = Authority(
                ArchivedStore(DyingStore(h.store, steps), lambda: h.objects),
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
        await kept.live(ticks=3, many=160)
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
        await kept.live(ticks=2, many=160)
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
    assert (len(rows), verified.findings) == (160, ())


async def test_a_read_that_is_overtaken_by_a_trim_is_planned_again(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        await kept.live(ticks=6, many=160)
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
    (finding,) = verified.findings
    assert finding.where == "log entries 1 to 5"
    assert first in finding.found
