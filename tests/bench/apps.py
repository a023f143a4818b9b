"""Applications of measurements, for processes that import theirs by name."""

from __future__ import annotations

from typing import Final

from tests.bench.bench import moving_app, still_app

STILL: Final = "tests.bench.apps:still"

still = still_app()
moving = moving_app()
