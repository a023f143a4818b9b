"""The template as the emulator understands it: functions, their routes and their schedules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from perdure.kernel.errors import InvalidValue

TIMEOUT_SECONDS: Final = 3
"""Time of a function that does not say. Source: AWS Lambda, default timeout."""

JWT: Final = "JWT"
IAM: Final = "AWS_IAM"
OPEN: Final = "NONE"
"""Of a route that does not say. Source: AWS::ApiGatewayV2::Route, AuthorizationType."""

MEMORY_MB: Final = 128
"""Memory of a function that does not say. Source: AWS::Lambda::Function, MemorySize."""

_RATE: Final = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400}
_IN_BRACES: Final = re.compile(r"\$\{(\w+)\}")


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
    concurrency: int | None = None
    """Events that it may have in hand at once, if that is reserved."""

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
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  # a SafeLoader
        resources = content["Resources"]
        functions = {each.name: each for each in _functions(resources, path.parent)}
        routes = tuple(_routes(resources))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValue(
            expected=f"a SAM template with functions and routes at {path}",
            found=f"{type(error).__name__}: {error}".splitlines()[0],
        ) from error
    return Template(functions, routes)


def _functions(resources: Mapping[str, Any], root: Path) -> Iterator[Function]:
    for name, resource in resources.items():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = resource["Properties"]
            module, _, handler = properties.get("Handler", "app.handler").rpartition(".")
            yield Function(
                name=name,
                file=root / properties["CodeUri"] / f"{module}.py",
                handler=handler,
                timeout_seconds=properties.get("Timeout", TIMEOUT_SECONDS),
                every_seconds=tuple(_intervals(properties.get("Events", {}))),
                memory_mb=properties.get("MemorySize", MEMORY_MB),
                concurrency=properties.get("ReservedConcurrentExecutions"),
            )


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
            integration = _named(resource["Properties"]["Target"])
            function = _named(resources[integration]["Properties"]["IntegrationUri"])
            kind = _authorization(resources, resource["Properties"])
            yield HttpRoute(key, method, tuple(path.split("/")), function, kind)


def _authorization(resources: Mapping[str, Any], route: Mapping[str, Any]) -> str:
    """Return who is let in by a route. Raises InvalidValue for what the emulator cannot check."""
    kind = str(route.get("AuthorizationType", OPEN))
    if kind == JWT:
        kind = resources[_named(route["AuthorizerId"])]["Properties"]["AuthorizerType"]
    if kind not in {JWT, IAM, OPEN}:
        raise InvalidValue(
            expected=f"{route['RouteKey']} to be authorized by {JWT}, {IAM} or {OPEN}", found=kind
        )
    return kind


def _named(reference: Any) -> str:
    """Return the logical id that a function of CloudFormation names."""
    if isinstance(reference, list):
        return str(reference[0])
    found = _IN_BRACES.search(reference)
    return found[1] if found else str(reference).partition(".")[0]


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation (`!Sub`, `!GetAtt`, …), kept as their argument."""


def _argument(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _argument)
