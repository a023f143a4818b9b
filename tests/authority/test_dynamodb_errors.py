"""What each error of the driver means: one row a case, last the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions as boto
from botocore.exceptions import ClientError

from perdure.authority.dynamodb_errors import Verdict, ruling
from perdure.kernel.errors import StoreRefused, StoreUnavailable
from perdure.kernel.ids import Token

MINE = Token("mine")
AGAIN, CONFLICT, COMMITTED = Verdict.AGAIN, Verdict.CONFLICT, Verdict.COMMITTED
OK = {"Code": "None"}
FAILED = {"Code": "ConditionalCheckFailed"}
BUSY = {"Code": "TransactionConflict"}
THROTTLED = {"Code": "ThrottlingError"}
OVER = {"Code": "ProvisionedThroughputExceeded"}


def holding(token: str) -> dict[str, Any]:
    return {**FAILED, "Item": {"tok": {"S": token}}}


def answered(code: str, status: int = 400, **more: Any) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "…"},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **more,
    }
    return ClientError(response, "Operation")


@pytest.mark.parametrize(
    ("code", "status", "verdict", "kind"),
    [
        ("ConditionalCheckFailedException", 400, CONFLICT, StoreUnavailable),
        ("TransactionConflictException", 400, AGAIN, StoreUnavailable),
        ("ProvisionedThroughputExceededException", 400, AGAIN, StoreUnavailable),
        ("ThrottlingException", 400, AGAIN, StoreUnavailable),
        ("RequestLimitExceeded", 400, AGAIN, StoreUnavailable),
        ("TransactionInProgressException", 400, Verdict.UNDER_WAY, StoreUnavailable),
        ("IdempotentParameterMismatchException", 400, Verdict.READ_BACK, StoreUnavailable),
        ("InternalServerError", 500, Verdict.UNKNOWN, StoreUnavailable),
        ("ServiceUnavailable", 503, Verdict.UNKNOWN, StoreUnavailable),
        ("SomethingNew", 500, Verdict.UNKNOWN, StoreUnavailable),
        ("SomethingNew", 400, Verdict.REFUSED, StoreRefused),
        ("ResourceNotFoundException", 400, Verdict.REFUSED, StoreRefused),
        ("AccessDeniedException", 400, Verdict.REFUSED, StoreRefused),
        ("UnrecognizedClientException", 400, Verdict.REFUSED, StoreRefused),
        ("ExpiredTokenException", 400, Verdict.REFUSED, StoreRefused),
        ("ValidationException", 400, Verdict.REFUSED, StoreRefused),
    ],
)
def test_an_error_code_has_one_meaning(
    code: str, status: int, verdict: Verdict, kind: type[Exception]
) -> None:
    ruled = ruling(answered(code, status), MINE)

    assert ruled.verdict is verdict
    assert type(ruled.error) is kind


@pytest.mark.parametrize(
    ("item", "token", "verdict"),
    [
        (None, MINE, CONFLICT),
        ({"tok": {"S": "mine"}}, MINE, COMMITTED),
        ({"tok": {"S": "another's"}}, MINE, CONFLICT),
        ({}, MINE, CONFLICT),
        ({"tok": {"S": "mine"}}, None, CONFLICT),
    ],
)
def test_a_failed_condition_proves_no_loss_if_my_token_is_there(
    item: Any, token: Token | None, verdict: Verdict
) -> None:
    more = {} if item is None else {"Item": item}

    assert ruling(answered("ConditionalCheckFailedException", **more), token).verdict is verdict


@pytest.mark.parametrize(
    ("reasons", "verdict"),
    [
        ([FAILED], CONFLICT),
        ([OK, OK, FAILED], CONFLICT),
        ([FAILED, OK, OK], CONFLICT),
        ([holding("another's"), OK], CONFLICT),
        ([OK, holding("mine")], COMMITTED),
        ([holding("another's"), holding("mine")], COMMITTED),
        ([FAILED, holding("mine"), BUSY], COMMITTED),
        ([BUSY], AGAIN),
        ([OK, BUSY], AGAIN),
        ([BUSY, OK], AGAIN),
        ([THROTTLED, OK], AGAIN),
        ([OK, OVER], AGAIN),
        ([THROTTLED, BUSY], AGAIN),
        ([BUSY, FAILED], CONFLICT),
        ([FAILED, THROTTLED], CONFLICT),
        ([OK, {"Code": "ValidationError"}], Verdict.REFUSED),
        ([BUSY, {"Code": "ValidationError"}], Verdict.REFUSED),
        ([{"Code": "ItemCollectionSizeLimitExceeded"}], Verdict.REFUSED),
        ([{"Code": "ItemCollectionSizeLimitExceeded"}, BUSY], Verdict.REFUSED),
        ([OK, OK], Verdict.UNKNOWN),
        ([], Verdict.UNKNOWN),
        ([{}], Verdict.UNKNOWN),
    ],
)
def test_a_cancelled_transaction_is_judged_by_every_reason(
    reasons: list[Any], verdict: Verdict
) -> None:
    error = answered("TransactionCanceledException", CancellationReasons=reasons)

    ruled = ruling(error, MINE)

    assert ruled.verdict is verdict
    assert type(ruled.error) is _kind(verdict)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (boto.ReadTimeoutError(endpoint_url="x"), Verdict.UNKNOWN),
        (boto.ConnectionClosedError(endpoint_url="x"), Verdict.UNKNOWN),
        (boto.HTTPClientError(error="x"), Verdict.UNKNOWN),
        (boto.SSLError(endpoint_url="x", error="x"), Verdict.UNKNOWN),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), Verdict.UNKNOWN),
        (boto.ConnectTimeoutError(endpoint_url="x"), AGAIN),
        (boto.EndpointConnectionError(endpoint_url="x"), AGAIN),
        (boto.ProxyConnectionError(proxy_url="x"), Verdict.UNKNOWN),
        (boto.NoCredentialsError(), AGAIN),
        (boto.ParamValidationError(report="x"), Verdict.REFUSED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_silence_is_unknown_unless_nothing_was_sent(error: Any, verdict: Verdict) -> None:
    ruled = ruling(error, MINE)

    assert ruled.verdict is verdict
    assert type(ruled.error) is _kind(verdict)


def _kind(verdict: Verdict) -> type[StoreUnavailable]:
    """What DynamoDB refuses is no fault of who asked: no kind that says so."""
    return StoreRefused if verdict is Verdict.REFUSED else StoreUnavailable
