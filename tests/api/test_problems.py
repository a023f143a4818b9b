"""Problems: every kind of error has a status, and its family can be told from it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from perdure.api.problems import problem, status_of
from perdure.kernel import errors
from perdure.kernel.errors import PerdureError, Refused, Unavailable

INSIDE = {"schema_mismatch", "newer_schema", "corrupt", "corrupt_lineage", "missing_run"}
"""Refusals that are no fault of the caller."""


def kinds(of: type[PerdureError]) -> Iterator[type[PerdureError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


EVERY = sorted({*kinds(PerdureError)} - {Refused, Unavailable}, key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.code)
def test_error_is_answered_with_its_code_and_both_halves_of_its_sentence(kind):
    answer = problem(kind(expected="one thing", found="another"))

    body = json.loads(answer.body)
    assert answer.content_type == "application/problem+json"
    assert (body["code"], body["status"]) == (kind.code, answer.status)
    assert (body["expected"], body["found"]) == ("one thing", "another")
    assert body["detail"] == "Expected one thing; found another."
    assert body["type"] == f"urn:perdure:problem:{kind.code}"


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.code)
def test_family_can_be_told_from_the_answer(kind):
    answer = problem(kind(expected="one thing", found="another"))

    if issubclass(kind, Unavailable):
        assert ("retry-after" in answer.headers) == (kind is not errors.TickFailed)
    else:
        assert "retry-after" not in answer.headers
        assert (answer.status >= 500) == (kind.code in INSIDE)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.InvalidValue, 400),
        (errors.UnknownOperation, 400),
        (errors.TooLarge, 413),
        (errors.NotFound, 404),
        (errors.NotPublished, 404),
        (errors.Conflict, 409),
        (errors.NameTaken, 409),
        (errors.NotCancellable, 409),
        (errors.WorldClosing, 409),
        (errors.WorldDestroyed, 410),
        (errors.StaleWriter, 412),
        (errors.NotPermitted, 403),
        (errors.Unauthenticated, 401),
        (errors.Contended, 429),
        (errors.FenceHeld, 409),
        (errors.OutcomeUnknown, 503),
        (errors.StoreUnavailable, 503),
        (errors.TickFailed, 500),
    ],
)
def test_status_is_the_promised_one(kind, status):
    assert status_of(kind(expected="a", found="b")) == status


def test_problem_names_the_batch_to_ask_again_with():
    error = errors.OutcomeUnknown(expected="an answer", found="none")
    error.batch_id = "b7"

    assert json.loads(problem(error).body)["batch_id"] == "b7"
