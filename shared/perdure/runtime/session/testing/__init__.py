"""What every place to keep sessions promises when processes die, as named cases for any runner.

A :class:`Harness` runs processes that live one story, and ends them at a :class:`KillPoint`.
:func:`lived` plays it, and each of ``CASES`` that names the point is held to what is left. It
raises AssertionError if the promise is broken. A harness says how it ends processes; one that
says it really kills is held to that.
"""

from __future__ import annotations

from perdure.runtime.session.testing import identity_cases, outcome_cases
from perdure.runtime.session.testing.points import KILLS, Doom, KillPoint
from perdure.runtime.session.testing.registry import (
    CASES,
    Case,
    Ended,
    Harness,
    Mechanism,
    Notes,
    Story,
    check_ended,
    lived,
)
from perdure.runtime.session.testing.story import Bench, Note, live

__all__ = [
    "CASES",
    "KILLS",
    "Bench",
    "Case",
    "Doom",
    "Ended",
    "Harness",
    "KillPoint",
    "Mechanism",
    "Note",
    "Notes",
    "Story",
    "check_ended",
    "identity_cases",
    "live",
    "lived",
    "outcome_cases",
]
