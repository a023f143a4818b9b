"""Features of journals: what a reader must understand, or else not read on."""

from __future__ import annotations

from typing import Final

SCOPE_V1: Final = "scope/v1"
MANIFEST_V1: Final = "plan-manifest/v1"
MODULE_V1: Final = "dispatch-module/v1"
STEER_V1: Final = "steer-queue/v1"
CANCEL_V1: Final = "run-cancel-at/v1"

FEATURES: Final[frozenset[str]] = frozenset({SCOPE_V1, MANIFEST_V1, MODULE_V1, STEER_V1, CANCEL_V1})
"""What this version understands of a journal beyond its first form."""
