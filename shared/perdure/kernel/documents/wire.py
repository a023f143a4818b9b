"""Writes as they come over a wire: JSON of which the kernel makes staged writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.documents.called import check_address
from perdure.kernel.documents.content import Content, base, delta
from perdure.kernel.documents.errors import UnknownTable
from perdure.kernel.documents.places import Address, Part
from perdure.kernel.documents.records import History
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import (
    InvalidBatch,
    InvalidValue,
    UnknownField,
    UnknownOperation,
    WrongType,
    fault,
)
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.shown import path_shown, shown

WRITES_MAX: Final = 100
"""Writes of one commit. Source: COMMIT_ACTIONS_MAX."""

WIRE_DELTAS_MAX: Final = 32
"""Deltas of a document behind which its next change is written whole: no definition says when, and
each change is held to all of them. Source: with their base they are dropped in one commit."""

TableOf = Callable[[str], Table]
"""Finds a table by its full name. Raises UnknownTable, TableMigrating."""

Id = Annotated[int, Field(ge=1)]
KeyPart = StrictBool | StrictInt | StrictStr


class _Write(BaseModel):
    """Base of writes over a wire: strict, and nothing that is not asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @property
    def table_named(self) -> str | None:
        """Full name of the table that it writes."""
        return None

    def staged(self, table_of: TableOf) -> StagedWrite:
        """Return what a commit applies. Raises Invalid kinds, UnknownTable, TableMigrating."""
        raise NotImplementedError


class _AtAddress(_Write):
    owner: str
    namespace: str
    kind: str
    key: str | None = None
    """Which of several of a kind; without it the address has the only one."""
    history: History = "latest"
    """What is kept of its past: `none`, that it was (`latest`), or all of it (`rewindable`)."""
    meta: Any = None
    """What its owner keeps with it."""
    id: Id | None = None
    """The store's next one if it is not given."""

    @property
    def address(self) -> Address:
        address = Address(self.owner, self.namespace, self.kind, self.key)
        check_address(address)
        return address

    @property
    def chosen(self) -> DocumentId | None:
        return None if self.id is None else DocumentId(self.id)


class WireCreate(_AtAddress):
    """Let a document live at an address."""

    write: Literal["document.create"]
    value: Any
    version: int = 1
    """Version of the definition that it was written with."""

    def staged(self, table_of: TableOf) -> StagedWrite:
        content = base(self.version, self.value)
        made = CreateDocument(self.address, self.history, content, self.chosen, self.meta)
        return made.checked()


class WireCopy(_AtAddress):
    """Let a document begin as another was; kind, key, history and meta are those of the source."""

    write: Literal["document.copy"]
    source: Id
    at: Annotated[int, Field(ge=1)] | None = None
    """Commit as of which it is copied; without it, as it is now."""

    def staged(self, table_of: TableOf) -> StagedWrite:
        at = None if self.at is None else Seq(self.at)
        source = DocumentId(self.source)
        return CopyDocument(self.address, self.history, source, at, self.chosen, self.meta)


class WireChange(_Write):
    """Give a document its next content: a whole ``value``, or ``ops`` on what it says."""

    write: Literal["document.change"]
    id: Id
    value: Any = None
    ops: list[Any] | None = None
    version: int = 1
    revision: int | None = None
    """The one that was read before: if it has changed since, the commit is refused."""

    def staged(self, table_of: TableOf) -> StagedWrite:
        content, most = self._content(), WIRE_DELTAS_MAX
        return ChangeDocument(DocumentId(self.id), content, self.revision, deltas_max=most)

    def _content(self) -> Content:
        has_value, has_ops = "value" in self.model_fields_set, self.ops is not None
        if has_value == has_ops:
            found = "both" if has_value else "neither"
            raise InvalidValue(expected="a change of one of `value` and `ops`", found=found)
        return base(self.version, self.value) if has_value else delta(self.version, self.ops or [])


class WireRetire(_Write):
    """End a document."""

    write: Literal["document.retire"]
    id: Id
    revision: int | None = None

    def staged(self, table_of: TableOf) -> StagedWrite:
        return RetireDocument(DocumentId(self.id), self.revision)


class _OfTable(_Write):
    table: str
    """Owner and name, with a colon between."""

    @property
    def table_named(self) -> str:
        return self.table


class _WholeRow(_OfTable):
    row: dict[str, Any]
    stamps: list[str] = []
    """Columns that take the number of the commit."""

    def checked(self, table: Table) -> tuple[str, ...]:
        """Return the stamps if row and stamps fit the table. Raises InvalidValue kinds."""
        in_key = [name for name in self.stamps if name in table.key]
        if in_key:
            raise InvalidValue(
                expected=f"stamps beside the key of {table.full_name}", found=shown(in_key)
            )
        table.check_row({**self.row, **dict.fromkeys(self.stamps, 0)})
        return tuple(self.stamps)


class WireInsert(_WholeRow):
    """Write a row under a key that is free."""

    write: Literal["row.insert"]

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return InsertRow(table, self.row, self.checked(table))


class WirePut(_WholeRow):
    """Write a row, whether or not there is one under its key."""

    write: Literal["row.put"]

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return PutRow(table, self.row, self.checked(table))


class WireUpdate(_OfTable):
    """Change columns of a row that is there."""

    write: Literal["row.update"]
    key: list[KeyPart]
    changes: dict[str, Any]

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return UpdateRow(table, checked_key(table, self.key), self.changes)


class WireDelete(_OfTable):
    """Take away a row that is there."""

    write: Literal["row.delete"]
    key: list[KeyPart]

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return DeleteRow(table, checked_key(table, self.key))


class WireUpdateWhere(_OfTable):
    """Change columns of every row whose columns hold the values of ``where``."""

    write: Literal["rows.update"]
    where: dict[str, Any]
    changes: dict[str, Any]
    count: int | None = None
    """How many those must be."""

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return UpdateWhere(table, checked_where(table, self.where), self.changes, self.count)


class WireDeleteWhere(_OfTable):
    """Take away every row whose columns hold the values of ``where``."""

    write: Literal["rows.delete"]
    where: dict[str, Any]
    count: int | None = None

    def staged(self, table_of: TableOf) -> StagedWrite:
        table = table_of(self.table)
        return DeleteWhere(table, checked_where(table, self.where), self.count)


WireWrite = Annotated[
    WireCreate
    | WireCopy
    | WireChange
    | WireRetire
    | WireInsert
    | WirePut
    | WireUpdate
    | WireDelete
    | WireUpdateWhere
    | WireDeleteWhere,
    Field(discriminator="write"),
]

_WRITES: Final[TypeAdapter[list[WireWrite]]] = TypeAdapter(list[WireWrite])
_NAMES: Final = tuple(
    get_args(each.model_fields["write"].annotation)[0] for each in get_args(get_args(WireWrite)[0])
)


def parsed_writes(raw: Any) -> tuple[WireWrite, ...]:
    """Read the JSON form of a commit's writes, each ``{"write": …, …}``.

    Raises: InvalidBatch, UnknownOperation, InvalidValue kinds; each names the first at fault.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not 1 <= len(raw) <= WRITES_MAX:
        found = f"{len(raw)}" if isinstance(raw, Sequence) else type(raw).__name__
        raise InvalidBatch(expected=f"a list of 1 to {WRITES_MAX} writes", found=found)
    try:
        return tuple(_WRITES.validate_python(list(raw)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = path_shown(part for part in first["loc"] if part not in _NAMES)
        if first["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            given = first["input"]
            name = given.get("write") if isinstance(given, Mapping) else None
            raise UnknownOperation(
                expected=f"writes.{place}.write: one of {', '.join(_NAMES)}", found=shown(name)
            ) from None
        raise fault(first["type"], f"writes.{place}", first["msg"], shown(first["input"])) from None


def digest_of(writes: Sequence[WireWrite]) -> str:
    """Return the digest of what was asked for; what was not said does not enter it.

    Raises InvalidValue for what JSON cannot hold, or not so deep.
    """
    said = [{name: getattr(each, name) for name in each.model_fields_set} for each in writes]
    try:
        return digest("perdure.commit.v1", canonical(said))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            expected="writes of JSON that a store can hold", found=type(error).__name__
        ) from error


def checked_key(table: Table, key: Sequence[Part]) -> tuple[Part, ...]:
    """Return the key of a row if it has the key's columns. Raises InvalidValue, WrongType."""
    if len(key) != len(table.key):
        raise InvalidValue(
            expected=f"a key of {table.full_name}: {', '.join(table.key)}", found=shown(list(key))
        )
    return checked_parts(table, table.key, key)


def checked_parts(table: Table, names: Sequence[str], parts: Sequence[Any]) -> tuple[Part, ...]:
    """Return values of the first of ``names``, each of its column's type. Raises Invalid kinds."""
    if len(parts) > len(names):
        raise InvalidValue(
            expected=f"values of {', '.join(names)} of {table.full_name}", found=shown(list(parts))
        )
    for name, part in zip(names, parts, strict=False):
        if type(part).__name__ != table.columns[name]:
            raise WrongType(
                expected=f"{table.columns[name]} as {name} of {table.full_name}", found=shown(part)
            )
    return tuple(parts)


def checked_where(table: Table, where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a condition if all that it names are columns. Raises UnknownField."""
    for name in where:
        if name not in table.columns:
            raise UnknownField(expected=f"a column of {table.full_name}", found=shown(name))
    return where


def unknown_table(name: str) -> UnknownTable:
    """Return the refusal of a table that was never declared."""
    return UnknownTable(expected="a table that was declared", found=shown(name))
