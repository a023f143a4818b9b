"""Errors of document stores. Each has a stable ``code``, as those of :mod:`perdure.kernel.errors`.

Refused
├── Invalid
│   ├── InvalidCursor        a cursor is none that a scan here has given out
│   ├── StaleCursor          a cursor is of another history of the store than the present one
│   ├── OtherOrder           a cursor continues a scan in the other order
│   ├── InvalidDelta         operations of a delta are not spelled as they must be
│   ├── InvalidExport        an export is not what its own parts say
│   │   ├── LifetimesOverlap     two documents of it would live at one address at once
│   │   ├── CountsDiffer         it holds more or less than it says at its end
│   │   ├── DigestDiffers        its bytes are others than those that were written
│   │   ├── ExportTruncated      it stops before its end
│   │   └── UnknownFormat        it is of a format that this version does not know
│   └── IdsExhausted         there is no id left to give
├── UnknownConversation  no conversation has that id
├── UnknownDocument      no document has that id
├── UnknownJob           no job has that id, or the application declares none of that name
├── JobThrew             a job came to no result: its function raised
├── JobAborted           a job came to no result: somebody asked for its end, or nobody may rerun it
├── JobInterrupted       a job came to no result: too many processes died at it
├── HistoryNotKept       the document keeps no content of the past
├── IdTaken              the id belongs to something else already
├── WrittenTwice         one commit writes the same thing twice
├── AddressTaken         a living document has that address
├── DocumentRetired      the document has ended
├── NeedsBase            the change is a delta where only a base can stand
├── DeltaDoesNotApply    the delta does not fit what the document says
├── RevisionDiffers      the document has changed since the caller read it
├── CopyRefused          the source of a copy cannot be copied so
├── RowExists            the table has a row under that key
├── RowAbsent            the table has no row under that key
├── RowCountDiffers      a write by condition meets more rows than it says, or fewer
├── UnknownTable         the store has no table of that name and version
├── TableMigrating       the table is not yet what is declared: prepare it, or wait for whoever does
├── TableDiffers         the table was declared with other columns, key or indexes at this version: a change needs a new one
├── MigrationFailed      the owner's migration of a row raised, or made no row of its table
├── NewerTable           newer code has the table, or is bringing it to its version
├── NewerDocument        the document was written by a newer version of its definition
├── UnmigratedDocument   the document is of an older version, and its definition has no way from there
├── NameBound            somebody in this process has that table or namespace in hand
├── OwnerHeld            another process has that owner's documents and tables in hand
├── StillBound           somebody has a part of the store in hand that must be free
├── StoreFailed          a commit had no answer: open the store again
├── StoreClosed          the store was closed
├── StoreDiverged        the replica is not what its source was
├── StoreImporting       an import has not come to its end: nothing is visible
├── StoreMoving          the store is being moved to another storage
├── StoreMoved           the store lives in another storage by now
├── FollowsSource        the store is a replica: it takes the commits of its source alone
├── LogTrimmed           the entries asked for have left the log
├── FollowFailed         something that a host follows has failed; the host attaches it again
└── NotAFollower         the commits do not follow the last one of the replica
Unavailable
├── FarBehind            the writer has not looked for too long to find its own commit in the log
└── IdsMoved             ids that the writer had set aside were given meanwhile
"""

from __future__ import annotations

from typing import Any

from perdure.kernel.errors import Invalid, Refused, Unavailable


class InvalidCursor(Invalid): ...


class StaleCursor(Invalid): ...


class OtherOrder(Invalid): ...


class InvalidDelta(Invalid): ...


class InvalidExport(Invalid): ...


class LifetimesOverlap(InvalidExport): ...


class CountsDiffer(InvalidExport): ...


class DigestDiffers(InvalidExport): ...


class ExportTruncated(InvalidExport): ...


class UnknownFormat(InvalidExport): ...


class IdsExhausted(Invalid): ...


class UnknownConversation(Refused): ...


class UnknownDocument(Refused): ...


class UnknownJob(Refused): ...


class JobThrew(Refused):
    """The error that was stored: ``error`` is its code, its message and its details."""

    error: Any = None


class JobAborted(Refused): ...


class JobInterrupted(Refused): ...


class HistoryNotKept(Refused): ...


class IdTaken(Refused): ...


class WrittenTwice(Refused): ...


class AddressTaken(Refused): ...


class DocumentRetired(Refused): ...


class NeedsBase(Refused): ...


class DeltaDoesNotApply(Refused): ...


class RevisionDiffers(Refused): ...


class CopyRefused(Refused): ...


class RowExists(Refused): ...


class RowAbsent(Refused): ...


class RowCountDiffers(Refused): ...


class UnknownTable(Refused): ...


class TableMigrating(Refused): ...


class MigrationFailed(Refused): ...


class NewerTable(Refused): ...


class TableDiffers(Refused): ...


class NewerDocument(Refused): ...


class UnmigratedDocument(Refused): ...


class NameBound(Refused): ...


class OwnerHeld(Refused): ...


class StillBound(Refused): ...


class StoreFailed(Refused): ...


class StoreClosed(Refused): ...


class StoreDiverged(Refused): ...


class StoreImporting(Refused): ...


class StoreMoving(Refused): ...


class StoreMoved(Refused): ...


class FollowsSource(Refused): ...


class LogTrimmed(Refused): ...


class FollowFailed(Refused): ...


class NotAFollower(Refused): ...


class FarBehind(Unavailable): ...


class IdsMoved(Unavailable): ...
