"""`perdure processors …`, `perdure hooks …` and `perdure resources …`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from perdure.cli import show
from perdure.cli.client import Place, path_of, placed


def _group(kind: str, columns: Sequence[str], summary: str) -> click.Group:
    """Make the commands of one kind of thing that a world uses."""
    plural = f"{kind}s"
    group = click.Group(plural, help=summary)

    def asked(
        method: str, place: Place, *names: str, as_json: bool, body: dict[str, Any] | None = None
    ) -> None:
        world_id, *rest = names
        with place.client() as client:
            reply = client.ask(method, path_of(world_id, plural, *rest), body=body)
        if as_json:
            show.as_json(reply)
        else:
            show.table(reply[plural], columns, empty=f"no {plural}")

    @click.argument("world_id", metavar="WORLD")
    @placed
    def listed(world_id: str, place: Place, *, as_json: bool) -> None:
        asked("GET", place, world_id, as_json=as_json)

    @click.argument("world_id", metavar="WORLD")
    @click.argument("name")
    @placed
    def add(
        world_id: str, name: str, place: Place, *, as_json: bool, priority: int | None = None
    ) -> None:
        body = {} if priority is None else {"priority": priority}
        sent = body if kind == "processor" else None
        asked("PUT", place, world_id, name, as_json=as_json, body=sent)

    @click.argument("world_id", metavar="WORLD")
    @click.argument("name")
    @placed
    def remove(world_id: str, name: str, place: Place, *, as_json: bool) -> None:
        asked("DELETE", place, world_id, name, as_json=as_json)

    if kind == "processor":
        add = click.option("--priority", type=int, help="Smaller ones run first.")(add)
    group.command("list", help=f"List the {plural} that WORLD uses.")(listed)
    group.command("add", help=f"Let WORLD use the {kind} NAME from the next tick on.")(add)
    group.command("remove", help=f"Let WORLD use the {kind} NAME no longer.")(remove)
    return group


processors = _group(
    "processor",
    ("name", "priority", "components", "registered"),
    "List, add or remove the processors of a world.",
)
hooks = _group(
    "hook", ("name", "moment", "registered"), "List, add or remove the hooks of a world."
)
resources = _group(
    "resource", ("name", "registered"), "List, add or remove the resources of a world."
)
