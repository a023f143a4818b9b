"""Nobody is told of a commit on DynamoDB of which a part may not show yet to others."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.testing.records import note, version
from perdure.kernel.commit import Check, Commit, Put, Remove
from perdure.kernel.errors import OutcomeUnknown
from perdure.kernel.ids import Token

TOKEN = Token("mine")
COMMIT = Commit(
    TOKEN,
    (
        Put(note("a"), None, b"a"),
        Put(note("b"), None, b"b"),
        Check(note("c"), None),
        Remove(note("d"), version("before")),
    ),
)


def item(name: str) -> dict[str, Any]:
    key = note(name)
    return {
        "pk": {"S": key.partition},
        "sk": {"S": key.sort},
        "rev": {"N": "1"},
        "tok": {"S": TOKEN},
        "body": {"B": b"x"},
    }


def error(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}, **more}, "TransactWriteItems")


MISMATCH = error("IdempotentParameterMismatchException")
FOUND_ITS_OWN = error(
    "TransactionCanceledException",
    CancellationReasons=[
        {"Code": "ConditionalCheckFailed", "Item": item("a")},
        {"Code": "None"},
        {"Code": "None"},
    ],
)


class Client:
    """A client whose transaction had happened before; its records may be in the midst of it."""

    def __init__(self, answer: ClientError, *, is_stuck: bool = False) -> None:
        self.answer = answer
        self.is_stuck = is_stuck
        self.looked: list[str] = []

    def transact_write_items(self, **_: Any) -> Any:
        raise self.answer

    def transact_get_items(self, **asked: Any) -> Any:
        self.looked = [each["Get"]["Key"]["sk"]["S"] for each in asked["TransactItems"]]
        if self.is_stuck:
            raise error(
                "TransactionCanceledException",
                CancellationReasons=[{"Code": "TransactionConflict"}],
            )
        return {"Responses": [{"Item": item("a")}, {"Item": item("b")}, {}]}


async def no_pause(_: float) -> None:
    pass


@pytest.mark.parametrize("answer", [MISMATCH, FOUND_ITS_OWN], ids=["token", "condition"])
async def test_a_commit_that_had_happened_is_told_once_all_that_it_writes_shows(answer):
    client: Any = Client(answer)
    store = DynamoStore(client, "perdure", threads=1, pause=no_pause)

    await store.commit(COMMIT)
    await store.close()

    assert client.looked == ["note/a", "note/b", "note/d"]


@pytest.mark.parametrize("answer", [MISMATCH, FOUND_ITS_OWN], ids=["token", "condition"])
async def test_a_commit_that_never_shows_whole_is_unknown_and_not_undone(answer):
    client: Any = Client(answer, is_stuck=True)
    store = DynamoStore(client, "perdure", threads=1, pause=no_pause)

    with pytest.raises(OutcomeUnknown):
        await store.commit(COMMIT)

    await store.close()
