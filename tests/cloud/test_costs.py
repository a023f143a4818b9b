"""The page of costs says what is counted, and what is derived from it follows."""

from __future__ import annotations

import asyncio

import pytest
from infra import prices
from tests.cloud import costs
from tests.cloud.costs_page import Cost, page

pytestmark = pytest.mark.cloud


@pytest.mark.slow
def test_the_page_says_what_each_operation_costs(aws):
    """If this fails, see whether it may cost that; then `python -m tests.cloud.costs` writes it."""
    found = page(asyncio.run(costs.counted(aws)))

    assert found.splitlines() == costs.PAGE.read_text(encoding="utf-8").splitlines()


def test_a_cost_is_the_sum_of_what_is_asked_for():
    once = Cost(requests=9, write_units=8, read_units=4, put=2, get=5, glue=3, sqs=2)

    assert once.dollars == pytest.approx(
        8 * prices.DYNAMODB_WRITE_UNIT
        + 4 * prices.DYNAMODB_READ_UNIT
        + 2 * prices.S3_PUT
        + 5 * prices.S3_GET
        + 3 * prices.GLUE_REQUEST
        + 2 * prices.SQS_FIFO_REQUEST
    )


@pytest.mark.parametrize(
    ("method", "path", "target", "kind"),
    [
        ("POST", "/", "DynamoDB_20120810.PutItem", "dynamodb"),
        ("POST", "/", "AWSGlue.GetTable", "glue"),
        ("POST", "/", "AmazonSQS.SendMessageBatch", "sqs"),
        ("PUT", "/lake/a", "", "put"),
        ("POST", "/lake/a?uploads", "", "put"),
        ("GET", "/lake?list-type=2&prefix=a", "", "put"),
        ("GET", "/lake/a", "", "get"),
        ("HEAD", "/lake/a", "", "get"),
        ("DELETE", "/lake/a", "", "free"),
    ],
)
def test_a_request_is_billed_as_its_service_says(method, path, target, kind):
    assert costs.kind_of(costs.Asked(method, path, target, b"")) == kind
