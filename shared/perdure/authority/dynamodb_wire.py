"""The DynamoDB table: its shape, its items, and what reading and writing them costs.

Item: ``pk`` partition (S), ``sk`` sort (S), ``rev`` revision (N), ``tok`` token (S),
``body`` (B). No index. Attributes are always spelled in this order: DynamoDB compares
two requests under one token, and some engines compare them as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from perdure.kernel.commit import Action, Check, Put, Remove
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Range, Stored, Version

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import CreateTableInputTypeDef

_ABSENT = "attribute_not_exists(pk)"
_UNCHANGED = "rev = :rev AND tok = :tok"
_WRITE_UNIT_BYTES = 1_024
_READ_UNIT_BYTES = 4_096


def table_definition(name: str) -> CreateTableInputTypeDef:
    """Return what ``create_table`` needs to make the table."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    }


def client_config(threads: int) -> Config:
    """Return how the client is to be set up: no retries of its own, short time-outs.

    A retry that the store does not see would make a lost reply look like a lost race.
    Time-outs are in seconds.
    """
    return Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=1,
        read_timeout=3,
        max_pool_connections=threads,
    )


def address(key: Key[Any]) -> dict[str, Any]:
    return {"pk": {"S": key.partition}, "sk": {"S": key.sort}}


def stored(item: Any) -> Stored:
    """Read an item that :func:`put` spelled. Raises Corrupt."""
    try:
        version = Version(int(item["rev"]["N"]), Token(item["tok"]["S"]))
        body = item["body"]["B"]
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(expected="an item with rev, tok and body", found=repr(error)) from error
    if not isinstance(body, bytes):
        raise Corrupt(expected="an item whose body is binary", found=type(body).__name__)
    return Stored(version, body)


def put(table: str, action: Put, token: Token) -> dict[str, Any]:
    return {
        "TableName": table,
        "Item": {
            **address(action.key),
            "rev": {"N": str(action.revision)},
            "tok": {"S": token},
            "body": {"B": action.body},
        },
        **_condition(action.seen),
    }


def transact(table: str, action: Action, token: Token) -> Any:
    target = {"TableName": table, "Key": address(action.key), **_condition(action.seen)}
    match action:
        case Put():
            return {"Put": put(table, action, token)}
        case Remove():
            return {"Delete": target}
        case Check():
            return {"ConditionCheck": target}


def query(table: str, wanted: Range[Any], room: int) -> Any:
    """Spell a strong read of the next ``room`` records of a range.

    It asks for one more: BETWEEN may bring in the upper end.
    """
    values = {":pk": {"S": wanted.partition}, ":last": {"S": wanted.last}}
    within = "sk < :last"
    if wanted.first:  # a key may not be empty, not even to compare with
        values[":first"] = {"S": wanted.first}
        within = "sk BETWEEN :first AND :last"
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": f"pk = :pk AND {within}",
        "ExpressionAttributeValues": values,
        "ScanIndexForward": not wanted.descending,
        "Limit": room + 1,
        "ReturnConsumedCapacity": "TOTAL",
    }


def item_bytes(key: Key[Any], version: Version, body: bytes) -> int:
    """Return the size DynamoDB bills. A number takes a byte for two digits, and one."""
    number = (len(str(version.revision)) + 1) // 2 + 1
    names = len("pkskrevtokbody")
    return (
        names
        + len(key.partition.encode())
        + len(key.sort.encode())
        + number
        + len(version.token)
        + len(body)
    )


def write_units(actions: Iterable[Action], token: Token) -> float:
    """Return the units of a commit, for an engine that does not report them.

    What is removed or checked counts as one unit: its size is not known here.
    """
    actions = list(actions)
    sizes = [
        item_bytes(action.key, action.version(token), action.body) if isinstance(action, Put) else 1
        for action in actions
    ]
    factor = 1 if is_single(actions) else 2
    return float(factor * sum(-(-size // _WRITE_UNIT_BYTES) for size in sizes))


def read_units(sizes: Iterable[int]) -> float:
    """Return the units of strong reads of items of ``sizes`` bytes; an absent one has 0."""
    return float(sum(max(1, -(-size // _READ_UNIT_BYTES)) for size in sizes))


def query_units(sizes: Iterable[int]) -> float:
    """Return the units of a strong query's page: of all its items together, and at least one."""
    return float(max(1, -(-sum(sizes) // _READ_UNIT_BYTES)))


def is_single(actions: Iterable[Action]) -> bool:
    """Tell whether one conditional put, at half the price, is the whole commit."""
    first, *more = actions
    return isinstance(first, Put) and not more


def _condition(seen: Version | None) -> dict[str, Any]:
    """Spell what a record must still be, typed, and ask for the old item if it is not."""
    condition: dict[str, Any] = {
        "ConditionExpression": _ABSENT if seen is None else _UNCHANGED,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if seen is not None:
        condition["ExpressionAttributeValues"] = {
            ":rev": {"N": str(seen.revision)},
            ":tok": {"S": seen.token},
        }
    return condition
