"""Commits under an id of their caller's happen once, also where their store was imported or copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import REF, means
from tests.support.exporting import BytesSource, bytes_of, export_of, parts_of
from tests.support.replicas import Damage, entries_of, tampered

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents import log
from perdure.kernel.documents.commit import Committed
from perdure.kernel.documents.errors import StoreDiverged
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import DocumentStoreId, Lineage
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.log import trim_log
from perdure.runtime.documents.replica import (
    StoreLog,
    apply_batch,
    catch_up,
    create_replica,
    promote,
)
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.stores import DocumentStores

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
OTHER = Lineage("otherotherotherother00")
CREATE = {"write": "document.create", "owner": "notes", "namespace": "desk", "kind": "note"}


def note(number: int, **more: Any) -> dict[str, Any]:
    return {**CREATE, "key": f"{number}", "value": number, **more}


WANTED = (
    [note(1), note(2, id=40)],
    [{"write": "document.change", "id": 41, "value": "once"}],
    [note(3), {"write": "document.retire", "id": 40}],
)
"""What three commits write, under the ids c-0, c-1 and c-2."""


async def sourced() -> tuple[DocumentStores, list[Committed]]:
    """Return the stores of one storage, and what the commits of its first store came to."""
    stores = DocumentStores(means(MemoryStore()), REF.storage)
    await stores.create(str(REF.store))
    return stores, [await committed(stores, REF, number) for number in range(len(WANTED))]


async def committed(stores: DocumentStores, ref: DocumentStoreRef, number: int) -> Committed:
    return await stores.commit(str(ref.store), WANTED[number], commit_id=f"c-{number}")


async def check_once(
    stores: DocumentStores, answers: list[Committed], ref: DocumentStoreRef
) -> None:
    """Hold a copy to what its source had answered."""
    before = await bytes_of(stores.means, ref)

    again = [await committed(stores, ref, number) for number in range(len(WANTED))]

    assert again == [replace(answer, replayed=True) for answer in answers]
    with pytest.raises(Conflict):
        await stores.commit(str(ref.store), [note(9)], commit_id="c-1")
    assert await bytes_of(stores.means, ref) == before
    later = await stores.commit(str(ref.store), [note(9)], commit_id="c-9")
    assert (later.seq, later.replayed) == (answers[-1].seq + 1, False)


async def test_an_accepted_commit_asked_for_again_after_an_import_happens_once() -> None:
    stores, answers = await sourced()
    data = await bytes_of(stores.means, REF)

    await import_store(stores.means, COPY, BytesSource(data), lineage=OTHER)

    assert await bytes_of(stores.means, COPY) == data
    await check_once(stores, answers, COPY)


async def replica_of(stores: DocumentStores) -> OpenStore:
    """Begin a replica of the first store."""
    lineage = (await stores.describe(str(REF.store))).lineage
    await create_replica(stores.means, COPY, lineage)
    return await OpenStore.open(stores.means, COPY)


async def test_an_accepted_commit_asked_for_again_after_a_promotion_happens_once() -> None:
    stores, answers = await sourced()
    replica = await replica_of(stores)

    await catch_up(StoreLog(stores.means, REF), replica)
    same = await bytes_of(stores.means, COPY) == await bytes_of(stores.means, REF)
    await promote(stores.means, COPY)

    assert same
    await check_once(stores, answers, COPY)


async def test_a_replica_that_begins_at_an_export_has_the_commits_of_both() -> None:
    stores, answers = await sourced()
    data = await bytes_of(stores.means, REF)
    await import_store(stores.means, COPY, BytesSource(data), lineage=OTHER, follows=True)
    late = await stores.commit(str(REF.store), [note(5)], commit_id="late")

    replica = await OpenStore.open(stores.means, COPY)
    await catch_up(StoreLog(stores.means, REF), replica)
    same = await bytes_of(stores.means, COPY) == await bytes_of(stores.means, REF)
    await promote(stores.means, COPY)

    assert same
    again = await stores.commit(str(COPY.store), [note(5)], commit_id="late")
    assert again == replace(late, replayed=True)
    assert (await committed(stores, COPY, 0)) == replace(answers[0], replayed=True)


async def test_an_id_is_known_when_the_log_has_nothing_of_its_commit_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "LOG_KEPT_MIN", 1)
    stores, answers = await sourced()
    last = answers[-1].seq

    trimmed = await trim_log(stores.means.authority, REF, last)

    assert trimmed.removed == last - 1
    assert await committed(stores, REF, 0) == replace(answers[0], replayed=True)
    data = await bytes_of(stores.means, REF)
    kept = [part["commit"] for part in parts_of(data) if part["part"] == "commit"]
    assert kept == ["c-0", "c-1", "c-2"]


async def test_an_export_has_a_part_for_every_id_before_the_documents() -> None:
    stores, answers = await sourced()

    data, exported = await export_of(stores.means, REF)

    parts = parts_of(data)
    kinds = ["manifest", "commit", "commit", "commit", "document.create"]
    assert [part["part"] for part in parts[:5]] == kinds
    for part, number, answer in zip(parts[1:], range(3), answers, strict=False):
        assert len(part.pop("digest")) == 64
        assert part == {
            "commit": f"c-{number}",
            "ids": list(answer.ids),
            "next_id": answer.next_id,
            "part": "commit",
            "seq": answer.seq,
        }
    assert parts[-1]["commits"] == exported.counts.commits == 3


async def test_the_log_says_under_which_id_a_commit_was_asked_for() -> None:
    stores, _ = await sourced()

    page = await stores.log(str(REF.store))

    told = [entry.told()[-1] for entry in page.entries]
    assert [each.keys() for each in told] == [{"w", "commit", "digest"}] * 3
    assert {each["w"] for each in told} == {"commit.key"}
    assert [each["commit"] for each in told] == ["c-0", "c-1", "c-2"]


def taken(writes: list[dict[str, Any]]) -> None:
    writes[-1]["commit"] = "c-0"


def misnamed(writes: list[dict[str, Any]]) -> None:
    writes[-1]["commit"] = "a/b"


def unnamed(writes: list[dict[str, Any]]) -> None:
    del writes[-1]["commit"]


def undigested(writes: list[dict[str, Any]]) -> None:
    writes[-1]["digest"] = "0f"


def twice(writes: list[dict[str, Any]]) -> None:
    writes.append({**writes[-1], "commit": "other"})


@pytest.mark.parametrize("damage", [taken, misnamed, unnamed, undigested, twice])
async def test_a_replica_that_is_told_of_no_such_id_has_diverged(damage: Damage) -> None:
    stores, answers = await sourced()
    with_ = means(prefix="r")
    lineage = (await stores.describe(str(REF.store))).lineage
    await create_replica(with_, COPY, lineage)
    replica = await OpenStore.open(with_, COPY)
    source = await stores.open(str(REF.store))
    first, second, _ = await entries_of(source)
    await apply_batch(replica, [first])

    with pytest.raises(StoreDiverged):
        await apply_batch(replica, [tampered(second, damage)])

    assert replica.seq == answers[0].seq
    await with_.authority.close()
