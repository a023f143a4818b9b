"""Mutations of the product code are caught, and the script that says so can say otherwise."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from tests.simulator.mutations import report, run
from tests.simulator.mutations.__main__ import main
from tests.simulator.mutations.every import MUTATIONS
from tests.simulator.mutations.mutation import SHARED, Broken, Edit, Mutation, Unfit
from tests.simulator.mutations.proofs import Simulated, Suite
from tests.simulator.mutations.run import trials, tried

pytestmark = pytest.mark.proof

KINDS = {
    "a condition dropped",
    "steps swapped",
    "settled although its page no longer names it",
    "a conflict trusted",
    "a token comparison forgotten",
    "an entity id reused",
    "landed without a look",
    "a lost reply taken for failure",
    "an epoch not checked",
    "a digest not compared",
    "a key looked at too late",
    "attempts not counted",
    "a drain that sees too much",
    "a fence taken too early",
    "a status not looked at",
    "a fork that takes over too little",
    "a state kept too long",
    "a guess not proved",
    "an answer before its commit",
}
BY_SIMULATOR_MIN = 25
FAST = ("answered_before_commit", "entity_id_reused")
FIRST_PLAY = Simulated("everyday", start=0, seeds=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """A proof that takes no time: it asks one constant of the product code."""

    is_simulator: ClassVar[bool] = False
    name: str = "a constant"

    def command(self, shared: Path) -> list[str]:
        asked = "from perdure.kernel.limits import ATTEMPTS_DEFAULT as found"
        told = "print('seed 7: I8: attempts') or exit(1) if found != 3 else None"
        return [sys.executable, "-c", f"{asked}\n{told}"]

    broken = Simulated.broken

    def control(self, broken: Broken) -> Asked:
        return self


def attempts(text: str) -> Mutation:
    """Return a mutation of a line that says how often a command is tried."""
    edit = Edit("kernel/limits.py", "ATTEMPTS_DEFAULT: Final = 3\n", text)
    return Mutation("attempts", "attempts not counted", "Commands are tried.", (edit,), Asked())


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_changes_what_occurs_once_and_still_compiles(name: str) -> None:
    texts: dict[str, str] = {}

    for edit in MUTATIONS[name].edits:
        before = texts.get(edit.file) or (SHARED / "perdure" / edit.file).read_text("utf-8")
        texts[edit.file] = edit.applied(before)
        assert texts[edit.file] != before

    for file, text in texts.items():
        compile(text, file, "exec")


def test_every_kind_of_mistake_is_made_and_most_are_for_the_simulator() -> None:
    by_simulator = [each for each in MUTATIONS.values() if each.proof.is_simulator]

    assert {each.kind for each in MUTATIONS.values()} >= KINDS
    assert len(by_simulator) >= BY_SIMULATOR_MIN


def test_mutations_are_caught_by_the_simulator() -> None:
    fast = [MUTATIONS[name] for name in FAST]
    chosen = [Mutation(m.name, m.kind, m.breaks, m.edits, FIRST_PLAY) for m in fast]

    found = list(trials(chosen))

    assert [each.verdict for each in found] == ["caught", "caught"], [
        each.tried.output for each in found
    ]


def test_a_mutation_that_is_caught_is_told_with_its_promise_and_seed() -> None:
    (trial,) = trials([attempts("ATTEMPTS_DEFAULT: Final = 4\n")])

    assert trial.is_caught
    assert trial.tried.broken is not None
    assert (trial.tried.broken.promise, trial.tried.broken.where) == ("I8", "seed 7")


def test_a_mutation_that_changes_nothing_survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(MUTATIONS, "attempts", attempts("ATTEMPTS_DEFAULT: Final = 2 + 1\n"))

    code = main(["--only", "attempts"])

    assert code == 1
    assert "0 of 1 mutations were caught" in capsys.readouterr().out


def test_a_mutation_that_only_breaks_the_import_is_not_caught() -> None:
    (trial,) = trials([attempts("ATTEMPTS_DEFAULT: Final = absent\n")])

    assert trial.verdict == "survived: the proof fell over"
    assert not trial.is_caught


def test_a_proof_that_fails_without_a_mutation_proves_nothing() -> None:
    class Failing(Asked):
        def command(self, shared: Path) -> list[str]:
            return [sys.executable, "-c", "print('seed 7: I8: attempts') or exit(1)"]

    some = attempts("ATTEMPTS_DEFAULT: Final = 4\n")
    (trial,) = trials([Mutation(some.name, some.kind, some.breaks, some.edits, Failing())])

    assert trial.verdict == "the proof fails without the mutation, too"
    assert not trial.is_caught


def is_alive(stat: Path) -> bool:
    """Say whether a process is neither gone nor nobody's child that waits to be taken away."""
    try:
        return stat.read_text("utf-8").rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_a_proof_that_does_not_end_is_killed_with_all_that_it_began(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Endless(Asked):
        def command(self, shared: Path) -> list[str]:
            return ["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/begun; wait"]

    for seconds in (1.0, 10.0, 60.0):  # it must have had the time to begin
        monkeypatch.setattr(run, "SECONDS_MAX", seconds)
        found = tried(Endless(), SHARED)
        if (tmp_path / "begun").exists():
            break

    assert found.code is None
    begun = Path("/proc") / (tmp_path / "begun").read_text("utf-8").strip() / "stat"
    deadline = time.monotonic() + 60
    while is_alive(begun):  # a signal is taken when the one it is for runs again
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_mutation_whose_text_has_changed_is_named() -> None:
    edit = Edit("kernel/limits.py", "ATTEMPTS_DEFAULT", "ATTEMPTS")

    with pytest.raises(Unfit, match=r"kernel/limits\.py has 2 times: 'ATTEMPTS_DEFAULT'"):
        edit.applied("ATTEMPTS_DEFAULT, ATTEMPTS_DEFAULT")


def test_a_suite_that_fails_tells_which_promise_and_one_that_falls_over_tells_none() -> None:
    suite = Suite("tests/contract")
    failed = "FAILED tests/contract/test_contract.py::test_memory[a_reply_is_durable] - Error\n"

    found = suite.broken(1, failed)

    assert found is not None
    assert found.promise == "memory: a reply is durable"
    assert suite.broken(1, "ERROR tests/contract/test_contract.py - ImportError\n") is None
    assert suite.broken(2, failed) is None


def test_the_page_tells_what_was_caught_and_by_which_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{report.BEGIN}\nold\n{report.END}\n\nAfter\n", "utf-8")
    done = list(trials([attempts("ATTEMPTS_DEFAULT: Final = 4\n")]))

    report.write_docs(page, done, command="python -m this", at=datetime(2026, 11, 30, tzinfo=UTC))

    text = page.read_text("utf-8")
    assert "`python -m this`, 30 November 2026. 1 of 1 mutations were caught" in text
    assert "| Commands are tried. | I8 | a constant: seed 7 |" in text
    assert text.startswith("# Before")
    assert text.endswith("After\n")
    assert "old" not in text


@pytest.mark.slow
def test_every_mutation_is_caught() -> None:
    assert main(["--jobs", "2"]) == 0
