"""`perdure world fork`."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.client import Place, path_of, placed
from perdure.cli.durations import DURATION
from perdure.cli.told import told


@click.command()
@click.argument("source", metavar="WORLD")
@click.argument("name")
@click.option("--world-id", help="Id of the fork; drawn if not given.")
@click.option("--drop-pending", is_flag=True, help="Leave what is open to WORLD alone.")
@click.option("--at-tick", type=click.IntRange(0), help="Refuse if another tick is published.")
@click.option("--every", "every_ms", type=DURATION, help="Let the fork tick by itself: 1m, 2h, 1d.")
@placed
def fork(
    source: str, place: Place, *, drop_pending: bool, as_json: bool, **wish: str | int | None
) -> None:
    """Fork WORLD at its published tick, under NAME."""
    body: dict[str, Any] = {key: value for key, value in wish.items() if value is not None}
    body["pending"] = "drop" if drop_pending else "copy"
    with place.client() as client:
        told(client.ask("POST", path_of(source, "fork"), body=body), as_json=as_json)
