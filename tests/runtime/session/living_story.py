"""One process at the story of the conformance suite, which SIGKILL ends at a kill point.

    python -m tests.runtime.session.living_story DIRECTORY POINT|-

With ``POINT!`` it says that it is there, and stands still until somebody ends it.
What it notes is a line each in DIRECTORY/notes, synced, which outlives everybody.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from perdure.authority import system
from perdure.authority.sqlite import SqliteStore
from perdure.lake.objects import LocalObjects
from perdure.runtime.session.testing import Bench, Doom, KillPoint, live

LEASE_MS = 1_500
REACHED = "reached\n"
"""What a process says that stands still."""


def doomed(point):
    if point == "-":
        return Doom(None, kill_myself)
    end = stand_still if point.endswith("!") else kill_myself
    return Doom(KillPoint(point.removesuffix("!")), end)


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)


def stand_still():
    sys.stdout.write(REACHED)
    sys.stdout.flush()
    while True:
        signal.pause()


async def lived(directory, point, opened):
    store = await opened
    with (directory / "notes").open("a") as notes:

        def note(word, body):
            notes.write(json.dumps([word, body]) + "\n")
            notes.flush()
            os.fsync(notes.fileno())

        bench = Bench(
            store=store,
            objects=LocalObjects(directory / "objects"),
            now=system.now,
            new_token=system.new_token,
            pause=asyncio.sleep,
            note=note,
            doom=doomed(point),
            lease_ms=LEASE_MS,
        )
        try:
            await live(bench)
        finally:
            await store.close()


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    asyncio.run(lived(directory, sys.argv[2], SqliteStore.open(directory / "catalog.db")))
