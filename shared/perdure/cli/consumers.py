"""`perdure consumers …` and `perdure history`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Client, Place, path_of, placed
from perdure.kernel.limits import INTEGER_MAX

COLUMNS = ("name", "seq", "lag", "required")
EVENT_COLUMNS = ("seq", "at", "kind", "tick", "operation", "entity_id", "command_id", "code")


@click.group()
def consumers() -> None:
    """See who reads a world's log, how far, and for whom the world waits."""


@consumers.command(name="list")
@click.argument("world_id", metavar="WORLD")
@placed
def list_consumers(world_id: str, place: Place, *, as_json: bool) -> None:
    """List the readers of the log of WORLD."""
    with place.client() as client:
        found = client.ask("GET", path_of(world_id, "consumers"))
    if as_json:
        show.as_json(found)
    else:
        show.table(found["consumers"], COLUMNS, empty="nobody reads the log yet")


@consumers.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("name")
@click.option("--required/--optional", help="Whether WORLD waits for it with its next tick.")
@placed
def add(world_id: str, name: str, place: Place, *, required: bool, as_json: bool) -> None:
    """Register NAME as a reader of the log of WORLD, or say anew whether it is required."""
    with place.client() as client:
        told = client.ask("PUT", path_of(world_id, "consumers", name), body={"required": required})
    _told(told, as_json=as_json)


@consumers.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("name")
@placed
def remove(world_id: str, name: str, place: Place, *, as_json: bool) -> None:
    """Forget that NAME reads the log of WORLD, and how far it was."""
    with place.client() as client:
        told = client.ask("DELETE", path_of(world_id, "consumers", name))
    _told(told, as_json=as_json)


@consumers.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("name")
@click.argument("seq", type=click.IntRange(0, INTEGER_MAX))
@placed
def acknowledge(world_id: str, name: str, seq: int, place: Place, *, as_json: bool) -> None:
    """Say that NAME has read the log of WORLD up to entry SEQ."""
    with place.client() as client:
        told = client.ask("POST", path_of(world_id, "consumers", name), body={"seq": seq})
    _told(told, as_json=as_json)


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--kind", help="Kinds separated by commas: queued, applied, rejected, …")
@click.option("--command-id", help="Of this command only.")
@click.option("--actor", help="By this actor only.")
@click.option("--entity-id", type=click.IntRange(0, INTEGER_MAX), help="About this entity only.")
@click.option("--from-tick", type=click.IntRange(0))
@click.option("--to-tick", type=click.IntRange(0), help="This one included.")
@click.option("--from-seq", type=click.IntRange(0), help="From this entry of the log on.")
@click.option("--to-seq", type=click.IntRange(0), help="This one included.")
@click.option("--from-at", type=click.DateTime(), help="In UTC.")
@click.option("--to-at", type=click.DateTime(), help="In UTC.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True)
@placed
def history(world_id: str, place: Place, *, as_json: bool, limit: int, **wanted: Any) -> None:
    """Read what happened in WORLD, in the order of its log, as far as it has landed."""
    for name in ("from_at", "to_at"):
        if wanted[name] is not None:
            wanted[name] = round(wanted[name].replace(tzinfo=UTC).timestamp() * 1_000)
    with place.client() as client:
        page = _events(client, world_id, wanted, limit)
    if as_json:
        show.as_json(page)
        return
    events = [{**each, "at": _time(each["at"])} for each in page["events"]]
    show.table(events, EVENT_COLUMNS, empty="no such events")
    if page["through_seq"] < page["head_seq"]:
        behind = f"{page['through_seq']} of {page['head_seq']}"
        click.echo(f"As far as it has landed: entry {behind} of the log.", err=True)


def _events(client: Client, world_id: str, wanted: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return up to ``limit`` events, of as many pages as they fill."""
    path = path_of(world_id, "history")
    found: list[dict[str, Any]] = []
    following = None
    while True:
        size = min(1_000, limit - len(found))
        page: dict[str, Any] = client.ask(
            "GET", path, query={**wanted, "limit": size, "next": following}
        )
        found += page["events"]
        following = page.get("next")
        if following is None or len(found) >= limit:
            return {**page, "events": found}


def _told(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show.as_json(told)
    else:
        show.facts(told)


def _time(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(sep=" ", timespec="seconds")
