"""Checks of the table: its shape, its protection, and what may be done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from perdure.api.checkup import Finding, fail, ok, skip, warn
from perdure.api.checkup_settings import storage_key
from perdure.api.settings import Settings
from perdure.api.wiring_checkup_clients import DENIED, Clients, code_of
from perdure.authority import system
from perdure.authority.dynamodb_wire import table_definition


def table_found(clients: Clients, chosen: Settings, name: str) -> Iterator[Finding]:
    client = clients.of("dynamodb")
    found = client.describe_table(TableName=name)["Table"]
    problems = [*_shape(found), *_protection(client, found, name)]
    yield from problems
    if any(each.level == "fail" for each in problems):
        return
    client.query(
        TableName=name,
        ConsistentRead=True,
        Limit=1,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"c/{storage_key(chosen)}"}},
    )
    yield ok(f"{name} has keys pk and sk, and can be read")


def _shape(found: Mapping[str, Any]) -> Iterator[Finding]:
    wanted = table_definition(found["TableName"])
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    keys = [
        f"{key['AttributeName']} {types.get(key['AttributeName'])} {key['KeyType']}"
        for key in found["KeySchema"]
    ]
    if keys != (expected := ["pk S HASH", "sk S RANGE"]):
        yield fail(
            f"keys {', '.join(keys)}, not {', '.join(expected)}",
            "name the table that the template made; this one is something else",
        )
    if found.get("TableStatus", "ACTIVE") not in {"ACTIVE", "UPDATING"}:
        yield fail(f"status {found['TableStatus']}", "wait until it is ACTIVE", may_pass=True)
    mode = found.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    if mode != wanted["BillingMode"]:
        yield warn(
            f"billing mode {mode}: ticks are throttled beyond what is provisioned",
            "set BillingMode to PAY_PER_REQUEST",
        )


def _protection(client: Any, found: Mapping[str, Any], name: str) -> Iterator[Finding]:
    if not found.get("DeletionProtectionEnabled", False):
        yield warn(
            "deletion protection is off", "set DeletionProtectionEnabled, as the template does"
        )
    try:
        backups = client.describe_continuous_backups(TableName=name)
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
        yield skip("point-in-time recovery: dynamodb:DescribeContinuousBackups is not permitted")
        return
    recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        yield warn("point-in-time recovery is off", "enable it, as the template does")


def table_written(clients: Clients, chosen: Settings, name: str) -> Iterator[Finding]:
    """Put a record that was not there, fail to put it again, and take it away."""
    client = clients.of("dynamodb")
    key = {"pk": {"S": f"w/{storage_key(chosen)}/doctor"}, "sk": {"S": system.new_token()}}
    put = partial(
        client.put_item, TableName=name, Item=key, ConditionExpression="attribute_not_exists(pk)"
    )
    try:
        put()
    except HTTPClientError:  # it may have arrived all the same
        client.delete_item(TableName=name, Key=key)
        raise
    try:
        put()
    except ClientError as error:
        kept_out = code_of(error) == "ConditionalCheckFailedException"
        if not kept_out:
            raise
    else:
        kept_out = False
    finally:
        client.delete_item(TableName=name, Key=key)
    if kept_out:
        yield ok("a conditional put holds, and was taken away again")
    else:
        yield fail("a put overwrites what it must not", "use DynamoDB, or what behaves like it")
