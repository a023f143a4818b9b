"""`perdure migrate`: move a whole storage to another place."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.api.settings import Settings, place
from perdure.cli import show
from perdure.cli.lazy import loaded
from perdure.cli.progress import progress
from perdure.kernel.canonical import canonical


@click.command()
@click.option("--from", "source", required=True, help="Directory or URI of the storage.")
@click.option("--to", "destination", required=True, help="Directory or URI of an empty place.")
@click.option("--from-table", help="DynamoDB table of the source, if it is in the cloud.")
@click.option("--to-table", help="DynamoDB table of the destination, if it is in the cloud.")
@click.option("--id", "migration", required=True, help="Id: the same call again goes on.")
@click.option("--abandon", is_flag=True, help="Give up, and let the source go on.")
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as canonical JSON.")
def migrate(
    source: str,
    destination: str,
    migration: str,
    *,
    from_table: str | None,
    to_table: str | None,
    abandon: bool,
    as_json: bool,
) -> None:
    """Move every world of a storage, its history and its tables, and every document store.

    The source must be at rest: no open command, no writer, nobody at a job, everything landed. It
    stays readable, and takes nothing more. Killed on the way, the same call goes on where it was.
    """
    ends = place(source, table=from_table), place(destination, table=to_table)
    if abandon:
        _given_up(ends, migration, as_json=as_json)
        return
    with progress(hidden=as_json) as bar:
        task = bar.add_task("migrating", total=None)

        def tell(stage: str, done: int, total: int | None) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        # By name: whoever asks for help imports no Arrow.
        moving = loaded("perdure.api.wiring_lake_migrate:migrated")(*ends, migration, tell)
        receipt: dict[str, Any] = asyncio.run(moving)
    if as_json:
        click.echo(canonical(receipt))
    else:
        show.facts(_summed(receipt))


def _given_up(ends: tuple[Settings, Settings], migration: str, *, as_json: bool) -> None:
    asyncio.run(loaded("perdure.api.wiring_lake_migrate:given_up")(*ends, migration))
    if as_json:
        show.as_json({"migration": migration, "abandoned": True})
    else:
        click.echo(f"migration {migration} is given up; the source goes on")


def _summed(receipt: dict[str, Any]) -> dict[str, Any]:
    records = sum(each["records"] for each in receipt["records"].values())
    rows = sum(each["rows"] for each in receipt["tables"].values())
    return {
        "migration": receipt["migration"],
        "to": receipt["to"]["uri"],
        "worlds": len(receipt["worlds"]),
        "stores": len(receipt.get("stores", {})),
        "records": records,
        "objects": receipt["objects"]["count"],
        "tables": len(receipt["tables"]),
        "rows": rows,
        "plan_digest": receipt["plan_digest"],
        "seconds": (receipt["completed_at"] - receipt["started_at"]) / 1_000,
    }
