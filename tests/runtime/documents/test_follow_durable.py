"""A Session of Durable's is followed, by its own watches and by views of the store it works on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pi_durable import create_session
from tests.runtime.documents.test_pi_harness import Counter, Notes, counted, root_of
from tests.support.documents import opened
from tests.support.following import Reports, frames, host, turn, until, until_end
from tests.support.talking_durably import CONTEXT

from perdure.kernel.documents.conversation import address_of
from perdure.kernel.documents.followed import AddressView
from perdure.kernel.errors import StoreUnavailable
from perdure.runtime.documents.follow.durable import attach_document
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores

LINES = 20


def place_of_notes(root: int) -> AddressView:
    scope = {"kind": "conversation", "conversationId": root}
    return AddressView(address_of("pi", {"kind": "test.notes", "scope": scope}))


PLACE_OF_COUNTER = AddressView(
    address_of("pi", {"kind": "test.counter", "scope": {"kind": "session"}})
)


async def line_and_count(session: Any, root: int, line: str) -> None:
    """Change two documents in one commit."""

    async def change(tx: Any) -> None:
        (await tx.doc(Notes, root))["lines"].append(line)
        await counted(tx)

    await session.commit(change, CONTEXT)


async def test_one_commit_of_a_session_is_one_frame_of_each_who_follows_it():
    async with opened() as store:
        session = create_session(await PiStorage.open(store))
        root = await root_of(session)
        await line_and_count(session, root, "first")
        followed = host()
        own = [
            followed.follow(attach_document(session, Notes, root, CONTEXT)),
            followed.follow(attach_document(session, Counter, CONTEXT)),
        ]
        native = [
            follow_view(followed, store, place_of_notes(root)),
            follow_view(followed, store, PLACE_OF_COUNTER),
        ]
        of_own = followed.derive(lambda n, c: [len(n["lines"]), c["count"]], *own)
        of_native = followed.derive(
            lambda n, c: [len(n["value"]["lines"]), c["value"]["count"]], *native
        )
        await followed.activate()
        watches = [each.watch() for each in (*own, *native, of_own, of_native)]

        for number in range(LINES):
            await line_and_count(session, root, f"line {number}")
            for _ in range(3):
                await turn()
        told = [await frames(watch) for watch in watches]
        values = [each.value for each in (*own, *native)]
        followed.close()
        await session.close(CONTEXT)

    assert [len(each) for each in told] == [LINES] * 6
    pairs = [[n, n] for n in range(2, LINES + 2)]
    assert [frame.value for frame in told[4]] == pairs
    assert [frame.value for frame in told[5]] == pairs
    assert [each["value"] for each in values[2:]] == values[:2]


async def test_a_document_that_a_session_retires_ends_what_follows_it():
    async with opened() as store:
        session = create_session(await PiStorage.open(store))
        await session.commit(counted, CONTEXT)
        followed = host()
        own = followed.follow(attach_document(session, Counter, CONTEXT))
        await followed.activate()
        watch = own.watch()

        await session.commit(counted, CONTEXT)
        await session.commit(lambda tx: tx.retire_doc(Counter), CONTEXT)
        told = await asyncio.wait_for(until_end(watch), 60)
        await session.close(CONTEXT)
        followed.close()

    assert [frame.value for frame in told] == [{"count": 2}, None]
    assert own.has_ended


async def test_a_document_that_a_session_does_not_have_is_not_followed():
    reports = Reports()
    async with opened() as store:
        session = create_session(await PiStorage.open(store))
        followed = host(reports)
        own = followed.follow(attach_document(session, Counter, CONTEXT))
        running = asyncio.create_task(followed.run())
        await until(lambda: reports.errors)

        await session.commit(counted, CONTEXT)
        await until(lambda: followed.is_live)
        followed.close()
        await running
        await session.close(CONTEXT)

    assert own.value == {"count": 1}


async def test_a_session_that_fails_fails_the_attempt_once():
    reports = Reports()
    async with opened() as store:
        session = create_session(await PiStorage.open(store))
        root = await root_of(session)
        await line_and_count(session, root, "first")
        followed = host(reports)
        followed.follow(attach_document(session, Notes, root, CONTEXT))
        followed.follow(attach_document(session, Counter, CONTEXT))
        running = asyncio.create_task(followed.run())
        await until(lambda: followed.is_live)

        session.fail(StoreUnavailable(expected="an answer", found="none"))
        await until(lambda: len(reports.errors) == 2)
        followed.close()
        await running

    assert "store_unavailable" in str(reports.errors[0])
    assert "store_unavailable" not in str(reports.errors[1]), "the Session is closed by now"
