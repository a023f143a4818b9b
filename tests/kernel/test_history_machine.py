"""Random histories of one world, told twice: by the kernel, and by a model that fits a page."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.worldly import WORLD, Tag, World, due, later

from perdure.kernel import limits, ranges
from perdure.kernel.errors import DrainStale, NotCancellable
from perdure.kernel.log import log_key
from perdure.kernel.operations import Spawn
from perdure.kernel.stored import StoredBatch

OPEN = {"pending", "retryable"}
PAGES_MAX, COMMANDS_MAX = 3, 6
"""Limits of a drain, small enough for small histories to meet them."""


@dataclass
class Fate:
    """What the model knows of one command."""

    name: str
    tick: int
    priority: int
    most: int
    status: str = "pending"
    attempts: int = 0


@dataclass
class Model:
    """A world without records: a list of fates."""

    published: int = -1
    fates: dict[int, Fate] = field(default_factory=dict)

    @property
    def open(self):
        return {sequence for sequence, fate in self.fates.items() if fate.status in OPEN}

    def admit(self, names, commands):
        for name, command in zip(names, commands, strict=True):
            asked = -1 if command.tick is None else command.tick
            self.fates[len(self.fates) + 1] = Fate(
                name,
                max(asked, self.published + 1),
                command.priority or 0,
                command.max_attempts or limits.ATTEMPTS_DEFAULT,
            )

    def cancel(self, sequence):
        """Cancel if it is open, and say whether it is cancelled now."""
        fate = self.fates[sequence]
        if fate.status in OPEN:
            fate.status = "cancelled"
        return fate.status == "cancelled"

    def cancel_all(self):
        for sequence in self.open:
            self.fates[sequence].status = "cancelled all"

    def due(self):
        """Return what is due at the next tick, in the order of application."""
        return [
            sequence
            for _, _, sequence in sorted(
                (self.fates[each].tick, self.fates[each].priority, each) for each in self.open
            )
            if self.fates[sequence].tick <= self.published + 1
        ]

    def tick(self, drained, reject, fail, leave):
        self.published += 1
        for sequence in drained:
            fate = self.fates[sequence]
            if sequence in leave:
                continue
            if sequence in fail:
                fate.attempts += fail[sequence]
                fate.status = "retryable" if fate.attempts < fate.most else "dead_letter"
                fate.tick = self.published + min(2 ** (fate.attempts - 1), 64)
            else:
                fate.status = "rejected" if sequence in reject else "applied"


commands = st.builds(
    lambda ahead, priority, most, spawns: (ahead, priority, most, spawns),
    st.none() | st.integers(-1, 4),
    st.none() | st.integers(-1, 1),
    st.none() | st.integers(1, 4),
    st.booleans(),
)
batches = st.lists(commands, min_size=1, max_size=6)
chances = st.integers(0, 7)


class Histories(RuleBasedStateMachine):
    """Clients, writers and rivals do what they like; both tellings must agree at every step."""

    def __init__(self):
        super().__init__()
        self.kept = (limits.DRAIN_PAGES_MAX, limits.DRAIN_COMMANDS_MAX)
        limits.DRAIN_PAGES_MAX, limits.DRAIN_COMMANDS_MAX = PAGES_MAX, COMMANDS_MAX
        self.world, self.model = World(), Model()
        self.sent = []
        self.cancelled = set()
        self.lines = []

    def teardown(self):
        limits.DRAIN_PAGES_MAX, limits.DRAIN_COMMANDS_MAX = self.kept

    def made(self, batch, own):
        number = len(self.sent)
        return [
            (Spawn if spawns else due)(
                *([Tag()] if spawns else []),
                tick=None if ahead is None else max(0, self.model.published + 1 + ahead),
                priority=priority,
                max_attempts=most,
                command_id=f"own-{number}-{index}" if own else None,
            )
            for index, (ahead, priority, most, spawns) in enumerate(batch)
        ]

    @rule(batch=batches, own=st.booleans())
    def admit(self, batch, own):
        made, name = self.made(batch, own), f"b{len(self.sent)}"
        receipts = self.world.receipts(*made, batch=name)
        self.model.admit([each.command_id for each in receipts], made)
        self.sent.append((name, made, receipts))

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 99))
    def admit_again(self, which):
        name, made, receipts = self.sent[which % len(self.sent)]
        before = dict(self.world.paper.stored)

        assert self.world.receipts(*made, batch=name) == receipts
        assert self.world.paper.stored == before

    @precondition(lambda self: self.model.fates)
    @rule(which=st.integers(0, 99))
    def cancel(self, which):
        sequence = which % len(self.model.fates) + 1
        name = self.model.fates[sequence].name
        if self.model.cancel(sequence):
            assert self.world.cancel(name) == sequence
        else:
            with pytest.raises(NotCancellable):
                self.world.cancel(name)

    @rule()
    def cancel_all(self):
        request = f"r{len(self.lines)}"
        self.lines.append((request, self.world.cancel_all(request)))
        self.model.cancel_all()

    @precondition(lambda self: self.lines)
    @rule()
    def cancel_all_again(self):
        request, below = self.lines[0]
        assert self.world.cancel_all(request) == below

    @rule(luck=st.lists(chances, min_size=COMMANDS_MAX, max_size=COMMANDS_MAX))
    def tick(self, luck):
        self.publish(luck)

    @rule(luck=st.lists(chances, min_size=COMMANDS_MAX, max_size=COMMANDS_MAX), batch=batches)
    def tick_beside_an_admission(self, luck, batch):
        self.publish(luck, rival=lambda: self.admit(batch, own=False))

    @precondition(lambda self: self.model.due())
    @rule(which=st.integers(0, 99))
    def tick_beside_a_cancel(self, which):
        drained = self.drained()
        if not drained.commands:
            return
        victim = drained.commands[which % len(drained.commands)].sequence
        request = self.world.publishing(drained, self.world.take())
        self.model.cancel(victim)

        with pytest.raises(DrainStale):
            self.world.paper.ask(
                request, rival=lambda: self.world.cancel(self.model.fates[victim].name)
            )

    @rule()
    def tick_until_what_is_due_now_is_done(self):
        waiting = set(self.model.due())
        for _ in range(len(self.world.pages) + len(waiting)):
            if waiting & self.model.open:
                self.publish(luck=())

        assert not waiting & self.model.open

    @rule()
    def a_writer_dies(self):
        later(self.world, 10**9)
        self.world.take("unlucky")
        later(self.world, 10**9)

    def drained(self):
        drained, waiting = self.world.drain(), self.model.due()
        found = [each.sequence for each in drained.commands]
        assert found == waiting[: len(found)]
        assert found or not waiting or len(drained.pages) == PAGES_MAX
        assert drained.more or len(found) == len(waiting)
        return drained

    def publish(self, luck, rival=None):
        grip, drained = self.world.take(), self.drained()
        sequences = [each.sequence for each in drained.commands]
        lots = dict(zip(sequences, luck, strict=False))
        fail = {each: lot - 2 for each, lot in lots.items() if lot in {3, 4}}
        reject = [each for each, lot in lots.items() if lot == 5]
        leave = [each for each, lot in lots.items() if lot == 6]
        request = self.world.publishing(drained, grip, reject=reject, fail=fail, leave=leave)

        manifest = self.world.paper.ask(request, rival=rival).manifest

        self.model.tick(sequences, reject, fail, leave)
        settled = [each for each in sequences if self.model.fates[each].status not in OPEN]
        assert manifest.settled == ranges.ranges(settled)

    @invariant()
    def every_command_is_where_the_model_says(self):
        for fate in self.model.fates.values():
            status = self.world.status(fate.name)
            wanted = "rejected" if fate.status.startswith("cancelled") else fate.status
            assert (status.status, fate.name) == (wanted, fate.name)
            if fate.status in OPEN:
                assert (status.tick, status.attempts) == (fate.tick, fate.attempts)

    @invariant()
    def pages_hold_exactly_what_is_open(self):
        head = self.world.head
        held = []
        for page in self.world.pages:
            for entry in page.entries:
                stored = StoredBatch.of(self.world.paper.held(log_key(WORLD.partition, entry.seq)))
                group = [stored.first_sequence + i for i in stored.groups[entry.group][1]]
                held += [
                    (each, page.name.tick, page.name.priority)
                    for each in (group if entry.open is None else ranges.members(entry.open))
                    if each >= head.cancelled_below
                ]
        fates = self.model.fates
        assert sorted(held) == [
            (each, fates[each].tick, fates[each].priority) for each in sorted(self.model.open)
        ]
        assert head.open_commands == len(self.model.open)


Histories.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
TestHistories = pytest.mark.proof(Histories.TestCase)
