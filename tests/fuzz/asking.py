"""Requests from the document: spelled as bytes, asked, and their answers held against it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.fuzz.hull import ADDRESS, Answered, Hull
from tests.fuzz.prepared import Good

from perdure.api import faces
from perdure.api.openapi import document
from perdure.api.routing import Route
from perdure.kernel import limits

ROUTES: tuple[Route[Any], ...] = (*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS)
NAMES = [each.run.__name__ for each in ROUTES]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

REFUSAL_BYTES_MAX = 16_384

FEWER = {"ticks": 2, "to_tick": 12}


@functools.cache
def described() -> Any:
    return schemathesis.openapi.from_dict(json.loads(document()))


def operation(name: str) -> Any:
    """Return an operation of the document by its id."""
    (route,) = [each for each in ROUTES if each.run.__name__ == name]
    return described()[path_of(route)][route.method]


def path_of(route: Route[Any]) -> str:
    """Return the path of a route as the document spells it."""
    return route.path.replace("<", "{").replace(">", "}")


def case_of(name: str, good: Good) -> Any:
    """Return a prepared request as a case of its operation."""
    more = {} if good.body is None else {"body": good.body, "media_type": "application/json"}
    return operation(name).Case(
        path_parameters=good.names, query=good.query, headers=good.headers, **more
    )


def prepared(case: Any) -> requests.PreparedRequest:
    """Spell a case as the bytes of a request."""
    given = case.as_transport_kwargs(base_url=ADDRESS)
    return requests.Request(**given).prepare()


def spelled(
    hull: Hull, sent: requests.PreparedRequest, role: str | None = "admin"
) -> tuple[str, bytes, list[tuple[bytes, bytes]], bytes]:
    """Return method, target, headers and body, with a good token of a role."""
    headers = [
        (_raw(name).lower(), _raw(value))
        for name, value in sent.headers.items()
        if name.lower() not in {"authorization", "content-length"}
    ]
    if role is not None:
        headers.append(hull.bearer(role))
    return sent.method, sent.path_url.encode("ascii"), headers, bounded(_raw(sent.body or b""))


def check(case: Any, sent: requests.PreparedRequest, answered: Answered) -> None:
    """Hold an answer against the document, and a refusal against what every refusal has."""
    headers = {name: [value] for name, value in answered.headers.items()}
    reply = Response(
        answered.status,
        headers,
        answered.content,
        sent,
        elapsed=0.0,
        verify=False,
        message=HTTPStatus(answered.status).phrase,
    )
    case.validate_response(reply, checks=CHECKS)
    check_refusal(answered)


def check_refusal(answered: Answered) -> None:
    """A refusal has a code, and says what was expected and found."""
    if answered.status < 400:
        return
    if answered.status in {401, 403} and "message" in answered.body:
        return  # the gateway's own words: no function was reached
    assert answered.headers["content-type"] == "application/problem+json", answered
    assert answered.code, answered
    assert answered.body["expected"], answered
    assert len(answered.content) < REFUSAL_BYTES_MAX, "a refusal does not send back all it was sent"


def bounded(body: bytes) -> bytes:
    """Return a body that asks for no more ticks than a test has time for."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(read, Mapping):
        return body
    less = {
        name: fewer
        for name, fewer in FEWER.items()
        if isinstance(read.get(name), int) and fewer < read[name] <= limits.TICK_MAX
    }
    return json.dumps({**read, **less}).encode() if less else body


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", errors="replace")
