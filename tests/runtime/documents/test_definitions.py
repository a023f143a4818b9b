"""A definition says what a document begins with, what is stored of a change, and what it can read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field, computed_field
from tests.support.documents import opened

from perdure.kernel.documents.errors import NewerDocument, UnmigratedDocument
from perdure.kernel.documents.records import Revision
from perdure.kernel.errors import InvalidValue, MissingField, TooLarge, WrongType
from perdure.kernel.ids import Seq
from perdure.kernel.places import after
from perdure.kernel.view import Range
from perdure.runtime.documents.definitions import DocumentDefinition
from perdure.runtime.documents.documents import Documents
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores


def never(value: Any, ops: list[list[Any]], deltas_since_base: int) -> bool:
    return False


def defined(**given: Any) -> DocumentDefinition[Any]:
    asked: dict[str, Any] = {
        "kind": "note",
        "version": 1,
        "history": "rewindable",
        "initial": {"text": ""},
        "checkpoint_when": never,
    }
    return DocumentDefinition(**{**asked, **given}).checked()


async def contents(store: OpenStore) -> list[Any]:
    """Return every content of a store, oldest first."""
    wanted = Range(store.ref.partition, "rev/", after("rev/"), Revision)
    found = await store.read(lambda view: view.find(wanted))
    return [each.told() for each in sorted(found, key=lambda each: each.seq)]


async def test_every_change_is_asked_for_a_checkpoint_once_and_no_creation_is():
    asked = []

    def checkpoint_when(value, ops, deltas_since_base):
        asked.append((value["text"], list(ops), deltas_since_base))
        value["text"] = "what it does to its own is nobody's business"
        ops.clear()
        return deltas_since_base == 2

    note = defined(checkpoint_when=checkpoint_when)
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(note)
        for letter in "abcd":
            await notes.change(
                note, None, lambda draft, add=letter: draft.update(text=draft["text"] + add)
            )
        await notes.change(note, None, lambda draft: None)

        found = [
            (each["kind"], each.get("ops") or each.get("value")) for each in await contents(store)
        ]

    assert asked == [
        ("a", [["s", ["text"], "a"]], 0),
        ("ab", [["a", ["text"], "b"]], 1),
        ("abc", [["a", ["text"], "c"]], 2),
        ("abcd", [["a", ["text"], "d"]], 0),
    ]
    assert found == [
        ("base", {"text": ""}),
        ("delta", [["s", ["text"], "a"]]),
        ("delta", [["a", ["text"], "b"]]),
        ("base", {"text": "abc"}),
        ("delta", [["a", ["text"], "d"]]),
    ]


async def test_a_store_makes_no_checkpoint_of_its_own():
    note = defined()
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(note)
        for number in range(100):
            await notes.change(note, None, lambda draft, n=number: draft.update(n=n))

        found = await notes.get(note)

    assert found is not None
    assert (found.value, found.deltas) == ({"text": "", "n": 99}, 100)


async def test_a_document_of_an_older_version_is_brought_up_and_stored_as_a_base():
    def migrate(value, version):
        return {"body": f"{value.pop('text')} of {version}"}

    old, new = defined(initial={"text": "old"}), defined(version=3, initial={}, migrate=migrate)
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(old)
        read = await notes.get(new)
        await notes.change(new, None, lambda draft: draft.update(more=1))
        await notes.change(new, None, lambda draft: draft.update(more=2))

        said = await contents(store)
        past = await notes.at(Seq(1), new)

        assert read is not None
        assert (read.value, read.version) == ({"body": "old of 1"}, 1)
        assert [(each["kind"], each["version"]) for each in said] == [
            ("base", 1),
            ("base", 3),
            ("delta", 3),
        ]
        assert said[1]["value"] == {"body": "old of 1", "more": 1}
        assert past is not None
        assert (past.value, past.version) == ({"body": "old of 1"}, 1)


async def test_a_document_that_is_only_brought_up_is_stored_as_well():
    new = defined(version=2, migrate=lambda value, version: value)
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(defined())
        await notes.change(new, None, lambda draft: None)

        assert [each["version"] for each in await contents(store)] == [1, 2]


async def test_a_document_of_a_newer_version_is_neither_read_nor_changed():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(defined(version=2))

        for call in (notes.get(defined()), notes.change(defined(), None, lambda draft: None)):
            with pytest.raises(NewerDocument) as raised:
                await call
            assert raised.value.code == "newer_document"
            assert "version 1 or older" in raised.value.expected
        assert store.seq == 1


async def test_a_document_that_cannot_be_brought_up_says_so():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(defined())

        for call in (notes.get(defined(version=2)), notes.change(defined(version=2), None, str)):
            with pytest.raises(UnmigratedDocument) as raised:
                await call
            assert raised.value.code == "unmigrated_document"


class Card(BaseModel):
    title: str
    tags: list[str] = []


CARD = DocumentDefinition(
    "card", 1, "latest", Card(title="new"), checkpoint_when=never, model=Card
).checked()


async def test_a_value_may_be_a_model():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(CARD)
        await notes.create(CARD, "k", Card(title="given"))

        changed = await notes.change(CARD, None, lambda card: card.tags.append("red"))
        found, given = await notes.get(CARD), await notes.get(CARD, "k")

    assert changed == Card(title="new", tags=["red"])
    assert found is not None
    assert given is not None
    assert (found.value, given.value) == (changed, Card(title="given"))
    assert CARD.initial == Card(title="new")


async def test_a_draft_that_is_no_model_any_more_is_not_stored():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(CARD)

        with pytest.raises(WrongType) as raised:
            await notes.change(CARD, None, lambda card: card.tags.append(None))

        assert "card.tags.0" in raised.value.expected
        assert store.seq == 1


async def test_stored_json_that_is_no_model_says_where():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(defined(kind="card"))

        with pytest.raises(MissingField) as raised:
            await notes.get(CARD)

        assert raised.value.expected.startswith("card.title")


@pytest.mark.parametrize(
    "given",
    [
        {"history": "always"},
        {"version": 0},
        {"initial": "text"},
        {"initial": None},
        {"initial": {"n": float("nan")}},
        {"initial": {"n": {1}}},
        {"model": dict},
        {"kind": None},
    ],
    ids=str,
)
def test_a_definition_that_no_store_can_keep_is_refused(given):
    with pytest.raises(InvalidValue):
        defined(**given)


def test_a_kind_has_a_greatest_length():
    with pytest.raises(TooLarge):
        defined(kind="k" * 1_023)


class Depth(BaseModel):
    metres: float = Field(default=0.0, alias="depthInMetres")
    more: Any = None

    @computed_field
    @property
    def feet(self) -> float:
        return self.metres * 3.28


def test_a_value_is_kept_under_the_names_that_it_is_read_by():
    depth = defined(kind="depth", initial=Depth(), model=Depth)

    told = depth.told(Depth(depthInMetres=8.5))

    assert told == {"depthInMetres": 8.5, "more": None}
    assert depth.of(told).metres == 8.5


def test_a_value_that_no_json_spells_is_refused():
    depth = defined(kind="depth", initial=Depth(), model=Depth)

    for more in (object(), {1: {2, object()}}):
        with pytest.raises(InvalidValue):
            depth.told(Depth(more=more))
