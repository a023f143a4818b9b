"""`perdure world destroy` and `perdure world resume`."""

from __future__ import annotations

import click

from perdure.cli.client import Place, path_of, placed
from perdure.cli.told import told


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--yes", is_flag=True, help="Say that you mean it: it is for ever.")
@placed
def destroy(world_id: str, place: Place, *, yes: bool, as_json: bool) -> None:
    """End WORLD for ever; its history stays readable.

    What fails leaves it closing, and the same command goes on.
    """
    if not yes:
        raise click.UsageError("a world is destroyed for ever: say --yes")
    with place.client() as client:
        told(client.ask("DELETE", path_of(world_id)), as_json=as_json)


@click.command()
@click.argument("world_id", metavar="WORLD")
@placed
def resume(world_id: str, place: Place, *, as_json: bool) -> None:
    """Check that WORLD can go on, and make every writer before stale."""
    with place.client() as client:
        told(client.ask("POST", path_of(world_id, "resume")), as_json=as_json)
