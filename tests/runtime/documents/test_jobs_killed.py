"""SIGKILL in the middle of a job on a file: what its state was told is there, and it ends once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.house.sources import ROOT, environment
from tests.support.children import child
from tests.support.counting_job import COUNTS, NAME, NOTE, STORE, closed, opened
from tests.support.documents import REF
from tests.support.jobs import Look

from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.read import find_document

pytestmark = [pytest.mark.stores, pytest.mark.slow]

SECONDS = 120

KILLED_AFTER = (1, 4, 1, 9, 2, 7)
"""Lines that each process tells before it dies: more deaths than a job may have in a row."""


def process(directory: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.support.counting_job", directory]
    return child(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)


def killed(directory: Path, lines: int) -> list[str]:
    """Let a process live for some lines, kill it, and return what it told."""
    with process(directory) as one:
        assert one.stdout is not None
        told = [one.stdout.readline() for _ in range(lines)]
        one.kill()
        rest, _ = one.communicate()
    told += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return [line.strip() for line in told]


async def test_a_killed_job_goes_on_where_it_was_and_ends_once(tmp_path):
    told = [line for lines in KILLED_AFTER for line in killed(tmp_path, lines)]
    with process(tmp_path) as one:
        last, _ = one.communicate(timeout=SECONDS)
    told += last.split()

    assert told[-1] == "ended"
    counts = [int(line) for line in told[:-1]]  # nobody told of an interruption
    assert counts == sorted(set(counts))
    assert counts[-1] == COUNTS
    jobs = await opened(tmp_path)
    info = await jobs.describe(STORE, NAME, "j")
    look = Look(REF, lambda view: find_document(view, REF.partition, NOTE))
    note = await jobs.crew.means.authority.execute(look)
    await closed(jobs)
    assert info.outcome == Done({"count": COUNTS})
    assert note is not None
