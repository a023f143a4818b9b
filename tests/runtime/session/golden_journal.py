"""A journal with every type of record and every field, as this version writes it.

    python -m tests.runtime.session.golden_journal

writes the golden files anew. Do that only for a change of what is stored that is meant: the old
files then go to a directory of their own, with a test that they are still read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from tests.support.sessions import MemoryObjects

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.packing import unpacked
from perdure.kernel.ids import Instant, Lineage, StorageId, Token
from perdure.kernel.session import facts
from perdure.kernel.session.config import FrozenTool, RunConfig, Scope
from perdure.kernel.session.facts import Fact
from perdure.kernel.session.fold import Fold
from perdure.kernel.session.frames import Entry, Place, framed, prepared, sealed
from perdure.kernel.session.journal import payload_name
from perdure.kernel.session.messages import (
    AssistantMessage,
    Attempt,
    Measured,
    ToolCall,
    Usage,
)
from perdure.kernel.session.records import (
    Session,
    SessionHead,
    SessionRef,
    session_head_key,
    session_key,
)
from perdure.kernel.view import Decision, Reads
from perdure.runtime.session import payloads
from perdure.runtime.session.journal import Means, read_frames

GOLDEN = Path(__file__).parent / "golden"
REF = SessionRef(StorageId("golden"), "talk")
LINEAGE = Lineage("Gq3T8x0Zb1n5Vd7Rk2Yw9A")
AT = Instant(1_800_000_000_000)
LARGE = "The harbour is calm. " * 4_000
"""Longer than what is kept inside a frame."""

SCOPE = Scope(owner="ann", ref="talk", scope_epoch=2)
PINNED = facts.SchemaPin(schema_digest="ab" * 32, semantics="effectful")
USAGE = Usage(input_tokens=12, output_tokens=3)
CONFIG = RunConfig(
    agent="pilot",
    model="scripted:demo",
    system="Be brief. “Ü”",
    max_steps=4,
    options={"temperature": 0.1, "stop": ["\u2028", None]},
    tools=(FrozenTool(name="look", schema_digest="cd" * 32, effect="pure"),),
)
BODY = Measured(bytes=7, sha256="ef" * 32)
BATCH = "b7"


def _planned(index: int, name: str, effect: facts.Effect, **more: str) -> facts.PlannedCall:
    return facts.PlannedCall(
        tool_call_id=f"call_{index}",
        name=name,
        call_key=f"{LINEAGE}-7-{index}",
        effect=effect,
        **{"disposition": "dispatchable", **more},
    )


CALLS = (
    ToolCall(tool_call_id="call_0", name="look", args={}),
    ToolCall(tool_call_id="call_1", name="launch", args={"at": "dawn", "n": 1e21}),
    ToolCall(tool_call_id="call_2", name="sink", args={}, malformed="{"),
)
MESSAGE = AssistantMessage(text="I look.", calls=CALLS, stop="tool_calls", extra={"bedrock": [1]})
ATTEMPT = Attempt(
    attempt=1,
    outcome="completed",
    request=BODY,
    response=BODY,
    http_status=200,
    content_type="application/json",
    response_body_cap=1_024,
    ts_ms=AT,
)

COMMITS: tuple[tuple[Fact, ...], ...] = (
    (facts.JournalBegun(lineage=LINEAGE, session_id="talk"),),
    (facts.RunStarted(run_id="first", session_id="talk", config=CONFIG, input=LARGE, scope=SCOPE),),
    (
        facts.Queued(
            submission_id="second",
            request=facts.QueuedRequest(
                run_id="other", input="Later.", overrides={"max_steps": 2}, scope=SCOPE
            ),
            title="Second",
            delivery="interrupt",
        ),
        facts.RunCancelRequested(run_id="first", at="boundary"),
    ),
    (
        facts.StepStarted(step_id="s1-1", episode=1),
        facts.ModelAttemptFinished(step_id="s1-1", attempt=ATTEMPT),
        facts.ModelStepFinished(step_id="s1-1", assistant_message=MESSAGE, usage=USAGE),
        facts.ApprovalRequested(
            tool_call_id="call_1",
            call_key=f"{LINEAGE}-7-1",
            tool_name="launch",
            args={"at": "dawn"},
        ),
    ),
    (
        facts.ApprovalResolved(
            tool_call_id="call_1",
            call_key=f"{LINEAGE}-7-1",
            decision="approved",
            actor="ann",
            detail="Go.",
        ),
        facts.Steered(
            send_id="third", request_identity_digest="12" * 32, input="Mind the wind.", title="T"
        ),
    ),
    (
        facts.ToolBatchStarted(
            batch_id=BATCH,
            step_id="s1-1",
            planned_calls=(
                _planned(0, "look", "pure"),
                _planned(1, "launch", "effectful"),
                _planned(2, "sink", "effectful", disposition="no_dispatch", reason="denied"),
            ),
        ),
        facts.ToolDispatchIntent(batch_id=BATCH, tool_call_id="call_0", tool_name="look", args={}),
        facts.ToolDispatchIntent(
            batch_id=BATCH,
            tool_call_id="call_1",
            tool_name="launch",
            args={"at": "dawn", "n": 1e21},
            module_id="function",
            schema_pin=PINNED,
        ),
        facts.ToolNoDispatch(
            batch_id=BATCH, tool_call_id="call_2", reason="denied", detail="Not today."
        ),
    ),
    (
        facts.ToolResult(
            batch_id=BATCH, tool_call_id="call_0", outcome="completed", output={"sea": LARGE}
        ),
    ),
    (
        facts.ResumeStarted(
            episode=1,
            resumed_from_seq=16,
            replayed=facts.Replayed(messages=1, model_steps=1, tool_results=2),
            redone=("s1-1",),
            indeterminate=(f"{LINEAGE}-7-1",),
        ),
        facts.ToolResult(
            batch_id=BATCH,
            tool_call_id="call_1",
            outcome="unknown",
            output={"error": "unknown_outcome"},
            is_error=True,
            reason="unknown_outcome",
        ),
        facts.ToolBatchFinished(batch_id=BATCH),
        facts.TurnFinished(step_id="s1-1"),
    ),
    (facts.RunFinished(run_id="first", reason="interrupted", usage=USAGE, code="none"),),
    (facts.EvidenceWritten(run_id="first", world_id="talk-evidence", through_seq=21),),
    (
        facts.Queued(
            submission_id="fourth", request=facts.QueuedRequest(run_id="fourth", input="Never.")
        ),
        facts.Retracted(submission_id="fourth"),
    ),
    (
        facts.RunStarted(
            run_id="other",
            session_id="talk",
            config=CONFIG,
            input="Later.",
            scope=SCOPE,
            manifest={"of": "a plan"},
            submission_id="second",
        ),
    ),
)
"""What each commit says. Never changed: what comes to be written later has a journal of its own."""


@dataclass
class Write:
    """Write records as they are."""

    records: tuple

    once = False
    stream = REF.partition

    def reads(self):
        return Reads(keys=tuple(each.key for each in self.records))

    def decide(self, view, now):
        return Decision(None, self.records)


def records() -> tuple[Session, list[Entry], SessionHead, dict[str, bytes]]:
    """Return what the commits come to: identity, entries, head, and payload objects by name."""
    session = Session(
        partition=REF.catalog,
        storage=REF.storage,
        session=REF.session,
        agent="pilot",
        owner="ann",
        lineage=LINEAGE,
        created_at=AT,
        ceiling_bytes=1 << 30,
        evidence=True,
        app="harbour",
    )
    entries, objects, seq, previous = [], {}, 0, ""
    for number, said in enumerate(COMMITS):
        frames = []
        before, at, append = previous, Instant(AT + number), Token(f"append-{number}")
        previous = sealed(before, at, append)
        for each in map(prepared, said):
            seq += 1
            frame = framed(each, lineage=LINEAGE, previous=previous, seq=seq, fence=number)
            if each.is_large:
                objects[payload_name(REF, each.sha256)] = each.spelled
            frames.append(frame)
            previous = frame.digest
        entries.append(
            Entry(
                partition=REF.partition,
                at=at,
                append=append,
                previous=before,
                frames=tuple(frames),
            )
        )
    every = [frame for entry in entries for frame in entry.frames]
    head = SessionHead(
        partition=REF.partition,
        lineage=LINEAGE,
        seq=seq,
        digest=previous,
        bytes=sum(frame.size for frame in every),
        runs=2,
        run="other",
        run_state="active",
        requires=tuple(sorted({name for frame in every for name in frame.requires})),
    )
    return session, entries, head, objects


def spelled() -> dict[str, bytes]:
    """Return the golden files as today's version writes them, by name."""
    session, entries, head, objects = records()
    files = {f"{each.key.sort.replace('/', '_')}.json": each.body() for each in entries}
    files |= {"session.json": session.body(), "head.json": head.body()}
    return files | {f"object_{name.rpartition('/')[2]}": data for name, data in objects.items()}


def kept() -> dict[str, bytes]:
    """Return the golden files as they lie there."""
    return {each.name: each.read_bytes() for each in GOLDEN.iterdir() if each.name != "fold.txt"}


def stored_kept(*, without: str = "") -> tuple[MemoryStore, Means]:
    """Return a store with the golden files in it but one, read by today's version, and means to it."""
    files = {name: data for name, data in kept().items() if name != without}
    drawn = itertools.count(1)
    held = MemoryStore()
    new_token = lambda: Token(f"token-{next(drawn)}")  # noqa: E731
    authority = Authority(held, lambda: AT, new_token)
    objects = MemoryObjects(
        {
            payload_name(REF, name.removeprefix("object_")): data
            for name, data in files.items()
            if name.startswith("object_")
        }
    )
    entries = [
        Entry.read(REF.partition, name.removesuffix(".json").replace("_", "/"), body)
        for name, body in sorted(files.items())
        if name.startswith("log_")
    ]
    head = SessionHead.read(REF.partition, session_head_key(REF.partition).sort, files["head.json"])
    session = Session.read(REF.catalog, session_key(REF).sort, files["session.json"])
    asyncio.run(authority.execute(Write((session, *entries, head))))
    return held, Means(authority, objects, lambda: AT, new_token, asyncio.sleep)


def bodies_in(store: MemoryStore) -> dict[str, bytes]:
    """Return what a store holds of the session, by sort key."""
    return {key.sort: bytes(unpacked(each.body)) for key, each in store._records.items()}


async def fold_of(means: Means):
    """Fold the journal as whoever opens it does."""

    session, _, frames = await read_frames(means, REF, Place())
    fold = Fold(session.lineage)
    for frame in frames:
        fold.apply(frame.seq, await payloads.fact_in(means.objects, REF, frame))
    return fold


def told(fold) -> str:
    """Spell a fold a field a line, long texts cut."""
    short = repr(fold).replace(LARGE, "LARGE").replace(json.dumps(LARGE), "LARGE")
    return short.replace("), ", "),\n") + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, body in spelled().items():
        (GOLDEN / name).write_bytes(body)
    _, means = stored_kept()
    (GOLDEN / "fold.txt").write_text(told(asyncio.run(fold_of(means))), encoding="utf-8")


if __name__ == "__main__":
    main()
