"""What Durable's own memory accepts and answers, ours accepts and answers too.

Left out, since they are decided otherwise here: text operations on characters beyond 16 bits, whose
units Durable's Python counts by code points; ids of refused commits, which are not given again; two
submissions with one request, which a Session never writes; cursors of documents in an order that no
scan of documents has, which Durable does not look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pi_durable.context import BACKGROUND_CONTEXT
from pi_durable.errors import StorageRequestError
from pi_durable.storage.memory import MemoryStorage
from tests.support import conversing, stores
from tests.support.conversing import Write
from tests.support.documents import opened
from tests.support.drafted import KINDS, NOWHERE, STATUSES, SUBMITTED, Known

from perdure.authority.testing import Opener
from perdure.kernel.errors import Refused
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores

SEQS = ("commitSeq", "createdAt", "retiredAt")
POINTED = ("document", "find_document")
"""Reads whose second argument is a commit."""

DRAFTS = ("conversation", "entry", "task", "create", "change") * 2 + (
    "submission",
    "copy",
    "retire",
)

small = st.integers(0, 11)
often = st.sampled_from
draft = st.tuples(
    often(DRAFTS),
    small,
    small,
    small,
    st.integers(0, 24),
)
batch = st.tuples(st.just("commit"), st.lists(draft, min_size=1, max_size=4))
look = st.tuples(
    often(("scan", "scan", "go on", "get", "bad")), st.tuples(small, small, small, small)
)
stories = st.lists(st.one_of(batch, batch, look), min_size=8, max_size=30)


@dataclass(kw_only=True)
class Both(Known):
    """Durable's memory and ours, told the same; what is known of them is what was accepted."""

    theirs: Any
    ours: PiStorage
    ahead: int = 0
    """Commits that ours had before the first: its tables."""
    scans: list[tuple[str, Any, int, Any]] = field(default_factory=list)

    async def commit(self, writes: list[Write]) -> None:
        """Commit in both: accepted by both, or refused by both."""
        try:
            self.seq = await self.theirs.commit(writes, BACKGROUND_CONTEXT)
        except Exception:  # noqa: BLE001  # theirs has no class for refusals
            with pytest.raises(Refused):
                await self.ours.commit(self._ahead(writes), None)
            return
        seq = await self.ours.commit(self._ahead(writes), None)
        assert seq == self.seq + self.ahead
        for write in writes:
            self.learn(write)

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Ask both the same, and return what both answered, which may be a refusal."""
        answers = []
        for storage, ahead in ((self.theirs, 0), (self.ours, self.ahead)):
            try:
                asked = [
                    shifted(each, ahead, "seq" * (number == 1 and name in POINTED))
                    for number, each in enumerate(arguments)
                ]
                answer = await getattr(storage, name)(*asked, BACKGROUND_CONTEXT)
                answers.append(shifted(answer, -ahead))
            except StorageRequestError:
                answers.append(StorageRequestError)
        assert answers[0] == answers[1], f"{name}{arguments}"
        return answers[0]

    def _ahead(self, writes: list[Write]) -> list[Write]:
        return [shifted(write, self.ahead) for write in writes]

    async def look(self, kind: str, a: int, b: int, c: int, d: int) -> None:
        """Read once, somewhere."""
        if kind == "get":
            await self.gets(self.known(("entry", "task", "document", "submission")[d % 4], a), b, c)
        elif kind == "bad":
            await self.bad(a, b)
        elif kind == "scan":
            await self.begin(a, b, c, d)
        elif self.scans:
            name, query, limit, cursor = self.scans.pop(a % len(self.scans))
            if b % 3 == 0:
                query = {each: value for each, value in query.items() if each != "order"}
            await self.page(name, query, limit, cursor)

    async def begin(self, a: int, b: int, c: int, d: int) -> None:
        """Begin a scan with some filters and in some order; it may go on later."""
        where = self.known("conversation", b)
        order: dict[str, Any] = [{}, {"order": "ascending"}, {"order": "descending"}][c % 3]
        limit = 1 + d % 3
        filters: dict[str, Any]
        if a < 4:
            bounds = {"minEntryId": self.known("entry", c), "maxEntryId": self.known("entry", d)}
            chosen = [each for number, each in enumerate(bounds) if a >> number & 1]
            filters = {"conversationId": where, **{each: bounds[each] for each in chosen}}
            await self.page("scan_entries", {**filters, **order}, limit, None)
        elif a < 7:
            filters = {
                "status": STATUSES[c % 6],
                "conversationId": where,
                "kind": KINDS[d % 3],
                "abortRequested": b % 2 == 0,
                "background": d % 2 == 0,
            }
            filters = {
                each: filters[each] for n, each in enumerate(filters) if (b + a * d) >> n & 1
            }
            await self.page("scan_tasks", {**filters, **order}, limit, None)
        elif a < 9:
            filters = {"status": SUBMITTED[c % 4], "conversationId": where}
            filters = {each: filters[each] for n, each in enumerate(filters) if b >> n & 1}
            await self.page("scan_submissions", {**filters, **order}, limit, None)
        elif a == 9:
            owners = {"ownerConversationId": where, "ownerTaskId": self.known("task", d)}
            owners = {each: owners[each] for n, each in enumerate(owners) if b >> n & 1}
            await self.page("scan_conversations", {**owners, **order}, limit, None)
        else:
            scope = conversing.SESSION if b < 4 else conversing.scope_of(where)
            at = "current" if c < 6 else max(1, self.seq - d)
            more = {"kind": KINDS[d % 3]} if d > 5 else {}
            await self.page("scan_documents", {"scope": scope, "at": at, **more}, limit, None)

    async def page(self, name: str, query: Any, limit: int, cursor: Any) -> Any:
        page = await self.ask(name, query, limit, cursor)
        if page is not StorageRequestError and "next" in page:
            self.scans.append((name, query, limit, page["next"]))
        return page

    async def gets(self, id: int, b: int, c: int) -> None:
        """Ask for whatever an id may be, and for what is at an address."""
        for name in ("conversation", "entry", "task", "submission"):
            await self.ask(name, id)
        where = (self.known("conversation", b), NOWHERE)[b == 11]
        await self.ask("entry", where, id)
        await self.ask("find_latest_head_marker", where, None if c < 4 else id)
        await self.ask("submission_by_request", where, f"{c % 2}\ud800{id}")
        for at in ("current", max(1, self.seq - b), self.seq):
            await self.ask("document", id, at)
            record = self.records.get(id, {})
            if "scope" in record:
                named = {each: record[each] for each in ("kind", "scope", "key") if each in record}
                await self.ask("find_document", named, at)

    async def bad(self, a: int, b: int) -> None:
        """Ask for what cannot be: both say so, and go on."""
        cursors: list[Any] = [
            {"after": 1, "order": "descending"},
            {"after": 1, "order": "ascending"},
            {"after": "1"},
            {"after": 1.0},
            {"after": True},
            {"after": 2**53},
            {},
            {"after": 1, "order": "sideways"},
            {"after": 1},
            {"after": 1, "order": None},
            None,
            {"after": 1, "order": ""},
        ]
        order: dict[str, Any] = [
            {},
            {"order": "ascending"},
            {"order": "descending"},
            {"order": "up"},
        ][b % 4]
        cursor = cursors[a]
        where = {"conversationId": (1, NOWHERE)[b > 8]}
        await self.ask("scan_entries", {**where, **order}, 2, cursor)
        for name in ("scan_tasks", "scan_submissions", "scan_conversations"):
            await self.ask(name, order, 2, cursor)
        if a not in (0, 7, 11):
            scope = {"scope": conversing.SESSION, "at": "current"}
            await self.ask("scan_documents", scope, 2, cursor)

    async def everything(self) -> None:
        """Read all there is, page by page, from every side."""
        for order in ("ascending", "descending"):
            for name in ("scan_conversations", "scan_tasks", "scan_submissions"):
                await self._whole(name, {"order": order}, 3)
            for conversation in self.ids.get("conversation", []):
                await self._whole(
                    "scan_entries", {"conversationId": conversation, "order": order}, 2
                )
        for scope in (conversing.SESSION, conversing.scope_of(1)):
            for at in ("current", *range(1, self.seq + 1, 3)):
                await self._whole("scan_documents", {"scope": scope, "at": at}, 2)
        for ids in list(self.ids.values()):
            for id in ids[:6]:
                await self.gets(id, id % 10, id % 5)

    async def _whole(self, name: str, query: Any, limit: int) -> None:
        cursor = None
        while True:
            page = await self.ask(name, query, limit, cursor)
            if page is StorageRequestError or "next" not in page:
                return
            cursor = page["next"]


def shifted(value: Any, ahead: int, name: str = "") -> Any:
    """Return a value with its seqs that many commits later."""
    if isinstance(value, dict):
        is_source = "at" in value and ("id" in value or "scope" in value)
        return {
            each: shifted(held, ahead, "seq" if each == "at" and is_source else each)
            for each, held in value.items()
        }
    if isinstance(value, list):
        return [shifted(each, ahead) for each in value]
    is_seq = (name == "seq" or name in SEQS) and type(value) is int
    return value + ahead if is_seq else value


async def told(story: list[Any], opener: AbstractAsyncContextManager[Opener]) -> None:
    async with opener as open_store, opened(await open_store()) as store:
        both = Both(theirs=MemoryStorage(), ours=await PiStorage.open(store))
        root = [conversing.conversation(1)]
        both.ahead = await both.ours.commit(root, None) - await both.theirs.commit(
            root, BACKGROUND_CONTEXT
        )
        both.ids["conversation"] = [1]
        for kind, what in story:
            if kind == "commit":
                await both.commit([both.write(*each) for each in what])
            else:
                await both.look(kind, *what)
        await both.everything()
        await both.ours.close(None)


Opening = Callable[[], AbstractAsyncContextManager[Opener]]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(stories)
def test_memory_answers_as_durables_own(story: list[Any]) -> None:
    asyncio.run(told(story, stores.memory()))


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(stories)
def test_memory_answers_as_durables_own_in_many_stories(story: list[Any]) -> None:
    asyncio.run(told(story, stores.memory()))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=stories)
def test_sqlite_answers_as_durables_own(
    story: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory: Path = tmp_path_factory.mktemp("store")
    asyncio.run(told(story, stores.sqlite(directory)))
