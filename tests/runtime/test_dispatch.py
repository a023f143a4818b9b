"""Dispatch: the worlds that are due are found in their hints, and the others sleep on."""

from __future__ import annotations

import pytest
from tests.runtime.harness import harness, runs

from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Epoch, StorageId
from perdure.kernel.places import WAKE_SHARDS
from perdure.kernel.rest import ReadAgenda, Wakes
from perdure.runtime.dispatch import Due, look
from perdure.runtime.worlds import Worlds

pytestmark = pytest.mark.cloud


class Failing:
    """An authority that does not answer for one world."""

    def __init__(self, authority, ref):
        self._authority = authority
        self._ref = ref

    async def execute(self, request):
        if isinstance(request, ReadAgenda) and request.ref == self._ref:
            raise StoreUnavailable(expected="an answer", found="none")
        return await self._authority.execute(request)


async def test_what_is_due_is_found_with_the_time_it_waits_for_and_how_late_it_is(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    await h.worlds.create("sundial", world_id="later", every_ms=3_600_000)
    await h.worlds.create("harbour", world_id="never")
    first = h.clock.time + 60_000
    h.clock.advance(61_500)

    found = await h.look()

    (due,) = found.due
    assert (due.ref.world, due.serves, due.epoch) == ("w", first, 0)
    assert (found.oldest_due_ms, found.stalled, found.failed, found.done) == (1_500, 0, (), True)


async def test_looking_twice_finds_the_same_under_the_same_name(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    h.clock.advance(60_000)

    first, again = await h.look(), await h.look()

    assert [each.attempt for each in again.due] == [each.attempt for each in first.due]


def test_another_time_world_or_writer_is_another_attempt(tmp_path):
    h = harness(tmp_path)
    w, v = h.worlds.ref("w"), h.worlds.ref("v")

    names = {
        Due(w, 1_000, Epoch(1)).attempt,
        Due(w, 2_000, Epoch(1)).attempt,
        Due(w, 1_000, Epoch(2)).attempt,
        Due(v, 1_000, Epoch(1)).attempt,
        Due(w, None, Epoch(1)).attempt,
    }

    assert len(names) == 5
    assert max(map(len, names)) <= 128  # Amazon SQS: MessageDeduplicationId


async def test_hints_of_worlds_that_are_not_due_move_on_or_go(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=600_000)
    h.clock.advance(120_000)
    (unread,) = await h.hints()

    found = await h.look()

    (moved,) = await h.hints()
    assert found.due == ()
    assert unread.at < h.clock.time < moved.at


async def test_more_hints_than_a_page_holds_are_all_looked_at(tmp_path, monkeypatch):
    h = harness(tmp_path)
    for number in range(12):
        await h.worlds.create(f"w{number}", world_id=f"w{number}", every_ms=60_000)
    h.clock.advance(60_000)
    monkeypatch.setattr("perdure.runtime.hints.Wakes", lambda *a, **k: Wakes(*a, limit=1, **k))

    found = await h.look()

    assert sorted(due.ref.world for due in found.due) == sorted(f"w{n}" for n in range(12))


async def test_a_world_that_cannot_be_looked_at_keeps_no_other_from_its_tick(tmp_path):
    h = harness(tmp_path)
    for name in ("a", "b"):
        await h.worlds.create(name, world_id=name, every_ms=60_000)
    h.clock.advance(60_000)
    h.authority = Failing(h.authority, h.worlds.ref("a"))

    found = await h.look()

    assert [due.ref.world for due in found.due] == ["b"]
    assert [(ref.world, error.code) for ref, error in found.failed] == [("a", "store_unavailable")]


async def test_worlds_of_another_storage_are_left_alone(tmp_path):
    h = harness(tmp_path)
    other = Worlds(
        h.authority, StorageId("other"), h.app.registry, new_token=h.new_token, new_run=runs()
    )
    await other.create("clockwork", world_id="w", every_ms=60_000)
    h.clock.advance(60_000)

    ours, theirs = await h.look(), await h.look("other")

    assert ours.due == ()
    assert [due.ref.storage for due in theirs.due] == ["other"]


async def test_a_look_that_runs_out_of_time_says_so(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    h.clock.advance(60_000)

    found = await look(h.authority, StorageId("storage"), now=h.clock, go_on=lambda: False)

    assert (found.due, found.done) == ((), False)


async def hinted(h, count=24):
    """Make worlds that are due, in every shard, and return their names by shard."""
    shards = {}
    for number in range(count):
        await h.worlds.create(f"w{number}", world_id=f"w{number}", every_ms=60_000)
    h.clock.advance(60_000)
    for shard in range(WAKE_SHARDS):
        wakes = await h.authority.execute(Wakes(shard, h.clock()))
        shards[shard] = {hint.world for hint in wakes}
    return shards


async def test_what_a_page_of_hints_came_to_is_told_before_the_next_is_looked_at(tmp_path):
    h = harness(tmp_path)
    shards = await hinted(h)
    told = []

    async def tell(dues):
        told.append({due.ref.world for due in dues})

    pages = sum(1 for worlds in shards.values() if worlds)
    found = await look(
        h.authority,
        StorageId("storage"),
        now=h.clock,
        go_on=lambda: len(told) < pages - 1,
        tell=tell,
    )

    assert pages > 2
    assert (len(told), found.done) == (pages - 1, False)
    assert set().union(*told) == {due.ref.world for due in found.due}


async def test_each_minute_another_shard_is_looked_at_first(tmp_path):
    h = harness(tmp_path)
    shards = await hinted(h)
    firsts = []

    for _ in range(WAKE_SHARDS):
        told = []

        async def tell(dues, told=told):
            told.append({due.ref.world for due in dues})

        await look(
            h.authority,
            StorageId("storage"),
            now=h.clock,
            go_on=lambda told=told: not told,
            tell=tell,
        )
        firsts.append(told[0])
        h.clock.advance(60_000)

    assert {frozenset(each) for each in firsts} == {
        frozenset(each) for each in shards.values() if each
    }
