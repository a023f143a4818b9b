"""Records: frozen values with a key and an exact spelling in bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition

if TYPE_CHECKING:
    from typing import Self

    from perdure.kernel.view import Key


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of every durable record: a dataclass whose fields but ``partition`` are its body.

    Invariant: ``read(key.partition, key.sort, body()) == self``.
    """

    immutable: ClassVar[bool] = False
    """Written once: a second writing of the same key is a conflict, never a change."""

    later: ClassVar[Mapping[str, Any]] = {}
    """Fields of a later version, with the value at which they are left out of the body: bodies
    and digests of before stay what they were."""

    partition: Partition

    @property
    def key(self) -> Key[Self]:
        raise NotImplementedError

    def body(self) -> bytes:
        """Spell the record, without its partition, as canonical JSON."""
        left_out = {name for name, value in self.later.items() if getattr(self, name) == value}
        fields = _adapter(type(self)).dump_python(
            self, mode="json", exclude={"partition", *left_out}
        )
        return canonical(fields)

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        """Return the record that :meth:`body` spelled. Raises Corrupt."""
        try:
            fields = strict(body)
            record: Self = _adapter(cls).validate_python({**fields, "partition": partition})
        except (ValueError, TypeError, ValidationError) as error:
            raise Corrupt(
                expected=f"a {cls.__name__} at {partition} {sort}",
                found=str(error).splitlines()[0],
            ) from error
        return record


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(of: type[Record]) -> TypeAdapter[Any]:
    if of not in _ADAPTERS:
        _ADAPTERS[of] = TypeAdapter(of)
    return _ADAPTERS[of]
