"""Real processes on one SQLite file, or one table: nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ministack import account
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority import system
from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.authority.testing.records import Add, Look, Tell, counter
from perdure.kernel.errors import Conflict, Contended
from perdure.kernel.view import Reads

CLOUD_ACCOUNT = account(590)

PROCESSES = 4
PROCESSES_IN_THE_CLOUD = 8
ADDS = 10


def test_processes_lose_no_increment_and_create_one_id_once(tmp_path: Path) -> None:
    check_race(str(tmp_path / "store.db"), PROCESSES)


@pytest.mark.cloud
@pytest.mark.slow
def test_eight_processes_on_a_table_lose_no_increment_and_create_one_id_once(aws: str) -> None:
    client = dynamodb_client(aws, CLOUD_ACCOUNT, threads=1)
    client.create_table(**table_definition(TABLE))
    client.close()

    check_race(aws, PROCESSES_IN_THE_CLOUD)


def check_race(where: str, processes: int) -> None:
    """Let processes count together, and let each try to be the one; see what came of it."""
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD.format(sys.path), where, f"{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(processes)
    ]

    for child in starts:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    for child in starts:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    won = [child.communicate(timeout=300)[0].strip() for child in starts]

    assert [child.returncode for child in starts] == [0] * processes
    assert sorted(won) == [b"lost"] * (processes - 1) + [b"won"]
    assert asyncio.run(_looked(where)) == (processes * ADDS, 1)


_CHILD = """
import sys
sys.path[:] = {!r}
from tests.authority.test_processes import child
child()
"""


def child() -> None:
    """Run one of the processes: count together with others, and try to be the one."""
    asyncio.run(_counted(sys.argv[1], sys.argv[2]))


async def _counted(where: str, name: str) -> None:
    store = await _opened(where)
    await store.load(Reads(peeks=(counter("c"),)))  # what is loaded late is loaded by now
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
        await _added(engine)
    await engine.close()


async def _added(engine: Authority) -> None:
    """Add once. A race that was lost too often has added nothing: it is run again."""
    while True:
        with contextlib.suppress(Contended):
            await engine.execute(Add())
            return


async def _opened(where: str) -> Store:
    if where.startswith("http"):
        return DynamoStore(dynamodb_client(where, CLOUD_ACCOUNT, threads=2), TABLE, threads=2)
    return await SqliteStore.open(Path(where))


async def _looked(where: str) -> tuple[int, ...]:
    store = await _opened(where)
    engine = Authority(store, system.now, system.new_token)
    try:
        return await engine.execute(Look(("c", "told")))
    finally:
        await engine.close()
