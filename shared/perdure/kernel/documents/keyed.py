"""Commits that happen at most once, under an id that their caller chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.commit import Committed, CommitWrites, DocumentsRequest
from perdure.kernel.documents.commit_keys import KeyCommit, commit_key
from perdure.kernel.documents.errors import TableMigrating
from perdure.kernel.documents.log import read_head
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table, declared_by, stored_table_key
from perdure.kernel.documents.wire import WireWrite, digest_of, unknown_table
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import CommitId, Instant, Partition, Token, checked_id
from perdure.kernel.view import Decision, Key, Missing, Reads, View


@dataclass(frozen=True, slots=True)
class CommitOnce(DocumentsRequest):
    """Apply writes that came over a wire as the next commit, if the id has seen none before.

    Tables are as the store has them declared. Raises: Conflict for other writes under the same
    id; UnknownTable, TableMigrating, NotFound, OwnerHeld, StoreDiverged; what the writes raise.
    """

    wanted: tuple[WireWrite, ...]
    commit: CommitId
    attempt: Token
    by: Caller = LOCAL
    """Whose quota it is paid from."""

    def checked(self) -> CommitOnce:
        """Return self if the id is one. Raises InvalidId."""
        checked_id(self.commit, what="a commit id")
        return self

    def reads(self) -> Reads:
        # No ranges: what other commits of a group write there would not be seen.
        names = sorted({name for each in self.wanted if (name := each.table_named) is not None})
        tables = [stored_table_key(self.stream, name) for name in names]
        peeks: tuple[Key[Any], ...] = (commit_key(self.stream, self.commit), *tables)
        return Reads(keys=(store_head_key(self.stream),), peeks=peeks)

    def decide(self, view: View, now: Instant) -> Decision[Committed]:
        read_head(view, self.ref)  # of what is not whole nothing is told, not even that it was done
        known = view.peek(commit_key(self.stream, self.commit))
        asked = digest_of(self.wanted)
        if known is not None:
            if known.digest != asked:
                raise Conflict(
                    expected=f"the writes that commit {self.commit!r} had before",
                    found="other writes",
                )
            return Decision(Committed(known.seq, known.next_id, known.ids, replayed=True))
        staged = (*self._staged(view), KeyCommit(self.commit, asked))
        require(view, Reads.union(*(each.reads(self.stream) for each in staged)))
        return CommitWrites(self.ref, staged, self.attempt).decide(view, now)

    def _staged(self, view: View) -> tuple[StagedWrite, ...]:
        tables: dict[str, Table] = {}

        def table_of(name: str) -> Table:
            if name not in tables:
                tables[name] = stored_table(view, self.stream, name)
            return tables[name]

        return tuple(each.staged(table_of) for each in self.wanted)


def stored_table(view: View, store: Partition, name: str) -> Table:
    """Return a table as the store has it. Raises UnknownTable, TableMigrating, Missing."""
    stored = view.peek(stored_table_key(store, name))
    if stored is None:
        raise unknown_table(name)
    if stored.moving_to is not None:
        raise TableMigrating(
            expected=f"{name} at rest", found=f"on its way to version {stored.moving_to}"
        )
    return declared_by(stored)


def require(view: View, reads: Reads) -> None:
    """Ask for all that lacks of ``reads`` at once. Raises Missing."""
    lacking = []
    for wanted in reads.ranges:
        try:
            view.find(wanted)
        except Missing as missing:
            lacking.append(missing.reads)
    try:
        view.require(peeks=[*reads.keys, *reads.peeks])
    except Missing as missing:
        lacking.append(missing.reads)
    if lacking:
        raise Missing(Reads.union(*lacking))
