"""Discovery: every world is found, also one that is seen beside its own creation."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import stores
from tests.support.harbour import Harbour, played

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import (
    Contended,
    Invalid,
    NewerSchema,
    PerdureError,
    StoreRefused,
    StoreUnavailable,
)
from perdure.kernel.floor import EnterCatalog, Floor
from perdure.kernel.places import catalog_partition
from perdure.kernel.view import Decision, Reads

pytestmark = pytest.mark.lifecycle


class Torn(MemoryStore):
    """Shows the head of a world late, as a store may beside the commit that makes it."""

    def __init__(self):
        super().__init__()
        self.loads_without = 0
        self.hidden = ""

    async def load(self, reads):
        view = await super().load(reads)
        for key in view.stored:
            if self.loads_without and key.sort == "head" and key.partition == self.hidden:
                self.loads_without -= 1
                view.stored[key] = None
        return view


def torn(loads_without):
    async def story():
        harbour = Harbour(store=Torn())
        for number in range(5):
            await harbour.worlds.create(f"w{number}", world_id=f"w{number}")
        harbour.store.hidden = harbour.worlds.ref("w1").partition
        harbour.store.loads_without = loads_without
        found: list[str] = []
        after = None
        while True:
            page, after = await harbour.worlds.discover(after, 2)
            found += [info.world_id for info in page]
            if after is None:
                break
        await harbour.authority.close()
        return found

    return asyncio.run(story())


def test_torn_world_is_asked_again_and_never_ends_the_page():
    assert torn(2) == ["w0", "w1", "w2", "w3", "w4"]


def test_world_that_stays_torn_is_an_error_and_no_short_answer():
    with pytest.raises(Contended, match="w1"):
        torn(10_000)


class Put:
    once = False

    def __init__(self, record):
        self.record = record
        self.stream = record.partition

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        return Decision(None, (self.record,))


OPENERS = {
    "memory": lambda path: stores.memory(),
    "sqlite": stores.sqlite,
    "dynamodb": lambda path: stores.dynamodb_moto(),
}


@pytest.mark.parametrize("kind", OPENERS)
def test_catalog_of_a_newer_version_is_refused_on_every_store(tmp_path, kind):
    async def story():
        async with OPENERS[kind](tmp_path) as opener:
            harbour = Harbour(store=await opener())
            catalog = catalog_partition(harbour.storage)
            await harbour.authority.execute(EnterCatalog(harbour.storage))
            await harbour.authority.execute(Put(Floor(partition=catalog, features=("cubes",))))
            with pytest.raises(NewerSchema, match="cubes"):
                await harbour.authority.execute(EnterCatalog(harbour.storage))
            with pytest.raises(NewerSchema, match="cubes"):
                await harbour.worlds.create("w", world_id="w")

    asyncio.run(story())


class Silent(MemoryStore):
    """Answers no load."""

    async def load(self, reads):
        raise StoreUnavailable(expected="an answer", found="none")


def test_store_that_does_not_answer_lists_no_worlds_and_says_so():
    with pytest.raises(StoreUnavailable):
        asyncio.run(Harbour(store=Silent()).worlds.discover())


def test_sqlite_file_that_is_broken_lists_no_worlds_and_says_so(tmp_path):
    async def story():
        async with stores.sqlite(tmp_path) as opener:
            await Harbour(store=await opener()).worlds.create("w", world_id="w")
        (tmp_path / "store.db").write_bytes(b"not a database" * 100)
        async with stores.sqlite(tmp_path) as opener:
            return await Harbour(store=await opener()).worlds.discover()

    with pytest.raises(PerdureError):
        asyncio.run(story())


def test_dynamodb_table_that_is_gone_lists_no_worlds_and_says_so():
    async def story():
        async with stores.dynamodb_moto() as opener:
            store = await opener()
            store._client.delete_table(TableName=stores.TABLE)
            return await Harbour(store=store).worlds.discover()

    with pytest.raises(StoreRefused, match="a table"):
        asyncio.run(story())


def test_every_page_of_many_worlds_is_found_once():
    async def story(harbour):
        for number in range(25):
            await harbour.worlds.create(f"n{number:02d}", world_id=f"n{number:02d}")
        found: list[str] = []
        after = None
        while True:
            page, after = await harbour.worlds.discover(after, 4)
            found += [info.world_id for info in page]
            if after is None:
                return found

    assert played(story) == [f"n{number:02d}" for number in range(25)] + ["w"]


def test_what_can_be_shown_is_one_of_three_words():
    async def story(harbour):
        with pytest.raises(Invalid) as refused:
            await harbour.worlds.discover(show="everything")
        return refused.value.code

    assert played(story) == "invalid"
