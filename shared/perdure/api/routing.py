"""Routing: which coroutine answers a request, and what it is given.

Powertools finds the route. The answer is made outside its resolver, which keeps the event in
a class attribute and so has one request in hand, while many callers of one world must be in
hand together to share a commit. Its validation is not used either: ten times slower than
pydantic alone on a batch, 0.2 s to import, blind to NaN and double keys.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from perdure.api.decoding import strict_json, typed
from perdure.api.gateway import Answer, LambdaContext, Request, spelled_path
from perdure.api.models import Body, Query
from perdure.api.operations import LEAST_ROLE
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import NotFound
from perdure.kernel.ids import checked_id

P = TypeVar("P")

Key = Literal["none", "optional", "required"]

_FOUND: Final = "application/x-perdure-found"
_ONE_AT_A_TIME: Final = threading.Lock()
"""The emulator routes from several threads, and the resolver's attribute is global."""


@dataclass(frozen=True, slots=True)
class Route(Generic[P]):
    """One route: how it is asked for, and the coroutine that answers it."""

    method: str
    path: str
    """Parameters in angle brackets, as Powertools wants them."""
    operation: str
    """What is asked for, by its name in the table of operations."""
    status: int
    reply: type[BaseModel] | None
    """None if it is no JSON."""
    run: Callable[..., Awaitable[Any]]
    query: type[Query] | None
    body: type[Body] | None
    takes_request: bool
    names: tuple[str, ...]
    key: Key = "none"
    """Whether a header Idempotency-Key is looked at, or must be there."""
    also: tuple[str, ...] = ()
    """Content types that a reply may have beside JSON."""

    async def answer(self, ports: P, request: Request, found: Mapping[str, str]) -> Answer:
        """Read the request, run, and spell the reply. Raises PerdureError."""
        given: dict[str, Any] = {
            name: checked_id(value, what="a name" if name == "name" else f"a {name} id")
            for name, value in found.items()
        }
        if self.query is not None:
            given["query"] = typed(self.query, request.query, where="query")
        elif request.query:
            typed(Query, request.query, where="query")
        if self.body is not None:
            given["body"] = self.body.read(strict_json(request.body))
        if self.takes_request:
            given["request"] = request
        reply = await self.run(ports, **given)
        return reply if isinstance(reply, Answer) else Answer(self.status, spelled(reply))


def spelled(reply: Any) -> bytes:
    """Spell a reply. Text may hold the lone half of a pair, which UTF-8 cannot: ASCII it is then."""
    try:
        return to_json(reply)
    except PydanticSerializationError:
        return canonical(to_jsonable_python(reply))


@dataclass(frozen=True, slots=True)
class Found:
    """A route that an event matched, and the parameters of its path."""

    route: Route[Any]
    names: Mapping[str, str]


def route(
    method: str,
    path: str,
    *,
    operation: str,
    reply: type[BaseModel] | None,
    status: int = 200,
    key: Key = "none",
    also: tuple[str, ...] = (),
) -> Callable[[Callable[..., Awaitable[Any]]], Route[Any]]:
    """Declare a route. The coroutine's signature says what it takes.

    First the ports; then by name ``query``, ``body``, ``request``, and each parameter of the
    path. It returns what JSON can spell, or an Answer.
    Raises KeyError for an operation that is not in the table.
    """

    def declared(run: Callable[..., Awaitable[Any]]) -> Route[Any]:
        assert LEAST_ROLE[operation], "an operation without a role would be open to all"
        hints = get_type_hints(run, include_extras=True)
        _, *names = inspect.signature(run).parameters
        return Route(
            method=method,
            path=path,
            operation=operation,
            status=status,
            reply=reply,
            run=run,
            query=hints["query"] if "query" in names else None,
            body=hints["body"] if "body" in names else None,
            takes_request="request" in names,
            names=tuple(name for name in names if f"<{name}>" in path),
            key=key,
            also=also,
        )

    return declared


class Router:
    """Finds the route of an event."""

    def __init__(self, routes: Sequence[Route[Any]]) -> None:
        self._resolver = APIGatewayHttpResolver()
        self._resolver.not_found(_no_route)
        for each in routes:
            self._resolver.route(each.path, method=each.method)(_finding(each))

    def find(self, event: Mapping[str, Any], context: LambdaContext) -> Found:
        """Return the route of an event. Raises NotFound."""
        spelled = {**event, "rawPath": spelled_path(event)}
        with _ONE_AT_A_TIME:
            reply = self._resolver.resolve(spelled, context)  # type: ignore[arg-type]
        found = reply["body"]
        if isinstance(found, Found):
            return found
        asked = event["requestContext"]["http"]["method"], event["rawPath"]
        raise NotFound(expected="a route of /openapi.json", found=" ".join(asked))


def _finding(route: Route[Any]) -> Callable[..., Response[Any]]:
    def found(**names: str) -> Response[Any]:
        decoded = {name: unquote(value) for name, value in names.items()}
        return Response(200, _FOUND, body=Found(route, decoded))

    return found


def _no_route(_: NotFoundError) -> Response[Any]:
    return Response(404, _FOUND, body=None)
