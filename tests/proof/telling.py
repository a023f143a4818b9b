"""Histories made by hand: a world on paper, and calls with answers as a test wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.proof.checker import Checked, check
from tests.proof.history import Call
from tests.proof.records import Records, bytes_on_paper, records_of
from tests.proof.witness import spelled
from tests.support.worldly import WORLD, Position, World

from perdure.kernel.operations import Command, Spawn

NAME = WORLD.world


def ship(y: float, **options: Any) -> Spawn:
    return Spawn(Position(x=0.0, y=y), **options)


@dataclass
class Telling:
    """One world that several processes are told of, one after another unless a test says when."""

    world: World = field(default_factory=World)
    calls: list[Call] = field(default_factory=list)
    clock: count[int] = field(default_factory=lambda: count(100, 10))

    def tell(self, what: str, answer: Any = None, *, process: str = "a", **asked: Any) -> Call:
        """Add a call that was answered."""
        begun, ended = next(self.clock), next(self.clock)
        asked = {"world": NAME, **asked}
        number = len(self.calls)
        call = Call(process, number, what, asked, begun, ended, "answered", answer)
        self.calls.append(call)
        return call

    def admit(self, *commands: Command, batch: str, content: str = "", **more: Any) -> Call:
        """Admit, and tell the receipts."""
        admitted = self.world.admit(*commands, batch=batch)
        answer = {"replayed": admitted.replayed, "receipts": [[*r] for r in admitted.receipts()]}
        asked = {"commands": [spelled(each) for each in commands], **more}
        return self.tell("admit", answer, batch=batch, content=content or batch, **asked)

    def tick(self, process: str = "ticker", **more: Any) -> Call:
        """Take the fence, publish a tick, and tell both."""
        head = self.world.head
        manifest = self.world.tick(**more).manifest
        self.tell("take", {"epoch": manifest.epoch, "seq": head.seq}, process=process)
        answer = {"tick": manifest.tick, "token": manifest.token}
        return self.tell("tick", answer, process=process, epoch=manifest.epoch)

    def status(self, command: str) -> Call:
        told = self.world.status(command)
        answer = {
            "sequence": told.sequence,
            "status": told.status,
            "attempts": told.attempts,
            "code": told.code,
        }
        return self.tell("status", answer, process="reader", command=command)

    def info(self) -> Call:
        info = self.world.info()
        published = -1 if info.published_tick is None else info.published_tick
        answer = {"status": info.status, "published": published, "pending": info.pending_commands}
        return self.tell("info", answer, process="reader")

    @property
    def records(self) -> Records:
        return records_of(bytes_on_paper(self.world.paper.stored), WORLD.storage)

    def checked(self, records: Records | None = None) -> Checked:
        return check(self.calls, self.records if records is None else records)

    def faults(self, records: Records | None = None) -> str:
        """Return what the checker says, in one text."""
        return "\n".join(self.checked(records).faults)
