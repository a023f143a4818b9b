"""Wiring of the queue of due worlds, where the environment names one."""

from __future__ import annotations

import importlib
from typing import Final

from perdure.api.queue import Queue
from perdure.api.settings import TICKS, Settings, settings
from perdure.kernel.errors import InvalidValue

CLOUD: Final = "perdure.api.wiring_queue_aws"
"""Imported by name, and only where there is a queue: boto3 takes its time."""


def named() -> Queue:
    """Return the queue that the environment names. Raises InvalidValue."""
    return opened(settings())


def opened(chosen: Settings) -> Queue:
    """Return the queue that ``chosen`` names; nothing is asked of it yet. Raises InvalidValue."""
    if chosen.ticks is None:
        raise InvalidValue(expected=f"{TICKS} to be the URL of a queue", found="none")
    found: Queue = importlib.import_module(CLOUD).queue(chosen)
    return found
