"""A replica that was told what does not fit applies nothing of it, and says so for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import means
from tests.support.histories import ITEMS
from tests.support.replicas import REPLICA, ROW, Damage, entries_of, pair, tampered

from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import DescribeDocumentStore
from perdure.kernel.documents.errors import StoreDiverged
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.documents.rows import DeleteWhere, InsertRow, UpdateWhere
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.ids import DocumentId
from perdure.kernel.record import Record
from perdure.kernel.view import Range, Reads
from perdure.runtime.documents.replica import apply_batch, promote
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores


def count(writes: list[dict[str, Any]]) -> None:
    writes[0]["count"] += 1


def where(writes: list[dict[str, Any]]) -> None:
    writes[0]["where"] = {"color": "green"}


def twice(writes: list[dict[str, Any]]) -> None:
    writes.append(writes[0])


def column(writes: list[dict[str, Any]]) -> None:
    writes[0]["row"]["surprise"] = 1


def table(writes: list[dict[str, Any]]) -> None:
    writes[0]["table"] = "notes:absent"


def one_part(writes: list[dict[str, Any]]) -> None:
    writes[0]["table"] = "items"


def long_name(writes: list[dict[str, Any]]) -> None:
    writes[0]["table"] = "notes:" + "x" * 2_000


def long_key(writes: list[dict[str, Any]]) -> None:
    writes[0]["row"]["shelf"] = "x" * 2_000


def many(writes: list[dict[str, Any]]) -> None:
    row = writes[0]["row"]
    writes[:] = [{**writes[0], "row": {**row, "number": 100 + each}} for each in range(99)]


def missing(writes: list[dict[str, Any]]) -> None:
    del writes[0]["row"]


def no_write(writes: list[Any]) -> None:
    writes[0] = 5


def id_of_another(writes: list[dict[str, Any]]) -> None:
    writes[0]["id"] = 2


def retired(writes: list[dict[str, Any]]) -> None:
    writes[0] = {"w": "document.retire", "id": 99}


def same_address(writes: list[dict[str, Any]]) -> None:
    writes.append({**writes[0], "id": writes[0]["id"] + 1})


def version(writes: list[dict[str, Any]]) -> None:
    writes[0]["content"]["version"] = 7
    writes[0]["content"]["kind"] = "delta"
    writes[0]["content"]["ops"] = []
    del writes[0]["content"]["value"]


def inapplicable(writes: list[dict[str, Any]]) -> None:
    writes[0]["content"] = {"kind": "delta", "version": 1, "ops": [["a", ["no"], "x"]]}


def more_than_it_does(writes: list[dict[str, Any]]) -> None:
    writes[0]["surprise"] = True


def fewer(writes: list[dict[str, Any]]) -> None:
    writes[0]["count"] = -2


def no_number(writes: list[dict[str, Any]]) -> None:
    writes[0]["count"] = True


def half(writes: list[dict[str, Any]]) -> None:
    writes[0]["count"] = 0.5


def first_of_none(writes: list[dict[str, Any]]) -> None:
    writes[0]["first"] = float(writes[0]["first"])


PAPER = Address("notes", "papers", "one")
LAST: dict[str, tuple[Any, list[Damage]]] = {
    "update": (UpdateWhere(ITEMS, {"color": "red"}, {"more": 1}), [count, where]),
    "delete": (DeleteWhere(ITEMS, {"color": "red"}), [count, where]),
    "insert": (
        InsertRow(ITEMS, {**ROW, "number": 2}),
        [
            twice,
            column,
            table,
            one_part,
            long_name,
            long_key,
            many,
            missing,
            no_write,
            more_than_it_does,
        ],
    ),
    "create": (
        CreateDocument(Address("notes", "papers", "two"), "latest", base(1, {})),
        [id_of_another, same_address, version, more_than_it_does],
    ),
    "reserve": (ReserveIds(5), [fewer, no_number, half, first_of_none]),
    "change": (
        ChangeDocument(DocumentId(2), base(1, {})),
        [retired, version, inapplicable, twice],
    ),
}
CASES = [(name, damage) for name, (_, damages) in LAST.items() for damage in damages]


@pytest.mark.parametrize(
    ("name", "damage"), CASES, ids=[f"{name}-{damage.__name__}" for name, damage in CASES]
)
async def test_a_commit_that_does_not_fit_is_not_applied_and_the_replica_is_diverged_for_good(
    name: str, damage: Damage
) -> None:
    async with pair() as (source, replica):
        await source.commit([CreateDocument(PAPER, "rewindable", base(1, {}))])
        await source.commit([LAST[name][0]])
        *before, last = await entries_of(source)
        await apply_batch(replica, before)
        was = await records_of(replica)

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, [tampered(last, damage)])

        again = await OpenStore.open(means_on(replica), REPLICA)
        for commits in ([last], [tampered(last, damage)]):
            with pytest.raises(StoreDiverged):
                await apply_batch(again, commits)
        with pytest.raises(StoreDiverged):
            await again.commit([])
        with pytest.raises(StoreDiverged):
            await promote(again.means, REPLICA)
        info = await again.means.authority.execute(DescribeDocumentStore(REPLICA))
        assert info.diverged is not None
        assert info.seq == 3
        assert await records_of(again) == was


async def records_of(store: OpenStore) -> dict[str, bytes]:
    """Return every record of a store but its head."""
    wanted = Range(store.ref.partition, " ", "~", Record)
    view = await store.means.authority.view(Reads(ranges=(wanted,)))
    bodies = {key.sort: found.body for key, found in view.stored.items() if found is not None}
    return {sort: body for sort, body in bodies.items() if sort != "head"}


def means_on(store: OpenStore) -> Any:
    """Return what works on the same records as a store does, as another process."""
    authority: Any = store.means.authority
    return means(authority._store, prefix="again")


async def test_a_value_that_fits_but_is_another_is_found_with_the_next_commit() -> None:
    async with pair() as (source, replica):
        await source.commit([InsertRow(ITEMS, {**ROW, "number": 2})])
        entries = await entries_of(source)

        def another(writes: list[dict[str, Any]]) -> None:
            writes[0]["row"]["color"] = "blue"

        await apply_batch(replica, [entries[0], tampered(entries[1], another)])

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, entries[2:])


@pytest.mark.parametrize(
    "fields",
    [{"previous": "0" * 64}, {"next_id": 1}, {"next_id": 2**53}],
    ids=["digest", "next_id", "no_id"],
)
async def test_another_chain_and_ids_that_are_taken_are_diverged(fields: dict[str, Any]) -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)
        await apply_batch(replica, entries[:1])

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, [replace(entries[1], **fields)])
