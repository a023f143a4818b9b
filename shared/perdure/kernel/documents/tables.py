"""Tables: what an owner declares of its rows, and what the store keeps of that."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.documents import places
from perdure.kernel.documents.content import check_levels
from perdure.kernel.documents.errors import NewerTable, TableDiffers, TableMigrating
from perdure.kernel.documents.places import Part
from perdure.kernel.errors import (
    Invalid,
    InvalidId,
    InvalidValue,
    MissingField,
    TooLarge,
    UnknownField,
    WrongType,
)
from perdure.kernel.ids import Partition
from perdure.kernel.kept import kept
from perdure.kernel.record import Record
from perdure.kernel.shown import shown
from perdure.kernel.view import Key

ColumnType = Literal["int", "str", "bool", "float", "json"]

COLUMN_TYPES: Final[tuple[ColumnType, ...]] = get_args(ColumnType)

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "float": (int, float),
}
_IN_KEYS: Final = ("int", "str", "bool")

INDEXES_MAX: Final = 16
"""Indexes of one table: a row that gains or loses all of them is written with two others in one
commit. Source: COMMIT_ACTIONS_MAX."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}\Z")


def checked_name(name: str, *, what: str) -> str:
    """Return ``name`` if an owner, a table, a column or an index may be called so."""
    if not _NAME.match(name):
        raise InvalidId(expected=f"{what} of 1 to 64 letters, digits and '_.@-'", found=shown(name))
    return name


@dataclass(frozen=True)
class Table:
    """An owner's table as the code declares it. Check it once with :meth:`checked`."""

    owner: str
    name: str
    columns: Mapping[str, ColumnType]
    key: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]]
    """Columns by index; a row in which one of them is None, False, 0 or "" is not in it."""

    version: int = 1

    @kept
    def full_name(self) -> str:
        """Name of the table in its store: two parts."""
        return f"{self.owner}:{self.name}"

    @property
    def fingerprint(self) -> str:
        """Digest of all that its rows and indexes are made by."""
        shape = [dict(self.columns), list(self.key), {k: list(v) for k, v in self.indexes.items()}]
        return digest("perdure.table.v1", canonical(shape))

    def checked(self) -> Table:
        """Return self if a store can keep it. Raises Invalid kinds."""
        for what, names in (
            ("an owner", (self.owner,)),
            ("a table's name", (self.name,)),
            ("a column's name", self.columns),
            ("an index's name", self.indexes),
        ):
            for name in names:
                checked_name(name, what=what)
        for used in (self.key, *self.indexes.values()):
            wrong = [each for each in used if self.columns.get(each) not in _IN_KEYS]
            if not used or wrong or len(set(used)) < len(used):
                raise Invalid(
                    expected=f"keys and indexes of {self.full_name} of int, str and bool columns,"
                    " each once",
                    found=shown(wrong or used),
                )
        if type(self.version) is not int or self.version < 1:
            raise Invalid(expected="a version of 1 or more", found=shown(self.version))
        if len(self.indexes) > INDEXES_MAX:
            raise TooLarge(
                expected=f"at most {INDEXES_MAX} indexes of {self.full_name}",
                found=str(len(self.indexes)),
            )
        self._check_kinds()
        return self

    def _check_kinds(self) -> None:
        for name, kind in self.columns.items():
            if kind not in COLUMN_TYPES:
                raise Invalid(
                    expected=f"{name} of {self.full_name} to be {', '.join(COLUMN_TYPES)}",
                    found=shown(kind),
                )

    def key_of(self, row: Mapping[str, Any]) -> tuple[Part, ...]:
        """Return the key of a checked row."""
        return tuple([row[name] for name in self.key])

    def check_key(self, key: Sequence[Any]) -> None:
        """Refuse what no row can have as its key. Raises InvalidValue kinds, TooLarge."""
        if len(key) != len(self.key):
            raise InvalidValue(
                expected=f"{len(self.key)} values as a key of {self.full_name}",
                found=str(len(key)),
            )
        for name, value in zip(self.key, key, strict=True):
            self._check_value(name, self.columns[name], value)
        places.spelled_key(tuple(key))

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Refuse a row that does not have just these columns, each of its type.

        Columns of no key may be None. Raises InvalidValue kinds, TooLarge.
        """
        self.spelled_row(row)
        places.spelled_key(self.key_of(row))

    def spelled_row(self, row: Mapping[str, Any]) -> bytes:
        """Check a row but for the length of its key, which its place tells, and spell it.

        Its JSON is checked by that. Raises as :meth:`check_row`.
        """
        for name, value in row.items():
            kind = self.columns.get(name)
            if kind is None:
                raise UnknownField(expected=f"a column of {self.full_name}", found=shown(name))
            if kind != "json":
                self._check_value(name, kind, value)
        if len(row) != len(self.columns):
            raise self._missing(next(name for name in self.columns if name not in row))
        try:
            spelled = canonical(row)
        except (ValueError, TypeError, RecursionError):
            self.check_values(row)  # it knows which column it was
            raise
        check_levels(f"a row of {self.full_name}", spelled, row)
        return spelled

    def checked_key(self, row: Mapping[str, Any]) -> tuple[Part, ...]:
        """Return the key of a row of which nothing else is checked. Raises InvalidValue kinds."""
        for name in self.key:
            if name not in row:
                raise self._missing(name)
            self._check_value(name, self.columns[name], row[name])
        return self.key_of(row)

    def _missing(self, name: str) -> MissingField:
        return MissingField(expected=f"{name} in a row of {self.full_name}", found="none")

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Refuse values of columns that are none, or of other types. Raises InvalidValue kinds."""
        for name, value in values.items():
            kind = self.columns.get(name)
            if kind is None:
                raise UnknownField(expected=f"a column of {self.full_name}", found=shown(name))
            self._check_value(name, kind, value)

    def _check_value(self, name: str, kind: ColumnType, value: Any) -> None:
        if type(value) is int and kind == "int":  # most are
            if -places.SAFE_INTEGER_MAX <= value <= places.SAFE_INTEGER_MAX:
                return
        elif type(value) is str and kind == "str":
            return
        if kind == "json":
            self._check_json(name, value)
            return
        if value is None and name not in self.key:
            return
        fits = isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))
        if fits and kind == "int":
            fits = -places.SAFE_INTEGER_MAX <= value <= places.SAFE_INTEGER_MAX
        if fits and kind == "float":  # no other float is within these, and no greater int is one
            fits = -sys.float_info.max <= value <= sys.float_info.max
        if not fits:
            raise WrongType(expected=f"{kind} as {name} of {self.full_name}", found=shown(value))

    def _check_json(self, name: str, value: Any) -> None:
        try:
            spelled = canonical(value)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidValue(
                expected=f"JSON as {name} of {self.full_name}", found=str(error)
            ) from error
        check_levels(f"{name} of {self.full_name}", spelled, value)

    def index_sorts(self, row: Mapping[str, Any]) -> list[str]:
        """Spell where a row stands in each index that it is in."""
        if not self.indexes:
            return []
        key = places.spelled_key(self.key_of(row))
        found = []
        for index, columns in self.indexes.items():
            values = [row[name] for name in columns]
            if all(values):
                found.append(places.index_prefix(self.full_name, index, values) + key)
        return found


@dataclass(frozen=True, slots=True)
class Moving:
    """What a table's rows are being brought to, and how far that is."""

    version: int
    fingerprint: str
    columns: dict[str, str]
    indexes: dict[str, tuple[str, ...]]
    behind: str | None = None
    """Sort key of the last row that was brought there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable(Record):
    """What a store keeps of a table: its version, and how far it is on its way to another."""

    later: ClassVar[Mapping[str, Any]] = {"moving": None, "overtaken": ()}

    name: str
    version: int
    fingerprint: str
    columns: dict[str, str]
    key_columns: tuple[str, ...]
    indexes: dict[str, tuple[str, ...]]
    moving: Moving | None = None
    """While its rows are brought to another version, nobody else writes to it."""

    overtaken: tuple[Moving, ...] = ()
    """Moves to versions between, which a newer one has overtaken, the newest first. Rows up to the
    place of each are of its version, unless a newer move has come by."""

    @property
    def key(self) -> Key[StoredTable]:
        return stored_table_key(self.partition, self.name)

    @property
    def moving_to(self) -> int | None:
        """Version that its rows are being brought to."""
        return None if self.moving is None else self.moving.version


def stored_table_key(store: Partition, name: str) -> Key[StoredTable]:
    return Key(store, places.table_sort(name), StoredTable)


def stored_as(store: Partition, table: Table) -> StoredTable:
    """Return what a store keeps of a table that is at its declared version."""
    return StoredTable(
        partition=store,
        name=table.full_name,
        version=table.version,
        fingerprint=table.fingerprint,
        columns=dict(table.columns),
        key_columns=tuple(table.key),
        indexes={name: tuple(columns) for name, columns in table.indexes.items()},
    )


def declared_by(stored: StoredTable) -> Table:
    """Return the table that a store's own record describes."""
    return shaped(stored, stored.version, stored.columns, stored.indexes)


def shaped(
    stored: StoredTable,
    version: int,
    columns: dict[str, str],
    indexes: dict[str, tuple[str, ...]],
) -> Table:
    """Return the table that a store's record of one describes, as a version of it is."""
    owner, _, name = stored.name.partition(":")
    return Table(
        owner=owner,
        name=name,
        columns=columns,  # type: ignore[arg-type]  # written from a declaration
        key=stored.key_columns,
        indexes=indexes,
        version=version,
    )


def check_table(stored: StoredTable, table: Table) -> int:
    """Return the version of a stored table that ``table`` declares, at that version or a newer one.

    Raises: NewerTable, also for one that is on its way to a newer version; TableDiffers for the
    same version with other columns, key or indexes.
    """
    moving = stored.moving
    newest = stored.version if moving is None else moving.version
    if newest > table.version:
        raise NewerTable(
            expected=f"{table.full_name} at version {table.version} or older",
            found=f"version {newest}: newer code has it",
        )
    fingerprint = stored.fingerprint if moving is None else moving.fingerprint
    if newest == table.version and fingerprint != table.fingerprint:
        raise TableDiffers(
            expected=f"version {table.version} of {table.full_name} as it was declared before",
            found="other columns, key or indexes: a change needs a new version",
        )
    return stored.version


def tables_altered(prepared: int | None, found: int) -> TableMigrating:
    """Return the refusal of a writer whose tables somebody has altered since."""
    return TableMigrating(
        expected=f"tables as they were prepared, at change {prepared}",
        found=f"change {found}: look at them again",
    )
