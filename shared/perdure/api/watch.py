"""The watch: looks on at each event of a sandbox, and tells logs and metrics at its end."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from aws_lambda_powertools import Logger

from perdure.api.invocation import INVOCATION, Invocation, correlation_of
from perdure.api.logs import opened_logger, told
from perdure.api.measures import MEASURES
from perdure.api.settings_observing import Observing, is_traced, observing
from perdure.authority.costs import Costs, since

TRACING: Final = "perdure.api.tracing"
"""Imported by name, and only for an event that is traced."""

DONE: Final = "done"
UNFORESEEN: Final = "unforeseen"
STRAY: Final = "stray"
"""What is said of an error of work that nobody waits for any more."""


class InvocationFailed(Exception):
    """An event that nobody waits for has failed: by this Lambda, its metrics and the queue know.

    Lambda prints it, so it says no more than the code.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Watch:
    """Looks on at the events of one sandbox."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        """Tell nothing but errors that nobody foresaw if ``is_quiet``."""
        self._is_quiet = is_quiet
        self._is_cold = True
        self._costs: Callable[[], Costs] = Costs
        self._told = Costs()
        self._traces: Any = None

    @cached_property
    def observing(self) -> Observing:
        """What the environment says, read by the first event."""
        return observing()

    @cached_property
    def logger(self) -> Logger:
        """The logger, opened by the first event."""
        return opened_logger(self.observing.service, level=self.observing.level)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Make a segment of an event if X-Ray samples it."""
        if self._is_quiet or not is_traced():
            yield
            return
        if self._traces is None:
            traces = importlib.import_module(TRACING).Traces
            self._traces = traces(self.observing.service, with_aws=self.observing.uses_aws)
        with self._traces.segment(self.observing.service):
            yield

    @contextmanager
    def invocation(self, event: Any, request_id: str) -> Iterator[Invocation]:
        """Look on at one event."""
        seen = Invocation(
            request_id,
            correlation_of(event, request_id),
            self._is_cold,
            service=self.observing.service,
        )
        self._is_cold = False
        in_hand, counted = INVOCATION.set(seen), MEASURES.set(seen.measures)
        started = time.perf_counter()
        try:
            if not self._is_quiet:
                self.logger.refresh_sample_rate_calculation()
            yield seen
        finally:
            if not self._is_quiet:
                self._tell(seen, (time.perf_counter() - started) * 1_000)
            MEASURES.reset(counted)
            INVOCATION.reset(in_hand)

    def opened(self, ports: Any) -> None:
        """Look on at what ports cost from now on, if they say."""
        self._costs = getattr(ports, "costs", Costs)
        self._told = Costs()

    def unforeseen(self, error: BaseException, message: str = UNFORESEEN) -> None:
        """Tell of an error that nobody foresaw."""
        self.logger.error(message, extra=dict(told(error)))

    def stray(self, _: Any, context: dict[str, Any]) -> None:
        """Tell what an event loop has to say, without the text of an error."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.unforeseen(error, STRAY)
        else:
            self.logger.error(STRAY)

    def _tell(self, seen: Invocation, ms: float) -> None:
        facts = {**seen.facts(), "ms": round(ms, 1), "cold_start": seen.is_cold}
        # Where no function runs, whoever sits before it has not asked for a line a request.
        say = self.logger.info if self.observing.in_lambda else self.logger.debug
        say(DONE, extra=facts)
        if self._traces is not None and is_traced():
            self._traces.annotate(seen)
        if not self.observing.in_lambda:
            return
        if seen.code is not None:
            seen.measures.add("refused", code=seen.code)
        costs = self._costs()
        for name, value in since(self._told, costs).items():
            if value:
                seen.measures.add(name, value)
        self._told = costs
        seen.measures.print(self.observing.service, self.observing.namespace)
