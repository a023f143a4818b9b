"""Wishes of the documents' model, drawn by chance, and how a store is asked for them and about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.models.documents import Address, Change, Copy, Create, DocumentsModel, Retire, Wish

from perdure.kernel.documents import places
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.places import Address as StoreAddress
from perdure.kernel.documents.read import DocumentScan, find_document, load_document
from perdure.kernel.documents.records import Revision
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.places import after
from perdure.kernel.record import Record
from perdure.kernel.view import Key, Missing, Range, Reads, View
from perdure.runtime.documents.store import OpenStore

OWNER = "notes"
ADDRESSES: list[Address] = [
    ("here", "a", None),
    ("here", "a", ""),
    ("here", "\ud800", None),
    ("there", "a", None),
]
HISTORIES = ["none", "latest", "rewindable"]
UNKNOWN = 99

values = st.fixed_dictionaries(
    {"n": st.integers(0, 3), "t": st.sampled_from(["", "ab", "xyz"])},
    optional={"l": st.lists(st.integers(0, 2), max_size=2)},
)
ops = st.lists(
    st.sampled_from(
        [
            ["s", ["n"], 7],
            ["s", ["o"], {"p": []}],
            ["d", ["l"]],
            ["a", ["t"], "c"],
            ["t", ["t"], 2],
            ["p", ["l"], 0, 1, [5, 6]],
            ["a", ["absent"], "c"],
            ["r", {"t": "new"}],
        ]
    ),
    max_size=3,
)
explicit = st.none() | st.none() | st.integers(50, 54)


@st.composite
def batches(draw: Callable[..., Any], model: DocumentsModel) -> list[Wish]:
    """Draw a batch: most of it fits what is there, some of it does not."""
    batch: list[Wish] = []
    for _ in range(draw(st.integers(1, 4))):
        wish = draw(wishes(model))
        batch.append(wish)
        if isinstance(wish, Create | Copy) and wish.id is not None and draw(st.booleans()):
            batch.append(Retire(wish.id))
    return batch


@st.composite
def wishes(draw: Callable[..., Any], model: DocumentsModel) -> Wish:
    living = sorted(each.id for each in model.lives.values() if each.ended is None)
    is_odd = draw(st.integers(0, 11)) == 0
    if not (living or is_odd) or draw(st.integers(0, 3)) == 0:
        return draw(creations(model, is_odd=is_odd))
    id = draw(st.sampled_from(sorted({*model.ids, UNKNOWN, 50}) if is_odd else living))
    life = model.lives.get(id)
    kind = draw(st.sampled_from(["base", "delta", "delta", "retire", "copy"]))
    if kind == "copy":
        return draw(copies(model, id))
    revision = draw(st.none() | st.just(1 if life is None else len(life.said)))
    revision = draw(st.integers(1, 4)) if is_odd and draw(st.booleans()) else revision
    if kind == "retire":
        return Retire(id, revision)
    if kind == "base":
        return Change(id, kind, draw(values), draw(st.integers(1, 2)), revision)
    version = 1 if life is None or is_odd else life.said[-1].version
    return Change(id, kind, draw(ops), version, revision)


@st.composite
def creations(draw: Callable[..., Any], model: DocumentsModel, *, is_odd: bool) -> Create:
    taken = [each.address for each in model.lives.values() if each.ended is None]
    free = [each for each in ADDRESSES if each not in taken]
    address = draw(st.sampled_from(ADDRESSES if is_odd or not free else free))
    history = draw(st.sampled_from(HISTORIES))
    return Create(address, history, draw(values), draw(st.integers(1, 2)), draw(explicit))


@st.composite
def copies(draw: Callable[..., Any], model: DocumentsModel, id: int) -> Copy:
    life = model.lives.get(id)
    at = draw(st.none() | st.integers(1, model.seq + 1))
    if life is None:
        return Copy(ADDRESSES[0], "latest", id, at, draw(explicit))
    if life.history != "rewindable" and draw(st.integers(0, 5)):
        at = None
    where = "there" if life.address[0] == "here" else "here"
    address = (where, *life.address[1:])
    if draw(st.integers(0, 5)) == 0:
        address = draw(st.sampled_from(ADDRESSES))
    return Copy(address, life.history, id, at, draw(explicit))


def staged(wish: Wish) -> StagedWrite:
    """Spell a wish as a store takes it."""
    match wish:
        case Create():
            content = base(wish.version, wish.value)
            id = None if wish.id is None else DocumentId(wish.id)
            return CreateDocument(at(wish.address), wish.history, content, id, wish.meta).checked()
        case Copy():
            id = None if wish.id is None else DocumentId(wish.id)
            return CopyDocument(
                at(wish.address),
                wish.history,
                DocumentId(wish.source),
                None if wish.at is None else Seq(wish.at),
                id,
                wish.meta,
            ).checked()
        case Change():
            of = base if wish.kind == "base" else delta
            content = of(wish.version, wish.content)
            return ChangeDocument(DocumentId(wish.id), content, wish.revision)
        case Retire():
            return RetireDocument(DocumentId(wish.id), wish.revision)


def at(address: Address) -> StoreAddress:
    return StoreAddress(OWNER, *address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(Record):
    """Any record, as its bytes."""

    sort: str
    content: bytes

    @property
    def key(self) -> Key[Raw]:
        return Key(self.partition, self.sort, Raw)

    def body(self) -> bytes:
        return self.content

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Raw:
        return cls(partition=partition, sort=sort, content=body)


def everything(store: Partition) -> Callable[[View], dict[str, bytes]]:
    """Return what looks at every record of a store."""
    wanted = Range(store, " ", "~", Raw, limit=100_000)
    return lambda view: {each.key.sort: each.body() for each in view.find(wanted)}


Answers = dict[tuple[Any, ...], Any]


Question = tuple[Any, ...]


async def told_by(store: OpenStore, ids: Sequence[int]) -> Answers:
    """Ask a store everything that the model can answer."""
    partition = store.ref.partition
    questions = questions_about(store.seq, ids)

    def look(view: View) -> Answers:
        answers: Answers = {}
        lacking: list[Reads] = []
        for question in questions:
            try:
                answers[question] = _ANSWERS[question[0]](view, partition, *question[1:])
            except Missing as missing:
                lacking.append(missing.reads)
            except PerdureError as error:
                answers[question] = error.code
        if lacking:
            raise Missing(Reads.union(*lacking))
        return answers

    return await store.read(look)


def questions_about(last: int, ids: Sequence[int]) -> list[Question]:
    """Return every question, about now and about every commit up to the last."""
    points = [None, *range(last + 1)]
    finds = [("find", address, at) for address in ADDRESSES for at in points]
    loads = [("load", id, at) for id in ids for at in points]
    kinds = [("here", None), ("here", "a"), ("here", "\ud800"), ("there", None), ("there", "a")]
    lists = [("list", *kind, at) for kind in kinds for at in points]
    return [*finds, *loads, *lists, ("kept",)]


def told_by_model(model: DocumentsModel, ids: Sequence[int]) -> Answers:
    """Return what a store must answer."""
    answers = {"find": model.find, "load": model.load, "list": model.listed, "kept": model.kept}
    return {
        question: answers[question[0]](*question[1:])
        for question in questions_about(model.seq, ids)
    }


def _found(view: View, store: Partition, address: Address, point: Any) -> int | None:
    found = find_document(view, store, at(address), point)
    return None if found is None else found.id


def _loaded(view: View, store: Partition, id: int, point: Any) -> Any:
    loaded = load_document(view, store, DocumentId(id), point)
    return None if loaded is None else (loaded.version, loaded.value, loaded.deltas)


def _listed(view: View, store: Partition, namespace: str, kind: Any, point: Any) -> list[int]:
    """Page through a namespace, two documents at a time."""
    scan = DocumentScan(OWNER, namespace, point, kind)
    ids: list[int] = []
    behind: int | None = None
    while True:
        page, behind = scan.page(view, store, behind, 2)
        ids += [each.id for each in page]
        if behind is None:
            return ids


def _kept(view: View, store: Partition) -> set[tuple[int, int]]:
    wanted = Range(store, "rev/", after("rev/"), Revision, limit=100_000)
    assert places.revisions_prefix(DocumentId(1)).startswith("rev/")
    return {(each.id, each.seq) for each in view.find(wanted)}


_ANSWERS: dict[str, Callable[..., Any]] = {
    "find": _found,
    "load": _loaded,
    "list": _listed,
    "kept": _kept,
}
