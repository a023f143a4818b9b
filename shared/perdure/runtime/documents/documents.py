"""Documents of a namespace in the hand of one process: made, read, changed, ended by what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from perdure.kernel.documents.called import check_address
from perdure.kernel.documents.content import Content, Loaded
from perdure.kernel.documents.errors import RevisionDiffers, UnknownDocument
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.documents.read import (
    DocumentScan,
    check_limit,
    find_document,
    load_document,
)
from perdure.kernel.documents.records import Document
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import checked_name
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import Contended, InvalidValue, OutOfRange
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.shown import shown
from perdure.kernel.view import View
from perdure.runtime.documents.calls import Calls
from perdure.runtime.documents.definitions import DocumentDefinition, Found
from perdure.runtime.documents.store import OpenStore

V = TypeVar("V")
T = TypeVar("T")

CHANGE_TRIES: Final = 16
"""Times a change is prepared anew because another writer was first."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of documents of a namespace, by id."""

    documents: tuple[Document, ...]
    behind: DocumentId | None
    """Where the next page begins, if there is one."""


class Documents:
    """The documents that an owner keeps in one namespace of a store.

    The namespace is bound from :meth:`open` to :meth:`close`: nobody else of this process has it.
    Other processes may write it at the same time.
    """

    def __init__(self, store: OpenStore, owner: str, namespace: str, bound: Sequence[str]) -> None:
        self.store = store
        self.owner = owner
        self.namespace = namespace
        self._bound = bound
        self._calls = Calls(f"documents of {owner}/{namespace}")

    @classmethod
    def open(cls, store: OpenStore, owner: str, namespace: str) -> Self:
        """Bind a namespace of an owner. Raises NameBound, InvalidId, InvalidValue, TooLarge."""
        checked_name(owner, what="an owner")
        if namespace == "*":
            raise InvalidValue(expected="one namespace", found="'*', which binds all of an owner's")
        check_address(Address(owner, namespace, ""))
        return cls(store, owner, namespace, store.bind(f"{owner}/{namespace}"))

    async def close(self) -> None:
        """Refuse new calls, wait for those under way, let go of the namespace; the store stays open."""
        await self._calls.close()
        self.store.release(self._bound)
        self._bound = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create(
        self,
        definition: DocumentDefinition[V],
        key: str | None = None,
        value: V | None = None,
        *,
        id: DocumentId | None = None,
    ) -> DocumentId:
        """Let a document live, with ``value`` or what its kind begins with, and return its id.

        Raises: AddressTaken, IdTaken, InvalidValue kinds, TooLarge.
        """
        content = definition.first(definition.initial if value is None else value)
        address = self._address(definition, key)
        write = CreateDocument(address, definition.history, content, id).checked()
        with self._calls.one():
            return await self._born(write)

    async def get(
        self, definition: DocumentDefinition[V], key: str | None = None
    ) -> Found[V] | None:
        """Return a document as it is now. Raises NewerDocument, UnmigratedDocument, Corrupt."""
        with self._calls.one():
            loaded = await self._loaded(definition, key)
        return None if loaded is None else definition.read(loaded)

    async def at(
        self, seq: Seq, definition: DocumentDefinition[V], key: str | None = None
    ) -> Found[V] | None:
        """Return the document that lived there at a commit, as it was.

        Raises: HistoryNotKept, OutOfRange for a commit that has not happened, and as :meth:`get`.
        """
        with self._calls.one():
            loaded = await self._loaded(definition, key, seq)
        return None if loaded is None else definition.read(loaded)

    async def change(
        self,
        definition: DocumentDefinition[V],
        key: str | None,
        edit: Callable[[V], object],
    ) -> V:
        """Have a copy of a document's value edited, store what is new of it, and return it.

        If another writer is first, ``edit`` is asked again, with what that one wrote: it must do
        nothing but edit. An edit that changes nothing stores nothing.
        Raises: UnknownDocument, DocumentRetired, Contended, what ``edit`` raises, and as
        :meth:`get` and :meth:`create`.
        """
        with self._calls.one():
            for tries in range(CHANGE_TRIES):
                if tries:
                    await self.store.means.pause(0.002 * tries)
                loaded = await self._existing(definition, key)
                prepared = definition.changed(loaded, edit)
                if prepared.content is None:
                    return prepared.value
                try:
                    await self._commit(_change_of(loaded.document, prepared.content))
                except RevisionDiffers:
                    continue
                return prepared.value
        raise Contended(
            expected=f"to change a {definition.kind} before another does",
            found=f"{CHANGE_TRIES} changes of others",
        )

    async def retire(self, definition: DocumentDefinition[V], key: str | None = None) -> DocumentId:
        """End the document that lives there, whatever it says. Raises UnknownDocument, DocumentRetired."""
        with self._calls.one():
            document = await self._found(definition, key)
            if document is None:
                raise self._unknown(definition, key)
            await self._commit(RetireDocument(document.id))
            return document.id

    async def copy(
        self,
        definition: DocumentDefinition[V],
        key: str | None,
        source: Documents,
        *,
        at: Seq | None = None,
    ) -> DocumentId:
        """Let a document begin as that of another namespace is, or was at a commit, under one key.

        Raises: UnknownDocument, AddressTaken; CopyRefused, also for a source that keeps no past.
        """
        with self._calls.one():
            document = await source._found(definition, key, at)  # of its own class
            if document is None:
                raise source._unknown(definition, key)
            address, history = self._address(definition, key), document.history
            write = CopyDocument(address, history, document.id, at, meta=document.meta)
            return await self._born(write.checked())

    async def list(
        self,
        definition: DocumentDefinition[Any] | None = None,
        *,
        at: Seq | None = None,
        limit: int = 100,
        behind: DocumentId | None = None,
    ) -> Listed:
        """Return documents that live, or lived at a commit, by id: of one kind, or of all.

        Raises: InvalidValue, OutOfRange.
        """
        check_limit(limit)
        kind = None if definition is None else definition.kind
        scan = DocumentScan(self.owner, self.namespace, at, kind)
        partition = self.store.ref.partition
        with self._calls.one():
            found, more = await self._read(
                at, lambda view: scan.page(view, partition, behind, limit)
            )
        return Listed(tuple(found), None if more is None else DocumentId(more))

    async def _existing(self, definition: DocumentDefinition[V], key: str | None) -> Loaded:
        loaded = await self._loaded(definition, key)
        if loaded is None:
            raise self._unknown(definition, key)
        return loaded

    async def _loaded(
        self, definition: DocumentDefinition[V], key: str | None, at: Seq | None = None
    ) -> Loaded | None:
        address, partition = self._address(definition, key), self.store.ref.partition

        def look(view: View) -> Loaded | None:
            document = find_document(view, partition, address, at)
            return None if document is None else load_document(view, partition, document.id, at)

        return await self._read(at, look)

    async def _found(
        self, definition: DocumentDefinition[V], key: str | None, at: Seq | None = None
    ) -> Document | None:
        address, partition = self._address(definition, key), self.store.ref.partition
        return await self._read(at, lambda view: find_document(view, partition, address, at))

    async def _read(self, at: Seq | None, look: Callable[[View], T]) -> T:
        if at is not None and (type(at) is not int or not 0 <= at <= SAFE_INTEGER_MAX):
            raise OutOfRange(expected="a commit of 0 or more", found=shown(at))
        head, found = await self.store.look_with_head(look)
        if at is not None and at > head.seq:
            raise OutOfRange(
                expected=f"a commit that has happened, {head.seq} at most", found=f"{at}"
            )
        return found

    async def _born(self, write: StagedWrite) -> DocumentId:
        (id,) = await self._commit(write)
        return DocumentId(id)

    async def _commit(self, write: StagedWrite) -> tuple[int, ...]:
        return (await self.store.commit([write])).ids

    def _address(self, definition: DocumentDefinition[Any], key: str | None) -> Address:
        return Address(self.owner, self.namespace, definition.kind, key)

    def _unknown(self, definition: DocumentDefinition[Any], key: str | None) -> UnknownDocument:
        return UnknownDocument(
            expected=f"a {definition.kind} in {self.owner}/{self.namespace}",
            found=f"none under key {shown(key)}",
        )


def _change_of(document: Document, content: Content) -> ChangeDocument:
    # The delta was made of this very revision: it applies, if the revision is still the last.
    return ChangeDocument(document.id, content, document.revision, trusted=True)
