"""Document stores on their way: nothing is seen too early, nothing is lost, and one end is alive."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable

import pytest
from tests.support.documents import NOW, REF
from tests.support.exporting import bytes_of
from tests.support.moving_stores import (
    ARRIVED,
    HERE,
    THERE,
    End,
    NamedObjects,
    lived,
    mover,
    raw,
    stopping,
)
from tests.support.running_jobs import NAME, Result, app_with
from tests.support.steps import Died, SteppedStore, Steps, When, die

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import StoreMoved, StoreMoving
from perdure.kernel.documents.importing import BeginImport
from perdure.kernel.documents.jobs.describe import DescribeJob
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.errors import Conflict, NotFound, OutcomeUnknown, PerdureError
from perdure.kernel.ids import Instant, JobId, Lineage
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.stores import DocumentStores

pytestmark = [pytest.mark.lifecycle, pytest.mark.stores]

CREATE = {
    "write": "document.create",
    "owner": "notes",
    "namespace": "desk",
    "kind": "note",
    "key": "new",
    "history": "none",
    "value": 1,
}
KNOWN = {**CREATE, "key": "known"}
NEW = Address("notes", "desk", "note", "new")
LATER = Instant(NOW + 60_000)


def stores(end: End) -> DocumentStores:
    return DocumentStores(end.means, end.storage)


async def takes(end: End) -> bool:
    """Say whether a process that has a storage open can commit to its store there."""
    try:
        await stores(end).commit("notes", [CREATE])
    except (StoreMoving, StoreMoved, NotFound):
        return False
    return True


def copied(records: MemoryStore) -> MemoryStore:
    """Return the same records, which go their own way from here."""
    other = MemoryStore()
    other._records = dict(records._records)
    other._sorts = copy.deepcopy(records._sorts)
    return other


@pytest.fixture(scope="module")
def past() -> MemoryStore:
    """A storage with a store and a job. Nobody may change it: take a copy."""
    records = MemoryStore()

    async def fill() -> None:
        here = End(HERE, records)
        await lived(here, commits=6)
        await stores(here).commit("notes", [KNOWN], commit_id="known")
        await jobs(here).start("notes", NAME, {"path": "a"}, job_id="due")

    asyncio.run(fill())
    return records


async def reads(run):
    return Result(count=1)


def jobs(end: End) -> Jobs:
    return Jobs(JobCrew(means=end.means), end.storage, app_with(reads))


async def moved_up_to(past: MemoryStore, steps: Steps) -> tuple[MemoryStore, MemoryStore, bool]:
    """Move as far as a process comes; return what both ends hold, and whether it came to the end."""
    source, destination = copied(past), MemoryStore()
    here, there = (
        End(storage, SteppedStore(records, steps))
        for storage, records in ((HERE, source), (THERE, destination))
    )
    try:
        await mover(here, there).move()
    except (Died, OutcomeUnknown):
        return source, destination, False
    return source, destination, True


async def check_goes_on(past: MemoryStore, when: When, every: int = 1) -> None:
    """Let a move die at each step, or at some of them, and go on with it."""
    before = await bytes_of(End(HERE, copied(past)).means, REF)
    whole = Steps()
    await moved_up_to(past, whole)
    assert whole.taken > 20
    for number in range(1, whole.taken + 1, every):
        source, destination, _ = await moved_up_to(past, Steps(number, when=when))
        alive = [
            await takes(End(HERE, copied(source))),
            await takes(End(THERE, copied(destination))),
        ]
        assert alive.count(True) <= 1, f"both ends take commits, at step {number}"

        here, there = End(HERE, source), End(THERE, destination)
        await mover(here, there).move()

        assert await bytes_of(there.means, ARRIVED) == before
        assert (await takes(here), await takes(there)) == (False, True)
        ran = await jobs(there).run_due(deadline=LATER)
        assert [each.job.job for each in ran] == ["due"]


async def test_a_move_that_dies_between_commits_is_gone_on_with(past):
    await check_goes_on(past, "before", every=3)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after", "lost"])
async def test_a_move_that_dies_at_any_commit_is_gone_on_with(past, when):
    await check_goes_on(past, when)


async def seen(end: End) -> set[str]:
    """Return how a storage answers to whoever has it open and asks for what is in its store."""
    ref = end.ref("notes")
    job = JobAddress("notes", NAME, JobId("due"))
    asked = (
        lambda: stores(end).describe("notes"),
        lambda: stores(end).document("notes", 2),
        lambda: stores(end).tables("notes"),
        lambda: stores(end).log("notes"),
        lambda: stores(end).open("notes"),
        lambda: stores(end).commit("notes", [KNOWN], commit_id="known"),
        lambda: bytes_of(end.means, ref),
        lambda: end.authority.execute(DescribeJob(ref, job)),
        lambda: jobs(end).describe("notes", NAME, "due"),
    )
    answers = set()
    for ask in asked:
        try:
            await ask()
            answers.add("told")
        except PerdureError as error:
            answers.add(error.code)
    return answers


@pytest.mark.parametrize(
    ("stage", "nth", "here_says", "there_says"),
    [
        ("stilled", 1, {"told"}, {"not_found"}),
        ("stilling stores", 1, {"told"}, {"not_found"}),
        ("objects", 1, {"told"}, {"not_found"}),
        ("tables", 1, {"told"}, {"not_found", "store_moving"}),
        ("activating stores", 1, {"told"}, {"not_found", "store_moving"}),
        ("hinting jobs", 1, {"told"}, {"told"}),
        ("complete", 1, {"told"}, {"told"}),
        ("leaving stores", 1, {"told"}, {"told"}),
    ],
)
async def test_a_store_is_read_at_its_source_all_along_and_at_the_destination_once_it_is_whole(
    past, stage, nth, here_says, there_says
):
    source, destination = copied(past), MemoryStore()
    with pytest.raises(Died):
        await mover(
            End(HERE, source), End(THERE, destination), progress=stopping(stage, nth, die)
        ).move()

    here, there = End(HERE, source), End(THERE, destination)

    assert (await seen(here), await seen(there)) == (here_says, there_says)
    listed, _ = await stores(there).discover()
    assert len(listed) == ("told" in there_says)


async def test_a_store_that_is_stilled_takes_nothing_and_says_where_it_is(past):
    source, destination = copied(past), MemoryStore()
    with pytest.raises(Died):
        await mover(
            End(HERE, source), End(THERE, destination), progress=stopping("objects", 1, die)
        ).move()
    here, there = End(HERE, source), End(THERE, destination)

    with pytest.raises(StoreMoving, match="moving"):
        await stores(here).commit("notes", [CREATE])
    info = await stores(here).describe("notes")
    await mover(here, there).move()
    with pytest.raises(StoreMoved, match="moved"):
        await stores(here).commit("notes", [CREATE])

    assert (info.status, (await stores(here).describe("notes")).status) == ("moving", "moved")


async def test_a_handle_that_was_open_all_along_goes_on_once_the_move_is_given_up(past):
    here, there = End(HERE, copied(past)), End(THERE)
    store = await OpenStore.open(here.means, REF)
    await store.commit([ReserveIds(1)])
    going = mover(here, there, progress=stopping("tables", 1, die))
    with pytest.raises(Died):
        await going.move()
    with pytest.raises(StoreMoving):
        await store.commit([ReserveIds(1)])

    await going.give_up()
    before = store.seq
    done = await store.commit([ReserveIds(1)])

    assert done.seq == before + 1
    assert [each.job.job for each in await jobs(here).run_due(deadline=LATER)] == ["due"]


@pytest.mark.parametrize(
    "stage", ["stilled", "stilling stores", "objects", "copying records", "tables", "verified"]
)
async def test_a_move_that_is_given_up_anywhere_lets_the_source_go_on(past, stage):
    source, destination = copied(past), MemoryStore()
    here, there = End(HERE, source), End(THERE, destination)
    with pytest.raises(Died):
        await mover(here, there, progress=stopping(stage, 1, die)).move()

    await mover(End(HERE, source), End(THERE, destination)).give_up()

    assert (await takes(End(HERE, source)), await takes(End(THERE, destination))) == (True, False)


async def test_what_a_given_up_move_has_left_is_never_taken_for_a_store(past):
    here, there = End(HERE, copied(past)), End(THERE)
    going = mover(here, there, progress=stopping("tables", 1, die))
    with pytest.raises(Died):
        await going.move()
    await going.give_up()

    with pytest.raises(StoreMoving, match="given up"):
        await stores(there).create("notes")
    with pytest.raises(StoreMoving):
        await there.authority.execute(BeginImport(ARRIVED, Lineage("l" * 22), "0" * 64))
    await mover(here, there, "again").move()

    assert await bytes_of(there.means, ARRIVED) == await bytes_of(here.means, REF)


async def test_a_copy_with_another_byte_is_found_out_and_never_seen(past):
    source, destination = copied(past), MemoryStore()
    going = mover(End(HERE, source), End(THERE, destination), progress=stopping("verified", 1, die))
    with pytest.raises(Died):
        await going.move()
    victim = next(key for key in destination._records if key.sort.startswith("rev/"))
    stored = destination._records[victim]
    destination._records[victim] = stored._replace(body=stored.body.replace(b"base", b"bass"))

    with pytest.raises(Conflict, match="document store notes"):
        await mover(End(HERE, source), End(THERE, destination)).move()

    assert not await takes(End(THERE, destination))


async def test_the_same_call_again_gives_the_same_receipt_and_changes_nothing(past):
    here, there = End(HERE, copied(past)), End(THERE)
    receipt = await mover(here, there).move()
    before = raw(here.records), raw(there.records)

    again = await mover(here, there).move()

    assert again == receipt
    assert (raw(here.records), raw(there.records)) == before


async def test_a_copy_that_has_gone_on_before_the_receipt_is_written_is_no_harm(past):
    source, destination = copied(past), MemoryStore()
    with pytest.raises(Died):
        await mover(
            End(HERE, source), End(THERE, destination), progress=stopping("leaving stores", 1, die)
        ).move()
    there = End(THERE, destination)
    done = await stores(there).commit("notes", [CREATE])

    receipt = await mover(End(HERE, source), there).move()

    assert (
        receipt["verified_stores"]["notes"]["seq"]
        == done.seq
        == receipt["stores"]["notes"]["seq"] + 1
    )


class Slept(NamedObjects):
    """Objects of a destination; whoever lists them for the second time sleeps meanwhile."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._meanwhile, self._listed = meanwhile, 0

    async def names(self, prefix: str) -> list[str]:
        self._listed += 1
        if self._listed == 2:
            await self._meanwhile()
        return await super().names(prefix)


async def test_a_mover_that_slept_while_its_move_was_given_up_and_begun_anew_brings_nothing_to_life(
    past,
):
    source, destination = copied(past), MemoryStore()
    with pytest.raises(Died):
        await mover(
            End(HERE, source), End(THERE, destination), progress=stopping("verified", 1, die)
        ).move()

    async def anew() -> None:
        await mover(End(HERE, source), End(THERE, destination)).give_up()
        await stores(End(HERE, source)).commit("notes", [CREATE])
        with pytest.raises(Died):
            await mover(
                End(HERE, source), End(THERE, destination), progress=stopping("stilled", 1, die)
            ).move()

    slept = End(THERE, destination, objects=Slept(anew))
    with pytest.raises(Conflict, match="begun again"):
        await mover(End(HERE, source), slept).move()

    assert not await takes(End(THERE, destination))
    await mover(End(HERE, source), End(THERE, destination)).give_up()
    assert (await stores(End(HERE, source)).lookup("notes", NEW)).value == 1
