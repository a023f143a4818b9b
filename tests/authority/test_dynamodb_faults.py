"""The DynamoDB store on faults that no local engine shows, injected at the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from moto import mock_aws
from tests.authority.test_dynamodb_errors import BUSY, OK, answered
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority.dynamodb import RECOVERY_SECONDS, DynamoStore
from perdure.authority.dynamodb_wire import query_units, table_definition
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import HERE, Note, Tell, note, put, version
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from perdure.kernel.ids import Token
from perdure.kernel.view import Range, Reads, Stored

ONE = put("a", b"a", by="t1")
TWO = Commit(Token("t1"), (Put(note("a"), None, b"a"), Check(note("b"), None)))
LOST = ReadTimeoutError(endpoint_url="x")
REFUSALS = ("AccessDeniedException", "ExpiredTokenException", "ResourceNotFoundException")


def canceled(*reasons: Any) -> ClientError:
    return answered("TransactionCanceledException", CancellationReasons=list(reasons))


def after(error: Exception) -> Callable[[Any, Any], Any]:
    """Do what is asked and lose the answer."""

    def act(call: Any, request: Any) -> Any:
        call(**request)
        raise error

    return act


def instead(error: Exception) -> Callable[[Any, Any], Any]:
    """Do nothing and answer with an error."""

    def act(call: Any, request: Any) -> Any:
        raise error

    return act


class FaultyClient:
    """Passes calls to a client, but for those a plan speaks of."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.plan: list[Callable[[Any, Any], Any]] = []
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)

        def planned(**request: Any) -> Any:
            self.calls.append((name, request))
            act = self.plan.pop(0) if self.plan else None
            return call(**request) if act is None else act(call, request)

        return planned


class Desk:
    """A store on a faulty client, with the pauses it takes."""

    def __init__(self, client: Any) -> None:
        self.client = FaultyClient(client)
        self.pauses: list[float] = []
        self.store = DynamoStore(
            self.client,  # type: ignore[arg-type]
            TABLE,
            threads=1,
            chance=lambda: 0.5,
            pause=self.pause,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def commit(self, commit: Commit, *plan: Any) -> None:
        self.client.plan = list(plan)
        asyncio.run(self.store.commit(commit))

    def load(self, reads: Reads, *plan: Any) -> Any:
        self.client.plan = list(plan)
        return asyncio.run(self.store.load(reads))

    def body(self, name: str) -> bytes | None:
        found = self.load(Reads(peeks=(note(name),))).stored[note(name)]
        return None if found is None else found.body


@pytest.fixture
def desk() -> Iterator[Desk]:
    with mock_aws():
        client = dynamodb_client(None, "1" * 12, threads=1)
        client.create_table(**table_definition(TABLE))
        desk = Desk(client)
        yield desk
        asyncio.run(desk.store.close())


@pytest.mark.parametrize(
    "reasons", [(BUSY, OK), (OK, BUSY), (BUSY, BUSY)], ids=["first", "second", "both"]
)
def test_a_transaction_conflict_is_tried_again(desk: Desk, reasons: Any) -> None:
    desk.commit(TWO, *[instead(canceled(*reasons))] * 5)

    assert desk.body("a") == b"a"
    assert desk.pauses == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4])


@pytest.mark.parametrize("commit", [ONE, TWO], ids=["one record", "two records"])
@pytest.mark.parametrize(
    "error",
    [
        answered("TransactionConflictException"),
        answered("ThrottlingException"),
        answered("ProvisionedThroughputExceededException"),
        ConnectTimeoutError(endpoint_url="x"),
    ],
    ids=["conflict", "throttling", "throughput", "no connection"],
)
def test_a_busy_store_is_tried_again_and_then_unavailable(
    desk: Desk, commit: Commit, error: Exception
) -> None:
    with pytest.raises(StoreUnavailable):
        desk.commit(commit, *[instead(error)] * 8)
    assert len(desk.pauses) == 7
    assert desk.body("a") is None

    desk.commit(commit, *[instead(error)] * 7)

    assert desk.body("a") == b"a"


@pytest.mark.parametrize("commit", [ONE, TWO], ids=["one record", "two records"])
@pytest.mark.parametrize("error", [LOST, answered("InternalServerError", 500)])
def test_a_lost_answer_is_unknown_and_the_same_token_settles_it(
    desk: Desk, commit: Commit, error: Exception
) -> None:
    for act in (instead(error), after(error)):
        with pytest.raises(OutcomeUnknown):
            desk.commit(commit, act)

    desk.commit(commit)

    assert desk.body("a") == b"a"
    assert desk.pauses == []


@pytest.mark.parametrize("commit", [ONE, TWO], ids=["one record", "two records"])
def test_a_condition_that_failed_on_my_own_token_is_success(desk: Desk, commit: Commit) -> None:
    def twice(call: Any, request: Any) -> Any:
        call(**request)
        return call(**request)

    desk.commit(commit, twice)

    view = desk.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t1"), b"a")


def test_a_condition_that_failed_on_a_rivals_token_is_a_conflict(desk: Desk) -> None:
    desk.commit(put("a", b"rival", by="t0"))

    for commit in (ONE, TWO):
        with pytest.raises(RevisionConflict):
            desk.commit(commit)


def test_a_transaction_under_way_is_asked_after_five_seconds(desk: Desk) -> None:
    busy = instead(answered("TransactionInProgressException"))

    desk.commit(TWO, busy, busy)

    assert sum(desk.pauses) >= RECOVERY_SECONDS
    assert desk.pauses[0] < 1
    assert desk.body("a") == b"a"


def test_a_transaction_that_stays_under_way_is_unknown(desk: Desk) -> None:
    with pytest.raises(OutcomeUnknown):
        desk.commit(TWO, *[instead(answered("TransactionInProgressException"))] * 8)

    assert RECOVERY_SECONDS <= sum(desk.pauses) < 10


def test_throttling_after_a_transaction_under_way_is_unknown(desk: Desk) -> None:
    busy = instead(answered("TransactionInProgressException"))

    with pytest.raises(OutcomeUnknown):
        desk.commit(TWO, busy, *[instead(answered("ThrottlingException"))] * 7)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_after_a_transaction_under_way_is_unknown(desk: Desk, code: str) -> None:
    busy = instead(answered("TransactionInProgressException"))

    with pytest.raises(OutcomeUnknown):
        desk.commit(TWO, busy, instead(answered(code)))
    with pytest.raises(StoreRefused):
        desk.commit(TWO, instead(answered(code)))


def test_a_store_closed_after_a_transaction_under_way_leaves_it_unknown(desk: Desk) -> None:
    def closing(call: Any, request: Any) -> Any:
        desk.store._is_closed = True
        raise answered("TransactionInProgressException")

    with pytest.raises(OutcomeUnknown):
        desk.commit(TWO, closing)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_token_that_cannot_be_read_back_is_unknown(desk: Desk, code: str) -> None:
    mismatch = after(answered("IdempotentParameterMismatchException"))

    with pytest.raises(OutcomeUnknown):
        desk.commit(TWO, mismatch, instead(answered(code)))

    assert desk.body("a") == b"a"


@pytest.mark.parametrize("code", [*REFUSALS, "ThrottlingException", "SomethingNew"])
def test_after_a_lost_answer_no_refusal_says_that_nothing_happened(desk: Desk, code: str) -> None:
    async def story() -> None:
        desk.client.plan = [None, after(LOST), *[instead(answered(code))] * 99]
        await authority(desk.store).execute(Tell("id", "text"))

    with pytest.raises(OutcomeUnknown):
        asyncio.run(story())

    desk.client.plan = []
    assert asyncio.run(authority(desk.store).execute(Tell("id", "text"))) == 1


def test_a_token_known_with_other_parameters_is_read_back(desk: Desk) -> None:
    mismatch = answered("IdempotentParameterMismatchException")

    desk.commit(TWO, after(mismatch))
    with pytest.raises(OutcomeUnknown):
        desk.commit(put_two("t2"), instead(mismatch))

    assert desk.body("a") == b"a"
    assert desk.body("c") is None


def test_the_engine_does_once_what_gets_lost(desk: Desk) -> None:
    async def story() -> int:
        engine = authority(desk.store)
        desk.client.plan = [None, after(LOST), after(answered("InternalServerError", 500))]
        return await engine.execute(Tell("id", "text"))

    assert asyncio.run(story()) == 1
    assert desk.client.plan == []


def test_keys_left_unprocessed_are_asked_for_again(desk: Desk) -> None:
    keys = tuple(note(f"{number}") for number in range(10))
    desk.commit(Commit(Token("t1"), tuple(Put(key, None, b"x") for key in keys)))

    def some(call: Any, request: Any) -> Any:
        asked = request["RequestItems"][TABLE]["Keys"]
        part = {TABLE: {**request["RequestItems"][TABLE], "Keys": asked[:3]}}
        answer = call(RequestItems=part)
        answer["UnprocessedKeys"] = {TABLE: {"Keys": asked[3:], "ConsistentRead": True}}
        return answer

    def none(call: Any, request: Any) -> Any:
        return {"Responses": {}, "UnprocessedKeys": request["RequestItems"]}

    view = desk.load(Reads(keys=keys), some, none, some)

    assert all(view.stored[key] is not None for key in keys)
    assert len(desk.pauses) == 1
    with pytest.raises(StoreUnavailable):
        desk.load(Reads(keys=keys), *[none] * 8)


def test_pages_of_a_range_are_read_to_the_end(desk: Desk) -> None:
    names = [f"{number:02d}" for number in range(10)]
    desk.commit(Commit(Token("t1"), tuple(Put(note(name), None, b"x") for name in names)))
    wanted = Range(HERE, "note/", "note0", Note)

    def short(call: Any, request: Any) -> Any:
        return call(**{**request, "Limit": 3})

    def empty(call: Any, request: Any) -> Any:
        start = request["ExclusiveStartKey"]
        return {"Items": [], "LastEvaluatedKey": start}

    view = desk.load(Reads(ranges=(wanted,)), short, empty, short, short)

    assert list(view.stored) == [note(name) for name in names]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_load_is_tried_again_whatever_the_answer(desk: Desk, *, snapshot: bool) -> None:
    desk.commit(ONE)
    errors = (LOST, answered("InternalServerError", 500), answered("ThrottlingException"))
    reads = Reads(keys=(note("a"),), snapshot=snapshot)

    view = desk.load(reads, *(instead(error) for error in (*errors, canceled(BUSY))))

    assert view.stored[note("a")] is not None
    with pytest.raises(StoreUnavailable):
        desk.load(reads, *[instead(LOST)] * 8)


def test_a_missing_table_is_said_at_once(desk: Desk) -> None:
    missing = instead(answered("ResourceNotFoundException"))

    with pytest.raises(StoreRefused):
        desk.load(Reads(keys=(note("a"),)), missing)
    with pytest.raises(StoreRefused):
        desk.commit(ONE, missing)
    assert desk.pauses == []


def test_requests_are_the_cheapest_that_do(desk: Desk) -> None:
    desk.commit(ONE)
    desk.commit(put_two("t2"))
    desk.load(Reads(keys=(note("a"), note("b")), peeks=(note("c"),)))
    desk.load(Reads(keys=(note("a"),), snapshot=True))

    names = [name for name, _ in desk.client.calls]
    assert names == ["put_item", "transact_write_items", "batch_get_item", "transact_get_items"]
    assert desk.client.calls[1][1]["ClientRequestToken"] == "t2"
    counters = desk.store.counters
    assert (counters.requests, counters.retries) == (4, 0)
    assert (counters.write_units, counters.read_units) == (1 + 4, 3 + 2)


@pytest.mark.cloud
@pytest.mark.parametrize(
    ("sizes", "units"), [([], 1), ([0], 1), ([10] * 100, 1), ([4_096], 1), ([4_000, 4_000], 2)]
)
def test_a_query_is_billed_for_all_its_items_together_and_at_least_one_unit(sizes, units):
    assert query_units(sizes) == units


def put_two(token: str) -> Commit:
    return Commit(Token(token), (Put(note("c"), None, b"c"), Put(note("d"), None, b"d")))
