"""Problems: every error as an HTTP answer, with a stable code and nothing of the inside."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from perdure.api.gateway import Answer
from perdure.kernel import errors
from perdure.kernel.documents import errors as documents
from perdure.kernel.errors import PerdureError, kinds_of, said

CONTENT_TYPE: Final = "application/problem+json"

RETRY_AFTER_SECONDS: Final = 1

SAID_CHARACTERS_MAX: Final = 2_000
"""Characters of each half of what is said: whoever sends megabytes is not sent them back."""

DRAWN: Final = ("batch_id", "send_id", "commit_id", "job_id")
"""Ids that the server draws for who gives none; an unknown outcome tells them."""

INTERNAL: Final = "internal"
"""Code of an error that nobody foresaw."""

# Looked up along the class's ancestors, so a new kind of Invalid is a 400 by itself. 400 and
# not 422: a request is malformed or it is not; which part of it is, the code tells.
_STATUS: Final[Mapping[type[PerdureError], HTTPStatus]] = {
    errors.Invalid: HTTPStatus.BAD_REQUEST,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.NotPublished: HTTPStatus.NOT_FOUND,
    errors.WorldDestroyed: HTTPStatus.GONE,
    errors.WorldMoved: HTTPStatus.GONE,
    errors.StaleWriter: HTTPStatus.PRECONDITION_FAILED,
    errors.NotPermitted: HTTPStatus.FORBIDDEN,
    errors.NotOwner: HTTPStatus.FORBIDDEN,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.SchemaMismatch: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.NewerSchema: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.Corrupt: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.SessionTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.Refused: HTTPStatus.CONFLICT,
    documents.StaleCursor: HTTPStatus.CONFLICT,
    documents.IdsExhausted: HTTPStatus.CONFLICT,
    documents.UnknownConversation: HTTPStatus.NOT_FOUND,
    documents.UnknownDocument: HTTPStatus.NOT_FOUND,
    documents.UnknownJob: HTTPStatus.NOT_FOUND,
    documents.UnknownTable: HTTPStatus.NOT_FOUND,
    documents.RowAbsent: HTTPStatus.NOT_FOUND,
    documents.DocumentRetired: HTTPStatus.GONE,
    documents.LogTrimmed: HTTPStatus.GONE,
    documents.StoreMoved: HTTPStatus.GONE,
    errors.Contended: HTTPStatus.TOO_MANY_REQUESTS,
    errors.FenceHeld: HTTPStatus.CONFLICT,
    errors.QueueFull: HTTPStatus.TOO_MANY_REQUESTS,
    errors.QuotaExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TickFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.StoreRefused: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


# What is said instead of what a store said, or where it is: that may name an account, a role, a
# table, a bucket or a path, and the log of the function has its code as `cause`.
_INSIDE: Final[Mapping[type[PerdureError], tuple[str, str]]] = {
    errors.SchemaMismatch: ("a table that is what its catalog record says", "another"),
    errors.NewerSchema: ("a store that this version can read", "a newer one"),
    errors.Corrupt: ("stored bytes that match their digest", "others"),
    errors.OutcomeUnknown: ("an answer to a commit", "none: it may have happened"),
    errors.StoreUnavailable: ("an answer from the store", "none"),
    errors.StoreRefused: ("a store that does what it is asked", "one that refuses the function"),
}
_SOMETHING_ELSE: Final = "something else"


class Problem(BaseModel):
    """An error as RFC 9457 spells it, with a stable ``code``.

    ``expected`` and ``found`` say what was wrong; extension members may follow.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)

    type: str
    title: str
    status: int
    code: str
    detail: str
    expected: str = ""
    found: str = ""
    instance: str = ""
    """A URN that ends with the correlation id, as the log of the function has it."""


def problem(
    error: PerdureError, *, correlation: str = "", is_own: bool = False, is_inside: bool = False
) -> Answer:
    """Turn an error into an answer with the status of its kind.

    ``is_own`` is for a fault of the function's settings, whatever its kind. ``is_inside`` lets
    the answer say what a store said: to somebody in this process, or if nothing was asked of one.
    When the outcome of a batch, a send, a commit or a start is not known, its id comes along, so that the
    caller can ask again without doing it twice.
    """
    status = HTTPStatus.INTERNAL_SERVER_ERROR if is_own else status_of(error)
    both = (error.expected, error.found) if is_inside else _outside(error, is_own=is_own)
    expected, found = map(_cut, both)
    members = {
        **_members(error.code, status, said(expected, found), correlation),
        "expected": expected,
        "found": found,
    }
    if isinstance(error, errors.Unavailable):
        drawn = {name: getattr(error, name) for name in DRAWN}
        members |= {name: id for name, id in drawn.items() if id is not None}
    headers = {}
    if isinstance(error, errors.Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, errors.Unavailable) and status != HTTPStatus.INTERNAL_SERVER_ERROR:
        headers["retry-after"] = str(_retry_after_seconds(error))
    return Answer(status, to_json(members), content_type=CONTENT_TYPE, headers=headers)


def _outside(error: PerdureError, *, is_own: bool) -> tuple[str, str]:
    """Return both halves of an error's sentence as anybody may read them."""
    for each in type(error).__mro__:
        if each in _INSIDE:
            return _INSIDE[each]
    return error.expected, _SOMETHING_ELSE if is_own else error.found


def _cut(text: str) -> str:
    """Return text of bounded length that UTF-8 can hold: it may repeat what somebody sent."""
    cut = text if len(text) <= SAID_CHARACTERS_MAX else f"{text[: SAID_CHARACTERS_MAX - 1]}…"
    return cut.encode(errors="backslashreplace").decode()


def _retry_after_seconds(error: errors.Unavailable) -> int:
    if isinstance(error, errors.QuotaExceeded):
        return max(RETRY_AFTER_SECONDS, -(-error.retry_after_ms // 1_000))
    return RETRY_AFTER_SECONDS


def internal(*, correlation: str = "") -> Answer:
    """Answer for an error that nobody foresaw: its text may hold anything, so it stays inside."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    detail = "Something went wrong inside; the log of the function says what."
    members = _members(INTERNAL, status, detail, correlation)
    return Answer(status, to_json(members), content_type=CONTENT_TYPE, headers={})


def status_of(error: PerdureError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    return status_of_kind(type(error))


def status_of_kind(kind: type[PerdureError]) -> HTTPStatus:
    """Return the HTTP status of a kind of error: its own, or that of the nearest above it."""
    for each in kind.__mro__:
        if each in _STATUS:
            return _STATUS[each]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def codes_of(status: HTTPStatus) -> list[str]:
    """Return the codes of all errors that are answered with a status."""
    codes = {kind.code for kind in kinds_of(PerdureError) if status_of_kind(kind) == status}
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        codes.add(INTERNAL)
    return sorted(codes)


def _members(code: str, status: HTTPStatus, detail: str, correlation: str) -> dict[str, Any]:
    members = {
        "type": f"urn:perdure:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": int(status),
        "code": code,
        "detail": detail,
    }
    if correlation:
        members["instance"] = f"urn:perdure:correlation:{correlation}"
    return members
