"""Eight processes on one store: what each of them was told can all be true."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.proof.actors import PROCESSES
from tests.proof.history import Call
from tests.proof.looking import looked_at
from tests.proof.places import PLACES
from tests.support.ministack import fresh_account
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority.dynamodb_wire import table_definition

pytestmark = pytest.mark.proof

SEED = "1"
OPERATIONS = 30
OPERATIONS_OF_MANY = 400
"""Of each process."""

SECONDS_MAX = 1_200
"""For all processes to come to their ends, on a machine that is busy."""


def acted(root: Path, operations: int, seed: str, *table: str) -> None:
    """Let the processes act, each to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.proof.actors", root, f"{operations}", seed, *table],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4_000:]


def check_histories(root: Path, operations: int, seed: str, *table: str) -> list[Call]:
    acted(root, operations, seed, *table)

    calls, checked = asyncio.run(looked_at(root, " ".join(table) or None))

    assert checked.faults == []
    assert checked.steps > PROCESSES * operations
    assert len({call.process for call in calls}) == PROCESSES + 1
    answered = {call.what for call in calls if call.is_answered}
    assert answered >= {*PLACES} - {"cancel_all"}  # which few ask for
    assert {call.code for call in calls} >= {
        "conflict",
        "name_taken",
        "world_destroyed",
    }
    return calls


def rivals(calls: list[Call]) -> set[str]:
    """Return the worlds that more than one process published ticks of."""
    ticked = {(call.world, call.process) for call in calls if call.what == "tick" and call.answer}
    return {world for world, count in Counter(world for world, _ in ticked).items() if count > 1}


def test_what_eight_processes_on_one_file_were_told_can_all_be_true(tmp_path):
    check_histories(tmp_path, OPERATIONS, SEED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["2", "3"])
def test_what_eight_processes_were_told_for_long_can_all_be_true(tmp_path, seed):
    calls = check_histories(tmp_path, OPERATIONS_OF_MANY, seed)

    assert rivals(calls) >= {"north", "south"}
    assert {call.code for call in calls} >= {"fence_held", "not_cancellable", "stale_writer"}
    assert any(call.what == "cancel_all" and call.is_answered for call in calls)


@pytest.mark.cloud
@pytest.mark.slow
def test_what_eight_processes_on_one_table_were_told_can_all_be_true(aws, tmp_path):
    owner = fresh_account()
    client = dynamodb_client(aws, owner, threads=1)
    client.create_table(**table_definition(TABLE))
    client.close()

    check_histories(tmp_path, OPERATIONS, SEED, aws, owner)
