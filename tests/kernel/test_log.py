"""The log: every commit leaves an entry, and no entry can be changed unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel.errors import NotFound
from perdure.kernel.ids import Instant, Partition, Seq, WorldId
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.logfeed import LogFeed
from perdure.kernel.places import WorldRef
from perdure.kernel.wake import appended


def lived():
    world = World()
    world.admit(due(0), due(1), due(5), batch="b")
    world.tick(reject=[1])
    world.cancel("b.2")
    world.cancel_all("r")
    world.tick()
    return world


def feed(world, after=0, limit=100):
    return world.paper.ask(LogFeed(WORLD, Seq(after), limit))


def test_every_commit_to_a_world_leaves_an_entry():
    entries = feed(lived())

    assert [(each.seq, each.kind) for each in entries] == [
        (1, "created"),
        (2, "admitted"),
        (3, "published"),
        (4, "cancelled"),
        (5, "cancelled_all"),
        (6, "published"),
    ]


def test_the_chain_leads_from_nothing_to_the_head():
    world = lived()

    entries = feed(world)

    links = ["", *(entry.digest for entry in entries)]
    assert [entry.previous for entry in entries] == links[:-1]
    assert world.head.log_digest == links[-1]
    assert world.head.seq == entries[-1].seq


ENTRY = LogEntry(
    partition=WORLD.partition,
    seq=Seq(3),
    at=Instant(5),
    kind="admitted",
    facts={"batch": "b"},
    payload=b'{"a":1}',
    previous="00",
)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, True),
        ({"partition": Partition("elsewhere")}, True),
        ({"seq": Seq(4)}, False),
        ({"at": Instant(6)}, False),
        ({"kind": "published"}, False),
        ({"facts": {"batch": "c"}}, False),
        ({"payload": b'{"a":2}'}, False),
        ({"previous": "01"}, False),
    ],
    ids=range(8),
)
def test_whatever_an_entry_says_is_in_its_digest(change, verdict):
    assert (replace(ENTRY, **change).digest == ENTRY.digest) is verdict


def test_a_payload_digested_before_makes_the_same_link():
    world = World()
    _, plain = appended(world.head, "admitted", {}, Instant(1), payload=b"[1]")
    _, quick = appended(
        world.head,
        "admitted",
        {},
        Instant(1),
        payload=b"[1]",
        payload_digest="6f" * 32,
    )

    assert plain == quick
    assert plain.digest != quick.digest


@pytest.mark.parametrize(
    ("after", "limit", "verdict"),
    [
        (0, 100, [1, 2, 3, 4, 5, 6]),
        (0, 2, [1, 2]),
        (4, 100, [5, 6]),
        (6, 100, []),
        (10**18, 100, []),
        (10**30, 100, []),
    ],
)
def test_the_feed_goes_on_behind_a_place(after, limit, verdict):
    assert [entry.seq for entry in feed(lived(), after, limit)] == verdict


def test_the_feed_ends_at_the_first_gap():
    world = lived()
    del world.paper.stored[log_key(WORLD.partition, Seq(4))]

    assert [entry.seq for entry in feed(world)] == [1, 2, 3]
    assert feed(world, 3) == []


def test_a_world_that_is_not_there_has_no_log():
    with pytest.raises(NotFound):
        World().paper.ask(LogFeed(WorldRef(WORLD.storage, WorldId("elsewhere")), Seq(0), 10))


def test_a_published_entry_counts_what_became_of_its_commands():
    world = World()
    world.admit(*[due(0)] * 6)

    world.tick(reject=[1], fail={2: 1, 3: 3})

    *_, entry = feed(world)
    assert (entry.facts["applied"], entry.facts["failed"], entry.facts["tick"]) == (3, 2, 0)
    assert entry.facts["manifest"] == world.head.manifest_digest
