"""Reports of a run: a table to look at, JSON to keep, and the table of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.bench.figures import Figure, Sample
from tests.bench.run import CASES, Measured

BEGIN = "<!-- figures: written by python -m tests.bench --write-docs -->"
END = "<!-- end of figures -->"
CASE_BEGIN = "<!-- case: "
CASE_END = " -->"
SECTION = re.compile(
    # Up to the line that says by which run it was made; it does not reach into the next section.
    rf"{CASE_BEGIN}(?P<case>[^>]*?){CASE_END}(?:(?!{CASE_BEGIN}).)*?\n- `[^\n]*`, [^\n]* UTC\. [^\n]*",
    re.DOTALL,
)
HEADINGS = ("figure", "unit", "median", "min … max", "floor", "ratio", "budget", "met")

Cases = Mapping[str, Measured]
"""What was measured, by case."""


def printed(cases: Cases, facts: Mapping[str, Any], console: Console) -> None:
    """Print the table, with the machine below it."""
    table = Table(*HEADINGS)
    for column in table.columns[2:6]:
        column.justify = "right"
    for case, held in cases.items():
        table.add_section()
        table.add_row(f"[bold]{case}[/]")
        for figure in held.figures:
            table.add_row(*_cells(figure))
    console.print(table)
    for case, held in cases.items():
        for told in _told(held):
            console.print(f"{case}: {told}", soft_wrap=True, markup=False, highlight=False)
    console.print(_machine(facts), soft_wrap=True)


def spelled(
    cases: Cases, facts: Mapping[str, Any], *, command: str, scale: str, at: datetime
) -> dict[str, Any]:
    """Return the report as values for JSON."""
    return {
        "command": command,
        "scale": scale,
        "at": at.isoformat(timespec="seconds"),
        "machine": dict(facts),
        "cases": {case: [each.spelled() for each in held.figures] for case, held in cases.items()},
        "notes": {case: list(held.notes) for case, held in cases.items() if held.notes},
        "use": {case: held.use.spelled() for case, held in cases.items() if held.use},
    }


def write_docs(
    page: Path, cases: Cases, facts: Mapping[str, Any], *, command: str, at: datetime
) -> None:
    """Replace the sections of ``cases`` between the markers of a page; others stay as they are.

    Each section says by which run it was made. What is in no section is kept before the first.
    Raises ValueError without the markers.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    held, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"Expected the markers {BEGIN} and {END} in {page}; found one or none.")
    run = f"`{command}`, {at:%d %B %Y, %H:%M} UTC. {_machine(facts)}"
    made = {case: "\n".join(_section(case, found, run)) for case, found in cases.items()}
    sections = {found["case"]: found[0] for found in SECTION.finditer(held)} | made
    ordered = [case for case in CASES if case in sections]
    ordered += [case for case in sections if case not in CASES]
    loose = [each.strip() for each in SECTION.split(held)[::2]]
    joined = "\n\n".join([each for each in loose if each] + [sections[case] for case in ordered])
    page.write_text(f"{before}{begin}\n\n{joined}\n\n{end}{after}", encoding="utf-8")


def _section(case: str, held: Measured, run: str) -> Iterator[str]:
    yield f"{CASE_BEGIN}{case}{CASE_END}"
    yield ""
    yield f"### {case}"
    yield ""
    if held.figures:
        yield f"| {' | '.join(HEADINGS)} |"
        yield "|---|---|--:|--:|--:|--:|---|---|"
        for figure in held.figures:
            yield f"| {' | '.join(_cells(figure))} |"
        yield ""
    floors = dict.fromkeys(each.floor_name for each in held.figures if each.floor is not None)
    for told in (*(f"Floor: {name}." for name in floors), *_told(held), run):
        yield f"- {told}"


def _told(held: Measured) -> Iterator[str]:
    """Spell what stands below the figures of a case, in sentences."""
    yield from held.notes
    if held.use is not None:
        use = str(held.use)
        yield f"{use[0].upper()}{use[1:]}."


def _cells(figure: Figure) -> tuple[str, ...]:
    floor, ratio = figure.floor, figure.ratio
    is_one = len(figure.measured.values) == 1
    met = {None: "", True: "yes", False: "no"}[figure.is_met]
    return (
        figure.name,
        figure.unit,
        _number(figure.measured.median),
        "" if is_one else _spread(figure.measured),
        "" if floor is None else _number(floor.median),
        "" if ratio is None else f"{ratio.median:.2f} [{ratio.low:.2f} … {ratio.high:.2f}]",
        "" if figure.budget is None else str(figure.budget),
        met,
    )


def _spread(sample: Sample) -> str:
    return f"{_number(sample.low)} … {_number(sample.high)}"


def _number(value: float) -> str:
    """Spell three digits that matter, or all those before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _machine(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['cpus']} CPUs ({facts['cpu']}), {facts['system']}, Python {facts['python']},"
        f" SQLite {facts['sqlite']}, a 4 KiB fdatasync takes {facts['sync_ms']} ms,"
        f" commit {facts['commit']}."
    )
