"""Fences that pass from one holder to the next: not before their time, and each death is counted."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.records import Json, expect

LEASE_MS_MAX = 60_000
"""The longest lease that anybody asks for in a play."""

Clock = Callable[[str], int | None]
"""What the clock of a living process says, by the name of its life."""


def check_fence(before: Json, after: Json, clock: Clock) -> None:
    """Hold whoever takes a fence over to have waited for its end, and to count the death."""
    old, new = before["fence"], after["fence"]
    if old["holder"] is None or new["holder"] in (None, old["holder"]):
        return
    if after["status"] != "active":
        return  # an end overtakes whoever writes
    now = clock(new["holder"].partition("-")[0])
    if now is not None:
        left_ms = old["until"] - now
        expect(not 0 < left_ms <= LEASE_MS_MAX, "I1", "{} taken {} ms early", old, left_ms)
    died, counted = before["drain"], after["drain"]
    starts = died["starts"] if died["tick"] == after["published"] + 1 else 0
    expect(counted["starts"] == starts + 1, "I8", "{} follows {}, a death", counted, died)
