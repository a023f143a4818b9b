"""The world protocol keeps its promises with all of its rules, and breaks one without each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.__main__ import main
from tests.models.play import MIXES, first_violation, play
from tests.models.rules import Rules
from tests.models.truth import Promise

pytestmark = pytest.mark.proof

SEEDS = 700
SEEDS_SLOW = 10_000
SEEDS_TO_BREAK = 2_000

NECESSARY = [
    # rule left out, mix of actors, first seed to try, the promise that breaks
    ("horizon", "crowd", 0, Promise.ORDER),
    ("cut", "failures", 0, Promise.ORDER_AT_CUT),
    ("twice_check", "storms", 13_000, Promise.SETTLED_ONCE),  # about one seed in 20,000
    ("log_check", "storms", 0, Promise.ORDER),
    ("log_from_drain", "storms", 0, Promise.ORDER),
    ("page_check", "everyday", 0, Promise.CANCELLED_STAYS),
    ("below_check", "everyday", 0, Promise.CANCELLED_STAYS),
    ("dead_pages", "everyday", 0, Promise.NO_STARVATION),
    ("epoch_check", "crowd", 0, Promise.EPOCHS_RISE),
    ("own_token", "storms", 0, Promise.PUBLISHED_KNOWN),
    ("key_first", "endings", 0, Promise.RECEIPT_GIVEN),
    ("ids_in_digest", "endings", 0, Promise.RECEIPT_STABLE),
    ("cancel_key", "storms", 0, Promise.CANCELLED_ONCE),
    ("refusal_snapshot", "endings", 0, Promise.RECEIPT_GIVEN),
    ("tombstone", "private", 0, Promise.RETIRED_STAYS),
    ("fork_snapshot", "forks", 0, Promise.FORK_REVIVES_NOTHING),
    ("fork_count", "forks", 0, Promise.FORK_COMPLETE),
    ("fork_entry", "forks", 0, Promise.ORDER),
]


@pytest.mark.parametrize("mix", MIXES)
def test_no_promise_is_broken_with_all_rules(mix: str) -> None:
    broken = first_violation(Rules(), range(SEEDS), mix)

    assert broken is None, broken.trace()


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_no_promise_is_broken_in_many_more_plays(mix: str) -> None:
    broken = first_violation(Rules(), range(SEEDS, SEEDS + SEEDS_SLOW), mix)

    assert broken is None, broken.trace()


@pytest.mark.parametrize(
    ("rule", "mix", "start", "promise"), NECESSARY, ids=[row[0] for row in NECESSARY]
)
def test_each_rule_is_necessary(rule: str, mix: str, start: int, promise: Promise) -> None:
    seeds = range(start, start + SEEDS_TO_BREAK)

    broken = first_violation(Rules().without(rule), seeds, mix, promise)

    assert broken is not None, f"without {rule}, no seed in {seeds} breaks: {promise}"


def test_every_rule_is_shown_to_be_necessary() -> None:
    assert {row[0] for row in NECESSARY} == set(Rules.names())


def test_a_broken_promise_prints_a_trace_that_replays(capsys: pytest.CaptureFixture[str]) -> None:
    broken = first_violation(Rules().without("ids_in_digest"), range(SEEDS), "endings")
    assert broken is not None

    _, replay, *_ = broken.trace().splitlines()
    _, _, arguments = replay.partition("tests.models ")
    code = main(arguments.split())

    assert code == 1
    assert capsys.readouterr().out == broken.trace() + "\n"


def test_a_seed_is_always_the_same_play() -> None:
    first, second = play(7, Rules(), "storms"), play(7, Rules(), "storms")

    assert first.trace() == second.trace()


def test_the_command_line_finds_what_a_missing_rule_lets_through() -> None:
    command = "-m tests.models --seeds 300 --mix endings --without key_first"

    finished = subprocess.run(
        [sys.executable, *command.split()],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 1
    assert str(Promise.RECEIPT_GIVEN) in finished.stdout


def test_the_command_line_finds_nothing_with_all_rules(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seeds", "50"])

    assert code == 0
    assert "no promise was broken" in capsys.readouterr().out
