"""Commits under an id of their caller's, on every store: once, however often answers are lost."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import pytest
from tests.support.documents import REF, means

from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import OutcomeUnknown, OutOfRange, StoreUnavailable, Unavailable
from perdure.runtime.documents.stores import DocumentStores

pytestmark = pytest.mark.stores

CREATE = {"write": "document.create", "owner": "notes", "namespace": "desk", "kind": "note"}
TRIES_MAX = 200


class Unsteady:
    """A store whose answers are lost, or that does not answer, every other time."""

    def __init__(self, store, chance):
        self._store = store
        self._chance = chance
        self.lost = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def commit(self, commit):
        drawn = self._chance.random()
        if drawn < 0.2:
            self.lost += 1
            raise StoreUnavailable(expected="an answer", found="none")
        if drawn < 0.35:
            self.lost += 1
            raise OutcomeUnknown(expected="an answer", found="none")
        await self._store.commit(commit)
        if drawn < 0.5:
            self.lost += 1
            raise OutcomeUnknown(expected="an answer", found="none")


class Silent(Unsteady):
    """A store that does everything and answers nothing."""

    async def commit(self, commit):
        await self._store.commit(commit)
        raise OutcomeUnknown(expected="an answer", found="none")


class Broken(Unsteady):
    """A store that does nothing and does not say so."""

    async def commit(self, commit):
        raise OutcomeUnknown(expected="an answer", found="none")


@asynccontextmanager
async def opened(backend, directory):
    made = MemoryStore() if backend == "memory" else await SqliteStore.open(directory / "s.db")
    try:
        yield made
    finally:
        await made.close()


async def stubbornly(asking):
    """Ask again while nothing is known."""
    for _ in range(TRIES_MAX):
        try:
            return await asking()
        except Unavailable:
            continue
    raise AssertionError("never answered")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_every_commit_happens_once_and_is_answered_the_same_for_ever(backend, seed, tmp_path):
    async with opened(backend, tmp_path) as records:
        await every_commit_happens_once(records, seed)


async def every_commit_happens_once(records, seed):
    store = Unsteady(records, random.Random(seed))
    calm = DocumentStores(means(records), REF.storage)
    await calm.create("notes")
    answers = {}

    for number in range(12):
        # A process of its own each time: nothing is remembered but what the store has.
        asking = DocumentStores(means(store, prefix=f"p{number}"), REF.storage)
        writes = [{**CREATE, "key": f"{number}", "value": number}]
        answers[number] = await stubbornly(
            lambda a=asking, w=writes, n=number: a.commit("notes", w, commit_id=f"c-{n}")
        )

    assert store.lost > 3
    assert [answers[number].seq for number in range(12)] == list(range(1, 13))
    assert [answers[number].ids for number in range(12)] == [(2 + number,) for number in range(12)]
    for number in range(12):
        writes = [{**CREATE, "key": f"{number}", "value": number}]
        again = await calm.commit("notes", writes, commit_id=f"c-{number}")
        assert (again.seq, again.ids, again.replayed) == (
            answers[number].seq,
            answers[number].ids,
            True,
        )
    assert (await calm.describe("notes")).seq == 12


async def test_answer_that_was_lost_is_found_by_the_commits_own_record():
    """The engine decides again, finds what it had done, and does it no second time."""
    records = MemoryStore()
    await DocumentStores(means(records), REF.storage).create("notes")
    silent = DocumentStores(means(Silent(records, None), prefix="silent"), REF.storage)

    done = await silent.commit("notes", [{**CREATE, "value": 1}], commit_id="c")

    assert (done.seq, done.ids, done.replayed) == (1, (2,), True)


async def test_unknown_outcome_comes_with_the_id_to_ask_again_with():
    records = MemoryStore()
    calm = DocumentStores(means(records), REF.storage)
    await calm.create("notes")
    broken = DocumentStores(means(Broken(records, None), prefix="broken"), REF.storage)

    with pytest.raises(OutcomeUnknown) as failed:
        await broken.commit("notes", [{**CREATE, "value": 1}])

    drawn = failed.value.commit_id
    done = await calm.commit("notes", [{**CREATE, "value": 1}], commit_id=drawn)
    again = await calm.commit("notes", [{**CREATE, "value": 1}], commit_id=drawn)
    assert (done.seq, done.replayed, again.seq, again.replayed) == (1, False, 1, True)


class Overtaken:
    """A store on which a rival moves a note away, and makes another, while a commit loads."""

    def __init__(self, store, rival):
        self._store = store
        self._rival = rival
        self.loads = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def load(self, reads):
        if self.loads is not None:
            self.loads += 1
            if self.loads == 3:  # the life at the address is read, its document is not
                self.loads = None
                await self._rival()
        return await self._store.load(reads)


async def test_a_commit_that_a_rival_comes_into_is_not_refused_for_what_never_was():
    records = MemoryStore()
    rival = DocumentStores(means(records.reopened(), prefix="rival"), REF.storage)
    await rival.create("notes")
    first = {**CREATE, "history": "none", "value": 1}
    done = await rival.commit("notes", [first])
    (id,) = done.ids

    async def moved():
        await rival.commit("notes", [{"write": "document.retire", "id": id}])

    overtaken = Overtaken(records.reopened(), moved)
    stores = DocumentStores(means(overtaken), REF.storage)
    overtaken.loads = 0

    reply = await stores.commit("notes", [{**first, "value": 2}])

    assert overtaken.loads is None
    assert (await stores.document("notes", reply.ids[0])).value == 2


@pytest.mark.parametrize("at", [-1, 2, True, 1.5, "1"])
async def test_a_commit_that_is_none_is_out_of_range(at):
    stores = DocumentStores(means(), REF.storage)
    await stores.create("notes")
    done = await stores.commit("notes", [{**CREATE, "history": "rewindable", "value": 1}])

    with pytest.raises(OutOfRange):
        await stores.document("notes", done.ids[0], at=at)
