"""`perdure worlds`, `perdure world …` and `perdure log`."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Client, Place, path_of, placed
from perdure.cli.durations import DURATION
from perdure.cli.fork import fork
from perdure.cli.lifecycle import destroy, resume
from perdure.cli.pace import missed_option
from perdure.cli.told import moment, told

COLUMNS = ("world_id", "name", "status", "published_tick", "entities", "pending_commands")


@click.command()
@click.option("--live", "chosen", flag_value="live", help="Only those that go on.")
@click.option("--all", "chosen", flag_value="all", help="Closing and private ones too.")
@placed
def worlds(place: Place, *, chosen: str | None, as_json: bool) -> None:
    """List the worlds of a storage, destroyed ones too."""
    with place.client() as client:
        found = _all_worlds(client, chosen)
    if as_json:
        show.as_json({"worlds": found})
    else:
        show.table(found, COLUMNS, empty="no worlds")


@click.group()
def world() -> None:
    """Create a world, show one, fork it, resume it, or destroy it."""


@world.command()
@click.argument("name")
@click.option("--world-id", help="Id of the world; drawn if not given.")
@click.option("--kind", default="", help="What kind of world it is, for whoever lists them.")
@click.option("--every", type=DURATION, help="Tick by itself: 5s, 1m, 2h, 1d.")
@missed_option
@placed
def create(
    name: str,
    place: Place,
    *,
    world_id: str | None,
    kind: str,
    every: int | None,
    missed: str | None,
    as_json: bool,
) -> None:
    """Create a world named NAME."""
    body: dict[str, Any] = {"name": name, "kind": kind}
    if world_id is not None:
        body["world_id"] = world_id
    if every is not None:
        body["every_ms"] = every
    if missed is not None:
        body["missed"] = missed
    with place.client(make=True) as client:
        created = client.ask("POST", "/v1/worlds", body=body)
    told(created, as_json=as_json)


@world.command(name="show")
@click.argument("world_id", metavar="WORLD")
@placed
def show_world(world_id: str, place: Place, *, as_json: bool) -> None:
    """Tell what is known of WORLD."""
    with place.client() as client:
        told(client.ask("GET", path_of(world_id)), as_json=as_json)


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin behind this entry.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--wait", type=click.FloatRange(0, 20), default=0, help="Seconds to wait for one.")
@placed
def log(world_id: str, place: Place, *, after: int, limit: int, wait: float, as_json: bool) -> None:
    """Read the log of WORLD."""
    with place.client() as client:
        page = client.ask(
            "GET",
            path_of(world_id, "log"),
            query={"after": after, "limit": limit, "wait": str(wait) if wait else None},
        )
    if as_json:
        show.as_json(page)
        return
    entries = [{**each, "at": moment(each["at"])} for each in page["entries"]]
    show.table(entries, ("seq", "at", "kind", "facts"), empty="nothing behind that")


def _all_worlds(client: Client, chosen: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    following = None
    while True:
        page = client.ask(
            "GET", "/v1/worlds", query={"limit": 1_000, "next": following, "show": chosen}
        )
        found += page["worlds"]
        following = page.get("next")
        if following is None:
            return found


world.add_command(destroy)
world.add_command(resume)
world.add_command(fork)
