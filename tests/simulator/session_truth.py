"""What is true of sessions: told of every commit, call, request and answer, and never of a process."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.objects import Bucket
from tests.simulator.records import Json, expect

from perdure.authority.packing import unpacked
from perdure.kernel.commit import Commit, Put
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Lineage
from perdure.kernel.session.facts import fact_of
from perdure.kernel.session.fold import Fold
from perdure.kernel.session.messages import (
    AssistantMessage,
    Message,
    ToolAnswers,
    UserMessage,
)

INTENT, PLAN, ENDS = (
    "tool_dispatch_intent",
    "tool_batch_started",
    ("tool_result", "tool_no_dispatch"),
)


@dataclass
class Journal:
    """One session, as its commits say."""

    partition: str
    frames: list[Json] = field(default_factory=list)
    fold: Fold | None = None
    intents: set[str] = field(default_factory=set)
    """Call keys of intents."""

    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    head: Json = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    heard: list[str] = field(default_factory=list)
    """Inputs, in the order in which they joined the transcript or began to wait."""


@dataclass
class SessionTruth:
    """All sessions of a play."""

    bucket: Bucket
    journals: dict[str, Journal] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    """How often each call had its effect, by call key."""

    acknowledged: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """What sender was told of a send, by session and send: its input and the first answer."""

    retracted: set[tuple[str, str]] = field(default_factory=set)
    commits: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    hints: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def commit(self, commit: Commit) -> None:
        """Take in what a commit has written."""
        self.commits += 1
        entries, heads = [], []
        for action in commit.actions:
            partition, sort = action.key
            if partition.startswith("wake/s"):
                held = self.hints[partition]
                (held.add if isinstance(action, Put) else held.discard)(sort)
            if not isinstance(action, Put) or not partition.startswith("s/"):
                continue
            if sort == "head":
                heads.append((partition, _body(action)))
            elif sort.startswith("log/"):
                entries.append((partition, _body(action)))
        for partition, entry in entries:
            self._entry(self._journal(partition), entry)
        for partition, head in heads:
            self._head(self._journal(partition), head)

    def _journal(self, partition: str) -> Journal:
        return self.journals.setdefault(partition, Journal(partition))

    def _head(self, journal: Journal, head: Json) -> None:
        expect(
            head["seq"] == len(journal.frames),
            "S4",
            "a head at {} of {} frames",
            head["seq"],
            len(journal.frames),
        )
        epoch = journal.head.get("fence", {}).get("epoch", 0)
        expect(
            head["fence"]["epoch"] >= epoch,
            "S5",
            "epoch {} after {}",
            head["fence"]["epoch"],
            epoch,
        )
        journal.head = head
        works = head["run_state"] == "active" or (head["run_state"] == "idle" and head["queued"])
        if works:
            hint = head.get("hint")
            lies = hint is not None and any(hint in held for held in self.hints.values())
            expect(lies, "S8", "work in {} that no hint leads to ({})", journal.partition, hint)

    def _entry(self, journal: Journal, entry: Json) -> None:
        for frame in entry["frames"]:
            expect(
                frame["seq"] == len(journal.frames) + 1,
                "S4",
                "frame {} behind {}",
                frame["seq"],
                len(journal.frames),
            )
            payload = frame.get("payload")
            if "ref" in frame:
                suffix = f"/{frame['ref']['sha256']}"
                found = [data for name, data in self.bucket.items() if name.endswith(suffix)]
                expect(found, "S7", "frame {} without its payload object", frame["seq"])
                payload = json.loads(found[0])
                self.counts["payload objects"] += 1
            journal.frames.append({**frame, "payload": payload})
            self.counts[frame["type"]] += 1
            self._folded(journal, frame["seq"], frame["type"], payload)
            self._frame(journal, frame["type"], payload)

    def _folded(self, journal: Journal, seq: int, kind: str, payload: Any) -> None:
        if journal.fold is None:
            journal.fold = Fold(Lineage(payload["lineage"]))
        try:
            journal.fold.apply(seq, fact_of(kind, payload, where="in a play"))  # type: ignore[arg-type]
        except Corrupt as error:
            expect(False, "S6", "frame {} ({}) makes the journal corrupt: {}", seq, kind, error)

    def _frame(self, journal: Journal, kind: str, payload: Any) -> None:
        if kind == PLAN:
            for call in payload["planned_calls"]:
                key = call["call_key"]
                expect(key not in journal.keys.values(), "S1", "call {} planned twice", key)
                journal.keys[payload["batch_id"], call["tool_call_id"]] = key
        elif kind == INTENT:
            journal.intents.add(journal.keys[payload["batch_id"], payload["tool_call_id"]])
        elif kind == "run_finished":
            journal.ends[payload["run_id"]] += 1
            self.counts[f"ended {payload['reason']}"] += 1
            expect(
                journal.ends[payload["run_id"]] == 1,
                "S2",
                "a second end of run {}",
                payload["run_id"],
            )
        elif kind == "retracted":
            self.retracted.add((journal.partition, payload["submission_id"]))

    def called(self, partition: str, key: str, effect: str) -> None:
        """Take note of a call on its way: it has its effect now."""
        journal = self.journals[partition]
        expect(key in journal.intents, "S1", "call {} without a durable intent", key)
        self.done[key] += 1
        self.counts[f"called {effect}"] += 1
        if effect == "effectful":
            expect(
                self.done[key] == 1, "S1", "effectful call {} made {} times", key, self.done[key]
            )

    def asked(self, messages: tuple[Message, ...]) -> None:
        """Hold a request to a model to what every provider takes."""
        self.counts["model asked"] += 1
        _valid(messages)
        expect(
            not isinstance(messages[-1], AssistantMessage),
            "S3",
            "a model asked after its natural end",
        )

    def told(self, partition: str, first_seq: int, kinds: list[str]) -> None:
        """Hold what somebody was told of to be durable."""
        frames = self.journals[partition].frames
        found = [frame["type"] for frame in frames[first_seq - 1 : first_seq - 1 + len(kinds)]]
        expect(found == kinds, "S7", "told of {} at {}, durable are {}", kinds, first_seq, found)
        self.counts["told"] += 1

    def answered(self, partition: str, send: str, text: str, state: str) -> None:
        """Take note of an acknowledged send; it must be in the journal already."""
        self.acknowledged.setdefault((partition, send), (text, state))
        expect(text in self._inputs(partition), "S4", "send {} acknowledged and not durable", send)

    def _inputs(self, partition: str) -> list[str]:
        """Return each input that was taken in, a queued one once."""
        found = []
        for frame in self.journals[partition].frames:
            payload = frame["payload"]
            if frame["type"] == "queued":
                found.append(payload["request"]["input"])
            elif frame["type"] == "steered" or (
                frame["type"] == "run_started" and payload.get("submission_id") is None
            ):
                found.append(payload["input"])
        return found

    def settled(self) -> None:
        """Hold everything to be as it must be when all is quiet."""
        for partition, journal in self.journals.items():
            fold = journal.fold
            assert fold is not None
            expect(fold.run is None and not fold.queue, "S9", "{} has work left", partition)
            _valid(fold.messages)
            inputs = Counter(self._inputs(partition))
            twice = [text[:20] for text, count in inputs.items() if count > 1]
            expect(not twice, "S4", "inputs taken in twice: {}", twice)
            heard = Counter(each.text for each in fold.messages if isinstance(each, UserMessage))
            begun = {f["payload"]["run_id"] for f in journal.frames if f["type"] == "run_started"}
            expect(
                begun == set(journal.ends), "S2", "runs {} have no end", begun - set(journal.ends)
            )
            for (where, send), (text, _) in self.acknowledged.items():
                if where != partition:
                    continue
                times = heard[text] + ((partition, send) in self.retracted)
                expect(times == 1, "S4", "send {} was delivered {} times", send, times)


def _valid(messages: Any) -> None:
    """Every call of a message has one answer right behind it, and no answer lacks its call."""
    wanted: list[str] = []
    for message in messages:
        if isinstance(message, ToolAnswers):
            got = [each.tool_call_id for each in message.answers]
            expect(wanted and got == wanted, "S3", "answers {} to calls {}", got, wanted)
            wanted = []
            continue
        expect(not wanted, "S3", "{} between calls and their results", type(message).__name__)
        if isinstance(message, AssistantMessage):
            wanted = [each.tool_call_id for each in message.calls]
    expect(not wanted, "S3", "calls {} without results", wanted)


def _body(action: Put) -> Json:
    found = unpacked(action.body)
    assert isinstance(found, bytes)
    body: Json = json.loads(found)
    return body
