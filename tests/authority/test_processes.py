"""Real processes on one SQLite file: nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.authority.testing.records import Add, Look, Tell
from perdure.kernel.errors import Conflict

PROCESSES = 4
ADDS = 10


def test_processes_lose_no_increment_and_create_one_id_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD.format(sys.path), path, f"{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]

    for child in starts:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    for child in starts:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    won = [child.communicate(timeout=60)[0].strip() for child in starts]

    assert [child.returncode for child in starts] == [0] * PROCESSES
    assert sorted(won) == [b"lost"] * (PROCESSES - 1) + [b"won"]
    assert asyncio.run(_looked(path)) == (PROCESSES * ADDS, 1)


_CHILD = """
import sys
sys.path[:] = {!r}
from tests.authority.test_processes import child
child()
"""


def child() -> None:
    """Run one of the processes: count together with others, and try to be the one."""
    asyncio.run(_counted(Path(sys.argv[1]), sys.argv[2]))


async def _counted(path: Path, name: str) -> None:
    store = await SqliteStore.open(path)
    engine = Authority(store, system.now, system.new_token)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    try:
        await engine.execute(Tell("the one", name))
    except Conflict:
        print("lost")  # noqa: T201
    else:
        print("won")  # noqa: T201
    for _ in range(ADDS):
        await engine.execute(Add())
    await engine.close()


async def _looked(path: Path) -> tuple[int, ...]:
    store = await SqliteStore.open(path)
    engine = Authority(store, system.now, system.new_token)
    try:
        return await engine.execute(Look(("c", "told")))
    finally:
        await engine.close()
