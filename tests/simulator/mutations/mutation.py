"""A mutation: one small edit that breaks one rule of the product code, and what has to notice it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol

ROOT: Final = Path(__file__).parents[3]
SHARED: Final = ROOT / "shared"


class Unfit(Exception):
    """A mutation whose text is not, or not once, in the file that it is to change."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Text of a file below ``shared/perdure``, which occurs there once, and what takes its place."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return ``text`` with the edit. Raises Unfit."""
        if text.count(self.old) != 1:
            raise Unfit(f"{self.file} has {text.count(self.old)} times: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Broken:
    """What a proof found broken, and where: a seed with its step, or a test."""

    promise: str
    where: str
    seed: int | None = None


class Proof(Protocol):
    """A command that passes on the product code and fails on a mutation of it."""

    @property
    def name(self) -> str:
        """What to call it in a table."""
        ...

    is_simulator: ClassVar[bool]

    def command(self, shared: Path) -> list[str]:
        """Return the command that tries the code below ``shared``."""
        ...

    def control(self, broken: Broken) -> Proof:
        """Return what has to pass without the mutation for ``broken`` to be its doing."""
        ...

    def broken(self, code: int, output: str) -> Broken | None:
        """Return what the command found broken, None if it found nothing or just fell over."""
        ...


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to get the product code wrong."""

    name: str
    kind: str
    """What sort of mistake it is, in words that others of its sort share."""

    breaks: str
    """The rule that it leaves out, in one sentence."""

    edits: tuple[Edit, ...]
    proof: Proof

    def copied(self, into: Path) -> Path:
        """Copy the product code with the mutation into a directory. Raises Unfit."""
        shared = copied(into)
        for edit in self.edits:
            path = shared / "perdure" / edit.file
            path.write_text(edit.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        return shared


def copied(into: Path) -> Path:
    """Copy the product code as it is into a directory, compiled modules included."""
    return Path(shutil.copytree(SHARED, into / "shared"))
