"""Marks: the fold of an idle session is kept, and nothing depends on it."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import NotFound
from perdure.kernel.ids import Holder, Instant, Lineage, SendId, SessionId, StorageId, Token
from perdure.kernel.session.create import CreateSession
from perdure.kernel.session.mark import ReadMark
from perdure.kernel.session.read import ReadJournal
from perdure.kernel.session.records import SessionRef
from perdure.kernel.session.send import Send, Wish
from perdure.runtime.session import payloads
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.journal import Journal, Means
from perdure.runtime.session.model_scripted import ScriptedModel
from perdure.runtime.session.runner import drive
from perdure.runtime.session.toolbox import Toolbox
from perdure.runtime.session.work import Crew

pytestmark = pytest.mark.sessions

REF = SessionRef(StorageId("storage"), SessionId("talk"))
RUNS = 14  # of five frames each: enough for one mark


class Objects:
    """Objects in a dictionary."""

    def __init__(self):
        self.held = {}

    async def put(self, name, data):
        self.held[name] = bytes(data)

    async def get(self, name):
        if name not in self.held:
            raise NotFound(expected="an object", found="none")
        return self.held[name]

    async def delete(self, name):
        self.held.pop(name, None)


async def talked(objects):
    """Return the crew of a session in which RUNS short runs have ended."""
    drawn, clock = itertools.count(), itertools.count(1_000_000)

    def now():
        return Instant(next(clock))

    def token():
        return Token(f"{next(drawn):032d}")

    authority = Authority(MemoryStore(), now, token)
    means = Means(authority, objects, now, token, asyncio.sleep)
    agent = Agent(name="parrot", model="scripted", tools=Toolbox())
    model = ScriptedModel(lambda request, said: f"answer {said}", now)
    crew = Crew(means, lambda _: agent, lambda _: model, Holder("writer"), 60_000)
    creation = CreateSession(REF, "parrot", Lineage("l" * 22), token())
    await authority.execute(creation.checked())
    for number in range(RUNS):
        wish = Wish(SendId(f"send-{number}"), f"say {number}")
        await authority.execute(Send(REF, wish, agent.config(), token()))
        await drive(crew, REF, deadline=Instant(10_000_000))
    return crew


async def opened(crew):
    journal = await Journal.open(crew.means, REF, crew.holder, crew.lease_ms)
    await journal.let_go()
    return journal


class Overheard:
    """An authority that remembers what it was asked."""

    def __init__(self, authority):
        self._authority = authority
        self.asked = []

    async def execute(self, request):
        self.asked.append(request)
        return await self._authority.execute(request)


def test_what_was_folded_before_is_not_read_again():
    async def told():
        objects = Objects()
        crew = await talked(objects)
        whole = await opened(crew)
        mark = await crew.means.authority.execute(ReadMark(REF))
        first = mark.seq
        authority = Overheard(crew.means.authority)
        again = await opened(replace(crew, means=replace(crew.means, authority=authority)))
        read = [each.seq for each in authority.asked if isinstance(each, ReadJournal)]
        return whole, again, first, read

    whole, again, first, read = asyncio.run(told())

    assert first >= 64
    assert min(read) == first
    assert len(again.fold.messages) == 2 * RUNS
    assert again.fold == whole.fold


@pytest.mark.parametrize("damage", ["lost", "changed", "another form"])
def test_a_mark_that_leads_nowhere_is_as_good_as_none(damage):
    async def told():
        objects = Objects()
        crew = await talked(objects)
        whole = await opened(crew)
        mark = await crew.means.authority.execute(ReadMark(REF))
        name = payloads.payload_name(REF, mark.ref.sha256)
        if damage == "lost":
            await objects.delete(name)
        elif damage == "changed":
            objects.held[name] = objects.held[name].replace(b"answer 3", b"answer 4")
        else:
            objects.held[name] = b"{}"
        return whole, await opened(crew)

    whole, again = asyncio.run(told())

    assert again.fold == whole.fold
    assert again.seq == whole.seq


def test_a_session_keeps_one_mark_however_long_it_lives():
    async def told():
        objects = Objects()
        await talked(objects)
        return objects.held

    held = asyncio.run(told())

    assert len(held) == 1
