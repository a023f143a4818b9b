"""The demo killed in the middle of its day: the next run ends it, and nothing happens twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from tests.airspace.test_world import airborne_in_the_file
from tests.support.children import child

import perdure
from airspace.app import app
from airspace.course import WORLD_ID
from airspace.processes import ADDRESS, LOG_FILE, token
from perdure.kernel import ranges
from perdure.kernel.ids import Tick
from perdure.kernel.reading import FindManifests

COMMANDS = 1_610
LANDING_AFTER_THE_DAY = 19


def demo(root: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    return child(
        [sys.executable, "-m", "airspace", "--root", root],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def eventually(found: Callable[[], object], seconds: float = 120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = found()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def address_in(root: Path) -> str | None:
    log = root / LOG_FILE
    found = ADDRESS.search(log.read_text()) if log.exists() else None
    return found and found.group()


def published(address: str, bearer: str) -> int:
    headers = {"Authorization": f"Bearer {bearer}"}
    try:
        info = httpx.get(f"{address}/v1/worlds/{WORLD_ID}", headers=headers).json()
    except httpx.TransportError:
        return -1
    return info.get("published_tick") or -1


def emulator_of(root: Path) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"dev" in words and str(root).encode() in words:
                return int(entry.name)
    raise AssertionError("no emulator is running")


@pytest.mark.slow
async def test_kill_9_in_the_middle_of_the_day_loses_nothing_and_repeats_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["shared", "emulator"]))
    with demo(tmp_path) as first:
        address = eventually(lambda: address_in(tmp_path))
        bearer = token(tmp_path)
        eventually(lambda: published(address, bearer) >= 400)

        os.kill(emulator_of(tmp_path), signal.SIGKILL)
        told, _ = first.communicate(timeout=120)
    with demo(tmp_path) as second:
        table, _ = second.communicate(timeout=400)

    assert first.returncode != 0, told
    assert second.returncode == 0, table
    assert re.search(r"peak airborne\s+166 at 19:15", table), table
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        world = await storage.world(WORLD_ID)
        rows = await world.query("Position", ticks=range(1_500), where="is_active = true")
        manifests = await every_manifest(storage, world)
    counts = [0] * 1_500
    for tick in rows["tick"].to_pylist():
        counts[tick] += 1
    assert counts == airborne_in_the_file(1_500)
    assert [each.tick for each in manifests] == list(range(1_500))
    settled = [sequence for each in manifests for sequence in ranges.members(each.settled)]
    assert len(settled) == len(set(settled)) == COMMANDS - LANDING_AFTER_THE_DAY
    assert max(each.epoch for each in manifests) > min(each.epoch for each in manifests)


async def every_manifest(storage, world, to_tick=1_499):
    ref = storage.worlds.ref(world.world_id)
    found = []
    while len(found) <= to_tick:
        reading = FindManifests(ref.partition, Tick(len(found)), Tick(to_tick))
        found += await storage.ticker.means.authority.execute(reading)
    return found
