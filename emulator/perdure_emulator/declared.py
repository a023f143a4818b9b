"""What a template declares and the emulator runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from perdure_emulator.expressions import Expression

MEMORY_MB: Final = 128
"""Memory of a function that does not say. Source: AWS::Lambda::Function, MemorySize."""

JWT: Final = "JWT"
IAM: Final = "AWS_IAM"
OPEN: Final = "NONE"
"""Of a route that does not say. Source: AWS::ApiGatewayV2::Route, AuthorizationType."""

By = Literal["aws.scheduler", "aws.events"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a function is called by the clock, and with what."""

    name: str
    expression: Expression
    by: By
    """Which of AWS's two schedulers the event says it is from."""
    input: Any = None
    """The event, if it is not the scheduler's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, and what becomes of its messages."""

    logical: str
    name: str
    is_fifo: bool = False
    visibility_seconds: int = 30
    delay_seconds: int = 0
    retention_seconds: int = 4 * 86_400
    wait_seconds: int = 0
    by_content: bool = False
    """Whether equal bodies are one message where nobody names a deduplication id."""
    deduplicates_in_group: bool = False
    dead_letters: str | None = None
    """The logical id of the queue that takes what is received too often."""
    received_max: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A queue whose messages are given to a function."""

    name: str
    queue: str
    """Its logical id."""
    batch_size: int = 10
    reports_failures: bool = False
    """Whether the function says which messages of a batch have failed."""
    at_once: int = 1
    """Batches that are given to the function at once, at most."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the file that holds its handler, and what its template says."""

    name: str
    file: Path
    handler: str
    timeout_seconds: int
    schedules: tuple[Schedule, ...] = ()
    sources: tuple[Source, ...] = ()
    memory_mb: int = MEMORY_MB
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables: those that every function has, and its own."""
    concurrency: int | None = None
    """Events that it may have in hand at once, if that is reserved."""

    @property
    def folder(self) -> str:
        return self.file.parent.name


ANY: Final = "ANY"
DEFAULT_ROUTE: Final = "$default"


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A route key of the HTTP API, and the function behind it."""

    key: str
    method: str
    segments: tuple[str, ...]
    function: str
    authorization: str = OPEN
    """Who is let in: JWT, AWS_IAM, or NONE for everybody, as API Gateway spells it."""
    scopes: tuple[str, ...] = ()
    """A token must have one of them, if any are named."""

    @classmethod
    def of(cls, key: str, function: str, **more: Any) -> HttpRoute:
        """Read a route key: a method or ANY with a path, or `$default`."""
        if key == DEFAULT_ROUTE:
            return cls(key, ANY, ("", "{+}"), function, **more)
        method, path = key.split(" ")
        return cls(key, method, tuple(path.split("/")), function, **more)

    @property
    def rank(self) -> tuple[Any, ...]:
        """Sort first what is looked at first.

        Source: API Gateway HTTP API, "Routing API requests": the most specific route, then one
        that takes the rest of a path, then `$default`.
        """
        kinds = tuple(each.startswith("{") + each.endswith("+}") for each in self.segments)
        return (self.key == DEFAULT_ROUTE, 2 in kinds, kinds, self.method == ANY)

    def match(self, method: str, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the path parameters if this is the route of a request."""
        patterns = self.segments
        if self.method not in {method, ANY}:
            return None
        if patterns[-1].endswith("+}") and len(segments) >= len(patterns):
            rest = "/".join(segments[len(patterns) - 1 :])
            segments = (*segments[: len(patterns) - 1], rest)
        if len(segments) != len(patterns):
            return None
        found: dict[str, str] = {}
        for pattern, segment in zip(patterns, segments, strict=True):
            if pattern.startswith("{"):
                found[pattern.strip("{+}")] = segment
            elif pattern != segment:
                return None
        found.pop("", None)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """Which pages of other sites a browser lets ask, as API Gateway answers it."""

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    max_age_seconds: int | None = None
    with_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """How many requests a stage lets in: a bucket that holds ``burst`` and gains ``rate`` a second."""

    burst: int
    rate: float


@dataclass(frozen=True, slots=True)
class Made:
    """A table, bucket or database that ``--aws`` makes: what it is called there."""

    logical: str
    name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """What of a template the emulator runs, and what it does not."""

    functions: Mapping[str, Function]
    routes: tuple[HttpRoute, ...]
    """By their rank."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    cors: Cors | None = None
    throttle: Throttle | None = None
    tables: tuple[Made, ...] = ()
    buckets: tuple[Made, ...] = ()
    databases: tuple[Made, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is declared and not run, one line each."""

    def find(self, method: str, path: str) -> tuple[HttpRoute, dict[str, str]] | None:
        """Return the route of a request and its path parameters, both as they came."""
        segments = tuple(path.split("/"))
        for route in self.routes:
            found = route.match(method, segments)
            if found is not None:
                return route, found
        return None
