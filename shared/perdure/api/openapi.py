"""OpenAPI: every route of every function described, from the signatures that serve it.

Imported when somebody asks: Powertools' models of the specification take 0.2 s.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.openapi import params
from pydantic import BaseModel

from perdure.api import faces
from perdure.api.problems import CONTENT_TYPE, Problem
from perdure.api.routing import Route

ROUTES: tuple[Route[Any], ...] = (*faces.API, *faces.LAKE)


def document(routes: Iterable[Route[Any]] = ROUTES) -> str:
    """Describe ``routes`` as OpenAPI, in JSON."""
    resolver = APIGatewayHttpResolver(enable_validation=True)
    for each in routes:
        replies = {
            int(each.status): _content("Done.", "application/json", each.reply),
            400: _content("Not done; the code says why.", CONTENT_TYPE, Problem),
        }
        summary, _, description = (inspect.getdoc(each.run) or "").partition("\n\n")
        resolver.route(
            each.path,
            method=each.method,
            summary=summary,
            description=description or None,
            operation_id=each.run.__name__,
            responses=replies,  # type: ignore[arg-type]  # plain dicts of that shape
        )(_described(each))
    return resolver.get_openapi_json_schema(title="Perdure", version="1")


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
    described.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return described


def _content(description: str, content_type: str, model: type[BaseModel]) -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"model": model}}}
