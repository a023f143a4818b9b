"""Checks of the queue of ticks, and of the messages that nobody could work off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from perdure.api.checkup import Finding, fail, ok, skip, warn
from perdure.api.checkup_settings import TICKS
from perdure.api.wiring_checkup_clients import Clients
from perdure.authority import system

AGE_MINUTES: Final = 30
"""How far back CloudWatch is asked for the age of the oldest dead letter."""

MINUTE_SECONDS: Final = 60


def queue_found(clients: Clients, url: str) -> Iterator[Finding]:
    """Is the queue there, in order, and does it have a place for what fails?"""
    if not url:
        yield skip(f"{TICKS} is not set")
        return
    found = _attributes(clients.of("sqs"), url)
    if found.get("FifoQueue") != "true":
        yield fail(
            f"{_name(url)} is no FIFO queue: two ticks of one world may run at once",
            f"set {TICKS} to the template's queue Ticks",
        )
        return
    if _dead_letter_arn(found) is None:
        yield warn(
            f"{_name(url)} has no dead-letter queue: a message that fails comes back for days",
            "set RedrivePolicy, as the template does",
        )
        return
    waiting = found["ApproximateNumberOfMessages"]
    running = found["ApproximateNumberOfMessagesNotVisible"]
    yield ok(f"{_name(url)} is FIFO with a dead-letter queue; {waiting} wait, {running} run")


def dead_letters_found(clients: Clients, url: str) -> Iterator[Finding]:
    """Count the messages that nobody could work off."""
    client = clients.of("sqs")
    arn = _dead_letter_arn(_attributes(client, url))
    if arn is None:
        yield skip("the queue has no dead-letter queue")
        return
    *_, account, name = arn.split(":")
    dead = client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    found = _attributes(client, dead)
    count = sum(
        int(found[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible", "Delayed")
    )
    if count == 0:
        yield ok(f"none in {name}")
        return
    yield warn(
        f"{count} messages in {name}, the oldest {_age(clients, name)}",
        "see in the log of the function tick why they failed, then redrive them:"
        " aws sqs start-message-move-task",
    )


def _attributes(client: Any, url: str) -> dict[str, str]:
    found: dict[str, str] = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
        "Attributes"
    ]
    return found


def _dead_letter_arn(attributes: dict[str, str]) -> str | None:
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    arn = policy.get("deadLetterTargetArn")
    return None if arn is None else str(arn)


def _age(clients: Clients, name: str) -> str:
    """Spell the age of the oldest message as CloudWatch has it: to receive one would touch it."""
    until = datetime.fromtimestamp(system.now() / 1_000, UTC)
    try:
        points = clients.of("cloudwatch").get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="ApproximateAgeOfOldestMessage",
            Dimensions=[{"Name": "QueueName", "Value": name}],
            StartTime=until - timedelta(minutes=AGE_MINUTES),
            EndTime=until,
            Period=MINUTE_SECONDS,
            Statistics=["Maximum"],
        )["Datapoints"]
    except (ClientError, BotoCoreError):
        points = []
    if not points:
        return "of an age that CloudWatch does not tell"
    last = max(points, key=lambda point: point["Timestamp"])
    return f"{last['Maximum'] / MINUTE_SECONDS:.0f} minutes old"


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
