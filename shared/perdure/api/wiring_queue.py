"""Wiring of the queues of what is due, where the environment names them."""

from __future__ import annotations

import importlib
from typing import Final

from perdure.api.queue import Queue
from perdure.api.settings import JOBS, SESSIONS, TICKS, Settings, settings
from perdure.kernel.errors import InvalidValue

CLOUD: Final = "perdure.api.wiring_queue_aws"
"""Imported by name, and only where there is a queue: boto3 takes its time."""


def named() -> Queue:
    """Return the queue of worlds that the environment names. Raises InvalidValue."""
    return opened(settings())


def named_for_sessions() -> Queue:
    """Return the queue of sessions that the environment names. Raises InvalidValue."""
    queue = opened_for_sessions(settings())
    if queue is None:
        raise InvalidValue(expected=f"{SESSIONS} to be the URL of a queue", found="none")
    return queue


def named_for_jobs() -> Queue:
    """Return the queue of jobs that the environment names. Raises InvalidValue."""
    queue = opened_for_jobs(settings())
    if queue is None:
        raise InvalidValue(expected=f"{JOBS} to be the URL of a queue", found="none")
    return queue


def opened(chosen: Settings) -> Queue:
    """Return the queue that ``chosen`` names; nothing is asked of it yet. Raises InvalidValue."""
    if chosen.ticks is None:
        raise InvalidValue(expected=f"{TICKS} to be the URL of a queue", found="none")
    return _queue(chosen, chosen.ticks)


def opened_for_sessions(chosen: Settings) -> Queue | None:
    """Return the queue of sessions, None where there is none: whoever sends drives them himself."""
    return None if chosen.sessions is None else _queue(chosen, chosen.sessions)


def opened_for_jobs(chosen: Settings) -> Queue | None:
    """Return the queue of jobs, None where there is none: whoever starts one drives it himself."""
    return None if chosen.jobs is None else _queue(chosen, chosen.jobs)


def _queue(chosen: Settings, url: str) -> Queue:
    found: Queue = importlib.import_module(CLOUD).queue(chosen, url)
    return found
