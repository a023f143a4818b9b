"""`perdure verify`."""

from __future__ import annotations

import sys
from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Place, path_of, placed
from perdure.cli.progress import progress

FOUND = 1
"""Exit code when something is found."""

COLUMNS = ("kind", "where", "expected", "found")


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--from-tick", type=click.IntRange(0), help="First tick to verify.")
@click.option("--to-tick", type=click.IntRange(0), help="Last tick to verify.")
@placed
def verify(
    world_id: str, place: Place, *, from_tick: int | None, to_tick: int | None, as_json: bool
) -> None:
    """Read the whole record of WORLD again, do its ticks again, and name what differs.

    Ends with 1 if anything is found.
    """
    path, findings, checked = path_of(world_id), list[dict[str, Any]](), 0
    with place.client() as client, progress(hidden=as_json) as bar:
        published = client.ask("GET", path)["published_tick"]
        last = to_tick if to_tick is not None else published
        wanted = 0 if last is None else max(0, last - (from_tick or 0) + 1)
        task = bar.add_task("verifying ticks", total=wanted)
        at = from_tick
        while True:
            asked = {"from_tick": at, "to_tick": to_tick}
            body = {name: tick for name, tick in asked.items() if tick is not None}
            verified = client.ask("POST", f"{path}/verify", body=body)
            findings += verified["findings"]
            checked += verified["checked_ticks"]
            bar.advance(task, verified["checked_ticks"])
            at = verified["next_tick"]
            if at is None:
                break
    if as_json:
        show.as_json({"checked_ticks": checked, "findings": findings})
    else:
        show.facts({"checked_ticks": checked, "findings": len(findings)})
        if findings:
            show.table(findings, COLUMNS, empty="")
    if findings:
        sys.exit(FOUND)
