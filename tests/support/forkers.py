"""A process that forks a world others fork too: it imports nothing but what a fork needs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import NameTaken
from perdure.kernel.ids import RunId, StorageId, WorldId
from perdure.kernel.places import WorldRef
from perdure.runtime.fork import Wish, fork


def ref(world: str) -> WorldRef:
    return WorldRef(StorageId("storage"), WorldId(world))


def child() -> None:
    """Fork under an id, and then under a name, that all processes want; print run and verdict."""
    asyncio.run(_forked(Path(sys.argv[1]), sys.argv[2]))


async def _forked(path: Path, number: str) -> None:
    authority = Authority(await SqliteStore.open(path), system.now, system.new_token)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    run = RunId(f"run-{number}")
    same_id = Wish(ref("w"), ref("child"), "the same fork", run)
    info = await fork(authority, same_id, pause=asyncio.sleep)
    try:
        same_name = Wish(ref("w"), ref(f"mine-{number}"), "the one", run)
        await fork(authority, same_name, pause=asyncio.sleep)
    except NameTaken:
        print(info.run_id, "lost")  # noqa: T201
    else:
        print(info.run_id, "won")  # noqa: T201
    await authority.close()
