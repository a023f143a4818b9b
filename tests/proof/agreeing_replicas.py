"""The rules of tables on their way, of the log and who follows it, and of what is imported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import STORAGE, few, lots
from tests.proof.agreeing_documents import NOTES
from tests.proof.agreeing_jobs import Working

from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.export import Manifest
from perdure.kernel.documents.importing import (
    BeginImport,
    DiscardImport,
    EndImport,
    ImportRecords,
)
from perdure.kernel.documents.keyed import CommitOnce
from perdure.kernel.documents.log import LogPlace, ProveLogGap, ReadLog, TrimLog
from perdure.kernel.documents.migrate import AlterTable, EndMove, MoveRows
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Row, logged_key, row_key
from perdure.kernel.documents.replica import ApplyLogged, PromoteReplica
from perdure.kernel.documents.sweep import SweepContents
from perdure.kernel.documents.tables import Table, stored_table_key
from perdure.kernel.documents.wire import parsed_writes
from perdure.kernel.ids import CommitId, DocumentStoreId, Epoch, Lineage, Seq

MARKED = Table(
    "notes",
    "edits",
    {"id": "int", "by": "str", "done": "bool", "text": "json", "mark": "int"},
    ("id",),
    {"by_author": ("by",)},
    version=2,
).checked()

AGAIN = Table(
    "notes",
    "edits",
    {"id": "int", "by": "str", "text": "json", "mark": "int"},
    ("id",),
    {"by_author": ("by",), "by_mark": ("mark",)},
    version=3,
).checked()
"""What overtakes a move to MARKED that has not ended."""


class Following(Working):
    """What is asked of whole document stores."""

    def copy_of(self, lot: int) -> DocumentStoreRef:
        return DocumentStoreRef(STORAGE, DocumentStoreId(f"copy{lot % 2}"))

    @rule(lot=few, number=lots, table=st.sampled_from([MARKED, MARKED, AGAIN]))
    def move_a_table(self, lot: int, number: int, table: Table) -> None:
        ref = self.papers(lot)
        self.ask(AlterTable(ref, table, self.attempt()))
        stored = self.three.held(stored_table_key(ref.partition, table.full_name))
        behind = None if stored is None or stored.moving is None else stored.moving.behind
        found = [self.three.held(row_key(ref.partition, NOTES.full_name, (n,))) for n in range(5)]
        rows = [row for row in found if row is not None and (behind or "") < row.key.sort]
        moved = tuple((row.row_key, self._as_in(table, row, number)) for row in rows[: number % 3])
        self.ask(MoveRows(ref, table, self.attempt(), behind=behind, rows=moved))
        self.ask(EndMove(ref, table, self.attempt()))

    def _as_in(self, table: Table, row: Row, number: int) -> dict[str, Any]:
        value = {"done": False, **row.value, "mark": number}
        return {name: value[name] for name in table.columns}

    @rule(lot=few, number=lots)
    def commit_once(self, lot: int, number: int) -> None:
        row = {"id": number % 5, "by": "wire", "done": True, "text": 1}
        told = [
            {"write": "row.put", "table": NOTES.full_name, "row": row},
            {
                "write": "document.create",
                "owner": "wire",
                "namespace": "papers",
                "kind": f"k{number % 4}",
                "history": "latest",
                "value": {"n": number},
            },
        ]
        writes = parsed_writes(told[number % 2 :])
        once = CommitOnce(self.papers(lot), writes, CommitId(f"c{number % 6}"), self.attempt())
        self.ask(once)

    @rule(lot=few, number=lots)
    def read_and_trim_the_log(self, lot: int, number: int) -> None:
        ref, seq = self.papers(lot), Seq(number % 7)
        self.three.ask_at_once((ReadLog(ref, LogPlace(seq), 1 + number % 4), ProveLogGap(ref, seq)))
        self.ask(TrimLog(ref, seq))
        self.ask(SweepContents(ref))

    @rule(lot=few, tampers=st.booleans(), promotes=st.booleans())
    def follow_a_store(self, lot: int, *, tampers: bool, promotes: bool) -> None:
        """Import an empty store as a replica, and apply what its source has logged."""
        source, copy = self.papers(lot), self.copy_of(lot)
        lineage = self.store_head(source).lineage
        manifest = Manifest(lineage, Seq(0), "", 2, Epoch(0))
        done: Any = self.ask(BeginImport(copy, lineage, "ab" * 32))
        if done is not None:
            self.ask(EndImport(copy, manifest, "ab" * 32, done, follows=True))
        seq = self.store_head(copy).seq
        for number in range(seq + 1, seq + 4):
            entry = self.three.held(logged_key(source.partition, Seq(number)))
            if entry is None:
                break
            entry = replace(entry, partition=copy.partition)
            if tampers and number % 3 == 0:
                entry = replace(entry, writes=entry.writes.replace(b"1", b"2"))
            self.ask(ApplyLogged(copy, entry))
        if promotes:
            self.ask(PromoteReplica(copy))

    @rule(lot=few, number=lots)
    def import_a_part(self, lot: int, number: int) -> None:
        copy = DocumentStoreRef(STORAGE, DocumentStoreId(f"part{lot % 2}"))
        done: Any = self.ask(BeginImport(copy, Lineage("part"), "cd" * 32))
        row = Row(
            partition=copy.partition,
            table=NOTES.full_name,
            version=1,
            row_key=(number,),
            value={"id": number},
        )
        if done is not None:
            self.ask(ImportRecords(copy, "cd" * 32, done, (row,)))
        if number % 2:
            self.ask(DiscardImport(copy))

    @rule(lot=few, table=st.sampled_from([MARKED, AGAIN]))
    def declare_again(self, lot: int, table: Table) -> None:
        self.ask(DeclareTables(self.papers(lot), (table,), self.attempt()))
