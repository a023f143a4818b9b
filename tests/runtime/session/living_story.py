"""One process at the story of the conformance suite, which SIGKILL ends at a kill point.

    python -m tests.runtime.session.living_story DIRECTORY POINT|- sqlite
    python -m tests.runtime.session.living_story DIRECTORY POINT|- dynamodb ADDRESS ACCOUNT

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

from tests.support.steps import kill_9
from tests.support.stores import TABLE, dynamodb_client
from tests.support.story_harness import REACHED

from perdure.authority import system
from perdure.authority.dynamodb import DynamoStore
from perdure.authority.sqlite import SqliteStore
from perdure.lake.objects import LocalObjects
from perdure.runtime.session.testing import Bench, Doom, KillPoint, live

LEASE_MS = 1_500


async def opened(directory, kind, *told):
    if kind == "sqlite":
        return await SqliteStore.open(directory / "catalog.db")
    address, account = told
    client = dynamodb_client(address, account, threads=4)
    return DynamoStore(client, TABLE, threads=4, pause=asyncio.sleep)


def doomed(point):
    if point == "-":
        return Doom(None, kill_9)
    end = stand_still if point.endswith("!") else kill_9
    return Doom(KillPoint(point.removesuffix("!")), end)


def stand_still():
    sys.stdout.write(REACHED)
    sys.stdout.flush()
    while True:
        signal.pause()


async def lived(directory, point, told):
    store = await opened(directory, *told)
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
    asyncio.run(lived(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
