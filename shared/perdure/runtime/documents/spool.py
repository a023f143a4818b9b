"""Spool: what was read of a store so far, on disk in its order, and what was read again since."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from perdure.kernel.documents.export import Place
from perdure.kernel.errors import StoreUnavailable

_HEAD: Final = struct.Struct(">BHHIQ")
"""Kind, bytes of both names, lines, bytes of the lines."""

Thing = tuple[Place, int, bytes]
"""Where it stands, how many lines it takes, and those lines."""


class Spool:
    """Things of an export in their order. What is read again later stays in memory."""

    def __init__(self, directory: Path | None = None) -> None:
        # Nameless: whatever ends the process, nothing is left of it.
        with _on_disk():
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115  # closed by __exit__
        self._again: dict[Place, tuple[int, bytes] | None] = {}
        self._dropped: set[str] = set()
        self.bytes = 0
        self.things = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what it could not hold is missed by nobody any more
            self._file.close()

    def add(self, place: Place, lines: int, spelled: bytes) -> None:
        """Put the next thing behind those before. Raises StoreUnavailable for a disk that is full."""
        kind, name, sort = place
        names = name.encode(), sort.encode()
        with _on_disk():
            self._file.write(_HEAD.pack(kind, len(names[0]), len(names[1]), lines, len(spelled)))
            self._file.write(names[0] + names[1])
            self._file.write(spelled)
        self.bytes += len(spelled)
        self.things += 1

    def replace(self, place: Place, found: tuple[int, bytes] | None) -> None:
        """Let a thing be what was read again, or nothing."""
        self._again[place] = found

    def drop_rows(self, table: str) -> None:
        """Let a table have no rows but those that are read again."""
        self._dropped.add(table)

    def again_in(self, table: str) -> list[Place]:
        """Return where the rows of a table stand that were read again."""
        return [place for place in self._again if place[:2] == (0, table) and place[2]]

    def __iter__(self) -> Iterator[Thing]:
        """Yield everything in order, as it was read last."""
        again = sorted(self._again)
        at = 0
        for place, lines, spelled in self._first():
            while at < len(again) and again[at] < place:
                yield from self._found(again[at])
                at += 1
            if at < len(again) and again[at] == place:
                yield from self._found(place)
                at += 1
            elif not (place[0] == 0 and place[2] and place[1] in self._dropped):
                yield place, lines, spelled
        for place in again[at:]:
            yield from self._found(place)

    def _found(self, place: Place) -> Iterator[Thing]:
        found = self._again[place]
        if found is not None:
            yield place, *found

    def _first(self) -> Iterator[Thing]:
        with _on_disk():
            self._file.seek(0)
        while head := self._file.read(_HEAD.size):
            kind, name, sort, lines, size = _HEAD.unpack(head)
            names = self._file.read(name + sort)
            place = (kind, names[:name].decode(), names[name:].decode())
            yield place, lines, self._file.read(size)


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            expected="to keep on disk what was read of a store", found=str(error)
        ) from error
