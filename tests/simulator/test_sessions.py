"""Sessions keep their invariants under lost answers, deaths and rivals; a seed is one play."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.simulator.session_play import first_violation, main, play

pytestmark = [pytest.mark.proof, pytest.mark.sessions]

MET = (
    "crash", "freeze", "lost after", "late", "put failed", "page boundary",
    "ended completed", "ended cancelled", "ended interrupted", "resume_started", "payload objects",
    "steered", "retracted", "approval_resolved", "tool_no_dispatch", "drive: out_of_time",
)  # fmt: skip


def test_no_invariant_is_broken_and_plays_meet_what_they_are_there_for() -> None:
    broken, counts = first_violation(range(12))

    assert broken is None, broken.trace()
    assert [name for name in MET if not counts[name]] == []


@pytest.mark.slow
def test_no_invariant_is_broken_in_many_more_plays() -> None:
    broken, _ = first_violation(range(12, 500))

    assert broken is None, broken.trace()


def test_a_seed_is_always_the_same_play(capsys: pytest.CaptureFixture[str]) -> None:
    first = play(3).trace()

    assert main(["--replay", "3"]) == 0
    assert capsys.readouterr().out == first + "\n"


def test_what_a_play_buries_is_ended_also_where_other_loops_have_run() -> None:
    asyncio.run(asyncio.sleep(0))  # from now on this thread has no loop to begin work in

    played = play(2)
    gc.collect()  # what was left behind would say so now, and that is an error here

    assert played.violation is None
