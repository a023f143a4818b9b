"""What a failed test leaves behind is collected before the next one begins, and blames nobody."""

from __future__ import annotations

import gc
import sys

from tests.support.leftovers import forget


class Complaining:
    """Something that was not closed, in a circle that only a collection ends."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        raise ResourceWarning("never closed")


def test_what_was_left_behind_is_collected_and_nobody_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    Complaining()

    forget()
    gc.collect()

    assert told == []


def test_what_is_left_behind_later_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: told.append(str(each.exc_value)))
    forget()
    Complaining()

    gc.collect()

    assert told == ["never closed"]
