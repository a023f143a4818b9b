"""SIGKILL in the middle of commits to a document store: what was told is there, once, in one order."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.house.sources import ROOT, environment
from tests.support.children import child
from tests.support.documents import REF, opened
from tests.support.papers import ADDRESS, LINES

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.records import Logged, Row
from perdure.kernel.places import after
from perdure.kernel.view import Range

pytestmark = pytest.mark.stores

LIVES = 3
LIVES_SLOW = 25


def lived(directory, name, commits):
    """Let a process live for some commits, kill it, and return the counts that it told."""
    command = [sys.executable, "-m", "tests.support.papers", directory, name]
    given = {"cwd": ROOT, "env": environment(), "stdout": subprocess.PIPE, "text": True}
    with child(command, **given) as process:
        told = [int(process.stdout.readline()) for _ in range(commits)]
        process.kill()
        rest, _ = process.communicate()
    return told + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


async def found(directory):
    records = await SqliteStore.open(directory / "store.db")
    async with opened(records, prefix="reader") as store:
        tally = await store.find(ADDRESS)
        loaded = await store.load(tally.id)
        prefix = f"row/{LINES.full_name}/"
        rows = Range(REF.partition, prefix, after(prefix), Row, limit=100_000)
        log = Range(REF.partition, "log/", after("log/"), Logged, limit=100_000)
        return await store.read(lambda view: (store.seq, loaded, view.find(rows), view.find(log)))


@pytest.mark.parametrize(
    "lives", [LIVES, pytest.param(LIVES_SLOW, marks=pytest.mark.slow)], ids=["few", "many"]
)
async def test_a_killed_writer_leaves_each_commit_whole_and_once(tmp_path, lives):
    told = [lived(tmp_path, f"w{life}", 3 + 7 * life % 11) for life in range(lives)]

    seq, loaded, rows, log = await found(tmp_path)
    acknowledged = [count for life in told for count in life]
    assert acknowledged == sorted(set(acknowledged))
    assert [row.value["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert max(acknowledged) <= len(rows)
    assert loaded.value["count"] == len(rows)
    assert loaded.value["by"] == "".join(row.value["by"] for row in rows)
    assert [entry.seq for entry in log] == list(range(1, seq + 1))
    assert [entry.previous for entry in log] == ["", *(entry.digest for entry in log[:-1])]
