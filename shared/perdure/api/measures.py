"""Measures: numbers that a function prints for CloudWatch, in its embedded metric format.

What an invocation counts is gathered and printed once, at its end; outside of an invocation
nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

NAMESPACE: Final = "perdure"
"""Used where ``POWERTOOLS_METRICS_NAMESPACE`` names none."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means, and how those of one invocation become one."""

    meaning: str
    unit: MetricUnit = MetricUnit.Count
    folds: Literal["sum", "max", "each"] = "sum"
    dimensions: tuple[str, ...] = ("service",)


METRICS: Final[Mapping[str, Metric]] = {
    "commands_admitted": Metric("Commands accepted; a batch that is sent again counts once"),
    "commands_applied": Metric("Commands applied by published ticks"),
    "commands_rejected": Metric("Commands rejected by published ticks"),
    "commands_dead": Metric("Commands that used up their attempts"),
    "refused": Metric(
        "Requests and events that ended with an error, by its code", dimensions=("service", "code")
    ),
    "ticks": Metric("Ticks published"),
    "ticks_missed": Metric("Times of a schedule for which no tick was published"),
    "tick_rows": Metric("Rows that published ticks wrote"),
    "tick_ms": Metric(
        "How long a tick took, from the drain to the answer of its publish",
        MetricUnit.Milliseconds,
        "each",
    ),
    "rows_landed": Metric("Rows copied into Iceberg tables"),
    "events_landed": Metric("Events added to the audit table"),
    "consumer_lag": Metric(
        "Log entries that a consumer has not read, the most in any world looked at",
        folds="max",
        # A dimension for each world would cost more than the worlds.
        dimensions=("consumer",),
    ),
    "open_commands": Metric(
        "Commands left open by a tick, the most in any world ticked", folds="max"
    ),
    "commit_conflicts": Metric("Commits that lost a race and were decided again"),
    "store_requests": Metric("Requests sent to DynamoDB, those sent again included"),
    "write_units": Metric("Write request units that DynamoDB consumed"),
    "read_units": Metric("Read request units that DynamoDB consumed"),
    "jobs_ended": Metric("Jobs that ended"),
    "jobs_due": Metric("Jobs that were due when the dispatch looked", folds="max"),
    "jobs_failed": Metric("Jobs that the dispatch could not look at", folds="max"),
    "runs_ended": Metric("Runs of sessions that ended"),
    "sessions_due": Metric(
        "Sessions that had something to do when the dispatch looked", folds="max"
    ),
    "sessions_failed": Metric("Sessions that the dispatch could not look at", folds="max"),
    "worlds_due": Metric("Worlds whose tick was due when the dispatch looked", folds="max"),
    "worlds_stalled": Metric(
        "Worlds every writer of whose next tick died, as the dispatch saw", folds="max"
    ),
    "worlds_failed": Metric(
        "Worlds that could not be looked at, by the dispatch or by landing", folds="max"
    ),
    "oldest_due_ms": Metric(
        "How late the latest of the due worlds was when the dispatch looked",
        MetricUnit.Milliseconds,
        "max",
    ),
}
"""Every metric that a function may print."""

_Series = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class Measures:
    """What one invocation has counted so far."""

    _values: dict[_Series, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float = 1, **dimensions: str) -> None:
        """Count. Nought is told as well: some who look on want to see that it is.

        Raises KeyError for a name that is not in the table.
        """
        metric = METRICS[name]
        wanted = {each for each in metric.dimensions if each != "service"}
        assert dimensions.keys() == wanted, f"{name} has the dimensions {sorted(wanted)}"
        held = self._values.setdefault((name, tuple(sorted(dimensions.items()))), [])
        if metric.folds == "each" or not held:
            held.append(value)
        else:
            held[0] = held[0] + value if metric.folds == "sum" else max(held[0], value)

    def print(self, service: str, namespace: str) -> None:
        """Print everything, a line for each set of dimensions, and forget it."""
        lines: dict[tuple[tuple[str, str], ...], EphemeralMetrics] = {}
        for (name, more), values in sorted(self._values.items()):
            metric = METRICS[name]
            own = (("service", service),) if "service" in metric.dimensions else ()
            line = lines.get(own + more)
            if line is None:
                # No service: given one, or finding one in the environment, it adds a dimension.
                line = lines[own + more] = EphemeralMetrics(service="", namespace=namespace)
                for dimension, said in own + more:
                    line.add_dimension(dimension, said)
            for value in values:
                line.add_metric(name, metric.unit, value)
        self._values.clear()
        for line in lines.values():
            if line.metric_set:  # after a hundred values it has printed itself
                line.flush_metrics()


MEASURES: Final[ContextVar[Measures | None]] = ContextVar("perdure_measures", default=None)
"""Those of the invocation that is running."""


def tell(name: str, value: float = 1, **dimensions: str) -> None:
    """Count in the invocation that is running, if one is."""
    measures = MEASURES.get()
    if measures is not None:
        measures.add(name, value, **dimensions)


def tell_lag(lags: Mapping[str, int]) -> None:
    """Tell how many log entries each consumer is behind, at most, in any world looked at."""
    for consumer, entries in lags.items():
        tell("consumer_lag", entries, consumer=consumer)
