"""Measures: numbers that a function prints for CloudWatch, in its embedded metric format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aws_lambda_powertools.metrics import MetricUnit, single_metric

NAMESPACE: Final = "perdure"


def tell_lag(lags: Mapping[str, int]) -> None:
    """Print how many log entries each consumer is behind, at most, in any world looked at.

    The consumer is the only dimension: one for each world would cost more than the worlds.
    """
    for consumer, entries in sorted(lags.items()):
        with single_metric(
            name="consumer_lag", unit=MetricUnit.Count, value=entries, namespace=NAMESPACE
        ) as metric:
            metric.add_dimension(name="consumer", value=consumer)
