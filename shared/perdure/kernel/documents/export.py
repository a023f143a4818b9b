"""Exports: a document store as lines of JSON, the same bytes for the same state on every store.

A manifest; each table with its rows, in the order of their keys; each id under which a commit was
asked for; each document with the contents that are kept of it; an end with counts and the digest of every line before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.commit_keys import CommitKey
from perdure.kernel.documents.places import Part
from perdure.kernel.documents.records import Document, Logged, Revision, Row, StoreHead, row_key
from perdure.kernel.documents.tables import Moving, StoredTable
from perdure.kernel.errors import NewerWriter
from perdure.kernel.ids import CommitId, DocumentId, Epoch, Lineage, Partition, Seq
from perdure.kernel.places import after, number
from perdure.kernel.view import Key, Range

EXPORT_FORMAT: Final = 1

CONTENTS_PAGE: Final = 200
"""Contents of one document that are read at once."""

Place = tuple[int, str, str]
"""Where a thing stands in an export: tables with their rows, then commit ids, then documents."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The first line: which history this is, and up to where."""

    lineage: Lineage
    last_seq: Seq
    digest: str
    """Of the last commit: a replica that goes on from here goes on from that."""

    next_id: int
    epoch: Epoch
    """The last that was given: whoever had an owner in hand has nothing of what is imported."""

    def spelled(self) -> bytes:
        told = {
            "digest": self.digest,
            "epoch": self.epoch,
            "format": EXPORT_FORMAT,
            "last_seq": self.last_seq,
            "lineage": self.lineage,
            "next_id": self.next_id,
            "part": "manifest",
        }
        return line(told)


def manifest_of(head: StoreHead) -> Manifest:
    """Return the manifest of a store as its head has it."""
    return Manifest(head.lineage, head.seq, head.digest, head.next_id, head.epoch)


@dataclass(slots=True)
class Counts:
    """What an export holds, as its end says."""

    tables: int = 0
    rows: int = 0
    documents: int = 0
    revisions: int = 0
    commits: int = 0
    """Those that were asked for under an id."""

    def told(self) -> dict[str, int]:
        return {
            "commits": self.commits,
            "documents": self.documents,
            "revisions": self.revisions,
            "rows": self.rows,
            "tables": self.tables,
        }

    def count(self, place: Place, lines: int) -> None:
        """Count one thing of an export, which takes so many lines."""
        kind, _, sort = place
        if kind == 1:
            self.commits += 1
        elif kind == 2:
            self.documents += 1
            self.revisions += lines - 1
        elif sort:
            self.rows += 1
        else:
            self.tables += 1


def line(told: Mapping[str, Any]) -> bytes:
    """Spell one part."""
    return canonical(told) + b"\n"


def end_line(counts: Counts, sha256: str) -> bytes:
    """Spell the last part."""
    return line({"part": "end", "sha256": sha256, **counts.told()})


def table_line(table: StoredTable) -> bytes:
    """Spell what a store keeps of a table."""
    told: dict[str, Any] = {
        "columns": table.columns,
        "indexes": {name: list(columns) for name, columns in table.indexes.items()},
        "key": list(table.key_columns),
        "part": "table",
        "table": table.name,
        "version": table.version,
    }
    if table.moving is not None:
        told["moving"] = _move_told(table.moving)
    if table.overtaken:
        told["overtaken"] = [_move_told(each) for each in table.overtaken]
    return line(told)


def _move_told(move: Moving) -> dict[str, Any]:
    return {
        "behind": move.behind,
        "columns": move.columns,
        "indexes": {name: list(columns) for name, columns in move.indexes.items()},
        "version": move.version,
    }


def row_line(row: Row) -> bytes:
    """Spell a row."""
    return line(
        {
            "key": list(row.row_key),
            "part": "row",
            "table": row.table,
            "value": row.value,
            "version": row.version,
        }
    )


def document_lines(document: Document, contents: Sequence[Revision]) -> list[bytes]:
    """Spell a document and the contents that are kept of it."""
    told: dict[str, Any] = {
        "created_at": document.created_at,
        "history": document.history,
        "id": document.id,
        "key": document.member,
        "kind": document.kind,
        "meta": document.meta,
        "namespace": document.namespace,
        "owner": document.owner,
        "part": "document.create",
        "revision": document.revision,
        "version": document.version,
    }
    if document.retired_at is not None:
        told["retired_at"] = document.retired_at
    return [line(told), *(_revision_line(each) for each in contents)]


def _revision_line(revision: Revision) -> bytes:
    # The content is canonical JSON already, and "content" sorts first.
    told = canonical({"id": revision.id, "part": "document.revision", "seq": revision.seq})
    return b'{"content":%s,%s\n' % (revision.content, told[1:])


def commit_line(kept: CommitKey) -> bytes:
    """Spell what is kept of a commit's id."""
    return line(
        {
            "commit": kept.commit,
            "digest": kept.digest,
            "ids": list(kept.ids),
            "next_id": kept.next_id,
            "part": "commit",
            "seq": kept.seq,
        }
    )


def table_place(name: str) -> Place:
    return (0, name, "")


def row_place(table: str, key: Key[Row]) -> Place:
    return (0, table, key.sort.removeprefix(places.rows_prefix(table)))


def key_at(store: Partition, place: Place) -> Key[Row]:
    """Return where the row lies that stands at a place."""
    _, table, sort = place
    return Key(store, places.rows_prefix(table) + sort, Row)


def document_place(id: DocumentId) -> Place:
    return (2, number(id), "")


def commit_place(id: CommitId) -> Place:
    return (1, id, "")


def kept_contents(document: Document) -> int:
    """Return how many contents an export has of a document.

    All that a rewindable one ever had; else those that its present value is made of.
    """
    if document.history == "rewindable":
        return document.revision
    return 0 if document.retired_at is not None else document.deltas + 1


def contents_range(store: Partition, document: Document, behind: Seq | None) -> Range[Revision]:
    """Return where the contents of an export lie, behind one of them."""
    prefix = places.revisions_prefix(document.id)
    # Before that may lie what another document has left that had the same id.
    first = document.created_at if document.history == "rewindable" else document.base
    if behind is not None:
        first = Seq(behind + 1)
    return Range(
        store,
        prefix + number(first),
        prefix + number(document.last + 1),
        Revision,
        limit=CONTENTS_PAGE,
    )


def is_whole(document: Document, contents: Sequence[Revision]) -> bool:
    """Say whether these are the contents that the record speaks of."""
    wanted = kept_contents(document)
    if len(contents) != wanted:
        return False
    return not wanted or contents[-1].seq == document.last


@dataclass(slots=True)
class Touched:
    """What commits have written of what an export reads."""

    tables: set[str] = field(default_factory=set)
    """Tables whose own record is another by now."""

    whole_tables: set[str] = field(default_factory=set)
    """Tables of which every row must be read again."""

    rows: dict[Key[Row], str] = field(default_factory=dict)
    """Rows, and the table of each."""

    documents: set[DocumentId] = field(default_factory=set)
    commits: set[CommitId] = field(default_factory=set)
    """Ids under which they were asked for."""

    def __bool__(self) -> bool:
        return any((self.tables, self.whole_tables, self.rows, self.documents, self.commits))

    def add(self, store: Partition, entry: Logged, keys: dict[str, tuple[str, ...]]) -> None:
        """Take in what a commit has written; ``keys`` are the key columns of tables, learnt here too.

        Raises: NewerWriter for a write of a kind that this version does not know.
        """
        for told in entry.told():
            match told["w"].partition(".")[0]:
                case "document":
                    self.documents.add(told["id"])
                case "row":
                    self.tables |= {told["table"]} if told["w"] == "row.move" else set()
                    self._add_row(store, told, keys)
                case "rows":
                    self.whole_tables.add(told["table"])
                case "table":
                    self.tables.add(told["table"])
                    if "key" in told:
                        keys[told["table"]] = tuple(told["key"])
                case "commit":
                    self.commits.add(told["commit"])
                case "ids":
                    pass  # the head tells of them
                case _:
                    raise NewerWriter(
                        expected="a commit of rows, tables, documents and ids",
                        found=f"a write {told['w']!r}",
                    )

    def _add_row(
        self, store: Partition, told: Mapping[str, Any], keys: Mapping[str, tuple[str, ...]]
    ) -> None:
        table = told["table"]
        if "row" not in told:
            key: tuple[Part, ...] = tuple(told["key"])
        elif table in keys:
            key = tuple(told["row"][name] for name in keys[table])
        else:  # it was declared before the log begins, and is seen by no scan yet
            self.whole_tables.add(table)
            return
        self.rows[row_key(store, table, key)] = table


def tables_range(store: Partition, behind: str | None, limit: int) -> Range[StoredTable]:
    """Return where the tables of a store lie, behind one."""
    first = places.table_sort("") if behind is None else places.table_sort(behind) + "\0"
    return Range(store, first, after(places.table_sort("")), StoredTable, limit=limit)


def rows_range(store: Partition, table: str, behind: Row | None, limit: int) -> Range[Row]:
    """Return where the rows of a table lie, behind one."""
    prefix = places.rows_prefix(table)
    first = prefix if behind is None else behind.key.sort + "\0"
    return Range(store, first, after(prefix), Row, limit=limit)


def documents_range(store: Partition, behind: DocumentId | None, limit: int) -> Range[Document]:
    """Return where the documents of a store lie, behind one."""
    first = places.document_sort(DocumentId(0 if behind is None else behind + 1))
    return Range(store, first, after("doc/"), Document, limit=limit)
