"""Plays of the simulator: no invariant is broken, every fault has hit, and a seed is always one play."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.simulator import truth
from tests.simulator.__main__ import main
from tests.simulator.play import MIXES, play
from tests.simulator.rows import Births, State
from tests.simulator.stage import Stage
from tests.simulator.summary import played

pytestmark = pytest.mark.proof

STEPS_OF_A_MIX = 25_000
"""With eight mixes, 200,000 in all and more: the last play of each goes on to its end."""

ROUNDS_MAX = 5
"""Times so many steps are played until a mix has met what it is for: whatever is changed in the code
changes every play."""

STEPS_SLOW = 1_000_000

MET_IN_WORLDS = frozenset({"admission: admitted", "run: done", "ticks"})

MET: Mapping[str, frozenset[str]] = {
    # what each mix is there to meet
    "everyday": frozenset({
        "append failed", "append late", "append without an answer", "append answered as conflict",
        "busy", "conflict", "keys unprocessed", "page boundary", "no answer to a load",
        "message late", "schedule fired twice", "closing", "destroyed", "forked", "rows landed",
        "events", "history: events", "closing: a schedule is served", "read: state", "read: range", "admission: replayed", "admission: conflict",
    }),
    "storms": frozenset({
        "late", "lost after", "lost before", "twice", "wire: 500", "wire: in progress",
        "wire: timeout", "wire: mismatch", "run: world_destroyed",
        "admission: world_destroyed",
    }),
    "crowd": frozenset({
        "conflict", "rejected", "retryable", "cancel: cancelled", "cancel: not_cancellable",
        "cancel all: done", "run: stale_writer",
    }),
    "races": frozenset({
        "freeze", "applied", "checkpoints", "segments", "inline", "retryable", "dead_letter", "fork: done",
        "run: fence_held", "run: stale_writer",
    }),
    "ages": frozenset({
        "house kept", "message lost", "message twice", "put failed", "put without an answer",
        "killed by a command", "message: 1 ticks", "message: nothing to do", "trim: something",
    }),
    "deaths": frozenset({"crash", "freeze", "killed by a command", "run: fence_held"}),
    "bulk": frozenset({
        "large body", "large body superseded", "chunk emptied", "note: overtaken", "write: done",
        "twins: done", "erase: done",
    }),
    "library": frozenset({
        "large body superseded", "chunk emptied", "commit: done", "commit: address_taken",
        "load: now", "load: past", "late", "lost after",
    }),
}  # fmt: skip


@pytest.mark.parametrize("mix", MIXES)
def test_no_invariant_is_broken_and_each_mix_meets_what_it_is_for(mix: str) -> None:
    lacking = {*(MET_IN_WORLDS if mix != "library" else ()), *MET[mix]}

    for again in range(ROUNDS_MAX):
        summary = played([mix], seed=again * 1_000, steps=STEPS_OF_A_MIX)
        assert summary.broken is None, summary.broken.trace()
        lacking -= (summary.faults + summary.outcomes + summary.met).keys()
        if not lacking:
            break

    assert not lacking


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_no_invariant_is_broken_in_many_more_plays(mix: str) -> None:
    summary = played([mix], seed=10_000, steps=STEPS_SLOW // len(MIXES))

    assert summary.broken is None, summary.broken.trace()


def test_the_trace_of_a_seed_is_the_same_to_the_byte_in_every_process() -> None:
    traces = {_traced(seed) for seed in ("1", "2")}

    assert len(traces) == 1
    (trace,) = traces
    assert trace.startswith(b"seed 3: no violation\nreplay: python -m tests.simulator --replay 3")


def _traced(hash_seed: str) -> bytes:
    """Play a seed in a process of its own, where texts have other hashes."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.simulator", "--replay", "3", "--mix", "storms"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )
    return finished.stdout


def test_what_a_model_would_not_do_is_told_with_the_command_that_plays_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten(state: State, tick: int) -> Births:
        return Births()

    monkeypatch.setattr(truth, "processed", forgotten)

    code = main(["--seeds", "1", "--mix", "races"])
    said = capsys.readouterr().out
    _, replay, *_ = said.splitlines()
    again = main(replay.partition("tests.simulator ")[2].split())

    assert (code, again) == (1, 1)
    assert capsys.readouterr().out.splitlines()[0] == said.splitlines()[0]


def test_what_a_model_cannot_follow_is_told_with_its_seed_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_a_loss(state: State, tick: int) -> Births:
        raise LookupError("no such thing")

    monkeypatch.setattr(truth, "processed", at_a_loss)

    code = main(["--seeds", "1", "--mix", "races"])

    assert code == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "seed 0: the model: LookupError: no such thing",
        "replay: python -m tests.simulator --replay 0 --mix races",
    ]


def test_an_error_outside_of_every_process_is_told_with_its_seed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(stage: Stage) -> None:
        raise LookupError("no such thing")

    monkeypatch.setattr(Stage, "calm", failed)

    played = play(0)

    assert played.violation is not None
    assert played.violation.invariant == "the model"
    assert "ends in Traceback" in played.trace()


def test_a_seed_is_always_the_same_play() -> None:
    first, second = play(7, "crowd"), play(7, "crowd")

    assert first.trace() == second.trace()
