"""Problems: every kind of error has a status, and its family can be told from it."""

from __future__ import annotations

import json

import pytest
from tests.support.errors import kinds

from perdure.api.problems import problem, status_of
from perdure.kernel import errors
from perdure.kernel.errors import PerdureError, Refused, Unavailable

INSIDE = {
    "schema_mismatch",
    "newer_schema",
    "corrupt",
    "corrupt_lineage",
    "missing_run",
    "payload_missing",
}
"""Refusals that are no fault of the caller."""

OF_A_STORE = {*INSIDE, "store_refused", "store_unavailable", "outcome_unknown"}
"""What they are told with may be a driver's words."""

LASTING = {"tick_failed", "store_refused"}
"""Somebody has to mend it before it helps to ask again."""


EVERY = sorted({*kinds(PerdureError)} - {Refused, Unavailable}, key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.code)
def test_error_is_answered_with_its_code_and_both_halves_of_its_sentence(kind):
    answer = problem(kind(expected="one thing", found="another"), is_inside=True)

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
        assert ("retry-after" in answer.headers) == (kind.code not in LASTING)
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
        (errors.StoreRefused, 500),
        (errors.TickFailed, 500),
    ],
)
def test_status_is_the_promised_one(kind, status):
    assert status_of(kind(expected="a", found="b")) == status


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.code)
def test_what_a_store_said_is_in_no_member_of_an_answer(kind):
    error = kind(expected="table arn:1", found="AccessDenied: arn:2 at https://arn:3")

    answer = problem(error, correlation="c1")

    body = json.loads(answer.body)
    assert ("arn:" in str(body)) == (kind.code not in OF_A_STORE)
    assert body["detail"] == f"Expected {body['expected']}; found {body['found']}."
    assert body["instance"] == "urn:perdure:correlation:c1"


@pytest.mark.parametrize("kind", [errors.InvalidValue, errors.NotFound, errors.NewerSchema])
def test_fault_of_the_settings_is_the_functions_own_and_does_not_quote_them(kind):
    error = kind(expected="PERDURE_STORAGE as s3://…", found="'s3://secret'")

    answer = problem(error, is_own=True)

    assert (answer.status, json.loads(answer.body)["code"]) == (500, kind.code)
    assert b"secret" not in answer.body


def test_problem_names_the_batch_to_ask_again_with():
    error = errors.OutcomeUnknown(expected="an answer", found="none")
    error.batch_id = "b7"

    assert json.loads(problem(error).body)["batch_id"] == "b7"
