"""Refusals of a store: told from silence by what is behind an error, however deep."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pyiceberg.exceptions import ForbiddenError
from requests import HTTPError, Response

from perdure.kernel.errors import StoreRefused, StoreUnavailable
from perdure.kernel.refusals import unanswered

pytestmark = pytest.mark.cloud


def aws(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "arn:aws:…"}}, "Operation")


def http(status: int) -> HTTPError:
    response = Response()
    response.status_code = status
    return HTTPError(response=response)


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aws("AccessDenied"), StoreRefused),
        (aws("AccessDeniedException"), StoreRefused),
        (aws("ExpiredToken"), StoreRefused),
        (aws("AWS.SimpleQueueService.NonExistentQueue"), StoreRefused),
        (raised_from(RuntimeError("a commit"), aws("AccessDeniedException")), StoreRefused),
        (raised_from(ForbiddenError("no"), http(403)), StoreRefused),
        (aws("ThrottlingException"), StoreUnavailable),
        (aws("ConcurrentModificationException"), StoreUnavailable),
        (aws("InternalError"), StoreUnavailable),
        (http(409), StoreUnavailable),
        (http(503), StoreUnavailable),
        (EndpointConnectionError(endpoint_url="x"), StoreUnavailable),
        (RuntimeError("whatever"), StoreUnavailable),
    ],
    ids=repr,
)
def test_store_that_says_no_to_everybody_is_told_from_one_that_does_not_answer(
    error: Any, kind: type[StoreUnavailable]
) -> None:
    assert type(unanswered("an answer", error)) is kind


def test_first_line_of_an_error_is_what_was_found() -> None:
    assert unanswered("an answer", RuntimeError("one\ntwo")).found == "one"
    assert unanswered("an answer", RuntimeError()).found == "RuntimeError"


def test_errors_that_were_raised_from_each_other_come_to_an_end() -> None:
    error = RuntimeError("round")
    error.__cause__ = error

    assert type(unanswered("an answer", error)) is StoreUnavailable
