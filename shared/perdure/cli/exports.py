"""`perdure stores export|import|discard|replicate|promote`: document stores elsewhere, by whoever has them in hand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

import click

from perdure.api.settings import place
from perdure.cli import show
from perdure.cli.lazy import loaded
from perdure.cli.progress import progress

F = TypeVar("F", bound=Callable[..., Any])

WIRING: Final = "perdure.api.wiring_exports"
"""Imported by name: whoever asks for help imports no store."""


class Progressed(Protocol):
    """How far an export or an import has come."""

    @property
    def phase(self) -> str: ...
    @property
    def parts(self) -> int: ...


def stored(command: F) -> F:
    """Give a command the options that name a storage in hand."""
    for option in reversed(
        (
            click.option("--root", required=True, help="Directory or URI of the storage."),
            click.option("--table", help="Its DynamoDB table, if it is in the cloud."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        )
    ):
        command = option(command)
    return command


@click.command(name="export")
@click.argument("store_id", metavar="STORE")
@click.argument("target")
@stored
def export_store(
    store_id: str, target: str, root: str, table: str | None, *, as_json: bool
) -> None:
    """Write all of STORE, as it is after one commit, to TARGET: a new file, or s3://bucket/name.

    Those who write to it are not held up.
    """
    chosen = place(root, table=table)
    with reported("exporting", hidden=as_json) as report:
        done = ran("exported", chosen, store_id, target, report)
    told(done, as_json=as_json)


@click.command(name="import")
@click.argument("store_id", metavar="STORE")
@click.argument("source")
@click.option("--follows", is_flag=True, help="Make it a replica, to go on with its source's log.")
@stored
def import_store(  # the options, by their names
    store_id: str, source: str, root: str, table: str | None, *, follows: bool, as_json: bool
) -> None:
    """Make STORE of the export at SOURCE: a file, or s3://bucket/name.

    All of the export is checked before anything is written. Killed on the way, the same again
    goes on where it was.
    """
    chosen = place(root, table=table)
    with reported("importing", hidden=as_json) as report:
        done = ran("imported", chosen, store_id, source, report, follows=follows)
    told(done, as_json=as_json)


@click.command()
@click.argument("store_id", metavar="STORE")
@stored
def discard(store_id: str, root: str, table: str | None, *, as_json: bool) -> None:
    """Give up an import into STORE that has not ended: an empty store is left."""
    told(ran("discarded", place(root, table=table), store_id), as_json=as_json)


@click.command()
@click.argument("store_id", metavar="STORE")
@click.option(
    "--to", "destination", required=True, help="Directory or URI of the replica's storage."
)
@click.option("--to-table", help="Its DynamoDB table, if it is in the cloud.")
@click.option("--as", "replica_id", help="Id of the replica; that of STORE if not given.")
@click.option("--once", is_flag=True, help="End when the replica has all.")
@stored
def replicate(
    store_id: str,
    root: str,
    table: str | None,
    *,
    destination: str,
    to_table: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Keep a replica of STORE at it, and say how far it is behind, until it is interrupted.

    The replica is begun if it is not there. One that was imported with --follows is gone on with.
    """
    ends = place(root, table=table), place(destination, table=to_table)
    names = store_id, said["replica_id"] or store_id
    seen: list[Any] = []

    def saw(lag: Any) -> None:
        if not seen or seen[-1] != lag:
            seen[:] = [lag]
            shown(lag, as_json=as_json)

    ran("replicated", *ends, names, saw, is_once=said["once"])


@click.command()
@click.argument("store_id", metavar="STORE")
@stored
def promote(store_id: str, root: str, table: str | None, *, as_json: bool) -> None:
    """Let STORE, a replica, be a store of its own. Stop its source first."""
    seq = ran("promoted", place(root, table=table), store_id)
    told({"store_id": store_id, "seq": seq}, as_json=as_json)


COMMANDS: Final = (export_store, import_store, discard, replicate, promote)


def ran(name: str, *arguments: Any, **options: Any) -> Any:
    """Run one of the wiring's coroutines to its end."""
    work: Coroutine[Any, Any, Any] = loaded(f"{WIRING}:{name}")(*arguments, **options)
    return asyncio.run(work)


@contextmanager
def reported(what: str, *, hidden: bool) -> Iterator[Callable[[Progressed], None]]:
    """Yield what an export tells its progress to."""
    with progress(hidden=hidden) as bar:
        task = bar.add_task(what, total=None)

        def report(far: Progressed) -> None:
            bar.update(task, description=far.phase, completed=far.parts)

        yield report


def shown(lag: Any, *, as_json: bool) -> None:
    """Print how far a replica is behind, one line a look."""
    facts = {"seq": lag.seq, "source_seq": lag.source_seq, "commits": lag.commits, "ms": lag.ms}
    if lag.waits_for is not None:
        facts["waits_for"] = lag.waits_for
    if as_json:
        show.as_json(facts)
        return
    seconds = math.ceil(lag.ms / 1_000)
    waits = "" if lag.waits_for is None else f"; {lag.waits_for}"
    click.echo(f"commit {lag.seq} of {lag.source_seq}, {seconds} s behind{waits}")


def told(done: dict[str, Any], *, as_json: bool) -> None:
    """Print what was done."""
    if as_json:
        show.as_json(done)
    else:
        show.facts(done)
