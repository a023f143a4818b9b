"""Forks where a store shows a running commit in part: what the log names is not missed."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.runtime.harness import Clock, Place, fresh_app, no_pause
from tests.support.forking import Rig, wish

from perdure import Spawn
from perdure.authority.memory import MemoryStore
from perdure.kernel.drain import DrainDue
from perdure.kernel.errors import Contended
from perdure.kernel.ids import Seq, Tick
from perdure.kernel.pages import Page
from perdure.kernel.view import Reads, View
from perdure.lake.objects import LocalObjects
from perdure.runtime.fork import fork

pytestmark = pytest.mark.lifecycle


class Veiled(MemoryStore):
    """Hides pages: from ranges, or from every look that is no snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: Any = lambda key: False
        self.from_ranges_only = True

    async def load(self, reads: Reads) -> View:
        view = await super().load(reads)
        if reads.snapshot:
            return view
        veiled = {key for key in view.stored if key.of is Page and self.hidden(key)}
        found = {
            each: [key for key in keys if key not in veiled] for each, keys in view._found.items()
        }
        stored = dict(view.stored)
        if not self.from_ranges_only:
            stored |= dict.fromkeys(veiled)
        return View(stored, found, view.named)


@pytest.fixture
def rigged(tmp_path) -> Rig:
    return Rig(Veiled(), LocalObjects(tmp_path), fresh_app(), Clock())


async def source(h: Rig) -> None:
    """Make a world with one command due at tick 0 and one at tick 5."""
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=1, y=1), command_id="now")])
    await h.worlds.submit("w", [Spawn(Place(x=2, y=2), tick=5, command_id="later")])


def drain(h: Rig, world: str):
    return h.authority.execute(DrainDue(h.worlds.ref(world), Tick(0), Seq(0)))


async def test_a_first_tick_waits_for_a_page_that_shows_late(rigged):
    h = rigged
    await source(h)
    await h.run("w", 4)
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    child = h.worlds.ref("child").partition
    looks = count(1)
    h.store.hidden = lambda key: key.partition == child and next(looks) < 4

    await h.run("child", 5)

    assert (await h.worlds.command("child", "later")).applied_tick == 5
    assert next(looks) > 4


@pytest.mark.parametrize("tick", [0, 5])
async def test_a_first_drain_that_does_not_see_what_was_taken_over_looks_again(rigged, tick):
    h = rigged
    await source(h)
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    child = h.worlds.ref("child").partition
    h.store.hidden = lambda key: key.partition == child and f"/{tick:019d}/" in key.sort
    h.store.from_ranges_only = False

    with pytest.raises(Contended):
        await drain(h, "child")
    h.store.hidden = lambda key: False
    drained = await drain(h, "child")

    assert [each.sequence for each in drained.commands] == [1]


@pytest.mark.parametrize("command", ["now", "later"])
async def test_a_first_drain_does_not_wait_for_what_was_cancelled_in_the_fork(rigged, command):
    h = rigged
    await source(h)
    await fork(h.authority, wish("w", "child"), pause=no_pause)

    await h.worlds.cancel("child", command)
    drained = await drain(h, "child")

    assert [each.sequence for each in drained.commands] == ([] if command == "now" else [1])
