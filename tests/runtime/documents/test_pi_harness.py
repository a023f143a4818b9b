"""Durable's own Session and Harness work on our storage, and recover on it what a crash has cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pi_durable import create_session, define_doc
from pi_durable.session.session import SessionImpl
from tests.support import stores
from tests.support.documents import opened
from tests.support.talking_durably import (
    AGENT,
    CONTEXT,
    ScriptedModels,
    SeverableStore,
    calls,
    harness,
    says,
    texts,
)

from perdure.authority.testing import Opener
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores

OpenerOf = Callable[[], AbstractAsyncContextManager[Opener]]

Notes: Any = define_doc(
    {
        "kind": "test.notes",
        "version": 1,
        "scope": "conversation",
        "history": "rewindable",
        "fork": "asOf",
        "initial": lambda: {"lines": []},
        "checkpoint_when": lambda _value, _ops, info: info["deltasSinceBase"] >= 3,
    }
)
Counter: Any = define_doc(
    {
        "kind": "test.counter",
        "version": 1,
        "scope": "session",
        "initial": lambda: {"count": 0},
        "checkpoint_when": lambda _value, _ops, _info: False,
    }
)


@pytest.fixture(params=["memory", "sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def opener_of(request: pytest.FixtureRequest, tmp_path: Path) -> OpenerOf:
    match request.param:
        case "memory":
            return stores.memory
        case "sqlite":
            return lambda: stores.sqlite(tmp_path)
        case _:
            address = request.getfixturevalue("aws")
            return lambda: stores.dynamodb_http(address)


async def noted(session: SessionImpl, conversation: int, line: str) -> int:
    """Append an entry and a line of notes in one commit; return the entry's id."""

    async def change(tx: Any) -> int:
        notes = await tx.doc(Notes, conversation)
        notes["lines"].append(line)
        entry = await tx.append_entry(conversation, {"kind": "note", "data": line})
        id: int = entry["id"]
        return id

    made: int = await session.commit(change, CONTEXT)
    return made


async def root_of(session: SessionImpl) -> int:
    async def create(tx: Any) -> int:
        record = await tx.create_root_conversation()
        id: int = record["id"]
        return id

    made: int = await session.commit(create, CONTEXT)
    return made


async def counted(tx: Any) -> None:
    (await tx.doc(Counter)).count += 1


async def test_a_session_keeps_documents_forks_and_history_across_openings(
    opener_of: OpenerOf,
) -> None:
    async with opener_of() as open_store:
        async with opened(await open_store(), prefix="first") as store:
            session = create_session(await PiStorage.open(store))
            root = await root_of(session)
            entries = [await noted(session, root, line) for line in "abcde"]
            await session.commit(counted, CONTEXT)

            async def fork(tx: Any) -> int:
                options = {"ownership": {"kind": "root"}}
                record = await tx.fork_conversation(root, entries[2], options)
                id: int = record["id"]
                return id

            child = await session.commit(fork, CONTEXT)
            await noted(session, child, "child")
            await session.close(CONTEXT)

        async with opened(await open_store(), prefix="second") as store:
            session = create_session(await PiStorage.open(store))
            await session.commit(counted, CONTEXT)
            past = [await session.snapshot_as_of(Notes, root, entry, CONTEXT) for entry in entries]
            ours = await session.snapshot(Notes, root, CONTEXT)
            forked = await session.snapshot(Notes, child, CONTEXT)
            count = await session.snapshot(Counter, CONTEXT)
            await session.close(CONTEXT)

    assert past == [{"lines": list("abcde"[:length])} for length in range(1, 6)]
    assert ours == {"lines": list("abcde")}
    assert forked == {"lines": ["a", "b", "c", "child"]}
    assert count == {"count": 2}


async def test_a_watched_document_tells_of_every_commit(opener_of: OpenerOf) -> None:
    async with opener_of() as open_store, opened(await open_store()) as store:
        session = create_session(await PiStorage.open(store))
        root = await root_of(session)
        await noted(session, root, "a")
        watch = await session.watch_doc(Notes, root, CONTEXT)
        seen: list[Any] = []
        both_seen = asyncio.Event()
        assert watch is not None

        def see(value: Any, _ops: Any, _context: Any) -> None:
            seen.append(list(value["lines"]))
            if len(seen) == 2:
                both_seen.set()

        watch.start(see)

        await noted(session, root, "b")
        await noted(session, root, "c")
        await both_seen.wait()
        await session.close(CONTEXT)

    assert seen == [["a", "b"], ["a", "b", "c"]]


async def test_a_refused_commit_ends_the_session_and_not_the_store() -> None:
    async with stores.memory() as open_store, opened(await open_store()) as store:
        storage = await PiStorage.open(store)
        session = create_session(storage)
        await root_of(session)
        with pytest.raises(Exception, match="already belongs to conversation"):
            await root_of(session)
        with pytest.raises(Exception, match="close and reopen"):
            await session.commit(counted, CONTEXT)
        await session.close(CONTEXT)

        session = create_session(await PiStorage.open(store))
        await session.commit(counted, CONTEXT)

        assert await session.snapshot(Counter, CONTEXT) == {"count": 1}
        await session.close(CONTEXT)


async def test_a_conversation_calls_a_tool_and_is_forked(opener_of: OpenerOf) -> None:
    models = ScriptedModels([calls("weather", place="Sfax"), says("Sunny."), says("Still.")])

    async def look(arguments: Any, _api: Any, _context: Any) -> Any:
        return {"output": [{"type": "text", "text": f"sun over {arguments['place']}"}]}

    async with opener_of() as open_store, opened(await open_store()) as store:
        host = await harness(await PiStorage.open(store), models, look)
        talk = await host.root(CONTEXT, {"agent": AGENT})
        asked = await talk.submit({"type": "input", "content": "Weather?"}, CONTEXT)
        settled = await asked.wait(CONTEXT)
        fork = await talk.fork(settled["answer"], {"ownership": {"kind": "root"}}, CONTEXT)
        again = await fork.submit({"type": "input", "content": "And now?"}, CONTEXT)
        await again.wait(CONTEXT)
        said = texts((await talk.entries({"order": "ascending"}, 50, None, CONTEXT))["items"])
        forked = texts((await fork.entries({"order": "ascending"}, 50, None, CONTEXT))["items"])
        await host.close(CONTEXT)

    assert settled["status"] == "done"
    assert said == [
        ("user", "Weather?"),
        ("assistant", "weather"),
        ("toolResult", "sun over Sfax"),
        ("assistant", "Sunny."),
    ]
    assert forked == [*said, ("user", "And now?"), ("assistant", "Still.")]


@pytest.mark.parametrize(("replay", "runs"), [("safe", 2), ("unsafe", 1)])
async def test_a_crash_within_a_tool_is_recovered_by_the_next_opening(
    opener_of: OpenerOf, replay: str, runs: int
) -> None:
    running = asyncio.Event()
    looked: list[str] = []

    async def look_for_ever(arguments: Any, _api: Any, _context: Any) -> Any:
        looked.append(arguments["place"])
        running.set()
        await asyncio.Event().wait()

    async def look(arguments: Any, _api: Any, _context: Any) -> Any:
        looked.append(arguments["place"])
        return {"output": [{"type": "text", "text": "rain"}]}

    async with opener_of() as open_store:
        records = SeverableStore(await open_store())
        context = opened(records, prefix="first")
        storage = await PiStorage.open(await context.__aenter__())
        models = ScriptedModels([calls("weather", place="Sfax")])
        host = await harness(storage, models, look_for_ever, replay)
        talk = await host.root(CONTEXT, {"agent": AGENT})
        asked = await talk.submit({"type": "input", "content": "Weather?"}, CONTEXT)
        await running.wait()
        records.sever()  # and nobody closes anything

        async with opened(await open_store(), prefix="second") as store:
            models = ScriptedModels([says("Wet.")])
            host = await harness(await PiStorage.open(store), models, look, replay)
            host.resume()
            resumed = await host.submission(asked.id, CONTEXT)
            assert resumed is not None
            settled = await resumed.wait(CONTEXT)
            root = await host.root(CONTEXT)
            entries = (await root.entries({"order": "ascending"}, 50, None, CONTEXT))["items"]
            await host.close(CONTEXT)

    assert settled["status"] == "done"
    assert len(looked) == runs
    said = texts(entries)
    assert said[-1] == ("assistant", "Wet.")
    assert ("rain" in said[-2][1]) is (replay == "safe")
    assert ("interrupted" in said[-2][1]) is (replay == "unsafe")
