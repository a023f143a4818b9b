"""`perdure world fork`."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.client import Place, path_of, placed
from perdure.cli.durations import DURATION
from perdure.cli.info import told


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("name")
@click.option("--world-id", "fork_id", help="Id of the fork; drawn if not given.")
@click.option("--drop-pending", is_flag=True, help="Leave what is open to WORLD alone.")
@click.option("--at-tick", type=click.IntRange(0), help="Refuse if another tick is published.")
@click.option("--every", type=DURATION, help="Let the fork tick by itself: 1m, 2h, 1d.")
@placed
def fork(
    world_id: str,
    name: str,
    place: Place,
    *,
    fork_id: str | None,
    drop_pending: bool,
    at_tick: int | None,
    every: int | None,
    as_json: bool,
) -> None:
    """Fork WORLD at its published tick, under NAME."""
    given = {"world_id": fork_id, "at_tick": at_tick, "every_ms": every}
    body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    body |= {"name": name, "pending": "drop" if drop_pending else "copy"}
    with place.client() as client:
        told(client.ask("POST", path_of(world_id, "fork"), body=body), as_json=as_json)
