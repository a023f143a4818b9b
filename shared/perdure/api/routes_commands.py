"""Routes of commands: submit a batch, tell what became of a command, cancel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models
from perdure.api.decoding import IDEMPOTENCY_KEY, cursor, header, keyed, resumed
from perdure.api.gateway import Request
from perdure.api.invocation import current
from perdure.api.measures import tell
from perdure.api.ports import Api
from perdure.api.routing import Route, route
from perdure.kernel.errors import InvalidValue


@route(
    "POST",
    "/v1/worlds/<world>/commands",
    operation="submit_commands",
    reply=models.Submitted,
    status=202,
    key="optional",
)
async def submit_commands(
    api: Api, world: str, body: models.SubmitCommands, request: Request
) -> dict[str, Any]:
    """Accept a batch of commands: all of it or nothing, at most once by its id."""
    for operation in {command.operation for command in body.commands}:
        request.principal.check(operation)
    given = keyed(request.headers, body.batch_id, field="batch_id")
    # Drawn here, so that it can be told also by an answer that comes before the store's.
    batch_id = current().batch_id = api.worlds.drawn_batch_id() if given is None else given
    submitted = await api.worlds.submit(world, body.commands, batch_id=batch_id, by=request.by)
    if not submitted.replayed:
        tell("commands_admitted", len(submitted.receipts))
    return {
        "batch_id": submitted.batch_id,
        "replayed": submitted.replayed,
        "receipts": [
            {
                "command_id": receipt.command_id,
                "sequence": receipt.sequence,
                "entity_id": receipt.entity_id,
                "tick": receipt.tick,
                "priority": receipt.priority,
                "status": status,
            }
            for receipt, status in zip(submitted.receipts, submitted.statuses, strict=True)
        ],
    }


@route("GET", "/v1/worlds/<world>/commands", operation="list_commands", reply=models.Commands)
async def list_commands(api: Api, world: str, query: models.Paging) -> dict[str, Any]:
    """List the commands of a world with their status, in the order of admission."""
    scope = f"commands {world}"
    after = resumed(query.next, scope=scope)
    found, more = await api.worlds.commands(world, after, query.limit)
    page: dict[str, Any] = {"commands": [asdict(status) for status in found]}
    return page if more is None else {**page, "next": cursor(scope, more)}


@route(
    "GET", "/v1/worlds/<world>/commands/<command>", operation="get_command", reply=models.Command
)
async def describe_command(api: Api, world: str, command: str) -> dict[str, Any]:
    """Tell what became of a command."""
    return asdict(await api.worlds.command(world, command))


@route(
    "DELETE",
    "/v1/worlds/<world>/commands/<command>",
    operation="cancel_command",
    reply=models.Command,
)
async def cancel_command(api: Api, world: str, command: str, request: Request) -> dict[str, Any]:
    """Cancel a command that is still open."""
    return asdict(await api.worlds.cancel(world, command, by=request.by))


@route(
    "DELETE",
    "/v1/worlds/<world>/commands",
    operation="cancel_all_commands",
    reply=models.CancelledAll,
    key="required",
)
async def cancel_commands(api: Api, world: str, request: Request) -> dict[str, Any]:
    """Cancel every command that is open now. Needs an Idempotency-Key."""
    key = header(request.headers, IDEMPOTENCY_KEY)
    if key is None:
        raise InvalidValue(
            expected="a header Idempotency-Key, so that a repeat cancels nothing new",
            found="none",
        )
    cancelled = await api.worlds.cancel_all(world, key, by=request.by)
    return {"cancelled_below": cancelled.cancelled_below}


ROUTES: Final[tuple[Route[Any], ...]] = (
    submit_commands,
    list_commands,
    describe_command,
    cancel_command,
    cancel_commands,
)
