"""Checking an export line by line: what it brings, if it is what its own parts say."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.documents import export, places
from perdure.kernel.documents.called import check_address, check_id, check_meta
from perdure.kernel.documents.commit_keys import CommitKey
from perdure.kernel.documents.content import Content, content_of
from perdure.kernel.documents.errors import (
    CountsDiffer,
    DigestDiffers,
    ExportTruncated,
    InvalidExport,
    LifetimesOverlap,
    NewerTable,
    TableMigrating,
)
from perdure.kernel.documents.export import Counts, Manifest, Place
from perdure.kernel.documents.export_parts import (
    check_commit,
    check_kept,
    check_tails,
    invalid,
    moves_of,
    read_part,
    table_of,
)
from perdure.kernel.documents.moves import altered, check_alter, moved_up_to
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import HISTORIES, ID_FIRST, Document, Revision, Row
from perdure.kernel.documents.tables import StoredTable, Table, stored_as
from perdure.kernel.errors import Invalid
from perdure.kernel.ids import DocumentId, Epoch, Lineage, Partition, Seq
from perdure.kernel.shown import shown

_NEVER: Final = 2**63
"""A commit behind every other: where a life ends that has not ended."""

_LINEAGE: Final = re.compile("[A-Za-z0-9_-]{1,64}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""What the next commits, and places to go on from, are spelled with as it is."""


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """A document with the contents that an export has of it."""

    document: Document
    contents: tuple[Revision, ...]


Brought = StoredTable | Row | WholeDocument | CommitKey


@dataclass(slots=True)
class _Open:
    """A document whose contents are being read."""

    told: Mapping[str, Any]
    contents: list[Revision]
    kinds: list[Content]


class ExportCheck:
    """Reads an export in the order of its lines.

    Every reading raises InvalidExport kinds for what no store has written so; other Invalid kinds
    are never raised. ``manifest`` is known after the first line.
    """

    def __init__(self, store: Partition) -> None:
        self._store = store
        self._sha256 = hashlib.sha256()
        self._lines = 0
        self._manifest: Manifest | None = None
        self._last: Place = (0, "", "")
        self._table: Table | None = None
        self._shape: Table | None = None
        """What the last row is held to: its table, or what that is on its way to be."""
        self._moved: list[tuple[Table, str]] = []
        """What the rows up to a sort key are already, the newest first."""
        self._open: _Open | None = None
        self._lives: dict[str, list[tuple[int, int]]] = {}
        self._asked: set[int] = set()
        """Commits that have an id."""
        self._is_at_end = False
        self.counts = Counts()
        self.sha256 = ""
        """Of every line but the last; known at the end."""

    @property
    def manifest(self) -> Manifest:
        assert self._manifest is not None, "its first line was taken"
        return self._manifest

    def take(self, line: bytes) -> Brought | None:
        """Take the next line with its end, and return what it makes whole, if it does."""
        self._lines += 1
        try:
            return self._take(line)
        except InvalidExport as error:
            raise type(error)(
                expected=f"{error.expected}, at line {self._lines}", found=error.found
            ) from error.__cause__
        except Invalid as error:
            raise InvalidExport(
                expected=f"{error.expected}, at line {self._lines}", found=error.found
            ) from error

    def done(self) -> None:
        """Say that there are no more lines. Raises ExportTruncated."""
        if not self._is_at_end:
            raise ExportTruncated(
                expected="an end with counts and a digest", found=f"{self._lines} lines without one"
            )

    def _take(self, line: bytes) -> Brought | None:
        if self._is_at_end:
            raise invalid("nothing behind the end", "another line")
        if not line.endswith(b"\n"):
            raise ExportTruncated(expected="a whole line", found=f"{len(line)} bytes of one")
        part, told = read_part(line)
        if (part == "manifest") != (self._manifest is None):
            raise invalid("a manifest first, and one alone", f"a part {part!r}")
        whole = None if part == "document.revision" else self._closed()
        if part == "end":
            self._end(told)
            return whole
        self._sha256.update(line)
        if part == "document.create":
            self._open = self._created(told)
            return whole
        found: Brought | None = whole
        match part:
            case "manifest":
                self._manifest = self._manifest_of(told)
            case "table":
                found = self._table_of(told)
            case "row":
                found = self._row_of(told)
            case "commit":
                found = self._commit_of(told)
            case _:
                self._content(told)
        return found

    def _manifest_of(self, told: Mapping[str, Any]) -> Manifest:
        for name in ("last_seq", "epoch"):
            if not 0 <= told[name] < places.SAFE_INTEGER_MAX:
                raise invalid(f"{name} of 0 to {places.SAFE_INTEGER_MAX - 1}", shown(told[name]))
        if not _LINEAGE.fullmatch(told["lineage"]):
            raise invalid("a lineage", shown(told["lineage"]))
        if not (_DIGEST.fullmatch(told["digest"]) if told["last_seq"] else told["digest"] == ""):
            raise invalid("the digest of the last commit, if there is one", shown(told["digest"]))
        if not ID_FIRST <= told["next_id"] <= places.SAFE_INTEGER_MAX:
            raise invalid("a next id that can be given", shown(told["next_id"]))
        return Manifest(
            lineage=Lineage(told["lineage"]),
            last_seq=Seq(told["last_seq"]),
            digest=told["digest"],
            next_id=told["next_id"],
            epoch=Epoch(told["epoch"]),
        )

    def _follows(self, place: Place) -> None:
        """Refuse what is out of order, and so everything that is there twice."""
        if place <= self._last:
            raise invalid("each thing once, in the order of exports", f"one at {place[1:]}")
        self._last = place

    def _table_of(self, told: Mapping[str, Any]) -> StoredTable:
        names = told["table"].split(":")
        if len(names) != 2:
            raise invalid("a table's name of two parts, owner:table", shown(told["table"]))
        if not self.manifest.last_seq:
            raise invalid("nothing in a store without commits", f"table {shown(told['table'])}")
        self._table = table_of(told)
        self._follows(export.table_place(told["table"]))
        self.counts.tables += 1
        self._shape, self._moved = self._table, []
        stored = stored_as(self._store, self._table)
        for table, behind in moves_of(told):
            stored = self._moved_to(stored, table, behind)
        if len(stored.overtaken) != len(told.get("overtaken", ())):
            raise invalid(f"a row at each version of {stored.name} that was overtaken", "none")
        return stored

    def _moved_to(self, stored: StoredTable, table: Table, behind: str | None) -> StoredTable:
        try:
            check_alter(stored, table)
        except (NewerTable, TableMigrating) as error:
            raise invalid(error.expected, error.found) from error
        if self._moved and (behind or "") >= self._moved[0][1]:
            raise invalid(f"a newer move of {table.full_name} before an older", shown(behind))
        begun = altered(stored, table)
        if behind is None:
            return begun
        self._moved.insert(0, (table, behind))
        return moved_up_to(begun, behind)

    def _row_of(self, told: Mapping[str, Any]) -> Row:
        table = self._table
        if table is None or told["table"] != table.full_name:
            raise invalid("rows behind their table", f"one of {shown(told['table'])}")
        if any(type(each) not in (int, str, bool) for each in told["key"]):
            raise invalid(f"a key of {table.full_name}", shown(told["key"]))
        row = Row(
            partition=self._store,
            table=table.full_name,
            version=told["version"],
            row_key=tuple(told["key"]),
            value=told["value"],
        )
        self._follows(export.row_place(table.full_name, row.key))
        moved = (shape for shape, behind in self._moved if row.key.sort <= behind)
        self._shape = next(moved, table)
        if row.version != self._shape.version:
            raise invalid(
                f"a row of {table.full_name} of version {self._shape.version}", shown(row.version)
            )
        self._shape.check_row(row.value)
        if self._shape.key_of(row.value) != row.row_key:
            raise invalid(f"the key of a row of {table.full_name}", shown(told["key"]))
        self.counts.rows += 1
        return row

    def _commit_of(self, told: Mapping[str, Any]) -> CommitKey:
        check_commit(told, self.manifest)
        self._follows(export.commit_place(told["commit"]))
        if told["seq"] in self._asked:
            raise invalid("one id of a commit", f"a second one of commit {told['seq']}")
        self._asked.add(told["seq"])
        self.counts.commits += 1
        return CommitKey(
            partition=self._store,
            commit=told["commit"],
            digest=told["digest"],
            seq=told["seq"],
            next_id=told["next_id"],
            ids=tuple(told["ids"]),
        )

    def _created(self, told: Mapping[str, Any]) -> _Open:
        check_id(told["id"])
        address = Address(told["owner"], told["namespace"], told["kind"], told["key"])
        check_address(address)
        check_meta(told["meta"])
        self._follows(export.document_place(told["id"]))
        self.counts.documents += 1
        if told["history"] not in HISTORIES:
            raise invalid(f"a history of {', '.join(HISTORIES)}", shown(told["history"]))
        if told["id"] >= self.manifest.next_id < places.SAFE_INTEGER_MAX:
            raise invalid(f"ids below {self.manifest.next_id}", shown(told["id"]))
        if told["version"] < 1 or told["revision"] < 1:
            raise invalid("a version and a revision of 1 or more", shown(told["version"]))
        created, retired = told["created_at"], told.get("retired_at")
        last = created if retired is None else retired
        if not 1 <= created <= last <= self.manifest.last_seq:
            raise invalid(
                f"a life within commits 1 to {self.manifest.last_seq}", f"{created} to {last}"
            )
        if told["revision"] > told.get("retired_at", self.manifest.last_seq) - created + 1:
            raise invalid(
                f"one revision of document {told['id']} in a commit, at most",
                shown(told["revision"]),
            )
        if retired is not None and told["history"] == "none":
            raise invalid("nothing of a retired document without history", shown(told["id"]))
        self._live(told["id"], address, created, _NEVER if retired is None else retired)
        return _Open(told, [], [])

    def _live(self, id: int, address: Address, created: int, retired: int) -> None:
        if created == retired:
            return  # an empty life is at no commit
        lives = self._lives.setdefault(address.hash, [])
        at = bisect_left(lives, (created, retired))
        overlaps = (at < len(lives) and lives[at][0] < retired) or (
            at and lives[at - 1][1] > created
        )
        if overlaps:
            raise LifetimesOverlap(
                expected=f"one living document at a time at {shown(address.kind)}"
                f" of {address.owner!r}",
                found=f"document {id} beside another",
            )
        lives.insert(at, (created, retired))

    def _content(self, told: Mapping[str, Any]) -> None:
        opened = self._open
        if opened is None or opened.told["id"] != told["id"]:
            raise invalid("contents behind their document", f"one of {shown(told['id'])}")
        content, seq = content_of(told["content"]), told["seq"]
        before = opened.contents[-1].seq if opened.contents else opened.told["created_at"] - 1
        most = opened.told.get("retired_at", self.manifest.last_seq)
        if not before < seq <= most:
            raise invalid(
                f"contents of document {told['id']} in order, at commits {before + 1} to {most}",
                f"one at {seq}",
            )
        if not opened.contents and content.kind != "base":
            raise invalid(f"a base as the first content of {told['id']}", "a delta")
        if content.kind == "delta" and content.version != opened.kinds[-1].version:
            raise invalid(
                f"deltas of version {opened.kinds[-1].version} in document {told['id']}",
                f"version {content.version} at commit {seq}",
            )
        opened.kinds.append(content)
        opened.contents.append(
            Revision(partition=self._store, id=told["id"], seq=seq, content=content.spelled)
        )
        self.counts.revisions += 1

    def _closed(self) -> WholeDocument | None:
        """Return the document that was being read, now that nothing more comes of it."""
        opened, self._open = self._open, None
        if opened is None:
            return None
        told, contents, kinds = opened.told, opened.contents, opened.kinds
        check_kept(told, contents, kinds)
        check_tails(told["id"], kinds)
        bases = [at for at, each in enumerate(kinds) if each.kind == "base"]
        last = contents[-1].seq if contents else told["retired_at"]
        document = Document(
            partition=self._store,
            id=DocumentId(told["id"]),
            owner=told["owner"],
            namespace=told["namespace"],
            kind=told["kind"],
            member=told["key"],
            history=told["history"],
            version=told["version"],
            revision=told["revision"],
            base=contents[bases[-1]].seq if contents else last,
            last=last,
            deltas=len(kinds) - 1 - bases[-1] if contents else 0,
            meta=told["meta"],
            created_at=Seq(told["created_at"]),
            retired_at=told.get("retired_at"),
        )
        return WholeDocument(document, tuple(contents))

    def _end(self, told: Mapping[str, Any]) -> None:
        self.sha256 = self._sha256.hexdigest()
        found = self.counts.told()
        if {name: told[name] for name in found} != found:
            raise CountsDiffer(expected=f"an end of {found}", found=shown(told))
        if told["sha256"] != self.sha256:
            raise DigestDiffers(
                expected=f"digest {told['sha256'][:12]}…", found=f"{self.sha256[:12]}…"
            )
        self._is_at_end = True
