"""A handle keeps no more after 100,000 commits than after 20,000."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.support.conversed import converse, kept
from tests.support.conversing import base, conversation, create, latest
from tests.support.documents import opened

from perdure.authority.sqlite import SqliteStore
from perdure.runtime.documents.conversations import ConversationStorage

pytestmark = pytest.mark.stores

COMMITS = 100_000
FIRST = 20_000
OBJECTS_MORE_MAX = 2_000
BYTES_MORE_MAX = 8 * 2**20

IN_MEMORY = Path("/dev/shm")
QUICK_DISK = IN_MEMORY if IN_MEMORY.is_dir() else None
"""Where a sync takes no time."""


@pytest.mark.slow
async def test_memory_is_flat_over_a_hundred_thousand_commits(tmp_path: Path) -> None:
    with TemporaryDirectory(dir=QUICK_DISK or tmp_path) as made:
        async with opened(await SqliteStore.open(Path(made) / "store.db")) as store:
            storage = await ConversationStorage.open(store, "pi")
            await storage.commit([conversation(1), create(latest(2), base({"n": 0}))])

            await converse(storage, FIRST, 2)
            early = kept()
            await converse(storage, COMMITS - FIRST, 2)
            late = kept()
            loaded = await storage.document(2)
            await storage.close()

    assert loaded is not None
    assert loaded["value"] == {"n": COMMITS - FIRST - 1}
    assert late.objects - early.objects < OBJECTS_MORE_MAX
    assert late.bytes - early.bytes < BYTES_MORE_MAX
