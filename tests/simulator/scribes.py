"""Scribes: they write, write over, erase and read notes, most of them too large for one record."""

from __future__ import annotations

from typing import Any

from tests.simulator.records import expect
from tests.simulator.stage import Process

from perdure.authority.testing.records import (
    ELSEWHERE,
    HERE,
    Erase,
    Note,
    Write,
    WriteTwins,
    noise,
    note,
)
from perdure.kernel.errors import PerdureError
from perdure.kernel.view import Key, Reads

NAMES = ("one", "other")
PLACES = (HERE, ELSEWHERE)
LENGTHS = (40, 4_200, 5_500, 9_000)
"""Characters of a note: a small one, and such as are large where bodies have little room."""


async def scribe(me: Process) -> None:
    """Write one note or twins, erase one, or read one while others do."""
    stage = me.stage
    while await me.rested(1.5):
        drawn, name, where = stage.chance.random(), stage.pick(NAMES), stage.pick(PLACES)
        if drawn < 0.45:
            await _reads(me, note(name, where))
            continue
        text = noise(stage.pick(LENGTHS)) + f" {me.new_token()}"
        if drawn < 0.55:
            await _asks(me, "erase", Erase(name, where))
        elif drawn < 0.8:
            await _asks(me, "write", Write(((name, text),), where))
        else:
            await _asks(me, "twins", WriteTwins(name, text))


async def _asks(me: Process, call: str, request: Any) -> None:
    try:
        await me.authority.execute(request)
    except PerdureError as error:
        me.met(f"{call}: {error.code}")
        me.note("is told of its {}: {}", call, error)
        me.check(call, error)
        return
    me.met(f"{call}: done")


async def _reads(me: Process, key: Key[Note]) -> None:
    """Read a note: it is what it was when this began, or what it became until now."""
    notes = me.stage.notes
    begun = notes.texts.setdefault(key, [None])
    seen = me.stage.disk.visible(key)
    before = None if seen is None else notes.text(seen.body)
    first = len(begun) - 1
    try:
        found = (await me.authority.view(Reads(peeks=(key,)))).peek(key)
    except PerdureError as error:
        me.met(f"note: {error.code}")
        me.note("is told of {}: {}", key, error)
        me.check("note", error)
        return
    allowed = (before, *begun[first:])
    text = None if found is None else found.text
    expect(text in allowed, "I0", "{} reads {}, not one of {} texts", key, text, len(allowed))
    me.met("note: overtaken" if len(begun) - 1 > first else "note: read")
