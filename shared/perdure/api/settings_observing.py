"""Observing: what the environment says about logs, metrics and traces."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from perdure.api.measures import NAMESPACE
from perdure.api.settings import STORAGE

FUNCTION: Final = "AWS_LAMBDA_FUNCTION_NAME"
SERVICE: Final = "POWERTOOLS_SERVICE_NAME"
METRICS: Final = "POWERTOOLS_METRICS_NAMESPACE"
LEVELS: Final = ("POWERTOOLS_LOG_LEVEL", "LOG_LEVEL")
"""Variables that say from which level on lines are told; the first that is set counts."""

LEVEL_DEFAULT: Final = "INFO"
LEVELS_KNOWN: Final = frozenset(logging.getLevelNamesMapping())

TRACE_DISABLED: Final = "POWERTOOLS_TRACE_DISABLED"
TRACE: Final = "_X_AMZN_TRACE_ID"
"""Set by Lambda anew for each event."""

_TRUE: Final = frozenset({"1", "true", "yes", "on", "y", "t"})


@dataclass(frozen=True, slots=True)
class Observing:
    """How a process is looked on at."""

    service: str
    namespace: str
    in_lambda: bool
    """Metrics are printed, as a function's log takes them; a command's output is not for them."""
    uses_aws: bool
    """Something here calls AWS."""
    level: str | None = None
    """Of the log, where what the environment says is none: no event fails of that."""


def observing(environment: Mapping[str, str] | None = None) -> Observing:
    """Read how this process is looked on at."""
    variables = os.environ if environment is None else environment
    return Observing(
        service=variables.get(SERVICE) or "perdure",
        namespace=variables.get(METRICS) or NAMESPACE,
        in_lambda=bool(variables.get(FUNCTION)),
        uses_aws=variables.get(STORAGE, "").startswith("s3:"),
        level=None if unknown_level(variables) is None else LEVEL_DEFAULT,
    )


def unknown_level(variables: Mapping[str, str]) -> str | None:
    """Return the variable that names a level which is none, None if there is no such."""
    said = next((name for name in LEVELS if variables.get(name)), None)
    if said is None or variables[said].upper() in LEVELS_KNOWN:
        return None
    return said


def is_traced(environment: Mapping[str, str] | None = None) -> bool:
    """Say whether X-Ray samples the event that Lambda has just handed over."""
    variables = os.environ if environment is None else environment
    if not variables.get(FUNCTION) or variables.get(TRACE_DISABLED, "").lower() in _TRUE:
        return False
    return "Sampled=1" in variables.get(TRACE, "").split(";")
