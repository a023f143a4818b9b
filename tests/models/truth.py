"""The truth of a play, told at every commit and seen by no actor: who breaks a promise is named."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tests.models.records import Place, Receipt


class Promise(StrEnum):
    """What the protocol promises, whatever the interleaving."""

    NOTHING_LOST = "nothing is lost"
    OPEN_ONCE = "a command is open in one page"
    SETTLED_ONCE = "a command is settled once"
    CANCELLED_STAYS = "what is cancelled is never settled"
    CANCELLED_ONCE = "one cancel-all takes effect once"
    RECEIPT_STABLE = "a batch has one receipt for ever"
    RECEIPT_GIVEN = "an admitted batch is not refused"
    CLOSED_ADMITS_NOTHING = "a closing world admits nothing"
    PUBLISHED_KNOWN = "who published is not told that it lost"
    EPOCHS_RISE = "epochs of manifests never fall"
    ORDER = "commands are settled in order"
    ORDER_AT_CUT = "commands are settled in order where pages stay unread"
    FORK_COMPLETE = "a fork has all that was open in its source"
    FORK_WHOLE_BATCHES = "a fork has whole batches"
    FORK_REVIVES_NOTHING = "a fork has only what was open in its source"
    NO_STARVATION = "open commands are reached in the end"
    LOG_GAPLESS = "a log has no gap"
    MANIFESTS_CONTIGUOUS = "manifests follow one another"
    RETIRED_STAYS = "a retired world never comes to life"
    ENTITY_IDS_UNIQUE = "an entity id is given once"


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, promise: Promise, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise


@dataclass(frozen=True, slots=True)
class Publication:
    """What one publish is about to make true."""

    seq: int
    tick: int
    epoch: int
    token: str
    applied: tuple[int, ...]
    moved: dict[int, Place]
    horizon: int
    is_cut: bool


@dataclass(slots=True)
class WorldTruth:
    """What is true of one world."""

    name: str
    first_tick: int = 1
    admits: bool = True
    open: dict[int, Place] = field(default_factory=dict)
    batches: dict[int, str] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    settled: dict[int, int] = field(default_factory=dict)
    manifests: dict[int, Publication] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    cancellations: dict[str, int] = field(default_factory=dict)
    entities: set[int] = field(default_factory=set)
    history: dict[int, dict[int, Place]] = field(default_factory=dict)
    """What was open as of each log seq."""

    def admit(self, seq: int, batch: str, places: dict[int, Place], entities: range) -> None:
        """A batch is admitted."""
        if not self.admits:
            raise Violation(Promise.CLOSED_ADMITS_NOTHING, f"{batch} in {self.name}")
        if not self.entities.isdisjoint(entities):
            raise Violation(Promise.ENTITY_IDS_UNIQUE, f"{entities} in {self.name}")
        self.entities.update(entities)
        self.open.update(places)
        self.batches.update(dict.fromkeys(places, batch))
        self._remember(seq)

    def told(self, batch: str, reply: Receipt | str) -> None:
        """Somebody who submitted a batch is told something."""
        if isinstance(reply, Receipt):
            first = self.receipts.setdefault(batch, reply)
            if first != reply:
                raise Violation(Promise.RECEIPT_STABLE, f"{batch}: {first}, then {reply}")
        elif reply == "closing" and batch in self.batches.values():
            raise Violation(
                Promise.RECEIPT_GIVEN, f"{batch} was admitted before {self.name} closed"
            )

    def cancel(self, seq: int, sequence: int) -> None:
        """One open command is cancelled."""
        if sequence in self.settled:
            raise Violation(Promise.CANCELLED_STAYS, f"{sequence} cancelled after it was settled")
        self.open.pop(sequence, None)
        self.cancelled.add(sequence)
        self._remember(seq)

    def cancel_all(self, seq: int, identity: str, below: int) -> None:
        """All commands below a sequence are cancelled, on behalf of one request."""
        first = self.cancellations.setdefault(identity, below)
        if first != below:
            raise Violation(
                Promise.CANCELLED_ONCE, f"{identity} cancelled below {first}, then {below}"
            )
        gone = [sequence for sequence in self.open if sequence < below]
        for sequence in gone:
            del self.open[sequence]
        self.cancelled.update(gone)
        self._remember(seq)

    def publish(self, publication: Publication) -> None:
        """A tick is published."""
        last = self.manifests.get(publication.tick - 1)
        if last and publication.epoch < last.epoch:
            raise Violation(
                Promise.EPOCHS_RISE, f"tick {publication.tick}: {publication.epoch} < {last.epoch}"
            )
        self.manifests[publication.tick] = publication
        places = {x: self._settled(x, publication.tick) for x in publication.applied}
        for sequence in publication.moved:
            self._must_be_open(sequence, publication.tick)
            del self.open[sequence]
        self._check_order(publication, places)
        self.open.update(publication.moved)
        self._remember(publication.seq)

    def close(self, seq: int) -> None:
        """The world closes to admission."""
        self.admits = False
        self._remember(seq)

    def end(self, seq: int) -> None:
        """The world ends, and with it all that is open there."""
        self.cancelled.update(self.open)
        self.open.clear()
        self._remember(seq)

    def forked(self, name: str, seq: int, published: int, copied: set[int]) -> WorldTruth:
        """Return the truth of a child that copies what is open here as of a log seq."""
        due = self.history[seq]
        if revived := copied - due.keys():
            raise Violation(Promise.FORK_REVIVES_NOTHING, f"{sorted(revived)} as of seq {seq}")
        lost = due.keys() - copied
        for batch in {self.batches[x] for x in lost}:
            if any(self.batches[x] == batch for x in copied):
                raise Violation(Promise.FORK_WHOLE_BATCHES, f"{batch} without {sorted(lost)}")
        if lost:
            raise Violation(Promise.FORK_COMPLETE, f"{sorted(lost)} as of seq {seq}")
        batches = {x: self.batches[x] for x in copied}
        born = WorldTruth(name, first_tick=published + 1, open=dict(due), batches=batches)
        born._remember(1)
        return born

    def _must_be_open(self, sequence: int, tick: int) -> None:
        if sequence in self.open:
            return
        if sequence in self.settled:
            detail = f"{self.name} {sequence} at ticks {self.settled[sequence]} and {tick}"
            raise Violation(Promise.SETTLED_ONCE, detail)
        raise Violation(Promise.CANCELLED_STAYS, f"{self.name} {sequence} at tick {tick}")

    def _settled(self, sequence: int, tick: int) -> Place:
        self._must_be_open(sequence, tick)
        self.settled[sequence] = tick
        return self.open.pop(sequence)

    def _check_order(self, publication: Publication, places: dict[int, Place]) -> None:
        """Hold the tick to applying what was open when it read the head, in order."""
        promise = Promise.ORDER_AT_CUT if publication.is_cut else Promise.ORDER
        for late, place in places.items():
            for early, waiting in self.open.items():
                was_there = early < max(publication.horizon, late)
                if was_there and (waiting, early) < (place, late):
                    detail = (
                        f"tick {publication.tick} settled {late} {place}, not {early} {waiting}"
                    )
                    raise Violation(promise, detail)

    def _remember(self, seq: int) -> None:
        self.history[seq] = dict(self.open)


@dataclass(slots=True)
class Truth:
    """What is true of all worlds."""

    worlds: dict[str, WorldTruth] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)

    def of(self, world: str) -> WorldTruth:
        """Return the truth of one world."""
        return self.worlds[world]
