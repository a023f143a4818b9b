"""`perdure tick` and `perdure land`."""

from __future__ import annotations

import uuid
from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Place, path_of, placed
from perdure.cli.progress import progress

COUNTED = ("ticks", "applied", "rejected")
TRIMMED = ("segments", "checkpoints", "orphans", "bytes", "undecided", "archived")


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--ticks", type=click.IntRange(1), help="How many; 1 if nothing is said.")
@click.option("--to-tick", type=click.IntRange(0), help="Until this one is published.")
@placed
def tick(
    world_id: str, place: Place, *, ticks: int | None, to_tick: int | None, as_json: bool
) -> None:
    """Let WORLD advance."""
    if ticks is not None and to_tick is not None:
        raise click.UsageError("--ticks or --to-tick, not both")
    body = {"ticks": ticks or 1} if to_tick is None else {"to_tick": to_tick}
    path = path_of(world_id)
    # The same key on every call: together they run as many ticks as were asked for.
    key = uuid.uuid4().hex
    total: dict[str, Any] = dict.fromkeys(COUNTED, 0)
    failures: list[dict[str, str]] = []
    with place.client() as client, progress(hidden=as_json) as bar:
        next_tick = client.ask("GET", path)["next_tick"]
        wanted = (ticks or 1) if to_tick is None else max(0, to_tick + 1 - next_tick)
        task = bar.add_task("ticking", total=wanted)
        while True:
            ran = client.ask("POST", f"{path}/tick", body=body, key=key)
            total = {name: total[name] + ran[name] for name in COUNTED}
            failures += [each for each in ran["hook_failures"] if each not in failures]
            bar.advance(task, ran["ticks"])
            if ran["done"]:
                break
    told = {"published_tick": ran["published_tick"], **total}
    if as_json:
        show.as_json({**told, "hook_failures": failures})
        return
    show.facts(told)
    for each in failures:
        click.echo("hook {hook} failed, which changed nothing: {code}: {detail}".format(**each))


@click.command()
@click.option("--trim", is_flag=True, help="Then let go of what landed, was read by all, is old.")
@click.option("--grace", default="1d", help="Age from which --trim lets go; at least 15m.")
@click.option("--dry-run", is_flag=True, help="Land nothing, and only tell what --trim would do.")
@placed
def land(place: Place, *, trim: bool, grace: str, dry_run: bool, as_json: bool) -> None:
    """Copy what is published, and what happened, into the Iceberg tables."""
    if dry_run and not trim:
        raise click.UsageError("--dry-run is for --trim")
    total: dict[str, Any] = {"rows": 0, "files": 0, "events": 0, "entries": 0}
    with place.client() as client, progress(hidden=as_json) as bar:
        task = bar.add_task("landing rows", total=None)
        while not dry_run:
            landed = client.ask("POST", "/v1/land", body={})
            if not any(landed.values()):
                break
            total = {name: total[name] + landed[name] for name in total}
            bar.advance(task, landed["rows"])
        if trim:
            task = bar.add_task("trimming worlds", total=None)
            total |= dict.fromkeys(TRIMMED, 0)
            body: dict[str, Any] = {"grace": grace, "dry_run": dry_run}
            while True:
                trimmed = client.ask("POST", "/v1/trim", body=body)
                total |= {name: total[name] + trimmed[name] for name in TRIMMED}
                bar.advance(task, trimmed["worlds"])
                if trimmed["next"] is None:
                    break
                body["after"] = trimmed["next"]
    if as_json:
        show.as_json(total)
    else:
        show.facts(total)
