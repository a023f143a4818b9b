"""A cancelled transaction: what every reason in every position means, alone and among others."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.authority.test_dynamodb_errors import answered

from perdure.authority.dynamodb import TRIES_MAX, DynamoStore
from perdure.authority.dynamodb_errors import Verdict, ruling
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import note, version
from perdure.kernel.commit import Check, Commit, Put, Remove
from perdure.kernel.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from perdure.kernel.ids import Token

pytestmark = pytest.mark.cloud

MINE = Token("mine")
COMMIT = Commit(
    MINE,
    (
        Put(note("a"), None, b"a"),
        Check(note("b"), version("seen")),
        Remove(note("c"), version("seen")),
    ),
)
FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
REASONS: dict[str, dict[str, Any]] = {
    "none": {"Code": "None"},
    "nothing said": {},
    "failed on mine": {**FAILED, "Item": {"tok": {"S": "mine"}}},
    "failed on a rival's": {**FAILED, "Item": {"tok": {"S": "a rival's"}}},
    "failed on no item": FAILED,
    "failed on an item that is not ours": {**FAILED, "Item": {"pk": {"S": "x"}}},
    "conflict": {"Code": "TransactionConflict"},
    "throttled": {"Code": "ThrottlingError"},
    "over capacity": {"Code": "ProvisionedThroughputExceeded"},
    "collection too large": {"Code": "ItemCollectionSizeLimitExceeded"},
    "invalid": {"Code": "ValidationError"},
    "new": {"Code": "SomethingNew"},
}
POSITIONS = range(len(COMMIT.actions))

RANKS = [
    (Verdict.COMMITTED, {"failed on mine"}),
    (
        Verdict.CONFLICT,
        {"failed on a rival's", "failed on no item", "failed on an item that is not ours"},
    ),
    (Verdict.REFUSED, {"collection too large", "invalid", "new"}),
    (Verdict.AGAIN, {"conflict", "throttled", "over capacity"}),
    (Verdict.UNKNOWN, {"none", "nothing said"}),
]
"""What a transaction is, by the first rank of which it has a reason."""


class Cancelling:
    """A client that cancels every transaction for the same reasons, and counts them."""

    def __init__(self, *names: str) -> None:
        self.sent: list[str] = []
        reasons = [REASONS[name] for name in names]
        self._error = answered("TransactionCanceledException", CancellationReasons=reasons)

    def transact_write_items(self, **request: Any) -> Any:
        self.sent.append(request["ClientRequestToken"])
        raise self._error

    def transact_get_items(self, **request: Any) -> Any:
        """Show that none of the records is in the midst of a transaction any more."""
        return {"Responses": [{} for _ in request["TransactItems"]]}


async def committed(client: Cancelling) -> type[BaseException] | None:
    """Commit, and return what came of it."""

    async def pause(seconds: float) -> None:
        """Wait for nothing."""

    store = DynamoStore(client, "table", threads=1, pause=pause)  # type: ignore[arg-type]
    try:
        await store.commit(COMMIT)
    except Exception as error:  # noqa: BLE001  # it is what is asked for
        return type(error)
    finally:
        await store.close()
    return None


def expected(names: tuple[str, ...]) -> Verdict:
    return next(verdict for verdict, those in RANKS if those & {*names})


def test_every_mixture_of_reasons_in_every_order_has_the_meaning_of_its_strongest():
    for names in product(REASONS, repeat=len(COMMIT.actions)):
        reasons = [REASONS[name] for name in names]
        error = answered("TransactionCanceledException", CancellationReasons=reasons)

        assert ruling(error, MINE).verdict is expected(names), names


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(
    ("name", "outcome", "sent"),
    [
        ("none", OutcomeUnknown, 1),
        ("nothing said", OutcomeUnknown, 1),
        ("failed on mine", None, 1),
        ("failed on a rival's", RevisionConflict, 1),
        ("failed on no item", RevisionConflict, 1),
        ("failed on an item that is not ours", RevisionConflict, 1),
        ("conflict", StoreUnavailable, TRIES_MAX),
        ("throttled", StoreUnavailable, TRIES_MAX),
        ("over capacity", StoreUnavailable, TRIES_MAX),
        ("collection too large", StoreRefused, 1),
        ("invalid", StoreRefused, 1),
        ("new", StoreRefused, 1),
    ],
)
async def test_one_reason_in_any_position_decides_what_the_store_says(
    name, outcome, sent, position
):
    names = ["none"] * len(COMMIT.actions)
    names[position] = name
    client = Cancelling(*names)

    assert await committed(client) is outcome
    assert client.sent == [MINE] * sent, "every sending is under the same token"


@pytest.mark.parametrize("reasons", [{}, {"CancellationReasons": []}])
async def test_a_cancellation_without_reasons_leaves_the_outcome_unknown(reasons):
    client = Cancelling()
    client._error = answered("TransactionCanceledException", **reasons)

    assert await committed(client) is OutcomeUnknown
