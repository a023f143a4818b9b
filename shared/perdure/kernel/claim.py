"""The name of an authority: by it the data of a storage know who decides over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.ids import Instant, Partition, StorageId, Token
from perdure.kernel.places import catalog_partition
from perdure.kernel.record import Record
from perdure.kernel.view import Decision, Key, Reads, View


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityName(Record):
    """What an authority calls itself: no two have the same, wherever they are."""

    immutable: ClassVar[bool] = True

    name: Token

    @property
    def key(self) -> Key[AuthorityName]:
        return authority_key(self.partition)


def authority_key(catalog: Partition) -> Key[AuthorityName]:
    return Key(catalog, "authority", AuthorityName)


@dataclass(frozen=True, slots=True)
class NameAuthority:
    """Return the name of a storage's authority, which the first who asks gives it."""

    storage: StorageId
    name: Token

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return catalog_partition(self.storage)

    def reads(self) -> Reads:
        return Reads(keys=(authority_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[Token]:
        known = view.get(authority_key(self.stream))
        if known is not None:
            return Decision(known.name)
        named = AuthorityName(partition=self.stream, name=self.name)
        return Decision(self.name, (named,))
