"""Processes killed in the middle of a fork, an end, a landing, a payment: the same call ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from typing import ClassVar

import pytest
from tests.emulator.harbour import app
from tests.support.children import child
from tests.support.lives import DAY_TICKS, FLEET, FORK_TICKS, OFFERED, UNITS, opened

from perdure.kernel import ranges
from perdure.kernel.ids import Tick, WorldId
from perdure.kernel.quota import quota_key
from perdure.kernel.reading import FindManifests
from perdure.kernel.view import Reads
from perdure.lake import audit
from perdure.runtime.verify import Verifier

pytestmark = pytest.mark.lifecycle

SECONDS = 120


class Life:
    """One process at work on a storage, and what it said."""

    everybody: ClassVar = contextlib.ExitStack()

    def __init__(self, root, part, *more, death=""):
        self.said = []
        begun = child(
            [sys.executable, "-m", "tests.support.lives", root, death, part, *more],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.process = self.everybody.enter_context(begun)

    def until(self, words):
        """Read on until it says these words, or its end."""
        if self.process.stdout.closed:
            return self
        for line in self.process.stdout:
            self.said.append(line.split())
            if self.said[-1][: len(words)] == words:
                break
        return self

    def ended(self):
        self.until([None])
        self.process.stdout.close()
        return self.process.wait(SECONDS)

    def killed(self):
        self.process.kill()
        return self.ended()

    @property
    def admitted(self):
        return [word for said in self.said if said[0] == "admitted" for word in said[1:]]


@pytest.fixture(autouse=True)
def nobody_is_left():
    with Life.everybody:
        yield


def lived(root, part, *more, death=""):
    """Run one process to its end, and check that this was the one that was meant."""
    life = Life(root, part, *more, death=death)
    assert life.ended() == (-signal.SIGKILL if death else 0), life.said
    return life


async def verified(storage, world):
    means, landing = storage.ticker.means, storage.landing
    verifier = Verifier(means.authority, means.objects, landing.lake, landing.storage, app)
    return (await verifier.verify(WorldId(world))).findings


async def settled(storage, world, first, last):
    """Return the sequences that each tick of a world settled, in order."""
    find = FindManifests(storage.worlds.ref(world).partition, Tick(first), Tick(last))
    manifests = await storage.ticker.means.authority.execute(find)
    return [sequence for each in manifests for sequence in ranges.members(each.settled)]


async def whole_log(storage, world):
    log = []
    while more := await storage.worlds.log(world, after=len(log), limit=1_000):
        log += more
    return log


async def admissions(storage, world):
    log = await whole_log(storage, world)
    return [entry.facts["batch"] for entry in log if entry.kind == "admitted"]


async def test_kill_9_of_a_day_and_of_its_fork_leaves_one_child_that_is_whole(tmp_path):
    forks, days = [], []
    for hour, death in ((2, "commit:1:before"), (5, "commit:1:after"), (8, "commit:6:after")):
        forks.append(Life(tmp_path, "fork", str(hour), death=death).until(["begun"]))
        days.append(Life(tmp_path, "day").until(["admitted", f"h{hour + 2}.0"]))
        assert days[-1].killed() == -signal.SIGKILL
        assert forks[-1].ended() == -signal.SIGKILL
    days.append(lived(tmp_path, "day"))
    forks.append(lived(tmp_path, "fork", "0"))

    async with opened(tmp_path) as storage:
        children = [each for each in await storage.discover() if each.parent_world_id == "day"]
        (forked,) = await storage.worlds.log("fork", limit=1)
        at = forked.facts["tick"]
        before = {
            f"{entry.facts['batch']}.{index}"
            for entry in await storage.worlds.log("day", limit=1_000)
            if entry.kind == "admitted" and entry.seq <= forked.facts["source_seq"]
            for index in range(2)
        }
        states = {each: (await storage.worlds.command("fork", each)).status for each in before}
        rows = {
            world: await (await storage.world(world)).query("Position", ticks=at)
            for world in ("day", "fork")
        }
        taken = await settled(storage, "fork", at + 1, FORK_TICKS)
        source = await settled(storage, "day", 0, DAY_TICKS - 1)
        findings = [await verified(storage, world) for world in ("day", "fork")]

    acknowledged = {word for life in days for word in life.admitted}
    runs = {said[1] for life in forks for said in life.said if said[0] == "forked"}
    assert [each.world_id for each in children] == ["fork"]
    assert runs == {children[0].run_id}
    assert rows["fork"].equals(rows["day"])
    assert set(states.values()) == {"applied"}
    assert acknowledged == {f"h{hour}.{index}" for hour in range(DAY_TICKS) for index in range(2)}
    assert [len(each) for each in (taken, source)] == [len({*taken}), len({*source})]
    assert findings == [(), ()]


async def test_kill_9_of_those_who_admit_and_of_those_who_destroy_ends_in_one_end(tmp_path):
    first = Life(tmp_path, "admit").until(["admitted", "b3.0"])
    assert first.killed() == -signal.SIGKILL
    second = Life(tmp_path, "admit").until(["admitted"])
    for death in ("commit:1:after", "commit:3:before"):
        lived(tmp_path, "end", death=death)
    last = lived(tmp_path, "end")
    assert second.ended() == 0

    async with opened(tmp_path) as storage:
        log = await whole_log(storage, "ending")
        batches = await admissions(storage, "ending")
        acknowledged = [*first.admitted, *second.admitted]
        states = {
            (each.status, each.code)
            for each in [await storage.worlds.command("ending", each) for each in acknowledged]
        }

    assert last.said[-1] == ["ended", "destroyed"]
    assert second.said[-1] in (["refused", "world_closing"], ["refused", "world_destroyed"])
    assert states == {("rejected", "world_destroyed")}
    assert len(batches) == len({*batches}) == log[-1].facts["rejected"]
    assert {each.removesuffix(".0") for each in acknowledged} <= {*batches}
    assert [each.kind for each in log[-2:]] == ["closing", "destroyed"]
    assert Counter(each.kind for each in log)["closing"] == 1


@pytest.mark.slow
async def test_kill_9_of_those_who_land_audit_and_trim_loses_and_repeats_nothing(tmp_path):
    lived(tmp_path, "live")
    async with opened(tmp_path) as storage:
        log = await storage.worlds.log("kept", limit=1_000)
        world = await storage.world("kept")
        before = await world.query("Position", ticks=range(DAY_TICKS))

    for death in ("commit:3:before", "commit:2:after", "commit:7:after", "delete:4:before"):
        lived(tmp_path, "keep", death=death)
    lived(tmp_path, "keep")

    async with opened(tmp_path) as storage:
        lake = storage.landing.lake
        events = lake.opened_as(audit.AUDIT).scan().to_arrow().to_pylist()
        world = await storage.world("kept")
        after = await world.query("Position", ticks=range(DAY_TICKS))
        left = await storage.ticker.means.objects.names("segment/")
        assert await storage.worlds.log("kept", limit=1_000) == log
        assert await verified(storage, "kept") == ()

    assert after.num_rows == DAY_TICKS * FLEET
    assert after.sort_by([("tick", "ascending"), ("entity_id", "ascending")]).equals(
        before.sort_by([("tick", "ascending"), ("entity_id", "ascending")])
    )
    assert len({each["event_id"] for each in events}) == len(events)
    assert Counter(each["kind"] for each in events) == {
        "created": 1,
        "queued": FLEET,
        "applied": FLEET,
    }
    assert len(left) < DAY_TICKS


async def test_kill_9_of_those_who_admit_on_a_quota_never_parts_payment_from_what_was_paid(
    tmp_path,
):
    names = ("one", "two")
    deaths = {"one": "commit:7:after", "two": "commit:9:before"}

    dead = [Life(tmp_path, "pay", name, death=deaths[name]) for name in names]
    assert [each.ended() for each in dead] == [-signal.SIGKILL] * 2
    between = await purse(tmp_path, names)
    alive = [Life(tmp_path, "pay", name) for name in names]
    assert [each.ended() for each in alive] == [0, 0]
    after = await purse(tmp_path, names)

    acknowledged = {word for life in (*dead, *alive) for word in life.admitted}
    refused = [said[1] for life in alive for said in life.said if said[0] == "refused"]
    assert between[0] == len(between[1]) > 0
    assert after[0] == len(after[1]) == UNITS
    assert acknowledged == {*after[1]}
    assert len(refused) == 2 * OFFERED - UNITS


async def purse(root, names):
    """Return what was spent, and the batches that were admitted."""
    async with opened(root) as storage:
        key = quota_key(storage.worlds.ref(names[0]).partition, "ann")
        view = await storage.ticker.means.authority.view(Reads(peeks=(key,)))
        batches = [each for name in names for each in await admissions(storage, name)]
        held = view.peek(key)
    assert len(batches) == len({*batches})
    return (0 if held is None else held.spent), batches
