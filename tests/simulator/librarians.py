"""Librarians: each has one document store in hand, beside others who have it too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.simulator.records import expect
from tests.simulator.stage import LIBRARY, Process

from perdure.authority.testing.records import noise
from perdure.kernel.documents.content import Content, base
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.errors import StoreFailed
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import HISTORIES
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import Corrupt, OutcomeUnknown, PerdureError
from perdure.kernel.ids import DocumentId, Lineage, Seq
from perdure.runtime.documents.store import OpenStore, StoreMeans

KINDS = ("a", "b", "c", "d")
LENGTHS = (10, 1_500, 4_000)
UNKNOWN = (OutcomeUnknown, StoreFailed)


async def librarian(me: Process) -> None:
    """Open the store, write and read until it fails, and open it again."""
    while await me.rested(1.0):
        store = await _opened(me)
        if store is None:
            continue
        while await me.rested(1.5):
            if me.stage.chance.random() < 0.4:
                await _reads(me, store)
            elif not await _writes(me, store):
                break


async def _opened(me: Process) -> OpenStore | None:
    means = StoreMeans(me.authority, me.now, me.new_token, asyncio.sleep)
    try:
        lineage = Lineage("0123456789abcdefghijkl")
        await me.authority.execute(CreateDocumentStore(LIBRARY, lineage).checked())
        return await OpenStore.open(means, LIBRARY)
    except PerdureError as error:
        _held(me, "open", error)
        return None


async def _writes(me: Process, store: OpenStore) -> bool:
    """Commit what is drawn; say whether the store is still in hand."""
    library = me.stage.library
    mark = me.new_token()
    try:
        reply = await store.commit(_staged(me, mark))
    except UNKNOWN as error:
        _held(me, "commit", error)
        return False
    except PerdureError as error:
        _held(me, "commit", error)
        library.refused(mark, error.code)
        return True
    me.met("commit: done")
    library.told(mark, reply.seq)
    return True


def _staged(me: Process, mark: str) -> Sequence[StagedWrite]:
    """Draw a creation, one or two changes, or an end beside a creation."""
    stage = me.stage
    living = sorted(stage.library.states[-1])
    content = _content(me, mark)
    address = Address("library", "shelf", stage.pick(KINDS))
    create = CreateDocument(address, stage.pick(HISTORIES), content).checked()
    drawn = stage.chance.random()
    if not living or drawn < 0.2:
        return [create]
    some = {stage.pick(living) for _ in range(2)}
    if drawn < 0.85:
        return [ChangeDocument(DocumentId(id), content) for id in sorted(some)]
    return [RetireDocument(DocumentId(min(some))), create]


def _content(me: Process, mark: str) -> Content:
    return base(1, {"by": mark, "text": noise(me.stage.pick(LENGTHS))})


async def _reads(me: Process, store: OpenStore) -> None:
    """Read all that lives, or what a document was at a commit."""
    library = me.stage.library
    first = library.known
    ids = sorted(set().union(*library.states[-5:]))
    if not ids:
        return
    id = me.stage.pick(ids)
    at = None
    if id in library.rewindable and me.stage.chance.random() < 0.5:
        at = Seq(int(me.stage.chance.random() * (first + 1)))
    try:
        loaded = await store.load(DocumentId(id), at)
    except PerdureError as error:
        _held(me, "load", error)
        return
    found = None if loaded is None else loaded.value["by"]
    span = range(first, library.seq + 1) if at is None else range(at, at + 1)
    wanted = {library.states[seq].get(id) for seq in span}
    expect(found in wanted, "D0", "{} at {} of {}: read {}, true {}", id, at, span, found, wanted)
    me.met("load: past" if at is not None else "load: now")


def _held(me: Process, call: str, error: PerdureError) -> None:
    """Hold an error to be none that says that the store is damaged."""
    expect(not isinstance(error, Corrupt), "D0", "{} is told {}", call, error)
    me.met(f"{call}: {error.code}")
    me.note("is told of its {}: {}", call, error)
