"""What every store promises, as named cases for any test runner.

``CASES`` holds them all. A case takes an :data:`Opener` and raises AssertionError if the
promise is broken; whoever gives the opener closes what it opened. Cases with ``races``
run several commits at once and need a store that can take them.
"""

from __future__ import annotations

from perdure.authority.testing import (
    body_cases,
    condition_cases,
    engine_cases,
    group_cases,
    lifecycle_cases,
    race_cases,
    range_cases,
    store_cases,
)
from perdure.authority.testing.registry import CASES, Case, Opener
from perdure.authority.testing.wrappers import (
    CountingStore,
    EchoingStore,
    ForgetfulStore,
    ReopeningStore,
    RivalStore,
    ShelvingStore,
    WithholdingStore,
)

__all__ = [
    "CASES",
    "Case",
    "CountingStore",
    "EchoingStore",
    "ForgetfulStore",
    "Opener",
    "ReopeningStore",
    "RivalStore",
    "ShelvingStore",
    "WithholdingStore",
    "body_cases",
    "condition_cases",
    "engine_cases",
    "group_cases",
    "lifecycle_cases",
    "race_cases",
    "range_cases",
    "store_cases",
]
