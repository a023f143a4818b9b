"""Rules of those who create, admit, cancel, tick, fork, choose and end."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.proof.agreeing import APP, LEASE_MS, Agreeing, callers, few, holders, lots
from tests.support.worldly import REGISTRY, Counter, Tag, due

from perdure.kernel import limits
from perdure.kernel.admit import Admit
from perdure.kernel.batch import prepared
from perdure.kernel.caller import Allowance
from perdure.kernel.cancel import Cancel, CancelAll
from perdure.kernel.capabilities import Configure
from perdure.kernel.consumers import Acknowledge, RemoveConsumer, SetConsumer
from perdure.kernel.create import CreateWorld
from perdure.kernel.destroy import (
    BeginClosing,
    CheckClosingRead,
    FinishDestroy,
    LeaveClosing,
    MarkTold,
)
from perdure.kernel.errors import PerdureError
from perdure.kernel.fence import NameProbe, ReleaseFence, TakeFence
from perdure.kernel.ids import BatchId, CommandId, Epoch, Holder, RunId, Seq, Sequence
from perdure.kernel.operations import Spawn
from perdure.kernel.places import WorldRef
from perdure.kernel.private import Retire
from perdure.kernel.publish import RegisterSignature
from perdure.kernel.quota import Bill, Spend
from perdure.kernel.records import Probe
from perdure.kernel.run import StartRun
from perdure.kernel.schedule import SkipMissed
from perdure.kernel.upkeep import schedule_key
from perdure.lake.schema import signature_record
from perdure.runtime.fork import Wish, fork

EVERY_MS = 60_000
CREATED = 4
"""Ids of worlds that are created; the others are forks, mostly."""

LARGE_BYTES = 30_000
"""Of one command's note: a batch of some is more than a record takes."""

commands = st.tuples(st.none() | st.integers(-1, 3), st.none() | st.integers(-1, 1), st.booleans())
batches = st.lists(commands, min_size=1, max_size=4)


class Writing(Agreeing):
    """Clients, writers and owners of worlds."""

    @initialize(batch=batches)
    def begin(self, batch: Any) -> None:
        for lot, every in ((0, None), (1, EVERY_MS)):
            ref = self.ref(lot)
            self.ask(CreateWorld(ref, ref.world, RunId(f"run-{lot}"), every_ms=every, app=APP))
            self.admit(lot, batch, own=True, by=None, large=False)
        self.create(2, 2, kind="private")

    @rule(lot=lots, name=lots, kind=st.sampled_from(["", "port", "skip", "private"]))
    def create(self, lot: int, name: int, kind: str) -> None:
        ref, run = self.ref(lot % CREATED if lot < 90 else lot), RunId(f"run-{lot % 7}")
        options: dict[str, Any] = {"kind": kind, "app": APP}
        if kind == "private":
            options |= {
                "writer_mode": "cleanup_only",
                "holder": Holder("ann"),
                "lease_ms": LEASE_MS,
            }
        if kind == "skip":
            options |= {"every_ms": EVERY_MS, "missed": "skip"}
        self.ask(CreateWorld(ref, f"w{name % 6}", run, **options).checked())

    def batch(self, ref: WorldRef, batch: Any, *, own: bool, large: bool) -> Any:
        name, published = f"b{next(self.numbers)}", self.head(ref).published
        note = "n" * LARGE_BYTES if large else None
        made = [
            (Spawn if spawns else due)(
                *([Counter(value=number, note=note)] if spawns else []),
                tick=None if ahead is None else max(0, published + 1 + ahead),
                priority=priority,
                command_id=f"{name}-{number}" if own else None,
            )
            for number, (ahead, priority, spawns) in enumerate(batch)
        ]
        return prepared(ref.world, BatchId(name), made, REGISTRY)

    @rule(lot=lots, batch=batches, own=st.booleans(), by=callers, large=st.booleans())
    def admit(self, lot: int, batch: Any, *, own: bool, by: Any, large: bool) -> None:
        ref = self.ref(lot)
        sender = {} if by is None else {"by": by}
        made = self.batch(ref, batch, own=own, large=large and len(batch) > 3)
        self.sent.append(Admit(ref, made, self.holder(ref), **sender))
        self.ask(self.sent[-1])

    @rule(which=lots, to=lots)
    def admit_again(self, which: int, to: int) -> None:
        """Send the same again, or other content under its name."""
        sent = self.sent[which % len(self.sent)]
        self.ask(sent)
        other = self.batch(sent.ref, [(None, None, False)], own=False, large=False)
        changed = type(other)(
            sent.batch.id, other.world, other.payload, other.dues, other.spawning, other.own_ids
        )
        if to % 4 == 0:
            self.ask(Admit(sent.ref, changed, sent.holder))

    @rule(lot=lots, first=batches, second=batches)
    def ask_at_once(self, lot: int, first: Any, second: Any) -> None:
        """Let callers of one process be decided as a group."""
        ref = self.ref(lot)
        made = [
            Admit(ref, self.batch(ref, each, own=own, large=False), self.holder(ref))
            for own, each in enumerate((first, second))
        ]
        self.sent += made
        name = CommandId(f"{made[0].batch.id}.0")
        answers = self.three.ask_at_once([*made, made[0], Cancel(ref, name), CancelAll(ref, "all")])
        assert len(answers) == 5

    @rule(which=lots, index=few, lot=lots)
    def cancel(self, which: int, index: int, lot: int) -> None:
        sent = self.sent[which % len(self.sent)]
        index %= sent.batch.size
        own = [command for at, command, _ in sent.batch.own_ids if at == index]
        name = own[0] if own else CommandId(f"{sent.batch.id}.{index}")
        self.ask(Cancel(self.ref(lot) if lot % 5 == 0 else sent.ref, name, holder=sent.holder))

    @rule(lot=lots, request=few)
    def cancel_all(self, lot: int, request: int) -> None:
        ref = self.ref(lot)
        self.ask(CancelAll(ref, f"r{request}", holder=self.holder(ref)).checked())

    @rule(lot=lots, holder=holders, luck=st.lists(st.integers(0, 7), max_size=6), again=few)
    def tick(self, lot: int, holder: str, luck: list[int], again: int) -> None:
        """Do what a writer does, and perhaps some of it twice or as one who is stale."""
        ref = self.ref(lot)
        world = self.told(ref)
        grip = self.ask(TakeFence(ref, self.holder(ref) or Holder(holder), LEASE_MS).checked())
        if grip is None:
            return
        self.ask(RegisterSignature(signature_record(ref.catalog, [Tag.component])))
        drained = world.drain()
        chances = {each.sequence: lot for each, lot in zip(drained.commands, luck, strict=False)}
        schedule = self.three.held(schedule_key(ref.partition))
        serves = schedule is not None and schedule.next_at <= self.three.now
        request = world.publishing(
            drained,
            grip,
            reject=[each for each, lot in chances.items() if lot == 5],
            fail={each: lot - 2 for each, lot in chances.items() if lot in {3, 4}},
            leave=[each for each, lot in chances.items() if lot == 6],
            checkpoint=() if again == 1 else None,
            serves=schedule.next_at if serves else None,
            hint=self.hint(ref) if serves else None,
            lease_ms=LEASE_MS if again == 2 else 0,
        )
        self.published.append(request)
        self.ask(request)
        if again == 3:
            self.ask(request)

    @rule(which=lots)
    def publish_late(self, which: int) -> None:
        """Wake up as a writer that slept."""
        if self.published:
            self.ask(self.published[which % len(self.published)])

    @rule(lot=lots, holder=holders, step=few, ms=st.sampled_from([0, 1_000, 40_000, 10**7]))
    def hold_the_fence(self, lot: int, holder: str, step: int, ms: int) -> None:
        ref = self.ref(lot)
        grip = self.ask(TakeFence(ref, Holder(holder), LEASE_MS).checked())
        epoch = Epoch(step) if grip is None else grip.epoch
        if step:
            self.ask(
                NameProbe(ref, epoch, Probe(stage="apply", first=Sequence(1), last=Sequence(step)))
            )
        self.pass_time(ms)
        if step == 3:
            self.ask(ReleaseFence(ref, epoch))

    @rule(lot=lots, child=lots, pending=st.sampled_from(["copy", "drop"]), again=st.booleans())
    def fork(self, lot: int, child: int, pending: Any, *, again: bool) -> None:
        source, ref = self.ref(lot), self.ref(CREATED + child % 2 if child < 90 else child)
        wish = Wish(source, ref, f"fork-{child % 3}", RunId(f"run-{child}"), pending)
        self.forks.append(wish)
        for each in (wish, self.forks[0]) if again else (wish,):
            try:
                asyncio.run(fork(self.three, each, pause=asyncio.sleep))
            except PerdureError:
                continue

    @rule(
        lot=lots,
        kind=st.sampled_from(["processor", "hook", "resource"]),
        action=st.sampled_from(["add", "remove"]),
        name=st.sampled_from(["drift", "tide", "none"]),
    )
    def configure(self, lot: int, kind: Any, action: Any, name: str) -> None:
        ref = self.ref(lot)
        known = ("drift", "tide")
        holder = self.holder(ref)
        self.ask(Configure(ref, kind, action, name, APP, known, holder=holder).checked())

    @rule(
        lot=lots,
        name=st.sampled_from(["hook", "copy", "audit"]),
        required=st.booleans(),
        part=st.integers(0, 6),
        by=callers,
    )
    def consume(self, lot: int, name: str, *, required: bool, part: int, by: Any) -> None:
        ref = self.ref(lot)
        if part < 2:
            holder = self.holder(ref)
            self.ask(SetConsumer(ref, name, required, by, holder).checked())
        elif name != "audit":
            self.ask(Acknowledge(ref, name, Seq(self.head(ref).seq * (part - 1) // 4)).checked())
            if part > 5:
                self.ask(RemoveConsumer(ref, name, holder=self.holder(ref)).checked())

    @rule(lot=lots, steps=few, gives_up=st.booleans(), holder=holders)
    def destroy(self, lot: int, steps: int, *, gives_up: bool, holder: str) -> None:
        if lot < 60:  # or few worlds would live long
            return
        ref = self.ref(lot)
        close = self.ask(
            BeginClosing(ref, Holder(holder), LEASE_MS, spares_held=steps == 0).checked()
        )
        epoch = self.head(ref).fence.epoch if close is None else close.epoch
        if gives_up:
            self.ask(LeaveClosing(ref, epoch))
        self.ask(CheckClosingRead(ref))
        if steps > 1:
            self.ask(MarkTold(ref, epoch))
        if steps:
            self.ask(FinishDestroy(ref, epoch))

    @rule(lot=lots, run=st.integers(0, 6))
    def retire(self, lot: int, run: int) -> None:
        ref = self.ref(lot)
        name = f"w{run}" if lot % 2 else ref.world
        kind = "private" if self.record(ref) else ""
        self.ask(Retire(ref, name, RunId(f"run-{run}"), kind, APP))

    @rule(lot=lots, key=few, ticks=st.integers(1, 2))
    def start_a_run(self, lot: int, key: int, ticks: int) -> None:
        self.ask(StartRun(self.ref(lot), f"run-{key}", ticks).checked())

    @rule(lot=lots, late=st.integers(0, 4))
    def skip_what_was_missed(self, lot: int, late: int) -> None:
        ref = self.ref(lot)
        schedule = self.three.held(schedule_key(ref.partition))
        self.pass_time(late * EVERY_MS)
        self.ask(SkipMissed(ref, self.three.now if schedule is None else schedule.next_at))

    @rule(actor=st.sampled_from(["ann", "bob"]), units=st.integers(1, 6))
    def spend(self, actor: str, units: int) -> None:
        allowance = Allowance(units=5, window_ms=60_000)
        self.ask(Spend(Bill(self.ref(0).catalog, actor, allowance, units)))

    @rule(ms=st.sampled_from([1, 999, 61_000, limits.LEASE_MS_MAX]))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms)
