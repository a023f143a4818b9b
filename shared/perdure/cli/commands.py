"""`perdure submit` and `perdure command …`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

import click

from perdure.api.decoding import strict_json
from perdure.cli import show
from perdure.cli.client import Answered, Place, path_of, placed
from perdure.cli.progress import progress
from perdure.kernel import limits
from perdure.kernel.batch import split
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import InvalidBatch
from perdure.kernel.operations import parsed_commands

BATCH_BYTES: Final = limits.BATCH_BYTES_MAX - limits.COMMAND_BYTES_MAX
"""Bytes of commands of one batch: room is left for what the server adds to them."""

SHOWN_MAX: Final = 20


@click.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option("--batch-id", help="Begin of the batch ids: the same call again does nothing twice.")
@placed
def submit(
    world_id: str, file: IO[bytes], place: Place, *, batch_id: str | None, as_json: bool
) -> None:
    """Submit the commands in FILE (- is standard input): JSON lines, or one JSON array.

    They go as batches within the limits, each all or nothing, in order.
    """
    raw = read_commands(file.read())
    batches = list(cut(raw))
    prefix = uuid.uuid4().hex if batch_id is None else batch_id
    receipts: list[dict[str, Any]] = []
    path = path_of(world_id, "commands")
    with place.client() as client, progress(hidden=as_json) as bar:
        task = bar.add_task("submitting", total=len(raw))
        for number, batch in enumerate(batches):
            try:
                reply = client.ask(
                    "POST", path, body={"commands": batch}, key=f"{prefix}-{number:06d}"
                )
            except Answered as error:
                error.add_note(
                    f"{number} of {len(batches)} batches are accepted;"
                    f" to go on: --batch-id {prefix}"
                )
                raise
            receipts += reply["receipts"]
            bar.advance(task, len(batch))
    if as_json:
        show.as_json({"batch_id": prefix, "batches": len(batches), "receipts": receipts})
        return
    columns = ("command_id", "sequence", "entity_id", "tick", "priority", "status")
    show.table(receipts[:SHOWN_MAX], columns, empty="none")
    click.echo(f"{len(receipts)} commands in {len(batches)} batches, --batch-id {prefix}")


@click.group()
def command() -> None:
    """Show or cancel a command."""


@command.command(name="show")
@click.argument("world_id", metavar="WORLD")
@click.argument("command_id", metavar="COMMAND")
@placed
def show_command(world_id: str, command_id: str, place: Place, *, as_json: bool) -> None:
    """Tell what became of COMMAND of WORLD."""
    _asked("GET", world_id, command_id, place, as_json=as_json)


@command.command()
@click.argument("world_id", metavar="WORLD")
@click.argument("command_id", metavar="COMMAND")
@placed
def cancel(world_id: str, command_id: str, place: Place, *, as_json: bool) -> None:
    """Cancel COMMAND of WORLD if it is still open."""
    _asked("DELETE", world_id, command_id, place, as_json=as_json)


def read_commands(text: bytes) -> list[Any]:
    """Read a JSON array, or JSON lines. Raises Invalid kinds before anything is sent."""
    if text.lstrip().startswith(b"["):
        raw = strict_json(text)
    else:
        raw = [strict_json(line) for line in text.splitlines() if line.strip()]
    if not raw:
        raise InvalidBatch(expected="at least one command", found="none")
    parsed_commands(raw)
    return list(raw)


def cut(raw: Sequence[Any]) -> Iterator[list[Any]]:
    """Cut commands, in order, into batches within the limits."""
    for part in _by_bytes(raw):
        first = 0
        for batch in split(parsed_commands(part)):
            yield part[first : first + len(batch)]
            first += len(batch)


def _by_bytes(raw: Sequence[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for each in raw:
        length = len(canonical(each)) + 1
        if part and size + length > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += length
    if part:
        yield part


def _asked(method: str, world_id: str, command_id: str, place: Place, *, as_json: bool) -> None:
    path = path_of(world_id, "commands", command_id)
    with place.client() as client:
        status = client.ask(method, path)
    if as_json:
        show.as_json(status)
    else:
        show.facts(status)
