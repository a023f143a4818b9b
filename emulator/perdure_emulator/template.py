"""The template as the emulator understands it: functions, their routes and their schedules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from perdure.kernel.errors import InvalidValue
from perdure_emulator.cloudformation import FAULTS, Document, Unresolved, load, named, no_template

TIMEOUT_SECONDS: Final = 3
"""Time of a function that does not say. Source: AWS Lambda, default timeout."""

MEMORY_MB: Final = 128
"""Memory of a function that does not say. Source: AWS::Lambda::Function, MemorySize."""

JWT: Final = "JWT"
IAM: Final = "AWS_IAM"
OPEN: Final = "NONE"
"""Of a route that does not say. Source: AWS::ApiGatewayV2::Route, AuthorizationType."""

_RATE: Final = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400}


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the file that holds its handler, and what its template says."""

    name: str
    file: Path
    handler: str
    timeout_seconds: int
    every_seconds: tuple[int, ...]
    """Intervals of its schedules."""
    memory_mb: int = MEMORY_MB
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables: those that every function has, and its own."""

    @property
    def folder(self) -> str:
        return self.file.parent.name


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A route key of the HTTP API, and the function behind it."""

    key: str
    method: str
    segments: tuple[str, ...]
    function: str
    authorization: str = OPEN
    """Who is let in: JWT, AWS_IAM, or NONE for everybody, as API Gateway spells it."""

    def match(self, method: str, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the path parameters if this is the route of a request."""
        if method != self.method or len(segments) != len(self.segments):
            return None
        found: dict[str, str] = {}
        for pattern, segment in zip(self.segments, segments, strict=True):
            if pattern.startswith("{"):
                found[pattern.strip("{}")] = segment
            elif pattern != segment:
                return None
        return found


@dataclass(frozen=True, slots=True)
class Template:
    """What of a template the emulator runs."""

    functions: Mapping[str, Function]
    routes: tuple[HttpRoute, ...]

    def find(self, method: str, path: str) -> tuple[HttpRoute, dict[str, str]] | None:
        """Return the route of a request and its path parameters, both as they came."""
        segments = tuple(path.split("/"))
        for route in self.routes:
            found = route.match(method, segments)
            if found is not None:
                return route, found
        return None


def read(path: Path) -> Template:
    """Read a template. Raises InvalidValue for one that is missing or says nothing to run."""
    document = load(path)
    try:
        functions = {each.name: each for each in _functions(document, path.parent)}
        routes = tuple(_routes(document.resources))
    except FAULTS as error:
        raise no_template(path, error) from error
    return Template(functions, routes)


def _functions(document: Document, root: Path) -> Iterator[Function]:
    shared = document.globals.get("Function", {})
    for name, resource in document.resources.items():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = {**shared, **resource["Properties"]}
            module, _, handler = properties.get("Handler", "app.handler").rpartition(".")
            yield Function(
                name=name,
                file=root / properties["CodeUri"] / f"{module}.py",
                handler=handler,
                timeout_seconds=int(document.resolve(properties.get("Timeout", TIMEOUT_SECONDS))),
                every_seconds=tuple(_intervals(properties.get("Events", {}))),
                memory_mb=int(document.resolve(properties.get("MemorySize", MEMORY_MB))),
                environment=_environment(document, shared, resource["Properties"]),
            )


def _environment(
    document: Document, shared: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, str]:
    """Return a function's variables, but for those whose value only a deployment knows."""
    found: dict[str, str] = {}
    for properties in (shared, own):
        for name, value in properties.get("Environment", {}).get("Variables", {}).items():
            try:
                found[name] = _text(document.resolve(value))
            except Unresolved:
                found.pop(name, None)
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _intervals(events: Mapping[str, Any]) -> Iterator[int]:
    for event in events.values():
        if event["Type"] in {"Schedule", "ScheduleV2"}:
            properties = event["Properties"]
            rate = _RATE.fullmatch(properties.get("ScheduleExpression", properties.get("Schedule")))
            if rate is not None:
                yield int(rate[1]) * _SECONDS[rate[2]]


def _routes(resources: Mapping[str, Any]) -> Iterator[HttpRoute]:
    for resource in resources.values():
        if resource["Type"] == "AWS::ApiGatewayV2::Route":
            key = resource["Properties"]["RouteKey"]
            method, path = key.split(" ")
            integration = named(resource["Properties"]["Target"])
            function = named(resources[integration]["Properties"]["IntegrationUri"])
            kind = _authorization(resources, resource["Properties"])
            yield HttpRoute(key, method, tuple(path.split("/")), function, kind)


def _authorization(resources: Mapping[str, Any], route: Mapping[str, Any]) -> str:
    """Return who is let in by a route. Raises InvalidValue for what the emulator cannot check."""
    kind = str(route.get("AuthorizationType", OPEN))
    if kind == JWT:
        kind = resources[named(route["AuthorizerId"])]["Properties"]["AuthorizerType"]
    if kind not in {JWT, IAM, OPEN}:
        raise InvalidValue(
            expected=f"{route['RouteKey']} to be authorized by {JWT}, {IAM} or {OPEN}", found=kind
        )
    return kind
