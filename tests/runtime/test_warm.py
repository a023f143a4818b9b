"""Warm worlds are bounded by what they hold, not by how many they are."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from perdure.kernel.ids import Partition
from perdure.runtime.warm import WarmWorlds


@dataclass(frozen=True)
class State:
    """All that is asked of a warm world here."""

    nbytes: int
    tick: int = 0

    @property
    def state(self):
        return SimpleNamespace(nbytes=self.nbytes)


def kept(held, names):
    return {name for name in names if held.get(Partition(name)) is not None}


def test_small_worlds_are_kept_by_the_hundred():
    held = WarmWorlds()

    for number in range(500):
        held.keep(Partition(f"w{number}"), State(10))

    assert len(held) == 500


def test_worlds_ticked_longest_ago_make_room_for_large_ones():
    held = WarmWorlds(bytes_max=100)
    held.keep(Partition("a"), State(40))
    held.keep(Partition("b"), State(40))
    held.keep(Partition("a"), State(40))

    held.keep(Partition("c"), State(50))

    assert kept(held, "abc") == {"a", "c"}


def test_the_world_ticked_last_is_kept_however_large():
    held = WarmWorlds(bytes_max=100)
    held.keep(Partition("a"), State(40))

    held.keep(Partition("b"), State(1_000))

    assert kept(held, "ab") == {"b"}


def test_a_world_that_shrank_or_was_forgotten_gives_its_room_back():
    held = WarmWorlds(bytes_max=100)
    held.keep(Partition("a"), State(90))
    held.keep(Partition("a"), State(10, tick=1))
    held.keep(Partition("b"), State(80))

    held.forget(Partition("b"))
    held.forget(Partition("nobody"))
    held.keep(Partition("c"), State(90))

    assert kept(held, "abc") == {"a", "c"}
    assert held.get(Partition("a")).tick == 1


def test_there_is_a_bound_on_worlds_too():
    held = WarmWorlds(worlds_max=2)

    for name in "abc":
        held.keep(Partition(name), State(0))

    assert kept(held, "abc") == {"b", "c"}
