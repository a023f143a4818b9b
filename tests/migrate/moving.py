"""Moving in this process, as far as a test wants."""

from __future__ import annotations

import asyncio

from tests.migrate.storages import opened

from perdure.api.settings import local
from perdure.api.wiring_lake_migrate import migrated


def move(source, destination, migration="move", **options):
    """Move one directory's storage into another's, and return the receipt."""
    return asyncio.run(migrated(local(source), local(destination), migration, **options))


class Stopped(BaseException):
    """Ends a migration at a step, as a death would."""


def stopping(at: str):
    """Return a progress that ends the migration when it comes to a step."""

    def tell(stage, done, total):
        if stage == at:
            raise Stopped

    return tell


async def told(root, world):
    async with opened(root) as storage:
        return await (await storage.world(world)).info()


async def listed(root):
    async with opened(root) as storage:
        return await storage.discover()
