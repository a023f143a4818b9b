"""Moving in this process, as far as a test wants."""

from __future__ import annotations

import asyncio

from tests.migrate.storages import opened

from perdure.api.settings import local
from perdure.api.wiring_lake_migrate import migrated
from perdure.kernel.view import Decision, Reads


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


class Overwrite:
    """Puts a record in the place of whatever is there."""

    once = False

    def __init__(self, record):
        self.record = record

    @property
    def stream(self):
        return self.record.partition

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        view.get(self.record.key)
        return Decision(None, (self.record,))
