"""Reports of a run: a table to look at, JSON to keep, and the table of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.bench.figures import Figure, Sample
from tests.bench.run import Measured

BEGIN = "<!-- figures: written by python -m tests.bench --write-docs -->"
END = "<!-- end of figures -->"
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
    """Replace what stands between the markers of a page. Raises ValueError without them."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"Expected the markers {BEGIN} and {END} in {page}; found one or none.")
    held = "\n".join(_markdown(cases, facts, command=command, at=at))
    page.write_text(f"{before}{begin}\n\n{held}\n\n{end}{after}", encoding="utf-8")


def _markdown(
    cases: Cases, facts: Mapping[str, Any], *, command: str, at: datetime
) -> Iterator[str]:
    yield f"`{command}`, {at:%d %B %Y, %H:%M} UTC. {_machine(facts)}"
    for case, held in cases.items():
        yield ""
        yield f"**{case}**"
        yield ""
        yield f"| {' | '.join(HEADINGS)} |"
        yield "|---|---|--:|--:|--:|--:|---|---|"
        for figure in held.figures:
            yield f"| {' | '.join(_cells(figure))} |"
        for told in _told(held):
            yield ""
            yield told
    yield ""
    yield from _floors(each for held in cases.values() for each in held.figures)


def _told(held: Measured) -> Iterator[str]:
    """Spell what stands below the figures of a case, in sentences."""
    yield from held.notes
    if held.use is not None:
        use = str(held.use)
        yield f"{use[0].upper()}{use[1:]}."


def _floors(figures: Iterable[Figure]) -> Iterator[str]:
    yield "What the floors are:"
    yield ""
    names: dict[str, list[str]] = {}
    for figure in figures:
        if figure.floor is not None:
            names.setdefault(figure.floor_name, []).append(figure.name)
    for name, held in names.items():
        yield f"- {name}: for {'; '.join(held)}."


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
    load = facts["load_before"][0]
    return (
        f"{facts['cpus']} CPUs ({facts['cpu']}), {facts['system']}, Python {facts['python']},"
        f" SQLite {facts['sqlite']}, a 4 KiB fdatasync takes {facts['sync_ms']} ms,"
        f" load before the run {load}, commit {facts['commit']}."
    )
