"""A storage with a past, to be moved: worlds of every kind, landed rows, settled commands, notes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.emulator.harbour import Cargo, Position, app
from tests.migrate.dying import ASK_AGAIN

import perdure
from perdure.api.settings import Settings

SHIPS = 700
NOTES = 5

TRIES = 4


def opened(root: Path):
    return perdure.open(root.as_uri(), app=app)


async def filled(root: Path) -> None:
    """Make a storage: a world with ticks and cargo, one with a schedule, one that is empty.

    Beside them is a document store with notes.
    """
    async with opened(root) as storage:
        harbour = await storage.create_world("harbour", world_id="harbour")
        ships = [perdure.Spawn(Position(x=n / 3, y=n / 7)) for n in range(SHIPS)]
        await harbour.submit(ships, batch_id="ships")
        await harbour.run(to_tick=2)
        await harbour.submit([perdure.AddComponents(Cargo(tons=7), entity_id=1)], batch_id="cargo")
        await harbour.run(to_tick=4)
        yard = await storage.create_world("yard", world_id="yard", every_ms=3_600_000)
        await yard.submit([perdure.Spawn(Position(x=1.0, y=2.0))], batch_id="one")
        await yard.run(to_tick=0)
        await storage.create_world("fresh", world_id="fresh")
        await storage.document_stores.create("notes")
        for number in range(NOTES):
            await storage.document_stores.commit("notes", [note(number)], commit_id=f"{number}")
        await storage.land()


def note(number: int) -> dict[str, Any]:
    """Return the write that makes a note; some are large."""
    address = {"owner": "notes", "namespace": "desk", "kind": "note", "key": f"{number}"}
    create = {"write": "document.create", **address, "history": "rewindable"}
    return {**create, "value": "x" * (number * 20_000)}


async def rows(storage: Any, world: str, *components: str, **options: Any):
    """Return the rows of a world as Python objects."""
    found = await (await storage.world(world)).query(*components, **options)
    return found.to_pylist()


def tree(root: Path) -> dict[str, bytes]:
    """Return every file below a directory with its bytes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in sorted(root.rglob("*"))
    }


def killed(source: Settings, destination: Settings, migration: str, stage: str, nth: int) -> int:
    """Move in a process that kills itself at the ``nth`` step of a stage; tell how it ended.

    What a busy stand-in for the cloud leaves unanswered is asked again, as anyone would.
    """
    spelled = json.dumps([source.environment(), destination.environment(), migration, stage, nth])
    for _ in range(TRIES):
        child = subprocess.run(
            [sys.executable, "-m", "tests.migrate.dying", spelled],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            timeout=120,
            check=False,
        )
        if child.returncode != ASK_AGAIN:
            break
    if child.returncode > 0:
        sys.stderr.write(child.stderr.decode())
    return child.returncode
