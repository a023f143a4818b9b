"""Logs: one JSON line for each thing worth telling, and in none of them what a caller sent."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Final, TextIO

from aws_lambda_powertools import Logger

from perdure.api.invocation import current

NAME: Final = "perdure"
"""The logger above those of every module, so that what the runtime logs comes out here too."""

FRAMES_LOGGED: Final = 8


def opened_logger(service: str, *, level: str | None = None) -> Logger:
    """Return the logger of this process, made by the first who asks.

    Without a ``level`` the environment says it. Not at import: whether this process tells debugging too may be drawn by lot.
    """
    # Another sandbox of this process may have opened it: Powertools knows it by its handler.
    opened = getattr(logging.getLogger(NAME), "powertools_handler", None)
    logger = Logger(service=NAME, level=level, logger_handler=opened or _ToStderr(), utc=True)
    handler = logger.registered_handler
    if not any(isinstance(each, _Discreet) for each in handler.filters):
        handler.addFilter(_Discreet())
    logger.append_keys(service=service)
    return logger


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the time: standard output belongs to commands."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # never set
        return sys.stderr


class _Discreet(logging.Filter):
    """Adds whose line it is, and puts where an error happened in place of its text."""

    def filter(self, record: logging.LogRecord) -> bool:
        invocation = current()
        if invocation.service:
            record.service = invocation.service
        if invocation.correlation:
            record.correlation = invocation.correlation
            record.request = invocation.request_id
        if record.exc_info and record.exc_info[1] is not None:
            for name, value in told(record.exc_info[1]).items():
                setattr(record, name, value)
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def told(error: BaseException) -> Mapping[str, Any]:
    """Say what kind of error it is and where it happened: its text may quote what was sent."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_LOGGED:]
    return {
        "kind": f"{type(error).__module__}.{type(error).__qualname__}",
        "where": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
