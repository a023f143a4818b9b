"""What people see: tables, or JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table


def as_json(value: Any) -> None:
    """Print one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, empty: str) -> None:
    """Print ``columns`` of ``rows``, or ``empty`` if there are none."""
    held = list(rows)
    if not held:
        click.echo(empty)
        return
    shown = Table(*columns, box=None, pad_edge=False)
    for row in held:
        shown.add_row(*(_cell(row.get(column)) for column in columns))
    console().print(shown)


def facts(value: Mapping[str, Any]) -> None:
    """Print names and values, one a line."""
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="dim")
    shown.add_column(overflow="fold")
    for name, each in value.items():
        shown.add_row(name, _cell(each))
    console().print(shown)


def console() -> Console:
    """Return standard output; a table that goes to a file is never cut."""
    found = Console(highlight=False, emoji=False, markup=False)
    return found if found.is_terminal else Console(width=200, highlight=False, markup=False)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
