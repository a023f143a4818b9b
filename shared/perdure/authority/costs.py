"""Costs: what an authority has asked of its store so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Totals since the authority was opened; nought where a store does not count."""

    store_requests: int = 0
    write_units: float = 0.0
    read_units: float = 0.0
    commit_conflicts: int = 0


def since(before: Costs, after: Costs) -> Mapping[str, float]:
    """Return by name what was added."""
    return {
        "store_requests": after.store_requests - before.store_requests,
        "write_units": after.write_units - before.write_units,
        "read_units": after.read_units - before.read_units,
        "commit_conflicts": after.commit_conflicts - before.commit_conflicts,
    }
