"""Components: typed values of an entity, and the names and fingerprints they travel under."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from perdure.kernel import limits
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import InvalidValue, OutOfRange, UnknownComponent, fault
from perdure.kernel.ids import TableId
from perdure.kernel.shown import path_shown, shown

Logical = Literal["int64", "float64", "bool", "string"]

_LOGICAL: Final[Mapping[type, Logical]] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "string",
}


_BOUNDED: Final = frozenset[Logical]({"int64", "string"})

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Component(BaseModel):
    """Base of every component class: a frozen pydantic model of int, float, bool and str.

    ``X | None`` makes a field nullable. Two classes of one name and equal fields are one
    component; of one name and other fields, two different ones.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, ser_json_inf_nan="null"
    )

    component: ClassVar[ComponentType]
    many: ClassVar[TypeAdapter[list[Component]]]
    """Reads values of this class by the list."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.component = ComponentType.of(cls)
        cls.many = TypeAdapter(list[cls])  # type: ignore[valid-type]  # the class at hand


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a component as a column of a table."""

    name: str
    logical: Logical
    nullable: bool


@dataclass(frozen=True, slots=True)
class ComponentType:
    """What a component is, apart from the class that spells it."""

    name: str
    columns: tuple[Column, ...]
    fingerprint: str

    @classmethod
    def of(cls, model: type[Component]) -> ComponentType:
        """Describe a component class. Raises TypeError for a field no column can hold."""
        prefix = model.__name__.lower()
        columns = tuple(
            Column(f"{prefix}__{name}", *_logical(model.__name__, name, field.annotation))
            for name, field in model.model_fields.items()
        )
        return cls(model.__name__, columns, fingerprint(columns))


def fingerprint(columns: Iterable[Column]) -> str:
    """Return the digest of names and logical types in order; nullability is left out."""
    described = [[column.name, column.logical] for column in columns]
    return digest("perdure.schema.v1", canonical(described))


def table_id(signature: Iterable[ComponentType]) -> TableId:
    """Name the table of an archetype: stable over library versions and module moves."""
    ordered = sorted(signature, key=lambda each: each.name)
    described = [[each.name, each.fingerprint] for each in ordered]
    hashed = digest("perdure.table.v1", canonical(described))
    return TableId(f"a_{len(ordered)}c_{hashed[:16]}")


class Registry:
    """The component classes that a process knows, by name and fingerprint."""

    def __init__(self, models: Iterable[type[Component]] = ()) -> None:
        self._models: dict[tuple[str, str], type[Component]] = {}
        self._names: dict[str, list[str]] = {}
        self._columns: dict[str, str] = {}
        """Component by column: a column is told from others by its name alone."""
        for model in models:
            self.add(model)

    def __iter__(self) -> Iterator[type[Component]]:
        return iter(self._models.values())

    def add(self, model: type[Component]) -> None:
        """Make ``model`` known. An equal component known already is kept.

        Raises: TypeError for a component whose columns another one's already are.
        """
        described = model.component
        for column in described.columns:
            owner = self._columns.setdefault(column.name, described.name)
            if owner != described.name:
                raise TypeError(
                    f"{described.name} and {owner} would share the column {column.name}:"
                    " rename one of them"
                )
        if (described.name, described.fingerprint) not in self._models:
            self._models[described.name, described.fingerprint] = model
            self._names.setdefault(described.name, []).append(described.fingerprint)

    def named(self, reference: str) -> type[Component]:
        """Return the class of ``Name`` or ``Name@fingerprint``. Raises UnknownComponent.

        A name alone is never guessed among two schemas.
        """
        name, at, wanted = reference.partition("@")
        if at:
            return self.exact(name, wanted)
        known = self._names.get(name, [])
        if len(known) != 1:
            raise UnknownComponent(
                expected=f"one of the components {', '.join(sorted(self._names)) or '(none)'}",
                found=shown(name) if not known else f"{name!r} with {len(known)} schemas",
            )
        return self._models[name, known[0]]

    def exact(self, name: str, wanted: str) -> type[Component]:
        """Return the class of this name and fingerprint. Raises UnknownComponent."""
        model = self._models.get((name, wanted))
        if model is None:
            known = ", ".join(each[:12] for each in self._names.get(name, [])) or "none"
            raise UnknownComponent(
                expected=f"component {shown(name)} with fingerprint {shown(wanted[:12])}",
                found=f"fingerprints {known}",
            )
        return model


def checked_value(model: type[Component], value: Any) -> dict[str, Any]:
    """Return the canonical values of one component: see :func:`checked_values`."""
    return checked_values(model, [value])[0]


def checked_values(model: type[Component], values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the canonical values of components given as mappings or instances, in order.

    Numbers become what their field says (an integer in a float field a float). Raises
    InvalidValue for a wrong type, a field too many, NaN, an integer beyond 64 bits, half a
    surrogate pair, and for values that the class does not read back as it wrote them.
    """
    given = [each.__dict__ if isinstance(each, Component) else each for each in values]
    fields = _validated(model, given)
    # What was sent as it is stored reads back so: it has just been read.
    if fields != given and (back := _validated(model, fields)) != fields:
        first = next(at for at, each in enumerate(fields) if each != back[at])
        raise InvalidValue(
            expected=f"{model.__name__}: values that read back as they are stored,"
            f" {shown(fields[first])}",
            found=shown(back[first]),
        )
    for name in _bounded(model):
        _check_bounds(f"{model.__name__}.{name}", [each[name] for each in fields])
    return fields


def _validated(model: type[Component], values: list[Any]) -> list[dict[str, Any]]:
    try:
        return [each.__dict__ for each in model.many.validate_python(values)]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=True)[0]
        where = path_shown((model.__name__, *first["loc"][1:]))
        raise fault(first["type"], where, first["msg"], shown(first["input"])) from error


@cache
def _bounded(model: type[Component]) -> tuple[str, ...]:
    """Name the fields whose values a column may be unable to hold."""
    fields = zip(model.model_fields, model.component.columns, strict=True)
    return tuple(name for name, column in fields if column.logical in _BOUNDED)


def _check_bounds(where: str, held: list[Any]) -> None:
    """Refuse integers and texts that no column can hold. Raises InvalidValue."""
    for value in held:
        if isinstance(value, int) and not limits.INTEGER_MIN <= value <= limits.INTEGER_MAX:
            raise OutOfRange(expected=f"{where}: an integer of 64 bits", found=shown(value))
        if isinstance(value, str) and not is_storable(value):
            raise InvalidValue(expected=f"{where}: text that UTF-8 can hold", found=shown(value))


def is_storable(text: str) -> bool:
    """Say whether UTF-8 can hold a text, and so a column."""
    return text.isascii() or not _SURROGATE.search(text)


def _logical(model: str, field: str, annotation: Any) -> tuple[Logical, bool]:
    bare, nullable = _bare(annotation), False
    if get_origin(bare) in (Union, types.UnionType):
        arms = [_bare(arm) for arm in get_args(bare) if arm is not type(None)]
        nullable = len(arms) < len(get_args(bare))
        bare = arms[0] if len(arms) == 1 else None
    if bare not in _LOGICAL:
        raise TypeError(
            f"{model}.{field} must be int, float, bool or str (or one of them | None),"
            f" not {annotation!r}"
        )
    return _LOGICAL[bare], nullable


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation
