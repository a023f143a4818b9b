"""A document store that is on its way elsewhere refuses whatever would write to it, and only that."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, NOW, REF
from tests.support.histories import Past
from tests.support.lifecycle import Overwrite

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.kernel import documents
from perdure.kernel.documents import log
from perdure.kernel.documents.commit import DocumentsRequest
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.importing import BeginImport
from perdure.kernel.documents.jobs.abort import AbortJob, RetryJob
from perdure.kernel.documents.jobs.finish import EndJob, FailFinish
from perdure.kernel.documents.jobs.hints import HintJob, RestJob
from perdure.kernel.documents.jobs.records import JobAddress, hint_of
from perdure.kernel.documents.jobs.start import StartJob
from perdure.kernel.documents.jobs.take import TakeJob
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.jobs.work import (
    ChangeJobState,
    RenewJob,
    SettleJob,
    StateChange,
    StopJob,
)
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.sweep import SweepContents
from perdure.kernel.documents.underway import StoreStatus
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import DocumentId, DocumentStoreId, Holder, JobId, Token
from perdure.kernel.view import Reads, Request
from perdure.runtime.documents.log import trim_log
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica, promote
from perdure.runtime.documents.store import OpenStore, StoreMeans

pytestmark = pytest.mark.stores

REFUSED: dict[StoreStatus, str] = {
    "moving": "store_moving",
    "moved": "store_moved",
    "staged": "store_moving",
}
TOLD = dict.fromkeys(REFUSED, "told")
LEASE_MS = 30_000
COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
EMPTY = DocumentStoreRef(REF.storage, DocumentStoreId("empty"))
JOB = JobAddress("notes", "notes.import", JobId("j"))


class Watched(Authority):
    """Tells of each request that writes how it would be answered were its store elsewhere."""

    def __init__(self, records: MemoryStore) -> None:
        self.records = records
        self.answers: defaultdict[type, list[dict[StoreStatus, str]]] = defaultdict(list)
        self._numbers = itertools.count(1)
        super().__init__(records, now=lambda: NOW, new_token=self.token)

    def token(self) -> Token:
        return Token(f"w-{next(self._numbers)}")

    async def execute(self, request: Request[Any]) -> Any:
        if not isinstance(request, DocumentsRequest):
            return await super().execute(request)
        answers = {status: await self._answer(request, status) for status in REFUSED}
        before = self.records.commits
        reply = await super().execute(request)
        if self.records.commits > before and None not in answers.values():
            self.answers[type(request)].append(answers)
        return reply

    async def _answer(self, request: DocumentsRequest, status: StoreStatus) -> str | None:
        """Return the code of the refusal, or that there is none; None if there is no store yet."""
        key = store_head_key(request.ref.partition)
        head = (await self.view(Reads(peeks=(key,)))).peek(key)
        if head is None or head.importing is not None:
            return None
        other = MemoryStore()
        other._records = dict(self.records._records)
        other._sorts = defaultdict(list, {k: [*v] for k, v in self.records._sorts.items()})
        authority = Authority(other, now=lambda: NOW, new_token=self.token)
        await authority.execute(Overwrite(replace(head, status=status)))
        before = _bodies(other, request)
        try:
            await authority.execute(request)
        except PerdureError as error:
            answer = error.code
        else:
            answer = "told"
        assert _bodies(other, request) == before, f"{request} wrote to a store that is {status}"
        return answer


def _bodies(records: MemoryStore, request: DocumentsRequest) -> dict[str, bytes]:
    return {
        key.sort: stored.body
        for key, stored in records._records.items()
        if key.partition == request.ref.partition
    }


def requests() -> Iterator[type]:
    """Return every request about a document store that there is."""
    for module in pkgutil.walk_packages(documents.__path__, f"{documents.__name__}."):
        importlib.import_module(module.name)
    waiting = [DocumentsRequest]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            if each.__module__.startswith(documents.__name__):
                yield each


NEVER = {
    # They write nothing.
    "DescribeDocumentStore",
    "DescribeJob",
    "ListJobs",
    "ReadLog",
    "ProveLogGap",
    "FindStoreHead",
    # They are no requests but the beginnings of some.
    "JobRequest",
    "JobWork",
    "_TableRequest",
    # They have no store to write to, or one whose import has not ended: no move begins with it.
    "CreateDocumentStore",
    "ImportRecords",
    "EndImport",
    "DiscardImport",
    # They are the move.
    "StillStore",
    "FreeStore",
    "PartStore",
    "ActivateStore",
}


async def lived(store: OpenStore) -> None:
    """Write to a store in every way but those of jobs."""
    past = Past(store, 5)
    await past.begin()
    await past.go_on(30)
    await past.migrate()
    await past.end()
    address = Address("notes", "long", "list")
    (id,) = (await store.commit([CreateDocument(address, "none", base(1, []))])).ids
    for number in range(50):
        change = delta(1, [["p", [], number, 0, [number]]])
        await store.commit([ChangeDocument(DocumentId(id), change, trusted=True)])
    await store.commit([ChangeDocument(DocumentId(id), base(1, []))])
    await store.means.authority.execute(SweepContents(REF))


async def worked(authority: Watched) -> None:
    """Bring jobs through all that may become of one."""

    async def ask(kind: Any, job: JobAddress = JOB, **more: Any) -> Any:
        return await authority.execute(kind(REF, job, authority.token(), **more))

    async def taken(job: JobAddress = JOB, version: int = 1) -> Any:
        holder = Holder(authority.token())
        asked = {"version": version, "fingerprint": "f", "resume": "rerun"}
        return await ask(TakeJob, job, holder=holder, lease_ms=LEASE_MS, **asked)

    await ask(StartJob, version=1, fingerprint="f", args={}, state=base(1, 0))
    grip = (await taken()).grip
    await ask(ChangeJobState, grip=grip, change=StateChange(base(1, 1), 1))
    await ask(RenewJob, grip=grip, lease_ms=2 * LEASE_MS)
    await ask(StopJob, grip=grip)
    await taken(version=2)
    await ask(RetryJob)
    grip = (await taken()).grip
    await ask(AbortJob)
    await ask(SettleJob, grip=grip, outcome=Done(1))
    await ask(FailFinish, grip=grip, failures=0)
    other = replace(JOB, job=JobId("other"))
    await ask(StartJob, other, version=1, fingerprint="f", args={})
    grip = (await taken(other)).grip
    await ask(SettleJob, other, grip=grip, outcome=Done(1))
    await ask(EndJob, other, grip=grip)


async def looked_for(authority: Watched) -> None:
    """Lose the hints of a job, and lay one to rest that leads nowhere."""
    records = authority.records
    for key in [each for each in records._records if each.partition == REF.wake]:
        del records._records[key]
        records._sorts[key.partition].remove(key.sort)
    await authority.execute(HintJob(REF, JOB))
    gone = replace(JOB, job=JobId("gone"))
    stray = hint_of(REF, gone, NOW)
    await authority.execute(Overwrite(stray))
    await authority.execute(RestJob(REF, gone, stray.sort))


async def test_whatever_writes_to_a_store_is_refused_while_it_moves_and_once_it_has(monkeypatch):
    monkeypatch.setattr(log, "LOG_KEPT_MIN", 5)
    authority = Watched(MemoryStore())
    means = StoreMeans(authority, lambda: NOW, authority.token, asyncio.sleep)
    await authority.execute(CreateDocumentStore(REF, LINEAGE))
    store = await OpenStore.open(means, REF)

    await lived(store)
    await worked(authority)
    await looked_for(authority)
    await create_replica(means, COPY, LINEAGE)
    await catch_up(StoreLog(means, REF), await OpenStore.open(means, COPY))
    await promote(means, COPY)
    await trim_log(authority, REF, store.seq)
    await authority.execute(CreateDocumentStore(EMPTY, LINEAGE))
    await authority.execute(BeginImport(EMPTY, LINEAGE, "0" * 64))

    written = {each.__name__ for kind in authority.answers for each in kind.__mro__}
    assert {each.__name__ for each in requests()} - NEVER <= written
    for kind, answers in authority.answers.items():
        expected = TOLD if kind.__name__ in {"ReleaseOwner", "RestJob"} else REFUSED
        assert all(each == expected for each in answers), (kind, answers)
