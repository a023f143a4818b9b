"""Random lives of several worlds: created, forked, ticked, configured, awaited, ended, retired."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.logs import PaperAuthority
from tests.support.paper import Paper
from tests.support.told import Life, Told, item_bytes, replaced_holder
from tests.support.worldly import Tag, due

from perdure.kernel import limits
from perdure.kernel.capabilities import Configure
from perdure.kernel.consumers import Acknowledge, RemoveConsumer, SetConsumer
from perdure.kernel.create import CreateWorld, Describe
from perdure.kernel.destroy import BeginClosing, FinishDestroy, LeaveClosing, MarkTold
from perdure.kernel.errors import (
    ConsumerBehind,
    NotPermitted,
    NotResumable,
    StaleWriter,
    WorldClosing,
    WorldDestroyed,
)
from perdure.kernel.ids import Holder, RunId, Seq, StorageId, Tick, WorldId
from perdure.kernel.lineage import partition_of
from perdure.kernel.log import log_key
from perdure.kernel.operations import Spawn
from perdure.kernel.places import WorldRef
from perdure.kernel.private import Retire
from perdure.kernel.records import manifest_key, world_key
from perdure.kernel.upkeep import consumer_key, required_key
from perdure.runtime.fork import Wish, fork

STORAGE = StorageId("storage")
LEASE = 60_000
WORLDS_MAX, NAMES = 5, ("audit", "hook", "copy")
FINAL = {"applied", "rejected", "dead_letter"}
ENDED = {"closing": WorldClosing, "destroyed": WorldDestroyed}


lots = st.integers(0, 99)
batches = st.lists(st.tuples(st.none() | st.integers(-1, 3), st.booleans()), min_size=1, max_size=4)


class Lives(RuleBasedStateMachine):
    """Whoever owns, ticks, forks, reads and ends worlds does so in any order."""

    def __init__(self):
        super().__init__()
        self.paper, self.numbers = Paper(), count(1)
        self.lives: list[Life] = []

    @initialize(batch=batches)
    def begin(self, batch):
        self.create(private=False)
        self.admit(0, batch)

    def one(self, lot):
        return self.lives[lot % len(self.lives)]

    def refuses(self, life, asking):
        """Say whether a world is closed, having seen that it refuses this and writes nothing."""
        if life.status == "active":
            return False
        before = dict(self.paper.stored)
        with pytest.raises(ENDED[life.status]):
            asking()
        assert self.paper.stored == before
        return True

    @precondition(lambda self: len(self.lives) < WORLDS_MAX)
    @rule(private=st.booleans())
    def create(self, private):
        ref = WorldRef(STORAGE, WorldId(f"w{len(self.lives)}"))
        self.paper.ask(self.creation(ref, private=private))
        world = Told(self.paper, ref, self.numbers, ref.world)
        self.lives.append(Life(world, private))

    def creation(self, ref, *, private):
        options = {"writer_mode": "cleanup_only", "holder": Holder("ann"), "lease_ms": LEASE}
        made = CreateWorld(ref, ref.world, RunId(ref.world), **(options if private else {}))
        return made.checked()

    def create_again(self, life):
        before = dict(self.paper.stored)
        if life.begins >= 0 or life.world.paper.held(world_key(life.ref)).parent:
            return
        request = self.creation(life.ref, private=life.private)
        if life.status == "destroyed":
            with pytest.raises(WorldDestroyed):
                self.paper.ask(request)
        elif life.private and life.status == "closing":
            with pytest.raises(NotResumable):
                self.paper.ask(request)
        else:
            assert self.paper.ask(request).world_id == life.ref.world
        assert self.paper.stored == before

    @rule(lot=lots, batch=batches)
    def admit(self, lot, batch):
        life, name = self.one(lot), f"b{next(self.numbers)}"
        made = [
            (Spawn if spawns else due)(
                *([Tag()] if spawns else []),
                tick=None if ahead is None else max(0, life.published + 1 + ahead),
            )
            for ahead, spawns in batch
        ]
        request = life.world.admission(*made, batch=name)
        asked = replaced_holder(request, "ann" if life.private else None)
        if self.refuses(life, lambda: self.paper.ask(asked)):
            return
        receipts = self.paper.ask(asked).receipts()
        given = [each.sequence for each in receipts]
        entities = [each.entity_id for each in receipts if each.entity_id is not None]
        last = max(life.sequences.values(), default=0)
        assert given == [*range(last + 1, last + 1 + len(batch))]
        assert not life.entities & {*entities}
        assert len({*entities}) == len(entities) == sum(spawns for _, spawns in batch)
        life.entities |= {*entities}
        life.sequences |= {each.command_id: each.sequence for each in receipts}
        life.sent.append((asked, receipts))

    @rule(lot=lots, which=lots)
    def ask_again(self, lot, which):
        life = self.one(lot)
        self.create_again(life)
        self.admit_to_anothers_private_world(life)
        if life.sent:
            asked, receipts = life.sent[which % len(life.sent)]
            before = dict(self.paper.stored)
            assert self.paper.ask(asked).receipts() == receipts
            assert self.paper.stored == before

    def admit_to_anothers_private_world(self, life):
        if life.private and life.status == "active":
            before = dict(self.paper.stored)
            with pytest.raises((NotPermitted, NotResumable)):
                life.world.admit(due())
            assert self.paper.stored == before

    @rule(
        lot=lots,
        luck=st.lists(st.integers(0, 5), min_size=8, max_size=8),
        meanwhile=st.none() | st.sampled_from(NAMES),
    )
    def tick(self, lot, luck, meanwhile=None):
        life = self.one(lot)
        if self.refuses(life, life.world.take):
            return
        if self.behind(life) and not life.private:  # its fence lives on while it waits
            before = dict(self.paper.stored)
            with pytest.raises(ConsumerBehind):
                life.world.take()
            assert self.paper.stored == before
            return
        grip, drained = life.world.take(), life.world.drain()
        sequences = [each.sequence for each in drained.commands]
        fates = dict(zip(sequences, luck, strict=False))
        fail = {each: 1 for each, lot_ in fates.items() if lot_ == 3}
        reject = [each for each, lot_ in fates.items() if lot_ == 4]
        request = life.world.publishing(drained, grip, fail=fail, reject=reject)
        if meanwhile is not None:
            self.paper.ask(SetConsumer(life.ref, meanwhile, required=True, holder=life.holder))
        if self.behind(life):
            before = dict(self.paper.stored)
            with pytest.raises(ConsumerBehind):
                self.paper.ask(request)
            assert self.paper.stored == before
            return
        published = self.paper.ask(request)
        life.published += 1
        assert published.manifest.tick == life.published

    def behind(self, life):
        """Say whether somebody who must has not read the last tick of the world's own."""
        manifest = self.paper.held(manifest_key(life.ref.partition, Tick(life.published)))
        return manifest is not None and any(mark < manifest.seq for mark in self.marks(life))

    def marks(self, life):
        """Return how far each of those who must read the log has come."""
        names = self.required(life)
        held = [self.paper.held(consumer_key(life.ref.partition, name)) for name in names]
        return [0 if mark is None else mark.seq for mark in held]

    def required(self, life):
        found = self.paper.held(required_key(life.ref.partition))
        return () if found is None else found.names

    @rule(lot=lots)
    def tick_until_stopped(self, lot):
        life = self.one(lot)
        for _ in range(4):
            self.tick(lot, [0] * 8)
        assert life.status != "active" or self.behind(life) or life.published >= 3

    @precondition(lambda self: len(self.lives) < WORLDS_MAX)
    @rule(lot=lots, pending=st.sampled_from(["copy", "drop"]))
    def fork(self, lot, pending):
        life, child = self.one(lot), WorldRef(STORAGE, WorldId(f"w{len(self.lives)}"))
        wish = Wish(life.ref, child, child.world, RunId(child.world), pending)
        if self.refuses(life, lambda: self.forked(wish)):
            return
        if life.private:
            with pytest.raises(NotResumable):
                self.forked(wish)
            return
        before = {key: self.paper.stored[key] for key in self.paper.stored}
        info = self.forked(wish)
        changed = {key for key in before if self.paper.stored[key] != before[key]}
        assert {key for key in changed if key.partition == life.ref.partition} == set()
        assert self.forked(wish) == info
        made = Life(
            Told(self.paper, child, self.numbers, child.world),
            published=life.published,
            begins=life.published,
            sequences=dict(life.sequences),
            entities=set(life.entities),
        )
        for command in life.sequences:
            here, there = made.status_of(command), life.status_of(command)
            kept = pending == "copy" or there.status in FINAL
            assert here == there if kept else (here.status, here.code) == ("rejected", "cancelled")
        self.lives.append(made)

    def forked(self, wish):
        return asyncio.run(fork(PaperAuthority(self.paper), wish, pause=asyncio.sleep))

    @rule(lot=lots, name=st.sampled_from(NAMES), required=st.booleans())
    def set_consumer(self, lot, name, required):
        life = self.one(lot)
        request = SetConsumer(life.ref, name, required, holder=life.holder)
        if life.status == "closing" and not required and name in self.required(life):
            assert not self.paper.ask(request).required
        elif not self.refuses(life, lambda: self.paper.ask(request)):
            assert self.paper.ask(request).required == required
            before = dict(self.paper.stored)
            self.paper.ask(request)
            assert self.paper.stored == before

    @rule(lot=lots, name=st.sampled_from(NAMES[1:]), part=st.integers(0, 6))
    def acknowledge_or_leave(self, lot, name, part):
        life = self.one(lot)
        mark = self.paper.held(consumer_key(life.ref.partition, name))
        if part > 4 and life.status != "destroyed":
            self.paper.ask(RemoveConsumer(life.ref, name, holder=life.holder))
            assert self.paper.held(consumer_key(life.ref.partition, name)) is None
        elif mark is not None:
            seq = Seq(mark.seq + (life.world.head.seq - mark.seq) * min(part, 4) // 4)
            assert self.paper.ask(Acknowledge(life.ref, name, seq)).seq == seq

    @rule(lot=lots, action=st.sampled_from(["add", "remove"]), name=st.sampled_from(["x", "y"]))
    def configure(self, lot, action, name):
        life = self.one(lot)
        request = Configure(life.ref, "processor", action, name, "", ("x", "y"), holder=life.holder)
        if not self.refuses(life, lambda: self.paper.ask(request)):
            self.paper.ask(request)

    @precondition(lambda self: len(self.lives) > 1)
    @rule(lot=lots, steps=st.integers(0, 3), gives_up=st.booleans())
    def destroy(self, lot, steps, gives_up):
        life = self.one(lot)
        if not steps:
            return
        close = self.paper.ask(BeginClosing(life.ref, Holder("eve"), LEASE))
        if life.status == "destroyed":
            assert close.is_over
            return
        life.status, life.epoch = "closing", close.epoch
        if steps > 1:
            self.go_on_to_destroy(life, gives_up)

    def go_on_to_destroy(self, life, gives_up):
        if gives_up:
            self.paper.ask(LeaveClosing(life.ref, life.epoch))
            stale, next_one = life.epoch, BeginClosing(life.ref, Holder("eve"), LEASE)
            life.epoch = self.paper.ask(next_one).epoch
            for late in (MarkTold(life.ref, stale), FinishDestroy(life.ref, stale)):
                with pytest.raises(StaleWriter):
                    self.paper.ask(late)
        self.paper.ask(MarkTold(life.ref, life.epoch))
        try:
            self.paper.ask(FinishDestroy(life.ref, life.epoch))
        except ConsumerBehind:
            assert life.world.head.required
        else:
            life.status = "destroyed"
            last = Seq(life.world.head.seq - 1)
            assert all(mark >= last for mark in self.marks(life))

    @precondition(lambda self: any(life.private for life in self.lives))
    @rule(lot=lots)
    def retire(self, lot):
        life = self.one(lot)
        request = Retire(life.ref, life.ref.world, RunId(life.ref.world))
        before = dict(self.paper.stored)
        answer = self.paper.ask(request)
        assert answer == ("destroyed" if life.private else "untouched")
        if life.private:
            life.status = "destroyed"
        else:
            assert self.paper.stored == before

    @invariant()
    def heads_are_short_and_as_the_model_says(self):
        for life in self.lives:
            head = life.world.head
            assert item_bytes(head) <= limits.HEAD_BYTES_MAX
            assert (head.status, head.published) == (life.status, life.published)
            assert head.next_sequence == max(life.sequences.values(), default=0) + 1
            info = self.paper.ask(Describe(life.ref))
            assert (info.status, info.next_tick) == (life.status, life.published + 1)

    @invariant()
    def what_is_final_stays_as_it_was(self):
        for life in self.lives:
            for command, sequence in life.sequences.items():
                found = life.status_of(command)
                assert found.sequence == sequence
                if life.status == "destroyed":
                    assert found.status in FINAL
                if found.status in FINAL:
                    assert life.fates.setdefault(command, found) == found

    @invariant()
    def logs_and_manifests_are_one_chain_each(self):
        for life in self.lives:
            head, previous = life.world.head, ""
            for seq in range(1, head.seq + 1):
                entry = self.paper.held(log_key(life.ref.partition, Seq(seq)))
                assert (entry.seq, entry.previous) == (seq, previous)
                previous = entry.digest
            assert previous == head.log_digest
            assert self.paper.held(log_key(life.ref.partition, Seq(head.seq + 1))) is None
            self.manifests_of(life, head)

    def manifests_of(self, life, head):
        record, previous = self.paper.held(world_key(life.ref)), ""
        settled: set[int] = set()
        for tick in range(head.published + 1):
            manifest = self.paper.held(manifest_key(partition_of(record, Tick(tick)), Tick(tick)))
            assert (manifest.tick, manifest.previous) == (tick, previous)
            previous = manifest.digest
            for first, last in manifest.settled:
                assert not settled & {*range(first, last + 1)}
                settled |= {*range(first, last + 1)}
        assert previous == head.manifest_digest


Lives.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
TestLives = pytest.mark.lifecycle(pytest.mark.proof(Lives.TestCase))
