"""Reports of mutations: a table to look at, and the table of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tests.simulator.mutations.run import Trial

BEGIN = "<!-- mutations: written by python -m tests.simulator.mutations --write-docs -->"
END = "<!-- end of mutations -->"
HEADINGS = ("mutation", "kind", "what it breaks", "caught by", "where", "seconds", "verdict")


def printed(trials: Iterable[Trial], console: Console) -> list[Trial]:
    """Print each trial as it ends, then the table of all; return them."""
    done: list[Trial] = []
    for trial in trials:
        done.append(trial)
        console.print(f"{trial.mutation.name}: {trial.verdict}", markup=False)
        if not trial.is_caught:
            shown = trial.control or trial.tried
            console.print(shown.output, markup=False, soft_wrap=True)
    table = Table(*HEADINGS, show_lines=True)
    for trial in done:
        table.add_row(*(escape(cell) for cell in _cells(trial)))
    console.print(table)
    console.print(told(done))
    return done


def told(trials: Sequence[Trial]) -> str:
    """Say how many of them were caught, and by what."""
    caught = [each for each in trials if each.is_caught]
    by_simulator = sum(each.mutation.proof.is_simulator for each in caught)
    return (
        f"{len(caught)} of {len(trials)} mutations were caught, {by_simulator} of them by the"
        " simulator."
    )


def write_docs(page: Path, trials: Sequence[Trial], *, command: str, at: datetime) -> None:
    """Replace what stands between the markers of a page. Raises ValueError without them."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"Expected the markers {BEGIN} and {END} in {page}; found one or none.")
    held = "\n".join(_markdown(trials, command=command, at=at))
    page.write_text(f"{before}{begin}\n\n{held}\n\n{end}{after}", encoding="utf-8")


def _markdown(trials: Sequence[Trial], *, command: str, at: datetime) -> Iterator[str]:
    yield f"`{command}`, {at:%d %B %Y}. {told(trials)}"
    yield ""
    yield "| what is broken | found by | where |"
    yield "|---|---|---|"
    for trial in trials:
        broken = trial.tried.broken
        found = trial.verdict if broken is None else broken.promise
        where = "" if broken is None else f"{trial.mutation.proof.name}: {broken.where}"
        yield f"| {trial.mutation.breaks} | {found} | {where} |"


def _cells(trial: Trial) -> tuple[str, ...]:
    mutation, tried = trial.mutation, trial.tried
    return (
        mutation.name,
        mutation.kind,
        mutation.breaks,
        "" if tried.broken is None else tried.broken.promise,
        mutation.proof.name if tried.broken is None else tried.broken.where,
        f"{tried.seconds:.1f}",
        trial.verdict,
    )
