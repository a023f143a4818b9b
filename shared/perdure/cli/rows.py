"""`perdure query`."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Client, Place, Query, path_of, placed


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.option("--components", required=True, help="Names separated by commas.")
@click.option(
    "--tick", type=click.IntRange(0), help="State at this tick; the last one if not given."
)
@click.option("--from-tick", type=click.IntRange(0), help="Rows written from this tick on.")
@click.option(
    "--to-tick", type=click.IntRange(0), help="Rows written up to this tick, it included."
)
@click.option("--entity", "entities", type=int, multiple=True, help="Only this one; repeatable.")
@click.option("--where", help='A condition on columns, such as "position__x > 10".')
@click.option("--limit", type=click.IntRange(1), help="At most so many rows.")
@placed
def query(  # noqa: PLR0913  # the options of the command
    world_id: str,
    place: Place,
    *,
    components: str,
    tick: int | None,
    from_tick: int | None,
    to_tick: int | None,
    entities: tuple[int, ...],
    where: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Read the rows of WORLD: its state at a tick, or what was written from tick to tick."""
    asked: Query = {
        "components": components,
        "tick": tick,
        "from_tick": from_tick,
        "to_tick": to_tick,
        "entity_id": ",".join(map(str, entities)) or None,
        "where": where,
    }
    with place.client() as client:
        page = _read(client, path_of(world_id, "entities"), asked, limit)
    if as_json:
        show.as_json(page)
        return
    columns = list(page["rows"][0]) if page["rows"] else []
    show.table(page["rows"], columns, empty="no rows")
    click.echo(f"{len(page['rows'])} rows at tick {page['tick']}")


def _read(client: Client, path: str, asked: Query, limit: int | None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    following = None
    while True:
        left = client.rows_per_page if limit is None else limit - len(rows)
        size = min(client.rows_per_page, left)
        page = client.ask("GET", path, query={**asked, "limit": size, "next": following})
        rows += page["rows"]
        following = page.get("next")
        if following is None or len(rows) == limit:
            return {"tick": page["tick"], "rows": rows}
