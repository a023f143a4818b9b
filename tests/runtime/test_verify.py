"""Verification: an untouched record has no findings, and one flipped byte anywhere is named."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from tests.runtime.harness import Fuel, Place, fresh_app
from tests.runtime.keeping import Clockwork, Keeping, keeping, moving_app
from tests.runtime.trimming import planted

from perdure import Despawn, Spawn, Update
from perdure.kernel import limits
from perdure.kernel.errors import Invalid, NotFound, NotPublished, WrongApp
from perdure.kernel.ids import Seq, Sequence, Tick
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName, manifests_partition, number
from perdure.kernel.publish import Publish
from perdure.lake.iceberg import append

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x01]) + data[place + 1 :]


@contextmanager
def tampered(root, kept: Keeping, sort: str, place: int, *, catalog: bool = False):
    """Flip one byte of a record in the SQLite file, and flip it back."""
    ref = kept.harness.worlds.ref("w")
    partition = manifests_partition(ref.partition) if "manifest/" in sort else ref.partition
    at = (ref.catalog if catalog else partition, sort)

    def write(body: bytes) -> None:
        with closing(sqlite3.connect(root / "store.db")) as database, database:
            database.execute(
                "UPDATE record SET body = ? WHERE partition = ? AND sort = ?", (body, *at)
            )

    with closing(sqlite3.connect(root / "store.db")) as database:
        ((body,),) = database.execute(
            "SELECT body FROM record WHERE partition = ? AND sort = ?", at
        ).fetchall()
    write(flipped(body, place % len(body)))
    yield
    write(body)


def named(verified) -> set[tuple[str, str]]:
    return {(finding.kind, finding.where) for finding in verified.findings}


async def test_an_untouched_world_has_no_findings(where):
    async with keeping(**where) as kept:
        await kept.live(ticks=7)

        before = await kept.verify()
        await kept.land()
        after = await kept.verify()

    assert (before.findings, before.checked_ticks, before.next_tick) == ((), 7, None)
    assert (after.findings, after.checked_ticks, after.next_tick) == ((), 7, None)


async def test_a_world_without_ticks_has_a_log_to_verify(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=0, many=2)

        verified = await kept.verify()

        with tampered(tmp_path, kept, f"log/{number(1)}", 40):
            damaged = await kept.verify()

    assert (verified.findings, verified.checked_ticks) == ((), 0)
    assert named(damaged) == {("log", "log entry 1")}


@pytest.mark.parametrize("seq", [1, 2, 5, 9, 12])
async def test_a_flipped_byte_in_a_log_entry_names_that_entry_alone(tmp_path, seq):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=6, many=2)
        assert (await kept.harness.worlds.log("w"))[-1].seq == 12

        for place in range(0, 400, 23):
            with tampered(tmp_path, kept, f"log/{number(seq)}", place):
                verified = await kept.verify()
            assert named(verified) == {("log", f"log entry {seq}")}, place

        assert (await kept.verify()).findings == ()


@pytest.mark.parametrize("tick", [0, 3, 4, 5])
async def test_a_flipped_byte_in_a_manifest_or_its_rows_names_that_manifest(tmp_path, tick):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=6, many=2)

        for place in range(0, 600, 41):
            with tampered(tmp_path, kept, f"manifest/{number(tick)}", place):
                verified = await kept.verify()
            assert ("manifest", f"manifest {tick}") in named(verified), place
            assert {kind for kind, _ in named(verified)} == {"manifest"}, place


async def test_a_flipped_byte_in_a_segment_or_a_checkpoint_names_the_object(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=6)
        names = [
            name
            for kind in ("segment", "checkpoint")
            for name in await kept.objects.names(f"{kind}/")
        ]
        assert {name.split("/")[0] for name in names} == {"segment", "checkpoint"}

        for name in names:
            path = tmp_path / "objects" / name
            data = path.read_bytes()
            path.write_bytes(flipped(data, len(data) // 2))
            verified = await kept.verify()
            path.write_bytes(data)
            assert named(verified) == {(name.split("/")[0], name)}

        (tmp_path / "objects" / names[0]).unlink()
        gone = await kept.verify()
    assert named(gone) == {("segment", names[0])}


async def test_a_flipped_byte_in_a_signature_names_the_table(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=2, many=2)
        with closing(sqlite3.connect(tmp_path / "store.db")) as database:
            query = "SELECT sort, length(body) FROM record WHERE sort LIKE 'signature/%'"
            signatures = database.execute(query).fetchall()
        assert len(signatures) == 2

        for sort, length in signatures:
            for place in range(0, length, 19):
                with tampered(tmp_path, kept, sort, place, catalog=True):
                    verified = await kept.verify()
                assert named(verified) == {("signature", sort.replace("/", " "))}, place


async def test_a_flipped_byte_in_the_head_is_found(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=2, many=2)
        with closing(sqlite3.connect(tmp_path / "store.db")) as database:
            query = "SELECT body FROM record WHERE sort = 'head'"
            ((body,),) = database.execute(query).fetchall()

        for mark in (b'"manifest_digest":"', b'"log_digest":"'):
            with tampered(tmp_path, kept, "head", body.index(mark) + len(mark) + 3):
                assert (await kept.verify()).findings != ()
        with tampered(tmp_path, kept, "head", 1):
            assert named(await kept.verify()) == {("head", "world w")}


class Lying:
    """An authority whose publications of one tick say something else than was done."""

    def __init__(self, authority, tick, lie):
        self.authority, self.tick, self.lie = authority, tick, lie

    async def execute(self, request):
        if isinstance(request, Publish) and request.tick == self.tick:
            request = self.lie(request)
        return await self.authority.execute(request)


async def lived_with(kept, lie, tick=2):
    await kept.live(ticks=tick, many=2)
    worlds = kept.harness.worlds
    await worlds.submit("w", [Spawn(Place(x=7, y=7)), Spawn(Place(x=8, y=8))], batch_id="more")
    await kept.harness.run(
        "w", tick, kept.harness.ticker(authority=Lying(kept.harness.authority, tick, lie))
    )
    await kept.harness.run("w", tick + 2)
    return await kept.verify()


async def test_a_manifest_that_settles_less_than_it_applied_is_found(tmp_path):
    def lie(request):
        *others, page = request.drained
        (entry,) = page.entries
        first = entry.settled[0][0]
        held = replace(page, entries=(replace(entry, settled=((first, first),)),))
        return replace(request, drained=(*others, held))

    async with keeping(tmp_path) as kept:
        verified = await lived_with(kept, lie)

    assert ("recomputed", "tick 2") in named(verified)


async def test_a_manifest_with_rows_or_counts_of_its_own_is_found(tmp_path):
    def lie(request):
        return replace(request, entities=request.entities + 1)

    async with keeping(tmp_path) as kept:
        verified = await lived_with(kept, lie)

    (finding,) = verified.findings
    assert (finding.kind, finding.where, finding.found) == ("recomputed", "tick 2", "6")


async def test_a_settled_command_that_was_not_due_is_found(tmp_path, monkeypatch):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=1, many=2)
        await kept.harness.worlds.submit("w", [Spawn(Place(x=7, y=7), tick=9)], batch_id="far")
        told = await kept.harness.worlds.command("w", "far.0")

        def decided_wrong(decide):
            def decide_with_lie(self, view, now):
                decision = decide(self, view, now)
                if self.tick != 1:
                    return decision
                wrong = ((Sequence(told.sequence), Sequence(told.sequence)),)
                published = decision.reply
                lying = replace(published.manifest, settled=wrong)
                head, _, entry, *rest = decision.writes
                entry = replace(entry, facts={**entry.facts, "manifest": lying.digest})
                head = replace(head, manifest_digest=lying.digest, log_digest=entry.digest)
                reply = replace(published, manifest=lying, head=head)
                return replace(decision, reply=reply, writes=(head, lying, entry, *rest))

            return decide_with_lie

        monkeypatch.setattr(Publish, "decide", decided_wrong(Publish.decide))
        await kept.harness.run("w", 1)
        verified = await kept.verify()

    assert ("settled", "manifest 1") in named(verified)
    assert {kind for kind, _ in named(verified)} <= {"settled", "recomputed", "page", "head"}


async def test_a_processor_that_is_not_the_same_twice_is_found_tick_by_tick(where):
    async with keeping(**where) as kept:
        await kept.live(ticks=4)
        Clockwork.drawn = 1.0
        try:
            verified = await kept.verify(from_tick=1, to_tick=2)
        finally:
            Clockwork.drawn = 0.0
        again = await kept.verify()

    assert named(verified) == {("recomputed", "tick 1"), ("recomputed", "tick 2")}
    assert verified.checked_ticks == 2
    assert again.findings == ()


async def test_a_processor_that_is_gone_is_named(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=1, many=2)
        bare = fresh_app()
        bare.name = kept.harness.app.name

        verified = await kept.verify(app=bare)

    (finding,) = verified.findings
    assert (finding.kind, finding.expected) == (
        "recomputed",
        "processors drift in application 'test'",
    )


async def test_rows_that_landed_twice_or_not_as_published_are_found(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=3, many=2)
        await kept.land()
        (table,) = [
            table
            for identifier in kept.catalog.list_tables(kept.catalog.list_namespaces()[0])
            for table in [kept.catalog.load_table(identifier)]
            if "place__x" in table.schema().column_names
        ]
        rows = table.scan(row_filter="tick = 1").to_arrow()

        append(table, rows, "stray")
        verified = await kept.verify()

    assert {kind for kind, _ in named(verified)} == {"landed"}
    assert {where.split(" in ")[0] for _, where in named(verified)} == {"tick 1"}


async def test_failures_retries_and_dead_letters_verify(tmp_path):
    async with keeping(tmp_path, app=moving_app()) as kept:
        await kept.live(ticks=2, many=3)
        worlds = kept.harness.worlds
        await worlds.submit("w", [Despawn(entity_id=2), Update(Place(x=0, y=0), entity_id=2)])
        await worlds.submit("w", [Spawn(Fuel(litres=1), tick=5, priority=3)])
        await worlds.cancel_all("w", "all")
        await worlds.submit("w", [Spawn(Fuel(litres=2), tick=2), Spawn(Fuel(litres=3), tick=6)])
        await kept.harness.run("w", 7)

        verified = await kept.verify()

    assert (verified.findings, verified.checked_ticks) == ((), 8)


async def test_an_open_command_that_is_in_no_page_or_a_page_of_nothing_open_is_found(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=2, many=2)
        worlds, ref = kept.harness.worlds, kept.harness.worlds.ref("w")
        await worlds.submit("w", [Spawn(Fuel(litres=1), tick=9)], batch_id="far")
        await worlds.submit("w", [Spawn(Fuel(litres=2), tick=8, priority=2)], batch_id="near")
        assert (await kept.verify()).findings == ()
        emptied = Page.of(ref.partition, PageName(Tick(9), 0, Sequence(7)))
        settled = PageEntry(seq=Seq(2), group=0, count=3)
        ghost = Page.of(ref.partition, PageName(Tick(5), 0, Sequence(1)), [settled])

        await planted(kept, emptied)
        lost = await kept.verify()
        await planted(kept, ghost)
        both = await kept.verify()
        await worlds.cancel_all("w", "all")
        cancelled = await kept.verify()

    assert [(each.kind, each.found) for each in lost.findings] == [("page", "sequences 7 in none")]
    assert [each.kind for each in both.findings] == ["page", "page"]
    assert both.findings[1].found == "others, of log entry 2, group 0"
    assert cancelled.findings == ()


async def test_a_flipped_byte_in_a_page_names_the_page(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=1, many=2)
        await kept.harness.worlds.submit("w", [Spawn(Fuel(litres=1), tick=9)], batch_id="far")
        name = PageName(Tick(9), 0, Sequence(7))

        for place in range(9):
            with tampered(tmp_path, kept, name.sort, place):
                verified = await kept.verify()
            assert {kind for kind, _ in named(verified)} == {"page"}, place


async def test_a_verification_goes_on_where_its_time_ran_out(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=9, many=2)
        with (
            tampered(tmp_path, kept, f"manifest/{number(1)}", 90),
            tampered(tmp_path, kept, f"log/{number(8)}", 90),
        ):
            found, ticks, at, calls = [], 0, None, 0
            while calls == 0 or at is not None:
                verified = await kept.verify(from_tick=at, go_on=lambda: False)
                found += verified.findings
                ticks, at, calls = ticks + verified.checked_ticks, verified.next_tick, calls + 1
            whole = await kept.verify()

    assert (ticks, calls) == (9, 9)
    assert found == list(whole.findings)
    assert {each.where for each in found} == {"manifest 1", "log entry 8"}


async def test_what_cannot_be_verified_is_refused(tmp_path):
    async with keeping(tmp_path) as kept:
        await kept.live(ticks=2, many=2)
        other = fresh_app()
        other.name = "another"
        kept.harness.worlds._app = "test"
        await kept.harness.worlds.create("mine", world_id="mine")

        with pytest.raises(NotFound):
            await kept.verify("nowhere")
        with pytest.raises(NotPublished):
            await kept.verify(to_tick=2)
        with pytest.raises(Invalid):
            await kept.verify(from_tick=-1)
        with pytest.raises(Invalid):
            await kept.verify(from_tick=1, to_tick=0)
        with pytest.raises(WrongApp):
            await kept.verify("mine", app=other)
