"""Definitions of documents: what code says of a kind of them, and what it makes of a stored one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.called import check_address
from perdure.kernel.documents.content import Content, Loaded, base, delta
from perdure.kernel.documents.diff import difference
from perdure.kernel.documents.errors import NewerDocument, UnmigratedDocument
from perdure.kernel.documents.ops import detached
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import HISTORIES, History
from perdure.kernel.errors import InvalidValue, fault
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.shown import path_shown, shown, text_of

V = TypeVar("V")

Json = Any
"""A JSON value of objects, lists, texts, numbers, truth and null."""


class CheckpointWhen(Protocol):
    """Says whether a change is stored as a base, and not as a delta."""

    def __call__(self, value: Json, ops: list[list[Any]], deltas_since_base: int, /) -> bool:
        """Decide for ``value``, to which ``ops`` have led: it is the callee's own.

        ``deltas_since_base`` are those stored before this change.
        """
        ...


@dataclass(frozen=True, slots=True)
class Found(Generic[V]):
    """A document as it was read. Its value is the reader's own."""

    id: DocumentId
    key: str | None
    value: V
    version: int
    """Version of the definition that it was written with."""

    deltas: int
    """Deltas since the base."""

    created_at: Seq
    retired_at: Seq | None = None


@dataclass(frozen=True, slots=True)
class Prepared(Generic[V]):
    """A change that can be stored: nothing of it is left to decide."""

    value: V
    content: Content | None
    """None if the value is what it was."""


@dataclass(frozen=True, slots=True)
class DocumentDefinition(Generic[V]):
    """A kind of document as the code declares it. Check it once with :meth:`checked`.

    ``initial`` is what a document begins with, copied for each. With ``model`` its value is an
    instance of that pydantic class, else a list or an object of JSON. ``migrate`` makes the JSON
    of this version from that of an older one. Creations and changes of a document of an older
    version are bases; of every other change ``checkpoint_when`` is asked, once.
    """

    kind: str
    version: int
    history: History
    initial: V
    checkpoint_when: CheckpointWhen
    migrate: Callable[[Json, int], Json] | None = None
    model: type[V] | None = None

    def checked(self) -> DocumentDefinition[V]:
        """Return self if documents can be kept so. Raises InvalidValue kinds, TooLarge."""
        if self.history not in HISTORIES:
            raise InvalidValue(
                expected=f"a history of {', '.join(HISTORIES)}", found=shown(self.history)
            )
        if self.model is not None and not issubclass(self.model, BaseModel):
            raise InvalidValue(expected="a model of pydantic's", found=shown(self.model))
        check_address(Address("", "", self.kind))
        self.first(self.initial)
        return self

    def first(self, value: V) -> Content:
        """Return the base that a document begins with. Raises InvalidValue kinds, TooLarge."""
        return base(self.version, self.told(value))

    def told(self, value: V) -> Json:
        """Return a value as JSON that shares nothing with it. Raises InvalidValue kinds."""
        found: Any = value
        if self.model is not None and isinstance(value, BaseModel):
            found = self._dumped(value)
        if not isinstance(found, dict | list):
            raise InvalidValue(
                expected=f"a {self.kind} of an object or a list", found=shown(type(value).__name__)
            )
        plain = self._plain(found)
        if self.model is not None:
            self.of(detached(plain))
        return plain

    def _dumped(self, value: BaseModel) -> Any:
        try:
            # Under the names, and of the fields, that it is read again by.
            return value.model_dump(mode="json", by_alias=True, round_trip=True)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(
                expected=f"a {self.kind} of JSON that a store can hold", found=text_of(error)
            ) from error

    def of(self, told: Json) -> V:
        """Return the value that JSON tells, which is used up. Raises InvalidValue kinds."""
        if self.model is None:
            return told  # type: ignore[no-any-return]  # V is what the JSON is
        assert issubclass(self.model, BaseModel)
        try:
            return self.model.model_validate(told)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = path_shown((self.kind, *first["loc"]))
            raise fault(first["type"], where, first["msg"], shown(first["input"])) from error

    def read(self, loaded: Loaded) -> Found[V]:
        """Return a stored document as this code knows it.

        Raises: NewerDocument, UnmigratedDocument, and what ``migrate`` raises.
        """
        return self._found(loaded, self.of(self._migrated(loaded)))

    def changed(self, loaded: Loaded, edit: Callable[[V], object]) -> Prepared[V]:
        """Have a copy of a stored document's value edited, and return what is to be stored.

        Raises: as :meth:`read`, and what ``edit`` raises; InvalidValue kinds, TooLarge.
        """
        old = self._migrated(loaded)
        draft = self.of(detached(old))
        edit(draft)
        new = self.told(draft)
        if loaded.version != self.version:
            content: Content | None = base(self.version, new)
        elif ops := difference(old, new):
            content = delta(self.version, ops)
            # It is asked of copies: what it does to them is in nobody's way.
            if self.checkpoint_when(detached(new), content.told, loaded.deltas):
                content = base(self.version, new)
        else:
            content = None
        return Prepared(self.of(new), content)

    def _migrated(self, loaded: Loaded) -> Json:
        if loaded.version == self.version:
            return loaded.value
        if loaded.version > self.version:
            raise NewerDocument(
                expected=f"a {self.kind} of version {self.version} or older",
                found=f"version {loaded.version} of document {loaded.document.id}",
            )
        if self.migrate is None:
            raise UnmigratedDocument(
                expected=f"a {self.kind} of version {self.version}, or a way to bring it there",
                found=f"version {loaded.version} of document {loaded.document.id}",
            )
        return self._plain(self.migrate(loaded.value, loaded.version))

    def _plain(self, value: Any) -> Json:
        try:
            return strict(canonical(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(
                expected=f"a {self.kind} of JSON that a store can hold", found=text_of(error)
            ) from error

    def _found(self, loaded: Loaded, value: V) -> Found[V]:
        document = loaded.document
        return Found(
            id=document.id,
            key=document.member,
            value=value,
            version=loaded.version,
            deltas=loaded.deltas,
            created_at=document.created_at,
            retired_at=document.retired_at,
        )
