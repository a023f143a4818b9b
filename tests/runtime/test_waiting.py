"""Waiting: every world with something to copy is found, whatever becomes of one of them."""

from __future__ import annotations

import pytest
from tests.runtime.harness import harness

from perdure.kernel.consumers import ListConsumers
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import StorageId
from perdure.kernel.rest import ReadAgenda, Wakes
from perdure.runtime.lag import lags
from perdure.runtime.waiting import waiting

pytestmark = pytest.mark.cloud


class Broken:
    """An authority in which one world cannot be read."""

    def __init__(self, authority, ref):
        self._authority = authority
        self._ref = ref

    async def execute(self, request):
        if isinstance(request, ReadAgenda | ListConsumers) and request.ref == self._ref:
            raise Corrupt(expected="a head", found="none")
        return await self._authority.execute(request)


async def found(h, storage="storage", **options):
    return await waiting(h.authority, StorageId(storage), now=h.clock, **options)


async def test_more_worlds_than_a_page_of_hints_names_are_all_found(tmp_path, monkeypatch):
    h = harness(tmp_path)
    names = sorted(f"w{number}" for number in range(12))
    for name in names:
        await h.worlds.create(name, world_id=name)
    monkeypatch.setattr("perdure.runtime.hints.Wakes", lambda *a, **k: Wakes(*a, limit=1, **k))

    waits = await found(h)

    assert sorted(ref.world for ref in waits.unread) == names
    assert sorted(ref.world for ref in waits.awake) == names


async def test_a_world_that_cannot_be_read_is_told_and_keeps_no_other_from_landing(tmp_path):
    h = harness(tmp_path)
    for name in ("a", "b"):
        await h.worlds.create(name, world_id=name)
        await h.run(name, 1)
    h.authority = Broken(h.authority, h.worlds.ref("a"))

    waits = await found(h)

    assert [ref.world for ref in waits.unread] == ["b"]
    assert [(ref.world, error.code) for ref, error in waits.failed] == [("a", "corrupt")]


async def test_what_waits_is_told_apart_and_its_hint_stays(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    before = await h.hints()
    h.clock.advance(60_000)

    waits = await found(h)

    assert [len(each) for each in (waits.unlanded, waits.unread, waits.due)] == [0, 1, 1]
    assert waits.awake == [h.worlds.ref("w")]
    assert await h.hints() == before
    assert (await found(h, "other")).awake == []


async def test_no_page_is_looked_at_when_time_is_up(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")

    assert (await found(h, go_on=lambda: False)).awake == []


async def test_lag_of_a_world_that_cannot_be_read_hides_that_of_no_other(tmp_path):
    h = harness(tmp_path)
    for name in ("a", "b"):
        await h.worlds.create(name, world_id=name)
        await h.worlds.consumers.set(name, "billing", required=True)
    refs = [h.worlds.ref(name) for name in ("a", "b")]
    authority = Broken(h.authority, refs[0])

    worst, failed = await lags(authority, refs)
    late = await lags(authority, refs, go_on=lambda: False)

    assert worst["billing"] > 0
    assert [ref.world for ref, _ in failed] == ["a"]
    assert late[0] == {}
