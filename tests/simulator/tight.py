"""Limits so small that a play of minutes reaches what takes a deployment years."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from perdure.kernel import limits

TIGHT: Mapping[str, int] = {
    "PAGE_ENTRIES_MAX": 3,
    "DRAIN_PAGES_MAX": 4,
    "DRAIN_COMMANDS_MAX": 6,
    "DRAIN_RECORDS_MAX": 8,
    "INLINE_ROWS_BYTES_MAX": 60,
    "CHECKPOINT_TICKS": 4,
    "BACKOFF_TICKS_MAX": 8,
}
"""What is not a promise to anybody outside: how much one tick takes, and where its rows lie."""

CRAMPED: Mapping[str, int] = {"BODY_INLINE_BYTES_MAX": 300, "BODY_CHUNK_BYTES": 1_500}
"""Records with so little room that the bodies of many lie in chunks."""


@contextmanager
def small_limits(*many: Mapping[str, int]) -> Iterator[None]:
    """Make limits small while a play lasts."""
    wanted = {name: value for each in many for name, value in each.items()}
    before = {name: getattr(limits, name) for name in wanted}
    for name, value in wanted.items():
        setattr(limits, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)
