"""Writes of documents: create, copy, change, retire."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from perdure.kernel.documents import places
from perdure.kernel.documents.called import check_id, check_named
from perdure.kernel.documents.content import Content, base, check_history, current, past
from perdure.kernel.documents.errors import (
    CopyRefused,
    DocumentRetired,
    HistoryNotKept,
    IdTaken,
    NeedsBase,
    RevisionDiffers,
    UnknownDocument,
)
from perdure.kernel.documents.leftover import supersede
from perdure.kernel.documents.ops import applied_to_own, owned
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import (
    HISTORIES,
    Document,
    History,
    Life,
    Revision,
    Scoped,
    document_key,
)
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.successors import with_content
from perdure.kernel.errors import Corrupt, InvalidValue
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.places import after, number
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Range, Reads


@dataclass(frozen=True, slots=True)
class CreateDocument:
    """Let a document live at an address, with its first base.

    Without ``id`` it takes the store's next one. With one, the same commit may end it: it has then
    lived at no commit.
    """

    address: Address
    history: History
    content: Content
    id: DocumentId | None = None
    meta: Any = None

    def __post_init__(self) -> None:
        # Whoever gave it may change it before the commit has its turn.
        object.__setattr__(self, "meta", owned(self.meta))

    def checked(self) -> CreateDocument:
        """Return self if a store can keep it. Raises InvalidValue, TooLarge."""
        if self.history not in HISTORIES:
            raise InvalidValue(
                expected=f"a history of {', '.join(HISTORIES)}", found=shown(self.history)
            )
        if self.content.kind != "base":
            raise NeedsBase(expected="a base as a document's first content", found="a delta")
        check_named(self.address, self.id, self.meta)
        return self

    @property
    def owner(self) -> str:
        return self.address.owner

    @property
    def names_id(self) -> int:
        return 0 if self.id is None else self.id

    def reads(self, store: Partition) -> Reads:
        lives = (lives_before(store, self.address),)
        if self.id is None:
            return Reads(ranges=lives)
        return Reads(peeks=(document_key(store, self.id),), ranges=lives)

    def apply(self, step: Step) -> None:
        id = DocumentId(step.mint()) if self.id is None else self.id
        if id in step.created or step.read(document_key(step.store, id)) is not None:
            raise IdTaken(expected=f"a free id {id}", found=f"ID {id} already belongs to document")
        step.raise_to(id)
        step.created.append(id)
        document = Document(
            partition=step.store,
            id=id,
            owner=self.address.owner,
            namespace=self.address.namespace,
            kind=self.address.kind,
            member=self.address.key,
            history=self.history,
            version=self.content.version,
            revision=1,
            base=step.seq,
            last=step.seq,
            meta=self.meta,
            created_at=step.seq,
        )
        scope = places.scope_hash(self.address.owner, self.address.namespace)
        step.put(document)
        step.put(Scoped(partition=step.store, scope=scope, id=id))
        step.put(_revision(step, id, self.content))
        step.own(self.address)
        told = {
            "id": id,
            "owner": self.address.owner,
            "namespace": self.address.namespace,
            "kind": self.address.kind,
            "key": self.address.key,
            "history": self.history,
            "meta": self.meta,
        }
        step.tell("document.create", told, self.content.spelled)


@dataclass(frozen=True, slots=True)
class CopyDocument:
    """Let a document begin as another was before this commit, ``at`` a seq or as it is now."""

    address: Address
    history: History
    source: DocumentId
    at: Seq | None = None
    id: DocumentId | None = None
    meta: Any = None
    of: str | None = None
    """Whose document the source must be; None for anybody's."""

    within: str = ""
    """What the namespaces of source and copy must begin with."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", owned(self.meta))

    def checked(self) -> CopyDocument:
        """Return self if a store can keep it. Raises InvalidValue, TooLarge."""
        check_named(self.address, self.id, self.meta)
        check_id(self.source)
        if self.at is not None and (type(self.at) is not int or self.at < 0):
            raise InvalidValue(expected="a commit of 0 or more", found=shown(self.at))
        return self

    @property
    def owner(self) -> str:
        return self.address.owner

    @property
    def names_id(self) -> int:
        return 0 if self.id is None else self.id

    def reads(self, store: Partition) -> Reads:
        created = () if self.id is None else (document_key(store, self.id),)
        peeks = (document_key(store, self.source), *created)
        return Reads(peeks=peeks, ranges=(lives_before(store, self.address),))

    def apply(self, step: Step) -> None:
        source = step.read(document_key(step.store, self.source))
        if source is not None and step.seq in (source.last, source.retired_at):
            raise CopyRefused(
                expected=f"document {self.source} as it was before the commit",
                found=f"Fork source document {self.source} is changed in the copy batch",
            )
        is_future = self.at is not None and self.at >= step.seq
        is_anothers = source is not None and self.of not in (None, source.owner)
        if source is None or is_anothers or is_future or not source.is_alive(self.at):
            raise CopyRefused(
                expected=f"document {self.source} to be read",
                found=f"Fork source document {self.source} cannot be read",
            )
        try:
            check_history(source, self.at)
        except HistoryNotKept as error:
            raise CopyRefused(expected=error.expected, found=error.found) from error
        same = (source.kind, source.member, source.history, source.meta)
        wanted = (self.address.kind, self.address.key, self.history, self.meta)
        namespaces = (source.namespace, self.address.namespace)
        if same != wanted or not all(each.startswith(self.within) for each in namespaces):
            raise CopyRefused(
                expected=f"kind, key, history and meta of the source, within {self.within!r}",
                found=f"Fork source document {self.source} does not match the copied record",
            )
        if self.at is None:
            loaded = current(step.view, step.store, source)
        else:
            loaded = past(step.view, step.store, source, self.at)
        content = base(loaded.version, loaded.value)
        CreateDocument(self.address, self.history, content, self.id, self.meta).apply(step)


@dataclass(frozen=True, slots=True)
class _OfDocument:
    id: DocumentId

    @property
    def owner(self) -> None:
        return None

    @property
    def names_id(self) -> int:
        return 0

    def reads(self, store: Partition) -> Reads:
        return Reads(keys=(document_key(store, self.id),))


@dataclass(frozen=True, slots=True)
class ChangeDocument(_OfDocument):
    """Give a living document its next content.

    ``revision`` is the one that the caller has read, if the change is conditioned on that. A delta
    is applied to what is there before it is taken, unless its owner is ``trusted`` to have done so.
    """

    content: Content
    revision: int | None = None
    trusted: bool = False
    of: str | None = None
    """Whose document it must be; None for anybody's."""

    def apply(self, step: Step) -> None:
        document = living(step, self.id, self.of)
        check_revision(step, document, self.revision)
        if document.last == step.seq:
            raise twice(self.id)
        if self.content.kind == "delta":
            self._check_delta(step, document)
            base_seq, deltas = document.base, document.deltas + 1
        else:
            base_seq, deltas = step.seq, 0
            if document.history != "rewindable":
                supersede(step, document)
        version = self.content.version
        step.put(
            with_content(document, version=version, base=base_seq, last=step.seq, deltas=deltas)
        )
        step.put(_revision(step, self.id, self.content))
        step.own(document.address)
        step.tell("document.change", {"id": self.id}, self.content.spelled)

    def _check_delta(self, step: Step, document: Document) -> None:
        if document.version != self.content.version:
            raise NeedsBase(
                expected=f"a delta of version {document.version}",
                found=f"Document {self.id} version transition requires a base",
            )
        if not self.trusted:
            loaded = current(step.view, step.store, document)
            applied_to_own(loaded.value, [self.content.told])


@dataclass(frozen=True, slots=True)
class RetireDocument(_OfDocument):
    """End a document. What its history keeps of it can be read at commits before."""

    revision: int | None = None
    of: str | None = None
    """Whose document it must be; None for anybody's."""

    def apply(self, step: Step) -> None:
        document = living(step, self.id, self.of)
        check_revision(step, document, self.revision)
        life = Life(
            partition=step.store,
            address=document.address.hash,
            created_at=document.created_at,
            id=document.id,
        )
        scope = places.scope_hash(document.owner, document.namespace)
        scoped = Scoped(partition=step.store, scope=scope, id=document.id)
        if document.history != "rewindable":
            supersede(step, document)
            step.take_back(revision_of(step, self.id))
        if document.history == "none":
            gone: tuple[Key[Any], ...] = (life.key, scoped.key, document.key)
            step.require(*gone)
            for key in gone:
                step.remove(key)
        else:
            step.put(replace(document, retired_at=step.seq))
        step.own(document.address)
        step.tell("document.retire", {"id": self.id})


DocumentWrite = CreateDocument | CopyDocument | ChangeDocument | RetireDocument


def living(step: Step, id: DocumentId, of: str | None) -> Document:
    """Return a document that lives, of one owner's if that is named.

    Raises: UnknownDocument, DocumentRetired.
    """
    document = step.read(document_key(step.store, id))
    if document is None or of not in (None, document.owner):
        raise UnknownDocument(expected="a document that exists", found=f"Unknown document: {id}")
    if document.retired_at is not None:
        raise DocumentRetired(expected="a living document", found=f"Document {id} is retired")
    return document


def check_revision(step: Step, document: Document, seen: int | None) -> None:
    """Refuse a write of somebody who has read another revision. Raises RevisionDiffers.

    What this very commit has changed before is no difference.
    """
    was_changed = document.last == step.seq > document.created_at
    found = document.revision - was_changed
    if seen is not None and seen != found:
        raise RevisionDiffers(
            expected=f"revision {seen} of document {document.id}", found=f"revision {found}"
        )


def lives_before(store: Partition, address: Address, at: Seq | None = None) -> Range[Life]:
    """Return where the last life lies that began at an address, by a commit or by now."""
    prefix = places.lives_prefix(address.hash)
    last = after(prefix) if at is None else prefix + number(at + 1)
    return Range(store, prefix, last, Life, limit=1, descending=True)


def no_document(id: DocumentId, named_by: str) -> Corrupt:
    """Return the error of a document that is not there, although something names it."""
    return Corrupt(expected=f"document {id}, which {named_by} names", found="none")


def revision_of(step: Step, id: DocumentId) -> Key[Revision]:
    """Return where a content of this very commit lies."""
    return Key(step.store, places.revision_sort(id, step.seq), Revision)


def twice(id: DocumentId) -> NeedsBase:
    """Return the refusal of a second content in one commit."""
    return NeedsBase(
        expected="one content of a document in one commit",
        found=f"Document {id} has more than one content command",
    )


def _revision(step: Step, id: DocumentId, content: Content) -> Revision:
    return Revision(partition=step.store, id=id, seq=step.seq, content=content.spelled)
