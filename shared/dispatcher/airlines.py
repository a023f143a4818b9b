"""The airlines: whoever is called has heard it, and nobody can be asked later whether they have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class Airlines:
    """Telephones, for which a file stands that grows by a line a call."""

    file: Path | None = None

    def call(self, carrier: str, text: str) -> None:
        """Say something to an airline."""
        if self.file is None:
            raise LookupError("Expected a file that stands for the airlines; found none.")
        with self.file.open("a", encoding="utf-8") as telephones:
            telephones.write(f"{carrier}: {text}\n")

    @property
    def heard(self) -> list[str]:
        """Every call that was made, in order."""
        if self.file is None or not self.file.exists():
            return []
        return self.file.read_text(encoding="utf-8").splitlines()

    def lie_in(self, root: Path) -> None:
        """Use the file of a demo's directory."""
        self.file = root / "airlines.txt"


AIRLINES = Airlines()
