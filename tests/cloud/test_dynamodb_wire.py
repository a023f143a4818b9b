"""The DynamoDB store over HTTP, on a wire that loses and falsifies answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.support.ministack import fresh_account
from tests.support.stores import TABLE, dynamodb_client
from tests.support.wire import Fault, Wire, wire_to

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import Tell, note, put, removal, version
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from perdure.kernel.ids import Token
from perdure.kernel.view import Reads, Stored

pytestmark = pytest.mark.cloud

ONE = put("a", b"a", by="t1")
TWO = Commit(Token("t1"), (Put(note("a"), None, b"a"), Put(note("b"), None, b"b")))
COMMITS = pytest.mark.parametrize("commit", [ONE, TWO], ids=["one record", "two records"])

THROTTLED = b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow"}'
OVER = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
    b' "message": "slow"}'
)
DENIED = b'{"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "arn:aws:iam"}'
BROKEN = b'{"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "broken"}'


class Desk:
    """A store at the end of a wire, in an account of its own."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.client = dynamodb_client(wire.address, fresh_account(), threads=2)
        self.client.create_table(**table_definition(TABLE))
        wire.seen.clear()
        self.store = DynamoStore(self.client, TABLE, threads=2, pause=self.pause)
        self.pauses = 0

    async def pause(self, seconds: float) -> None:
        self.pauses += 1

    def commit(self, commit: Commit, *plan: Fault | None) -> None:
        self.wire.plan.extend(plan)
        asyncio.run(self.store.commit(commit))

    def stored(self, name: str, *plan: Fault | None, snapshot: bool = False) -> Stored | None:
        self.wire.plan.extend(plan)
        reads = Reads(keys=(note(name),), snapshot=snapshot)
        return asyncio.run(self.store.load(reads)).stored[note(name)]

    def forgets_tokens(self) -> None:
        """Let every request have a token that DynamoDB does not know, as after ten minutes."""
        fresh = count(1)

        def forgotten(params: Any, **_: Any) -> None:
            params["ClientRequestToken"] = f"forgotten-{next(fresh)}"

        self.client.meta.events.register(
            "provide-client-params.dynamodb.TransactWriteItems", forgotten
        )


@pytest.fixture
def desk(aws) -> Iterator[Desk]:
    with wire_to(aws) as wire:
        desk = Desk(wire)
        yield desk
        asyncio.run(desk.store.close())
        desk.client.close()


@COMMITS
@pytest.mark.parametrize("status", [None, 500, 503])
def test_a_lost_answer_is_unknown_and_the_same_token_has_one_effect(desk, commit, status):
    with pytest.raises(OutcomeUnknown):
        desk.commit(commit, Fault(status, BROKEN))

    assert len(desk.wire.seen) == 1, "sent once: no retry that nobody sees"
    desk.commit(commit)
    assert desk.stored("a") == Stored(version("t1"), b"a")


@COMMITS
@pytest.mark.parametrize("body", [THROTTLED, OVER], ids=["throttled", "over capacity"])
def test_throttled_writes_are_sent_again_by_the_store_and_by_nothing_else(desk, commit, body):
    desk.commit(commit, *[Fault(400, body, arrives=False)] * 3)

    assert (len(desk.wire.seen), desk.pauses) == (4, 3)
    with pytest.raises(StoreUnavailable):
        desk.commit(put("z", b"z", by="t9"), *[Fault(400, body, arrives=False)] * 8)
    assert desk.stored("z") is None


@COMMITS
def test_what_aws_denies_is_refused_at_once_and_nothing_happened(desk, commit):
    denied = Fault(400, DENIED, arrives=False)

    for ask in (lambda: desk.commit(commit, denied), lambda: desk.stored("a", denied)):
        with pytest.raises(StoreRefused, match="permission to use the table"):
            ask()

    assert (len(desk.wire.seen), desk.pauses) == (2, 0)
    assert desk.stored("a") is None


def test_what_aws_denies_after_a_lost_answer_leaves_the_request_unknown(desk):
    async def story() -> int:
        denied = [Fault(400, DENIED, arrives=False)] * 9
        desk.wire.plan.extend([None, Fault(None), *denied])
        return await authority(desk.store).execute(Tell("id", "text"))

    with pytest.raises(OutcomeUnknown):
        asyncio.run(story())

    desk.wire.plan.clear()
    assert asyncio.run(authority(desk.store).execute(Tell("id", "text"))) == 1


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("answer", [(400, THROTTLED), (500, BROKEN), (None, b"")])
def test_reads_are_sent_again_whatever_happens_to_them(desk, answer, snapshot):
    desk.commit(ONE)
    desk.wire.seen.clear()

    found = desk.stored("a", *[Fault(*answer)] * 3, snapshot=snapshot)

    assert found == Stored(version("t1"), b"a")
    assert len(desk.wire.seen) == 4


def test_a_token_with_other_parameters_is_read_back(desk):
    """As DynamoDB answers when it has a spelling of the request that is not the first."""
    desk.commit(TWO)
    other = Commit(Token("t1"), (Put(note("a"), None, b"a"), Check(note("c"), None)))
    stranger = Commit(Token("t1"), (Put(note("d"), None, b"d"), Check(note("c"), None)))

    desk.commit(other)
    with pytest.raises(OutcomeUnknown):
        desk.commit(stranger)

    assert desk.stored("a") == Stored(version("t1"), b"a")
    assert desk.stored("d") is None


def test_a_token_that_dynamodb_forgot_is_known_by_what_it_wrote(desk):
    desk.forgets_tokens()
    desk.commit(put("x", b"x", by="t0"))
    gone = removal("x", version("t0"), by="t2")
    for commit in (TWO, gone):
        with pytest.raises(OutcomeUnknown):
            desk.commit(commit, Fault(None))

        desk.commit(commit)

    assert desk.stored("a") == Stored(version("t1"), b"a")
    assert desk.stored("x") is None


def test_what_a_rival_wrote_over_a_forgotten_token_is_not_undone(desk):
    desk.forgets_tokens()
    desk.commit(TWO)
    for name in ("a", "b"):
        desk.commit(put(name, b"rival", by="t5", seen=version("t1")))

    with pytest.raises(RevisionConflict):
        desk.commit(TWO)

    assert desk.stored("a") == Stored(version("t5", 2), b"rival")


@pytest.mark.parametrize("position", [0, 49, 99])
def test_one_failed_condition_in_any_position_cancels_all_hundred(desk, position):
    keys = [note(f"{number:03d}") for number in range(100)]
    desk.commit(Commit(Token("rival"), (Put(keys[position], None, b"rival"),)))
    whole = Commit(Token("t1"), tuple(Put(key, None, b"x") for key in keys))

    with pytest.raises(RevisionConflict):
        desk.commit(whole)

    held = asyncio.run(desk.store.load(Reads(peeks=tuple(keys)))).stored
    assert [key for key in keys if held[key] is not None] == [keys[position]]


def test_a_keyed_request_happens_once_though_every_other_answer_is_lost(desk):
    async def story() -> list[int]:
        engine = authority(desk.store)
        told = []
        for number in range(4):
            desk.wire.plan.extend([None, Fault(None), Fault(500, BROKEN)])
            told.append(await engine.execute(Tell(f"id-{number}", "text")))
            desk.wire.plan.clear()
        return told

    assert asyncio.run(story()) == [1, 2, 3, 4]
