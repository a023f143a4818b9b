"""OpenAPI: every route of every function described, from the signatures that serve it.

Imported when somebody asks: Powertools' models of the specification take 0.2 s.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Final

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.openapi import params
from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer
from pydantic import BaseModel, Field

from perdure.api import faces
from perdure.api.invocation import CORRELATION
from perdure.api.problems import CONTENT_TYPE, Problem, codes_of
from perdure.api.routing import Route

ROUTES: tuple[Route[Any], ...] = (*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS)

TOKEN: Final = "token"  # noqa: S105  # the name of the scheme

_READING: Final = (400, 401, 403, 404, 409, 410, 413, 429, 500, 503)
_CHANGING: Final = (*_READING, 412)
"""Statuses of problems."""

_CORRELATION: Final = {
    "description": "What the log of the function has of this request.",
    "schema": {"type": "string"},
}

EVENTS: Final = "text/event-stream"
_EVENT: Final = {
    "type": "object",
    "description": "One event of the stream; `data` is a frame, in JSON.",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}
_BINARY: Final = {"type": "string", "format": "binary"}

_OF_THE_GATEWAY: Final = {"type": "object", "properties": {"message": {"type": "string"}}}


@cache
def document(routes: tuple[Route[Any], ...] = ROUTES) -> str:
    """Describe ``routes`` as OpenAPI, in JSON. It takes most of a second, once in a process."""
    resolver = APIGatewayHttpResolver(enable_validation=True)
    for each in routes:
        summary, _, description = (inspect.getdoc(each.run) or "").partition("\n\n")
        resolver.route(
            each.path,
            method=each.method,
            summary=summary,
            description=description or None,
            operation_id=each.run.__name__,
            responses=_replies(each),  # type: ignore[arg-type]  # plain dicts of that shape
        )(_described(each))
    described: dict[str, Any] = json.loads(_spelled(resolver))
    _without_422(described)
    return json.dumps(described, separators=(",", ":"))


def _spelled(resolver: APIGatewayHttpResolver) -> str:
    return resolver.get_openapi_json_schema(
        title="Perdure",
        version="1",
        security_schemes={
            TOKEN: HTTPBearer(
                bearerFormat="JWT",
                description="A token that API Gateway checks; its claims give actor and role.",
            )
        },
        security=[{TOKEN: []}],
    )


def _without_422(document: dict[str, Any]) -> None:
    """Take out what Powertools' own validation would answer: it is not used."""
    for methods in document["paths"].values():
        for each in methods.values():
            del each["responses"]["422"]
    for name in ("HTTPValidationError", "ResponseValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _described(route: Route[Any]) -> Callable[..., Any]:
    """Return a function that is never called: its signature is the description."""

    def described(**_: Any) -> Any: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter(name, keyword, annotation=str) for name in route.names]
    for name, model, source in (
        ("query", route.query, params.Query()),
        ("body", route.body, params.Body()),
    ):
        if model is not None:
            annotation: Any = Annotated[model, source]
            listed.append(inspect.Parameter(name, keyword, annotation=annotation))
    listed += _headers(route)
    described.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return described


def _headers(route: Route[Any]) -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    named: list[inspect.Parameter] = []
    if route.key != "none":
        told = params.Header(
            alias="Idempotency-Key", description="The same again changes nothing more."
        )
        if route.key == "required":
            annotation: Any = Annotated[str, told]
            named.append(inspect.Parameter("key", keyword, annotation=annotation))
        else:
            annotation = Annotated[str | None, told]
            named.append(inspect.Parameter("key", keyword, annotation=annotation, default=None))
    said = params.Header(
        alias=CORRELATION, description="What the logs are to call this request, if it is plain."
    )
    text = Annotated[str | None, said, Field(max_length=64)]
    named.append(inspect.Parameter("correlation", keyword, annotation=text, default=None))
    return named


def _replies(route: Route[Any]) -> dict[int, dict[str, Any]]:
    done: dict[str, Any] = {"description": "Done.", "headers": {CORRELATION: _CORRELATION}}
    done["content"] = {}
    if route.reply is not None:
        done["content"]["application/json"] = {"model": route.reply}
    for each in route.also:
        done["content"][each] = {"schema": _EVENT if each == EVENTS else _BINARY}
    replies = {int(route.status): done}
    for status in _READING if route.method == "GET" else _CHANGING:
        codes = ", ".join(codes_of(HTTPStatus(status)))
        replies[status] = _content(f"Codes: {codes}.", CONTENT_TYPE, Problem)
    # Without a good token the function is not reached.
    replies[401]["content"]["application/json"] = {"schema": _OF_THE_GATEWAY}
    return replies


def _content(description: str, content_type: str, model: type[BaseModel]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {CORRELATION: _CORRELATION},
        "content": {content_type: {"model": model}},
    }
