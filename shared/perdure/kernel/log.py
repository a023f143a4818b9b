"""The log of a stream: entries in total order, each chained to the one before."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self

from pydantic_core import from_json

from perdure.kernel.canonical import canonical, digest, strict
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Partition, Seq
from perdure.kernel.kept import kept
from perdure.kernel.places import number
from perdure.kernel.record import Record
from perdure.kernel.view import Key

EntryKind = Literal[
    "created",
    "forked",
    "admitted",
    "cancelled",
    "cancelled_all",
    "published",
    "configured",
    "closing",
    "destroyed",
    "moving",
    "stayed",
    "moved",
]

_ENTRY: Final = re.compile(
    rb'\A\{"at":(\d{1,19}),"facts":(\{.*?\}),"kind":"([a-z_]+)","payload":(.*),'
    rb'"previous":"([0-9a-f]*)","seq":(\d{1,19})\}\Z',
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class LogEntry(Record):
    """One entry of a stream's log, chained to the one before by digest.

    ``payload`` is canonical JSON kept as the bytes it came in, so that an entry decided
    again is not spelled again; ``facts`` are what the decision added.
    """

    immutable: ClassVar[bool] = True

    seq: Seq
    at: Instant
    kind: EntryKind
    facts: dict[str, Any]
    payload: bytes = b"null"
    payload_digest: str = field(default="", compare=False)
    previous: str

    @kept
    def key(self) -> Key[LogEntry]:
        return log_key(self.partition, self.seq)

    @kept
    def digest(self) -> str:
        """The link of the chain: over the entry before, the facts and the payload."""
        head = b'[%d,%d,"%s",%s]' % (self.seq, self.at, self.kind.encode(), self._facts_spelled)
        payload = self.payload_digest or payload_digest(self.payload)
        return digest("perdure.log.v1", self.previous.encode(), head, payload.encode())

    @kept
    def _facts_spelled(self) -> bytes:
        return canonical(self.facts)

    @kept
    def content(self) -> Any:
        """What the payload says. Nobody may change it. Raises Corrupt."""
        try:
            return from_json(self.payload, allow_inf_nan=False)  # twice as fast, and the same
        except ValueError:
            pass
        try:
            # The other knows no lone surrogates, which are JSON; what is none fails again.
            return strict(self.payload)
        except ValueError as error:
            raise Corrupt(
                expected=f"the payload of log entry {self.seq} at {self.partition}",
                found=str(error),
            ) from error

    def body(self) -> bytes:
        return b'{"at":%d,"facts":%s,"kind":"%s","payload":%s,"previous":"%s","seq":%d}' % (
            self.at,
            self._facts_spelled,
            self.kind.encode(),
            self.payload,
            self.previous.encode(),
            self.seq,
        )

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        parts = _ENTRY.match(body)
        if parts is None:
            raise Corrupt(expected=f"a log entry at {partition} {sort}", found=repr(body[:60]))
        at, facts, kind, payload, previous, seq = parts.groups()
        try:
            told = strict(facts)
        except ValueError as error:
            raise Corrupt(
                expected=f"facts of the log entry at {partition} {sort}", found=str(error)
            ) from error
        return cls(
            partition=partition,
            seq=Seq(int(seq)),
            at=Instant(int(at)),
            kind=kind.decode(),  # type: ignore[arg-type]  # checked by the chain's digest
            facts=told,
            payload=payload,
            previous=previous.decode(),
        )


def payload_digest(payload: bytes) -> str:
    """Return the digest under which a payload enters the chain."""
    return digest("perdure.payload.v1", payload)


def log_key(world: Partition, seq: Seq) -> Key[LogEntry]:
    return Key(world, f"log/{number(seq)}", LogEntry)
