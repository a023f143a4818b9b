"""Wiring of the checks of AWS: credentials, clock, table, bucket and queue."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from perdure.api.checkup import Check, Finding, fail, ok, skip
from perdure.api.checkup_clock import compared
from perdure.api.checkup_settings import TICKS
from perdure.api.settings import Settings
from perdure.api.wiring_checkup_bucket import bucket_found, bucket_written
from perdure.api.wiring_checkup_clients import (
    CREDENTIALS,
    MESSAGE_CHARACTERS_MAX,
    REACH,
    REGION,
    Clients,
    asked,
    written,
)
from perdure.api.wiring_checkup_queue import dead_letters_found, queue_found
from perdure.api.wiring_checkup_table import table_found, table_written
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.authority import system


def cloud_checks(chosen: Settings, *, write: bool) -> list[Check]:
    """Return the checks of what a storage uses of AWS."""
    clients = Clients(chosen)
    table, bucket = chosen.table, bucket_and_prefix(chosen)[0]
    checks = [
        asked("credentials", partial(_credentials, clients), CREDENTIALS),
        asked("clock", partial(_clock, clients, chosen), REACH),
    ]
    if table is not None:
        deploy = "deploy the template, or name its output AuthorityTable: PERDURE_TABLE, --table"
        checks += [
            asked("table", partial(table_found, clients, chosen, table), deploy),
            written("table", partial(table_written, clients, chosen, table), write=write),
        ]
    checks += [
        asked(
            "bucket", partial(bucket_found, clients, chosen), f"make the bucket {bucket}, or deploy"
        ),
        written("bucket", partial(bucket_written, clients, chosen), write=write),
    ]
    if table is not None:
        queue = chosen.ticks or ""
        name_it = f"set {TICKS} to the QueueUrl of the template's queue Ticks"
        checks += [
            asked("queue", partial(queue_found, clients, queue), name_it),
            asked("dead-letters", partial(dead_letters_found, clients, queue), name_it, "queue"),
        ]
    return checks


def _credentials(clients: Clients) -> Iterator[Finding]:
    if clients.region is None:
        yield fail("no region is set", REGION)
        return
    held = clients.credentials()
    if held is None:
        yield fail("no credentials are found", CREDENTIALS)
        return
    try:
        caller = clients.of("sts").get_caller_identity()
    except BotoCoreError as error:
        why = f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS_MAX]
        yield skip(f"credentials by {held.method}; whose they are STS does not tell: {why}")
        return
    yield ok(f"{caller['Arn']} in {clients.region}, credentials by {held.method}")


def _clock(clients: Clients, chosen: Settings) -> Iterator[Finding]:
    """Compare with the Date of any answer, a refusal too."""
    began = system.now()
    try:
        if chosen.table is not None:
            answer = clients.of("dynamodb").describe_table(TableName=chosen.table)
        else:
            answer = clients.of("s3").head_bucket(Bucket=bucket_and_prefix(chosen)[0])
    except ClientError as error:
        answer = error.response
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    yield compared(date, began_ms=began, ended_ms=system.now(), who="AWS")
