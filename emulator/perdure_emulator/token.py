"""`perdure token`: a token of the local issuer, for whoever may read its key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from perdure.api.operations import ROLES
from perdure.api.settings import local
from perdure.api.wiring import catalog_path, existing
from perdure.cli import show
from perdure.cli.durations import DURATION
from perdure.kernel.ids import checked_id
from perdure_emulator.issuer import issuer

HOUR_MS: Final = 3_600_000


@click.command()
@click.option("--role", required=True, type=click.Choice(ROLES), help="What its bearer may do.")
@click.option("--actor", help="Who its bearer is; named as the role if not given.")
@click.option("--ttl", type=DURATION, default=HOUR_MS, help="How long it is good: 15m, 1h, 1d.")
@click.option(
    "--root",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of a storage on this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def token(role: str, actor: str | None, ttl: int, root: Path, *, as_json: bool) -> None:
    """Print a token that `perdure dev` over ROOT accepts."""
    if ttl == 0:
        raise click.BadParameter("a token must be good for some time", param_hint="--ttl")
    chosen = existing(local(root))
    named = role if actor is None else checked_id(actor, what="an actor")
    made = issuer(catalog_path(chosen).parent).token(
        actor=named,
        role=role,
        tenant=chosen.namespace,
        now_seconds=int(time.time()),
        seconds=-(-ttl // 1_000),
    )
    if as_json:
        show.as_json({"token": made, "actor": named, "role": role, "seconds": -(-ttl // 1_000)})
    else:
        click.echo(made)
