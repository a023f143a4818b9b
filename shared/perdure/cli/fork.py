"""`perdure world fork`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perdure.cli.client import Place, path_of, placed
from perdure.cli.durations import DURATION
from perdure.cli.lazy import loaded
from perdure.cli.pace import missed_option
from perdure.cli.told import told


@click.command()
@click.argument("source", metavar="WORLD")
@click.argument("name")
@click.option("--world-id", help="Id of the fork; drawn if not given.")
@click.option("--drop-pending", is_flag=True, help="Leave what is open to WORLD alone.")
@click.option("--at-tick", type=click.IntRange(0), help="Refuse if another tick is published.")
@click.option("--every", "every_ms", type=DURATION, help="Let the fork tick by itself: 5s, 1m, 2h.")
@missed_option
@click.option(
    "--to-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Fork to the storage in another directory: a copy of the rows at that tick.",
)
@placed
def fork(
    source: str,
    place: Place,
    *,
    drop_pending: bool,
    to_root: Path | None,
    as_json: bool,
    **wish: str | int | None,
) -> None:
    """Fork WORLD at its published tick, under NAME."""
    body: dict[str, Any] = {key: value for key, value in wish.items() if value is not None}
    body["pending"] = "drop" if drop_pending else "copy"
    if to_root is not None:
        if place.root is None or place.url is not None:
            raise click.UsageError("--to-root needs --root")
        # By name: Arrow takes as long to import as everything else together.
        elsewhere = loaded("perdure.cli.fork_elsewhere:forked")
        told(elsewhere(place.root, to_root, place.app, source, body), as_json=as_json)
        return
    with place.client() as client:
        told(client.ask("POST", path_of(source, "fork"), body=body), as_json=as_json)
