"""Storage writes made of a few numbers, from what was accepted so far: most fit, some do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support import conversing
from tests.support.conversing import Write

KINDS = ("a", "\ud800", "\ud801")
KEYS = (None, None, "k", "\ud800")
STATUSES = ("pending", "running", "waiting", "sleeping", "completing", "terminal")
SUBMITTED = ("queued", "placed", "done", "unanswered")
NOWHERE = 997
"""An id that nothing has."""


@dataclass
class Known:
    """What was written so far, and what may be written next."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    """By kind, the newest last; documents that ended are apart."""
    records: dict[int, Write] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    next_id: int = 2
    seq: int = 1

    def learn(self, write: Write) -> None:
        """Take in a write that was accepted."""
        if write["type"] == "document.retire":
            self.ids["document"].remove(write["id"])
            self.ids.setdefault("ended", []).append(write["id"])
        if "content" in write:
            self.versions[write.get("id") or write["record"]["id"]] = write["content"]["version"]
        kind = "document" if "record" in write else write["type"]
        value = write.get("record") or write.get("value")
        if value is not None and value["id"] not in self.ids.setdefault(kind, []):
            self.ids[kind].append(value["id"])
            self.records[value["id"]] = value

    def known(self, kind: str, number: int) -> int:
        """Return one of the ids of a kind, the newest for 0."""
        ids = self.ids.get(kind, [])
        return ids[-1 - number % len(ids)] if ids else NOWHERE

    def new(self, chance: int) -> int:
        """Return a new id, but for a chance of 0: then one that something has."""
        kind = ("entry", "task", "document")[self.next_id % 3]
        if chance == 0 and kind in self.ids:
            return self.known(kind, 0)
        self.next_id += 1
        return self.next_id - 1

    def write(  # noqa: PLR0911  # a case a kind
        self, kind: str, a: int, b: int, c: int, chance: int
    ) -> Write:
        """Make a storage write of a draft."""
        where = self.known("conversation", a)
        match kind:
            case "conversation":
                return self._conversation(a, b, c, chance)
            case "entry":
                head = {"head": self.known("entry", c)} if b == 0 else {}
                return conversing.entry(self.new(chance), where, data={"n": [b, c]}, **head)
            case "task":
                id = self._old_or_new(kind, b, chance)
                flags = {
                    "background": a % 2 == 0,
                    "abortRequested": a % 3 == 0,
                    "kind": KINDS[c % 3],
                }
                return conversing.task(id, STATUSES[c % 6], where, **flags)
            case "submission":
                id = self._old_or_new(kind, b, chance)
                request = {} if a % 3 == 0 else {"requestId": f"{a % 2}\ud800{id}"}
                return conversing.submission(id, SUBMITTED[c % 4], where, **request)
            case "copy" if self._may(chance):
                return self._copy(a, b, c, chance)
            case "change" if self._may(chance):
                id = self._document(a, chance)
                return conversing.change(id, self._content(id, b, c, chance))
            case "retire" if self._may(chance):
                return conversing.retire(self._document(a, chance))
            case _:
                content = conversing.base({"n": b, "l": [c], "s": "x"})
                return conversing.create(self._record(a, b, c, chance), content)

    def _may(self, chance: int) -> bool:
        return bool(self.ids.get("document")) or chance == 0

    def _document(self, a: int, chance: int) -> int:
        return self.known("ended" if chance == 2 else "document", a)

    def _old_or_new(self, kind: str, b: int, chance: int) -> int:
        return self.known(kind, b) if b < 6 and chance and kind in self.ids else self.new(chance)

    def _conversation(self, a: int, b: int, c: int, chance: int) -> Write:
        more: dict[str, Any] = {}
        if b < 7 and "conversation" in self.ids:
            at = (self.known("entry", c), NOWHERE, 0)[c % 3]
            more["parent"] = {"conversationId": self.known("conversation", b), "at": at}
        if c < 5:
            owner = {"conversationId": self.known("conversation", a)}
            more["owner"] = {**owner, "taskId": self.known("task", b)}
        return conversing.conversation(self.new(chance), **more)

    def _record(self, a: int, b: int, c: int, chance: int) -> Write:
        key = KEYS[c % 4]
        more = {} if key is None else {"key": key}
        where = self.known("conversation", a // 3)
        make = (conversing.rewindable, conversing.latest)[b % 2]
        if a % 3 == 0:
            return conversing.of_session(self.new(chance), KINDS[b % 3], **more)
        return make(self.new(chance), KINDS[b % 3], where, **more)

    def _copy(self, a: int, b: int, c: int, chance: int) -> Write:
        source = self._document(a, chance)
        for id in self.ids.get("document", []) if chance > 4 else ():
            if self.records[id]["scope"]["kind"] == "conversation":
                source = id
        like = self.records.get(source, conversing.rewindable(source))
        record = {**like, "id": self.new(chance)}
        if record["scope"]["kind"] == "conversation":
            where = record["scope"]["conversationId"]
            others = [each for each in self.ids["conversation"] if each != where or chance == 4]
            record["scope"] = conversing.scope_of(others[b % len(others)] if others else where)
        if chance == 1:
            record["kind"] = "another"
        return conversing.copy(record, source, "current" if c < 8 else max(1, self.seq - b))

    def _content(self, id: int, b: int, c: int, chance: int) -> Write:
        ops: list[Any] = [["s", ["n"], c], ["a", ["s"], "é"], ["p", ["l"], 0, 0, [c]], ["d", ["n"]]]
        root = {"n": c, "l": [], "s": "y"}
        if b < 8:
            chosen = [ops[c % 3], ["r", root], ["s", ["o"], {"\ud800": c}]][: 1 + c % 3]
            return conversing.delta(*chosen, version=self.versions.get(id, 1) + (chance == 3))
        return conversing.base(root, version=1 + b % 2)
