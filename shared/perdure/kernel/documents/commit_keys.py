"""What is kept of commits that were asked for under an id: part of the store, as its rows are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from perdure.kernel.documents.step import Step
from perdure.kernel.errors import Conflict, InvalidValue
from perdure.kernel.ids import CommitId, Partition, Seq, checked_id
from perdure.kernel.places import after
from perdure.kernel.record import Record
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Range, Reads

KEY_TOLD: Final = "commit.key"
"""Kind of the write by which a log tells of an id."""

_PREFIX: Final = "key/commit/"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitKey(Record):
    """That a commit happened under an id: whoever asks for it again is told the same, for ever."""

    immutable: ClassVar[bool] = True

    commit: CommitId
    digest: str
    """Of the writes that were asked for."""

    seq: Seq
    next_id: int
    ids: tuple[int, ...]

    @property
    def key(self) -> Key[CommitKey]:
        return commit_key(self.partition, self.commit)


def commit_key(store: Partition, commit: CommitId) -> Key[CommitKey]:
    return Key(store, f"{_PREFIX}{commit}", CommitKey)


def commit_keys(store: Partition, behind: CommitId | None, limit: int) -> Range[CommitKey]:
    """Return where it lies what is kept of ids, behind one."""
    first = _PREFIX if behind is None else f"{_PREFIX}{behind}\0"
    return Range(store, first, after(_PREFIX), CommitKey, limit=limit)


@dataclass(frozen=True, slots=True)
class KeyCommit:
    """Let the commit that this is staged in be known under an id."""

    commit: CommitId
    digest: str

    owner: ClassVar[None] = None
    names_id: ClassVar[int] = 0

    def checked(self) -> KeyCommit:
        """Return self if an id and a digest are such. Raises InvalidId, InvalidValue."""
        checked_id(self.commit, what="a commit id")
        check_digest(self.digest)
        return self

    def reads(self, store: Partition) -> Reads:
        return Reads(peeks=(commit_key(store, self.commit),))

    def apply(self, step: Step) -> None:
        """Raises Conflict for an id that is taken, or a second one of one commit."""
        key = commit_key(step.store, self.commit)
        if step.keyed_as is not None:
            raise Conflict(
                expected="one id of a commit", found=f"{self.commit!r} beside {step.keyed_as!r}"
            )
        if step.read(key) is not None:
            raise Conflict(expected=f"no commit {self.commit!r} before", found="one")
        step.keyed_as = self.commit
        step.tell(KEY_TOLD, {"commit": self.commit, "digest": self.digest})
        step.finish_with(key, self._keep)

    def _keep(self, step: Step, room: int) -> int:
        """Write what the commit came to, now that nothing more comes of it."""
        kept = CommitKey(
            partition=step.store,
            commit=self.commit,
            digest=self.digest,
            seq=step.seq,
            next_id=step.next_id,
            ids=tuple(step.created),
        )
        step.put(kept)
        return 0  # BESIDE_STEP has counted it


def keyed(told: Mapping[str, Any]) -> KeyCommit:
    """Return what a log tells of an id. Raises InvalidId, InvalidValue, KeyError, TypeError."""
    return KeyCommit(CommitId(told["commit"]), told["digest"]).checked()


def check_digest(digest: str) -> None:
    """Refuse what is no digest of writes. Raises InvalidValue, TypeError."""
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidValue(expected="a SHA-256 of what was asked for", found=shown(digest))
