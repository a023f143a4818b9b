"""Traces: a segment of X-Ray for each event that it samples, with nothing of what was sent.

Imported by name and only for a sampled event: X-Ray's SDK and botocore take longer to import
than everything else of an admission.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aws_lambda_powertools import Tracer

from perdure.api.invocation import Invocation


class Traces:
    """Makes the segments of this process."""

    def __init__(self, service: str, *, with_aws: bool) -> None:
        """Follow calls to AWS, too, if there are any, ``with_aws``."""
        self._service = service
        self._tracer = Tracer(service=service, auto_patch=False)
        if with_aws:
            self._tracer.patch(["botocore"])

    @contextmanager
    def segment(self, name: str) -> Iterator[None]:
        """Time an event."""
        with self._tracer.provider.in_subsegment(name=f"## {name}"):
            yield

    def annotate(self, seen: Invocation) -> None:
        """Say of the segment what traces are looked up by."""
        self._tracer.put_annotation("ColdStart", seen.is_cold)
        self._tracer.put_annotation("Service", self._service)
        facts = {"correlation": seen.correlation, "operation": seen.operation, "code": seen.code}
        for key, value in facts.items():
            if value is not None:
                self._tracer.put_annotation(key, value)
