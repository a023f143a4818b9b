"""The day and its fork, killed while the fork runs: the next run ends both, as if nothing had been."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.support.children import child

import perdure
from airspace.app import app
from airspace.closure import grounded
from airspace.evenings import compared
from airspace.flights import airborne_by_tick, real_day
from airspace.twodays import CLOSING, FORK_ID, SOURCE_ID, TwoDays
from airspace.whatif import who
from perdure.kernel.errors import NotFound, StoreUnavailable

pytestmark = [pytest.mark.lifecycle, pytest.mark.slow]


def demo(root: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    return child(
        [sys.executable, "-m", "airspace", "--what-if", "--root", root],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


async def published(root: Path) -> int:
    try:
        async with perdure.open_readonly(root.as_uri()) as storage:
            info = await (await storage.open_readonly(FORK_ID)).info()
    except (NotFound, StoreUnavailable):
        return -1
    return -1 if info.published_tick is None else info.published_tick


async def test_kill_9_while_the_fork_runs_leads_to_the_same_two_evenings(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["shared", "emulator"]))
    with demo(tmp_path) as first:
        while await published(tmp_path) < 800:
            assert first.poll() is None, first.stdout.read()
            await asyncio.sleep(0.1)

        first.kill()
        await asyncio.to_thread(first.communicate)
    killed_at = await published(tmp_path)
    with demo(tmp_path) as second:
        table, _ = await asyncio.to_thread(second.communicate, timeout=400)

    assert killed_at < 1_499
    assert second.returncode == 0, table
    assert re.search(r"in the air at 19:15\s+166 and 107", table), table
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        source, fork = await storage.world(SOURCE_ID), await storage.world(FORK_ID)
        prevented = grounded(real_day().flights, CLOSING)
        found = await compared(TwoDays(source, fork, CLOSING, prevented, ()))
        epochs = [(await world.info()).epoch for world in (source, fork)]
    flown = [each for each in real_day().flights if each not in prevented.flights]
    assert found.is_same_before
    assert found.is_same_otherwise
    assert found.missing == {who(each) for each in prevented.flights}
    assert found.source.airborne() == airborne_by_tick(real_day().flights)
    assert found.fork.airborne() == airborne_by_tick(flown)
    assert min(epochs) > 1
