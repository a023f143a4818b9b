"""What a store refuses the function, told to somebody who asks over HTTP."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.rig import Caller, sandbox_on, spawn
from tests.authority.test_dynamodb_errors import answered

from perdure.authority.dynamodb_errors import ruling
from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite_schema import translated
from perdure.kernel.errors import OutcomeUnknown, PerdureError, StoreUnavailable

pytestmark = pytest.mark.cloud

SAID = "arn:aws:sts::123456789012:assumed-role/perdure-api/x is not authorized on table/secret"


class Failing(MemoryStore):
    """Fails as a store does, from a moment on."""

    on_load: PerdureError | None = None
    on_commit: PerdureError | None = None

    async def load(self, reads: Any) -> Any:
        if self.on_load is not None:
            raise self.on_load
        return await super().load(reads)

    async def commit(self, commit: Any) -> None:
        if self.on_commit is not None:
            raise self.on_commit
        await super().commit(commit)


@pytest.fixture
def store() -> Failing:
    return Failing()


@pytest.fixture
def caller(store) -> Iterator[Caller]:
    caller = Caller(sandbox_on(store, []))
    assert caller("POST", "/v1/worlds", {"name": "w", "world_id": "w"}).status == 201
    yield caller
    store.on_load = store.on_commit = None
    caller.sandbox.close()


def refusal(code: str) -> PerdureError:
    error = answered(code)
    error.response["Error"]["Message"] = SAID
    return ruling(error).error


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        "ResourceNotFoundException",
        "ExpiredTokenException",
        "ValidationException",
        "SomethingNew",
    ],
)
@pytest.mark.parametrize("asked", [("GET", "/v1/worlds/w"), ("POST", "/v1/worlds/w/commands")])
def test_what_dynamodb_refuses_is_no_fault_of_who_asks_and_none_of_their_business(
    store, caller, code, asked
):
    store.on_load = refusal(code)

    reply = caller(*asked, {"commands": [spawn()]})

    assert (reply.status, reply.body["code"]) == (500, "store_refused")
    assert "retry-after" not in reply.headers
    assert not told_of_the_inside(reply)


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown])
def test_store_that_gives_no_answer_does_not_say_where_it_is(store, caller, kind):
    store.on_commit = kind(expected=f"an answer of {SAID}", found=SAID)

    reply = caller("POST", "/v1/worlds", {"name": "v", "world_id": "v"})

    assert (reply.status, reply.body["code"]) == (503, kind.code)
    assert reply.headers["retry-after"] == "1"
    assert not told_of_the_inside(reply)


def test_file_of_a_server_is_not_named_over_http(store, caller, tmp_path):
    store.on_load = translated(sqlite3.DatabaseError("no good"), tmp_path / "secret")

    reply = caller("GET", "/v1/worlds/w")

    assert reply.status >= 500
    assert not told_of_the_inside(reply)


def told_of_the_inside(reply) -> bool:
    text = str(reply.body)
    return any(each in text for each in ("123456789012", "perdure-api", "secret", "Exception"))
