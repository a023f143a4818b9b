"""Another process writes and is killed; who follows it has each of its commits once."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.house.sources import ROOT, environment
from tests.support.children import child
from tests.support.documents import REF, means, opened
from tests.support.following import host, until_end
from tests.support.papers import ADDRESS, LINES

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.followed import AddressView, TableView
from perdure.runtime.documents.follow.tail import follow_store
from perdure.runtime.documents.follow.views import follow_view

pytestmark = pytest.mark.stores

SECONDS = 120
PIPE_BYTES = 4_096
"""The writer waits for whoever reads what it tells: it is a thousand commits ahead at most."""


def begun(directory):
    """Let another process write to a store until it is killed."""
    command = [sys.executable, "-m", "tests.support.papers", directory, "w"]
    return child(
        command,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        pipesize=PIPE_BYTES,
        text=True,
    )


@pytest.mark.parametrize("commits", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_a_process_that_is_killed_is_followed_to_its_last_commit(tmp_path, commits):
    records = await SqliteStore.open(tmp_path / "store.db")
    async with opened(records, prefix="reader") as store:
        with begun(tmp_path) as process:
            told = [int(await asyncio.to_thread(process.stdout.readline)) for _ in range(10)]
            async with follow_store(means(records, prefix="f"), REF) as followed:
                own = host()
                tally = follow_view(own, followed, AddressView(ADDRESS))
                lines = follow_view(own, followed, TableView(LINES))
                counts = own.derive(lambda a, b: [a["value"]["count"], len(b)], tally, lines)
                await own.activate()
                reading = asyncio.create_task(until_end(counts.watch()))
                begun_at = tally.value["value"]["count"]  # on a busy machine the writer is ahead
                while told[-1] < max(commits, begun_at + 20):
                    told.append(int(await asyncio.to_thread(process.stdout.readline)))
                process.kill()
                await asyncio.to_thread(process.communicate)

                looked = await store.read(
                    lambda view: (
                        AddressView(ADDRESS).look(view, REF.partition),
                        TableView(LINES).look(view, REF.partition),
                    )
                )
                watch = counts.watch()
                async with asyncio.timeout(SECONDS):
                    while watch.value[0] < looked[0]["value"]["count"]:
                        await anext(watch)
                own.close()
                frames = await reading

    assert (tally.value, lines.value) == looked
    assert [frame.value[0] for frame in frames] == [frame.value[1] for frame in frames]
    first, last = frames[0].value[0], frames[-1].value[0]
    assert [frame.value[0] for frame in frames] == list(range(first, last + 1))
    assert first > 9
    assert last >= told[-1]
