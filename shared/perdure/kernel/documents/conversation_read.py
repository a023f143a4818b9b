"""Reading conversations: entries through the ancestry of forks, tasks and submissions by index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from perdure.kernel.documents.called import is_id
from perdure.kernel.documents.conversation import ConversationTables, encoded
from perdure.kernel.documents.errors import UnknownConversation
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.read import RowScan, ScanStart, load_row, scan_start
from perdure.kernel.documents.records import Row, row_key
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import View


@dataclass(frozen=True, slots=True)
class Segment:
    """A conversation, and up to which entry what descends from it sees of it."""

    conversation: int
    most: int


@dataclass(frozen=True, slots=True)
class Conversations:
    """The conversations of one owner, as one view of the store shows them."""

    tables: ConversationTables
    store: Partition
    view: View

    def last_id(self) -> int:
        """Return the greatest id that any record has, 0 for none."""
        rows = RowScan(self.tables.record_ids).page(
            self.view, self.store, ScanStart("descending", None), 1
        )
        return rows[0].value["id"] if rows else 0

    def conversation(self, id: int) -> dict[str, Any] | None:
        """Return a conversation's record."""
        return self._record(self._row(self.tables.conversations, id))

    def task(self, id: int) -> dict[str, Any] | None:
        """Return a task's record."""
        return self._record(self._row(self.tables.tasks, id))

    def submission(self, id: int) -> dict[str, Any] | None:
        """Return a submission's record."""
        return self._record(self._row(self.tables.submissions, id))

    def submission_by_request(self, conversation: int, request: str) -> dict[str, Any] | None:
        """Return the submission that a request of a conversation has, the newest of several."""
        if not is_id(conversation):
            return None
        scan = RowScan(
            self.tables.submissions, (conversation, encoded(request)), index="by_request"
        )
        rows = scan.page(self.view, self.store, ScanStart("descending", None), 1)
        return self._record(rows[0]) if rows else None

    def entry(self, id: int) -> dict[str, Any] | None:
        """Return an entry with its commit, wherever it is."""
        claim = self._row(self.tables.record_ids, id)
        if claim is None or claim.value["type"] != "entry":
            return None
        return self._looked_up(claim.value["place"], id)

    def visible_entry(self, conversation: int, id: int) -> dict[str, Any] | None:
        """Return an entry with its commit if a conversation sees it. Raises UnknownConversation."""
        for segment in self.ancestry(conversation, SAFE_INTEGER_MAX):
            if id <= segment.most:
                found = self._looked_up(segment.conversation, id)
                if found is not None:
                    return found
        return None

    def latest_head(self, conversation: int, most: int | None) -> dict[str, Any] | None:
        """Return the newest entry with a head that a conversation sees. Raises UnknownConversation."""
        upper = SAFE_INTEGER_MAX if most is None else most
        for segment in self.ancestry(conversation, upper):
            scan = RowScan(self.tables.entry_heads, (segment.conversation,))
            start = ScanStart("descending", None)
            for row in scan.page(self.view, self.store, start, 1, most=segment.most):
                return self._looked_up(segment.conversation, row.value["id"], bare=True)
        return None

    def entries(
        self, query: Mapping[str, Any], limit: int, cursor: Any
    ) -> tuple[list[dict[str, Any]], ScanStart]:
        """Return up to one more than ``limit`` entries that a conversation sees, newest first.

        Raises: UnknownConversation, InvalidCursor, OtherOrder.
        """
        start = scan_start(query.get("order"), cursor, "descending")
        least, most = query.get("minEntryId"), query.get("maxEntryId")
        upper = SAFE_INTEGER_MAX if most is None else most
        if start.after is not None and start.order == "descending":
            upper = min(upper, start.after - 1)
        if start.after is not None and start.order == "ascending":
            least = start.after + 1 if least is None else max(least, start.after + 1)
        segments: Iterable[Segment] = self.ancestry(query["conversationId"], upper)
        if least is not None:
            lower = least
            segments = takewhile(lambda segment: segment.most >= lower, segments)
        if start.order == "ascending":
            segments = reversed(list(segments))
        found: list[dict[str, Any]] = []
        # Newest first, ancestors are looked at as far as the page goes back.
        for segment in segments:
            scan = RowScan(self.tables.entries, (segment.conversation,))
            rows = scan.page(
                self.view,
                self.store,
                ScanStart(start.order, None),
                limit + 1 - len(found),
                least=least,
                most=segment.most,
            )
            found += [row.value["record"] for row in rows]
            if len(found) > limit:
                break
        return found, start

    def conversations(
        self, query: Mapping[str, Any], limit: int, cursor: Any
    ) -> tuple[list[dict[str, Any]], ScanStart]:
        """Return up to one more than ``limit`` conversations by id. Raises as :meth:`entries`."""
        indexed = {
            "by_owner_task": ("owner_task_id", query.get("ownerTaskId")),
            "by_owner_conversation": ("owner_conversation_id", query.get("ownerConversationId")),
        }
        return self._scanned(self.tables.conversations, indexed, query, limit, cursor)

    def tasks(
        self, query: Mapping[str, Any], limit: int, cursor: Any
    ) -> tuple[list[dict[str, Any]], ScanStart]:
        """Return up to one more than ``limit`` tasks by id. Raises as :meth:`entries`."""
        kind = query.get("kind")
        indexed = {
            "by_status": ("status", query.get("status")),
            "by_conversation": ("conversation_id", query.get("conversationId")),
            "by_kind": ("kind", None if kind is None else encoded(kind)),
            "by_abort_requested": ("abort_requested", query.get("abortRequested")),
            "by_background": ("background", query.get("background")),
        }
        return self._scanned(self.tables.tasks, indexed, query, limit, cursor)

    def submissions(
        self, query: Mapping[str, Any], limit: int, cursor: Any
    ) -> tuple[list[dict[str, Any]], ScanStart]:
        """Return up to one more than ``limit`` submissions by id. Raises as :meth:`entries`."""
        indexed = {
            "by_status": ("status", query.get("status")),
            "by_conversation": ("conversation_id", query.get("conversationId")),
        }
        return self._scanned(self.tables.submissions, indexed, query, limit, cursor)

    def ancestry(self, conversation: int, most: int) -> Iterator[Segment]:
        """Yield a conversation and those it was forked from, each up to where it was.

        What was forked from one that is not there sees what is its own.
        Raises: UnknownConversation; Corrupt for one that descends from itself.
        """
        current, upper = conversation, most
        seen: set[int] = set()
        while True:
            row = self._row(self.tables.conversations, current)
            if row is None and seen:
                return
            if row is None:
                raise UnknownConversation(
                    expected="a conversation that exists", found=f"Unknown conversation: {current}"
                )
            if current in seen:
                raise Corrupt(
                    expected=f"conversation {conversation} to descend from others",
                    found=f"{current} among its own ancestors",
                )
            seen.add(current)
            yield Segment(current, upper)
            parent = row.value["record"].get("parent")
            if parent is None:
                return
            upper = min(upper, parent["at"])
            current = parent["conversationId"]

    def _scanned(
        self,
        table: Any,
        indexed: Mapping[str, tuple[str, Any]],
        query: Mapping[str, Any],
        limit: int,
        cursor: Any,
    ) -> tuple[list[dict[str, Any]], ScanStart]:
        start = scan_start(query.get("order"), cursor, "ascending")
        asked = {name: pair for name, pair in indexed.items() if pair[1] is not None}
        # A value of False is in no index: such rows are found among all.
        index = next((name for name, (_, value) in asked.items() if value), None)
        scan = RowScan(
            table,
            () if index is None else (asked[index][1],),
            index,
            where=dict(pair for name, pair in asked.items() if name != index),
        )
        rows = scan.page(self.view, self.store, start, limit + 1)
        return [row.value["record"] for row in rows], start

    def _looked_up(
        self, conversation: int, id: int, *, bare: bool = False
    ) -> dict[str, Any] | None:
        row = None
        if is_id(id):
            row = load_row(self.view, self.store, self.tables.entries, (conversation, id))
        if row is None:
            if bare:
                lost = Corrupt(expected=f"entry {id} of conversation {conversation}", found="none")
                key = row_key(self.store, self.tables.entries.full_name, (conversation, id))
                raise SeenInPart((key,), lost)
            return None
        record: dict[str, Any] = row.value["record"]
        return record if bare else {"entry": record, "commitSeq": row.value["commit_seq"]}

    def _row(self, table: Table, id: int) -> Row | None:
        """Return the row under an id. What no store gives as one is nobody's."""
        return load_row(self.view, self.store, table, (id,)) if is_id(id) else None

    def _record(self, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else row.value["record"]
