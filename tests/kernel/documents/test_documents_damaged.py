"""Damage is told as damage: a document whose records do not fit together is not an absent one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.documents import opened

from perdure.authority.memory import MemoryStore
from perdure.authority.packing import RAW
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import DocumentScan
from perdure.kernel.documents.writes import ChangeDocument, CopyDocument, CreateDocument
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.view import Key, Stored
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

ID = DocumentId(2)
HERE = Address("notes", "n", "k")


@asynccontextmanager
async def damaged(sort: str, damage: Callable[[bytes], bytes | None]) -> AsyncIterator[OpenStore]:
    """Have a document with a base at 1 and deltas at 2 to 4, and one record of it changed."""
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "rewindable", base(1, {"t": "a"}))])
        for letter in "bcd":
            await store.commit([ChangeDocument(ID, delta(1, [["a", ["t"], letter]]))])
    async with opened(records.reopened(), prefix="u") as store:
        key = next(each for each in records._records if each.sort.startswith(sort))
        _rewrite(records, key, damage)
        yield store


def _rewrite(records: MemoryStore, key: Key[Any], damage: Callable[[bytes], bytes | None]) -> None:
    stored = records._records[key]
    assert stored.body[:1] == RAW
    body = damage(stored.body[1:])
    if body is None:
        del records._records[key]
        records._sorts[key.partition].remove(key.sort)
    else:
        records._records[key] = Stored(stored.version, RAW + body)


def gone(_: bytes) -> None:
    return None


def content(seq: int) -> str:
    return f"rev/{ID:019d}/{seq:019d}"


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "no base": (content(1), gone),
    "no delta": (content(3), gone),
    "no last delta": (content(4), gone),
    "another version": (content(3), lambda body: body.replace(b'"version":1', b'"version":2')),
    "an op that does not fit": (content(3), lambda body: body.replace(b'["t"]', b'["u"]')),
    "an op of no kind": (content(3), lambda body: body.replace(b'["a"', b'["z"')),
    "no operations": (content(3), lambda _: b'{"kind":"delta","ops":1,"version":1}'),
    "a base in the tail": (content(4), lambda _: b'{"kind":"base","value":1,"version":1}'),
    "no content": (content(1), lambda _: b"{}"),
    "no JSON": (content(3), lambda body: body[:-1]),
    "a base without a version": (content(1), lambda _: b'{"kind":"base","value":{"t":""}}'),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_damaged_content_is_corrupt_now(name):
    async with damaged(*DAMAGES[name]) as store:
        with pytest.raises(Corrupt) as raised:
            await store.load(ID)

        assert raised.value.code == "corrupt"


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - {"a base in the tail"}))
async def test_damaged_content_is_corrupt_in_the_past(name):
    async with damaged(*DAMAGES[name]) as store:
        with pytest.raises(Corrupt):
            await store.load(ID, Seq(4))


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - {"a base in the tail", "no last delta"}))
async def test_nothing_is_built_on_damaged_content(name):
    async with damaged(*DAMAGES[name]) as store:
        for write in (
            ChangeDocument(ID, delta(1, [["a", ["t"], "e"]])),
            CopyDocument(Address("notes", "m", "k"), "rewindable", ID),
        ):
            with pytest.raises(Corrupt):
                await store.commit([write])

        assert store.seq == 4


async def test_what_lies_before_the_damage_can_be_read():
    async with damaged(content(3), lambda _: b"{}") as store:
        loaded = await store.load(ID, Seq(2))

        assert loaded is not None
        assert loaded.value == {"t": "ab"}


async def test_a_document_that_its_address_names_is_not_absent():
    async with damaged(f"doc/{ID:019d}", gone) as store:
        with pytest.raises(Corrupt, match="an address names"):
            await store.find(HERE)
        with pytest.raises(Corrupt, match="an address names"):
            await store.commit([CreateDocument(HERE, "latest", base(1, 1))])


async def test_a_document_that_its_namespace_names_is_not_absent():
    scan = DocumentScan("notes", "n")
    async with damaged(f"doc/{ID:019d}", gone) as store:
        with pytest.raises(Corrupt, match="its namespace names"):
            await store.read(lambda view: scan.page(view, store.ref.partition, None, 9))
