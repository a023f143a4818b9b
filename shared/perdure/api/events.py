"""Events: what kind of sender one is from, and whether it has what that sender always sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from perdure.kernel.errors import MalformedEvent

Kind = Literal["http", "queue", "schedule"]

_SCHEDULERS: Final = ("aws.scheduler", "aws.events")
"""Not a set: what is looked for may be anything, and need not be hashable."""


def kind_of(event: Any) -> Kind:
    """Say who sent an event. Raises MalformedEvent, which repeats nothing of it."""
    if not isinstance(event, Mapping):
        raise _malformed("an event that is an object", f"a {type(event).__name__}")
    if "requestContext" in event:
        return "http"
    if "Records" in event:
        return "queue"
    if event.get("source") in _SCHEDULERS or event.get("detail-type") == "Scheduled Event":
        return "schedule"
    raise _malformed("an event of API Gateway, SQS or a schedule", "another")


def check_http(event: Mapping[str, Any]) -> None:
    """Check the parts of an HTTP event that are read. Raises MalformedEvent.

    Source: "Working with AWS Lambda proxy integrations for HTTP APIs", format 2.0.
    """
    context = _object(event, "requestContext", "requestContext")
    http = _object(context, "http", "requestContext.http")
    _text(http, "method", "requestContext.http.method")
    _text(context, "stage", "requestContext.stage")
    _text(event, "rawPath", "rawPath")
    for name in ("headers", "queryStringParameters"):
        for said in _object(event, name, name, optional=True).values():
            if not isinstance(said, str):
                raise _malformed(f"{name} of text", f"a {type(said).__name__}")
    if event.get("body") is not None:
        _text(event, "body", "body")
    authorizer = _object(context, "authorizer", "requestContext.authorizer", optional=True)
    token = _object(authorizer, "jwt", "requestContext.authorizer.jwt", optional=True)
    claims = _object(token, "claims", "requestContext.authorizer.jwt.claims", optional=True)
    for claim in claims.values():
        if not isinstance(claim, str):
            raise _malformed("claims of text", f"a {type(claim).__name__}")
    _object(authorizer, "iam", "requestContext.authorizer.iam", optional=True)


def _object(
    outer: Mapping[str, Any], name: str, where: str, *, optional: bool = False
) -> Mapping[str, Any]:
    found = outer.get(name)
    if found is None and optional:
        return {}
    if not isinstance(found, Mapping):
        raise _malformed(f"{where} that is an object", _kind(found))
    return found


def _text(outer: Mapping[str, Any], name: str, where: str) -> None:
    if not isinstance(outer.get(name), str):
        raise _malformed(f"{where} that is text", _kind(outer.get(name)))


def _kind(found: object) -> str:
    return "none" if found is None else f"a {type(found).__name__}"


def _malformed(expected: str, found: str) -> MalformedEvent:
    return MalformedEvent(expected=expected, found=found)
