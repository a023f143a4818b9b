"""Perdure's own jobs, whose processes are killed at any of their steps: the next one ends them, once."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.harbour import app
from tests.support.dying_jobs import (
    FLEET,
    NOTES,
    TICKS,
    Lives,
    a_day_later,
    begun,
    ended,
    place,
    short_past,
    stepping,
    with_a_world,
    with_notes,
    worked,
)
from tests.support.steps import Died, Steps

import perdure
from perdure.api.wiring_exports import imported
from perdure.api.wiring_lake_migrate import looked_at
from perdure.kernel.ids import WorldId
from perdure.lake import audit
from perdure.runtime.verify import Verifier

pytestmark = pytest.mark.stores

DEATHS = 12
"""Steps at which each job is killed, spread over all that it takes."""


def segments(root: Path) -> int:
    """Count the segments that lie beside the data."""
    objects = place(root).catalog.parent / "objects"
    return len([each for each in objects.glob("segment/**/*") if each.is_file()])


async def seen(root: Path) -> dict[str, Any]:
    """Return what a storage with a world has to show: its rows, its log and what was audited."""
    async with perdure.open(root.as_uri(), app=app) as storage:
        world = await storage.world("harbour")
        rows = await world.query("Position", ticks=range(TICKS))
        landing = storage.landing
        verifier = Verifier(
            storage.ticker.means.authority,
            storage.ticker.means.objects,
            landing.lake,
            landing.storage,
            app,
        )
        found = (await verifier.verify(WorldId("harbour"))).findings
        log = await storage.worlds.log("harbour", limit=1_000)
        table = landing.lake.opened_as(audit.AUDIT)
        events = [] if table is None else table.scan().to_arrow().to_pylist()
    return {
        "segments": segments(root),
        "rows": rows.sort_by([("tick", "ascending"), ("entity_id", "ascending")]),
        "findings": found,
        "log": log,
        "events": Counter(each["event_id"] for each in events),
    }


def check_kept(root: Path, info: Any) -> dict[str, Any]:
    """See that a world is whole: each of its rows is there once, and each of its events."""
    found = asyncio.run(seen(root))
    assert info.outcome.kind == "done", info
    assert found["rows"].num_rows == TICKS * FLEET
    assert found["findings"] == ()
    assert set(found["events"].values()) <= {1}
    return found


def check_landed(root: Path, before: dict[str, Any], info: Any) -> None:
    found = check_kept(root, info)
    assert found["rows"].equals(before["rows"])
    assert found["log"] == before["log"]
    assert len(found["events"]) > FLEET


def check_trimmed(root: Path, before: dict[str, Any], info: Any) -> None:
    found = check_kept(root, info)
    assert found["rows"].equals(before["rows"])
    assert found["log"] == before["log"]
    assert found["events"] == before["events"]
    assert found["segments"] < before["segments"]


def check_exported(root: Path, before: dict[str, Any], info: Any) -> None:
    assert info.outcome.kind == "done", info
    at = Path(info.outcome.result["at"])
    done = asyncio.run(imported(place(root.parent / "other"), "copy", str(at), lambda _: None))
    assert done["sha256"] == info.outcome.result["sha256"]
    assert info.outcome.result["counts"]["documents"] == NOTES
    assert [each.name for each in at.parent.iterdir()] == [at.name], "nothing of the dead is left"


def check_moved(root: Path, before: dict[str, Any], info: Any) -> None:
    assert info.outcome.kind == "done", info
    there = Path(info.outcome.result["to"].removeprefix("file://"))
    found = check_kept(there, info)
    assert found["rows"].equals(before["rows"])
    told = asyncio.run(looked_at(place(there), resume=False))
    assert json.dumps(told).count('"harbour"') >= 1


@dataclass(frozen=True)
class Chore:
    """One of Perdure's own jobs, what it is done to, and what must be after it."""

    word: str
    prepare: Callable[[Path], Any]
    check: Callable[[Path, dict[str, Any], Any], None]
    deaths: tuple[int, ...] = (9, 5, 7)
    """At which of its steps each of three processes is killed, one after another."""

    @property
    def name(self) -> str:
        return f"perdure.{self.word}"

    def args(self, root: Path) -> dict[str, Any]:
        moved = {"to": str(root.parent / "there"), "migration_id": "m"}
        given = {"migrate": moved, "export": {"store": "notes"}, "trim": {"grace": "1d"}}
        return given.get(self.word, {})

    async def begin(self, root: Path) -> None:
        await begun(root, self.name, self.args(root))


CHORES = (
    Chore("land", with_a_world, check_landed),
    Chore("trim", lambda root: with_a_world(root, has_landed=True), check_trimmed),
    Chore("export", with_notes, check_exported, deaths=(3, 2, 3)),
    Chore("migrate", lambda root: with_a_world(root, has_landed=True), check_moved),
)


def each(chore: Chore) -> str:
    return chore.word


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Makes the storage of each chore once, and copies of it."""
    made: dict[str, Path] = {}

    def copied(chore: Chore, folder: Path) -> Path:
        if chore.word not in made:
            made[chore.word] = tmp_path_factory.mktemp(chore.word) / "root"
            with short_past():
                asyncio.run(chore.prepare(made[chore.word]))
        folder.mkdir()
        return shutil.copytree(made[chore.word], folder / "root")

    return copied


def finished(chore: Chore, root: Path) -> Any:
    with a_day_later():
        return asyncio.run(ended(root, chore.name))


@pytest.mark.slow
@pytest.mark.parametrize("chore", CHORES, ids=each)
def test_a_job_whose_process_is_killed_at_any_step_is_ended_once_by_the_next(
    tmp_path, prepared, chore
):
    lives = Lives()
    root = prepared(chore, tmp_path / "whole")
    before = {} if chore.word == "export" else asyncio.run(seen(root))
    asyncio.run(chore.begin(root))
    steps = len(lives.steps(root, chore.name))

    for turn, number in enumerate(range(1, steps + 1, max(1, steps // DEATHS))):
        root = prepared(chore, tmp_path / str(number))
        asyncio.run(chore.begin(root))
        assert lives.killed(root, chore.name, number, "before" if turn % 2 else "after")

        info = finished(chore, root)

        assert info.restarts <= 1, number
        chore.check(root, before, info)


@pytest.mark.slow
@pytest.mark.parametrize("chore", CHORES, ids=each)
def test_a_job_whose_processes_are_killed_one_after_another_is_ended_once(
    tmp_path, prepared, chore
):
    lives = Lives()
    root = prepared(chore, tmp_path / "one")
    before = {} if chore.word == "export" else asyncio.run(seen(root))
    asyncio.run(chore.begin(root))

    deaths = [lives.killed(root, chore.name, number, "after") for number in chore.deaths]
    info = finished(chore, root)

    assert deaths[:2] == [True, True]
    chore.check(root, before, info)


@pytest.mark.parametrize(("chore", "at"), [(CHORES[0], 7), (CHORES[2], 3)], ids=["land", "export"])
def test_a_job_whose_process_dies_in_its_midst_is_ended_by_the_next(tmp_path, prepared, chore, at):
    root = prepared(chore, tmp_path / "one")
    asyncio.run(chore.begin(root))

    with stepping(Steps(at, after=True)), pytest.raises((Died, BaseExceptionGroup)):
        asyncio.run(worked(root))
    info = asyncio.run(ended(root, chore.name))

    assert (info.outcome.kind, info.epoch) == ("done", 2), info
