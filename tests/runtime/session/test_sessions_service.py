"""The service of sessions: what the faces ask, and transcripts that are read from any frame."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.sessions import (
    STORAGE,
    MemoryObjects,
    asking_first,
    counting,
    head_in,
    sessions_on,
    within,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import (
    Corrupt,
    FenceHeld,
    Invalid,
    InvalidValue,
    NewerWriter,
    StoreUnavailable,
)
from perdure.kernel.ids import Holder, SessionId
from perdure.kernel.session.frames import GATED, Entry, Frame, sealed
from perdure.kernel.session.owner import ReleaseSession, TakeSession
from perdure.kernel.session.records import SessionRef, session_head_key
from perdure.kernel.session.wakes import SessionWakes
from perdure.kernel.view import Decision, Reads
from perdure.runtime.session.dispatch import DueSession, look
from perdure.runtime.session.serve import serve

pytestmark = pytest.mark.sessions

REF = SessionRef(STORAGE, SessionId("talk"))


async def talked(sessions, *inputs):
    await sessions.create("pilot", session_id="talk")
    for number, each in enumerate(inputs):
        await sessions.send("talk", each, send_id=f"send-{number}")
        await sessions.drive("talk", deadline=within(sessions))


def test_every_frame_can_be_read_from_every_other():
    async def told():
        sessions = sessions_on(script=asking_first, tools=[counting("launch")])
        await talked(sessions, "x" * 100_000)
        whole = (await sessions.transcript("talk")).frames
        parts = [
            (after, (await sessions.transcript("talk", after=after, limit=3)).frames)
            for after in range(len(whole) + 2)
        ]
        return whole, parts

    whole, parts = asyncio.run(told())

    assert len(whole) > 10
    for after, frames in parts:
        assert frames == whole[after : after + 3]


def test_page_says_whether_there_is_more_and_where_to_go_on():
    async def told():
        sessions = sessions_on()
        await talked(sessions, "one", "two")
        found, after = [], 0
        while True:
            page = await sessions.transcript("talk", after=after, limit=4)
            found += [frame.seq for frame in page.frames]
            after = page.next
            if not page.more:
                return found, page

    found, last = asyncio.run(told())

    assert found == list(range(1, last.seq + 1))
    assert last.next == last.seq


class AppendNewer:
    """Appends a frame as a newer version would: with a feature that nobody here knows."""

    once = False

    def __init__(self, ref):
        self.ref = ref
        self.stream = ref.partition

    def reads(self):
        return Reads(keys=(session_head_key(self.stream),))

    def decide(self, view, now):
        head = view.get(session_head_key(self.stream))
        frames, previous = [], sealed(head.digest, now, "newer")
        for number, requires in enumerate((("mood/v9",), ())):
            frame = Frame(
                ver=GATED if requires else 1,
                seq=head.seq + 1 + number,
                fence=head.fence.epoch,
                type="mood",
                requires=requires,
                payload={"mood": "good"},
                digest="",
            )
            frame = replace(frame, digest=frame.checked_digest(head.lineage, previous))
            frames.append(frame)
            previous = frame.digest
        entry = Entry(
            partition=self.stream,
            at=now,
            append="newer",
            previous=head.digest,
            frames=tuple(frames),
        )
        after = replace(
            head,
            seq=head.seq + 2,
            digest=previous,
            requires=tuple(sorted({*head.requires, "mood/v9"})),
        )
        return Decision(None, (entry, after))


def test_what_a_newer_version_wrote_is_named_and_nothing_behind_it_is_shown():
    async def told():
        sessions = sessions_on()
        await talked(sessions, "one")
        before = (await sessions.transcript("talk")).frames
        await sessions.means.authority.execute(AppendNewer(REF))
        pages = [
            await sessions.transcript("talk", after=after)
            for after in (0, len(before) - 1, len(before), len(before) + 1, len(before) + 2)
        ]
        return before, pages

    before, pages = asyncio.run(told())

    assert pages[0].frames == before
    assert [len(page.frames) for page in pages] == [len(before), 1, 0, 0, 0]
    assert {page.note.seq for page in pages} == {len(before) + 1}
    assert {page.note.features for page in pages} == {("mood/v9",)}
    assert not any(page.more for page in pages)


def test_journal_of_a_newer_version_takes_nothing_and_is_not_driven():
    async def told():
        store = MemoryStore()
        sessions = sessions_on(store)
        await talked(sessions, "one")
        await sessions.means.authority.execute(AppendNewer(REF))
        before = head_in(store, REF.partition)
        for refused in (
            sessions.send("talk", "more"),
            sessions.cancel("talk", "send-0"),
            sessions.retract("talk", "send-0"),
            sessions.drive("talk", deadline=within(sessions)),
        ):
            with pytest.raises(NewerWriter):
                await refused
        return before, head_in(store, REF.partition)

    before, after = asyncio.run(told())

    assert after == before


def test_damage_before_a_newer_frame_is_damage():
    async def told():
        store = MemoryStore()
        sessions = sessions_on(store)
        await talked(sessions, "hello")
        await sessions.means.authority.execute(AppendNewer(REF))
        for key, stored in store._records.items():
            if key.partition == REF.partition and b'"mood":"good"' in stored.body:
                changed = stored.body.replace(b'"mood":"good"', b'"mood":"evil"', 1)
                store._records[key] = stored._replace(body=changed)
        await sessions.transcript("talk")

    with pytest.raises(Corrupt):
        asyncio.run(told())


@pytest.mark.parametrize(
    "asked",
    [{"after": -1}, {"limit": 0}, {"limit": 501}, {"bytes_max": 0}],
    ids=lambda asked: str(*asked),
)
def test_page_that_cannot_be_is_refused(asked):
    async def told():
        sessions = sessions_on()
        await talked(sessions)
        await sessions.transcript("talk", **asked)

    with pytest.raises(Invalid):
        asyncio.run(told())


def test_words_that_are_none_are_refused_here_too():
    async def told():
        sessions = sessions_on()
        await talked(sessions, "one")
        for wrong in (
            sessions.cancel("talk", "send-0", "soon"),
            sessions.resolve("talk", "key", "maybe"),
        ):
            with pytest.raises(InvalidValue):
                await wrong

    asyncio.run(told())


class Broken(MemoryObjects):
    """Objects that nothing can be put to."""

    async def put(self, name, data):
        raise StoreUnavailable(expected="an answer", found="none")


def test_payload_that_could_not_be_put_leaves_no_frame_and_tells_the_send_id():
    async def told():
        store = MemoryStore()
        sessions = sessions_on(store, objects=Broken())
        await talked(sessions)
        with pytest.raises(StoreUnavailable) as raised:
            await sessions.send("talk", "x" * 100_000)
        return raised.value.send_id, head_in(store, REF.partition).seq

    send_id, seq = asyncio.run(told())

    assert send_id
    assert seq == 1


def test_two_who_drive_a_session_in_one_process_never_share_its_fence():
    async def told():
        sessions = sessions_on()
        await talked(sessions)
        await sessions.send("talk", "hello")
        both = (sessions.drive("talk", deadline=within(sessions)) for _ in range(2))
        return await asyncio.gather(*both, return_exceptions=True)

    found = asyncio.run(told())

    assert sum(isinstance(each, FenceHeld) for each in found) == 1


async def found(sessions):
    """Return what a dispatch finds."""
    dues = []

    async def tell(fresh):
        dues.extend(fresh)

    means = sessions.means
    await look(means.authority, STORAGE, now=means.now, go_on=lambda: True, tell=tell)
    return dues


async def hints(sessions):
    authority, far = sessions.means.authority, sessions.means.now() + 10**9
    return [hint for n in range(8) for hint in await authority.execute(SessionWakes(n, far))]


def test_session_with_something_to_do_is_found_until_it_is_done():
    async def told():
        sessions = sessions_on()
        await talked(sessions)
        nothing = await found(sessions)
        await sessions.send("talk", "hello")
        (due,) = await found(sessions)
        served = await serve(sessions, due, deadline=within(sessions))
        return nothing, served, await found(sessions), await hints(sessions)

    nothing, served, after, left = asyncio.run(told())

    assert nothing == []
    assert (served.state, len(served.ended)) == ("idle", 1)
    assert after == []
    assert left == []


def test_hint_is_not_believed_and_who_is_driven_is_not_told_of():
    async def told():
        sessions = sessions_on()
        await talked(sessions, "hello")
        lying = await hints(sessions)
        rested = await found(sessions)
        await sessions.send("talk", "more")
        authority, holder = sessions.means.authority, Holder("other")
        grip = await authority.execute(TakeSession(REF, holder, 60_000))
        held = await found(sessions)
        (hint,) = await hints(sessions)
        with pytest.raises(FenceHeld):
            await serve(sessions, DueSession(REF, "", hint.sort), deadline=within(sessions))
        await authority.execute(ReleaseSession(REF, holder, grip.epoch))
        return lying, rested, held, await found(sessions)

    lying, rested, held, freed = asyncio.run(told())

    assert len(lying) == 1
    assert rested == []
    assert held == []
    assert [each.ref for each in freed] == [REF]


def test_message_for_a_session_without_work_reads_no_journal():
    async def told():
        sessions = sessions_on()
        await talked(sessions, "hello")
        epoch = (await sessions.describe("talk")).epoch
        served = [
            await serve(sessions, DueSession(ref, ""), deadline=within(sessions))
            for ref in (REF, SessionRef(STORAGE, SessionId("nowhere")))
        ]
        return served, epoch, (await sessions.describe("talk")).epoch

    served, before, after = asyncio.run(told())

    assert [each.state for each in served] == ["rests", "rests"]
    assert before == after
