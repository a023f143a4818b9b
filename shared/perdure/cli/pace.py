"""The option that says what becomes of ticks that nobody was there for."""

from __future__ import annotations

from typing import Final

import click

from perdure.kernel.pace import MISSED_TICKS

missed_option: Final = click.option(
    "--missed",
    type=click.Choice(MISSED_TICKS),
    help="Ticks that were missed: one for all (coalesce, if not said), each, or none.",
)
