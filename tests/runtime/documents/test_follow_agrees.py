"""Random commits: what a view is told comes to what a look at the store finds."""

from __future__ import annotations

import random

import pytest
from tests.support.documents import opened
from tests.support.following import (
    NOTES,
    address,
    create,
    frames,
    host,
    set_to,
    turn,
)

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.followed import AddressView, NamespaceView, TableView
from perdure.kernel.documents.rows import DeleteRow, DeleteWhere, PutRow, UpdateRow, UpdateWhere
from perdure.kernel.documents.writes import ChangeDocument, RetireDocument
from perdure.kernel.errors import Refused
from perdure.kernel.ids import DocumentId
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


@pytest.mark.parametrize("seed", range(6))
async def test_what_a_view_is_told_comes_to_what_a_look_finds(seed):
    chance = random.Random(seed)
    async with opened() as store:
        await prepared(store, [NOTES])
        wanted = [
            AddressView(address("k1")),
            NamespaceView("app", "main"),
            NamespaceView("app", "main", "note"),
            TableView(NOTES),
            TableView(NOTES, {"state": "open"}),
        ]
        followed = host()
        sources = [follow_view(followed, store, each) for each in wanted]
        await followed.activate()
        watches = [each.watch() for each in sources]
        commits = 0
        for _ in range(60):
            try:
                await store.commit([a_write(chance) for _ in range(chance.randint(1, 3))])
            except Refused:
                continue
            commits += 1
            if chance.random() < 0.3:
                await turn()
            if chance.random() < 0.3:
                await agreed(store, wanted, sources)
        for _ in range(20):
            await turn()

        part = store.ref.partition
        looked = [await store.read(lambda view, w=w: w.look(view, part)) for w in wanted]
        values = [each.value for each in sources]
        told = [await frames(watch) for watch in watches]
        followed.close()

    assert values == looked
    assert commits > 10
    for watch, of_watch in zip(watches, told, strict=True):
        assert watch.value == (of_watch[-1].value if of_watch else watch.value)
        seqs = [frame.seq for frame in of_watch]
        assert seqs == sorted(set(seqs))
        assert len(of_watch) <= commits


async def agreed(store, wanted, sources):
    """Hold what views were told to a look at the store, once nothing is on its way any more."""
    for _ in range(20):
        await turn()
    part = store.ref.partition
    looked = [await store.read(lambda view, w=w: w.look(view, part)) for w in wanted]
    assert [each.value for each in sources] == looked


def a_write(chance):
    id = chance.randint(2, 12)
    key = chance.choice(["k1", "k2"])
    row = {"id": chance.randint(1, 4), "state": chance.choice(["open", "done"]), "size": id}
    return chance.choice(
        [
            lambda: create(key, {"n": id}, history=chance.choice(["none", "latest", "rewindable"])),
            lambda: create(None, {"n": id}),
            lambda: set_to(id, chance.randint(0, 9)),
            lambda: ChangeDocument(DocumentId(id), base(2, {"n": 3})),
            lambda: ChangeDocument(DocumentId(id), delta(2, [["r", {"n": 9}]])),
            lambda: RetireDocument(DocumentId(id)),
            lambda: PutRow(NOTES, row),
            lambda: PutRow(NOTES, row),
            lambda: UpdateRow(NOTES, (row["id"],), {"state": row["state"]}),
            lambda: UpdateWhere(NOTES, {"state": "open"}, {"size": id}),
            lambda: UpdateWhere(NOTES, {"size": id}, {"state": "open"}),
            lambda: DeleteWhere(NOTES, {"state": "done", "size": id}),
            lambda: DeleteRow(NOTES, (row["id"],)),
        ]
    )()
