"""Large bodies on the disk: what a record points at is whole, for as long as it points at it (I0)."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.records import decoded, expect

from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.ids import Partition
from perdure.kernel.record import Record
from perdure.kernel.view import Key, Stored

PLACE = "body/"
POINTER = b"\x02"

Records = Callable[[], Mapping[Key[Any], Stored]]


@dataclass(slots=True)
class Chunks:
    """Follows every commit. Raises Violation."""

    records: Records
    """Return what lies on the disk, with the commits that were told of."""

    pointing: dict[Key[Any], str] = field(default_factory=dict)
    """Which large body a record points at."""

    met: Counter[str] = field(default_factory=Counter)

    def commit(self, commit: Commit) -> None:
        """Learn of a commit that has just happened."""
        for action in commit.actions:
            partition = action.key.partition
            if partition.startswith(PLACE):
                self._chunk(partition.removeprefix(PLACE), action)
            elif not isinstance(action, Check):
                self._record(action.key, action.body if isinstance(action, Put) else b"")

    def _record(self, key: Key[Any], body: bytes) -> None:
        if self.pointing.pop(key, None) is not None:
            self.met["large body superseded"] += 1
        if body.startswith(POINTER):
            name, _, _ = _pointer(body)
            expect(name not in self.pointing.values(), "I0", "two records point at {}", name)
            self.pointing[key] = name
            self.whole(body)
            self.met["large body"] += 1

    def _chunk(self, name: str, action: Any) -> None:
        """A chunk is put once, and emptied once, when nothing points at it."""
        told = (action.key.sort, name)
        expect(name not in self.pointing.values(), "I0", "chunk {} of {} is changed", *told)
        expect(isinstance(action, Put), "I0", "chunk {} of {} is looked at or removed", *told)
        is_first = action.seen is None
        expect(bool(action.body) == is_first, "I0", "chunk {} of {} is written over", *told)
        self.met["chunk" if is_first else "chunk emptied"] += 1

    def whole(self, packed: bytes) -> bytes:
        """Return a packed body as it would lie in its record, were there room."""
        if not packed.startswith(POINTER):
            return packed
        name, length, sha256 = _pointer(packed)
        body = b"".join(self._parts(name))
        found = (len(body), hashlib.sha256(body).hexdigest())
        expect(found == (length, sha256), "I0", "{} bytes of {}, not {}", len(body), name, length)
        return body

    def _parts(self, name: str) -> Iterator[bytes]:
        records = self.records()
        for number in itertools.count():
            stored = records.get(Key(Partition(f"{PLACE}{name}"), f"{number:04d}", Record))
            if stored is None:
                return
            yield stored.body

    def decoded(self, packed: bytes) -> Any:
        """Return what a record says, wherever its body lies."""
        return decoded(self.whole(packed))


def _pointer(packed: bytes) -> tuple[str, int, str]:
    name, length, sha256 = json.loads(packed[1:])
    return name, length, sha256
