"""What the notes of scribes have been, told by each commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.simulator.chunks import Chunks

from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.view import Key


@dataclass(slots=True)
class Notes:
    """What each note has been, in its order."""

    chunks: Chunks
    texts: dict[Key[Any], list[str | None]] = field(default_factory=dict)

    def commit(self, commit: Commit) -> None:
        """Learn of a commit that has just happened."""
        for action in commit.actions:
            if action.key.sort.startswith("note/") and not isinstance(action, Check):
                text = self.text(action.body) if isinstance(action, Put) else None
                self.texts.setdefault(action.key, [None]).append(text)

    def text(self, packed: bytes) -> str:
        """Return the text of a note that lies on the disk."""
        text: str = self.chunks.decoded(packed)["text"]
        return text
