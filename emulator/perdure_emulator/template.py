"""The template as the emulator understands it: functions, routes, schedules, queues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, cast

from perdure.kernel.errors import InvalidValue
from perdure_emulator.cloudformation import FAULTS, Document, load, named, no_template, part
from perdure_emulator.coverage import left_out
from perdure_emulator.declared import (
    IAM,
    JWT,
    MEMORY_MB,
    OPEN,
    By,
    Function,
    HttpRoute,
    Queue,
    Schedule,
    Source,
    Template,
)
from perdure_emulator.expressions import expression
from perdure_emulator.template_resources import (
    FUNCTION,
    buckets,
    cors,
    databases,
    places,
    queues,
    tables,
    throttle,
)
from perdure_emulator.template_variables import variables

__all__ = [
    "IAM",
    "JWT",
    "OPEN",
    "Function",
    "HttpRoute",
    "Queue",
    "Schedule",
    "Source",
    "Template",
    "read",
]

TIMEOUT_SECONDS: Final = 3
"""Time of a function that does not say. Source: AWS Lambda, default timeout."""

BATCH_MAX: Final = 10
"""Source: AWS::Lambda::EventSourceMapping, BatchSize of a FIFO queue; of others without a window."""

AT_ONCE: Final = "MaximumConcurrency"

SCHEDULED: Final[Mapping[str, By]] = {"Schedule": "aws.events", "ScheduleV2": "aws.scheduler"}

TIMED: Final = frozenset(
    {"Schedule", "ScheduleExpression", "ScheduleExpressionTimezone", "State", "Enabled", "Input"}
)
"""Properties of a schedule that say when and what."""


def read(
    path: Path,
    *,
    address: str = "http://127.0.0.1:8337",
    parameters: Mapping[str, str] | None = None,
    assumed: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Template:
    """Read a template, with these parameters and the defaults of others.

    ``address`` is where the emulator listens, its queues too; ``assumed`` has what it says for
    parameters that the template may have; ``known`` has what references lead to elsewhere.
    Raises: InvalidValue for one that is missing or says nothing to run, or a parameter that it
    does not take.
    """
    document = load(path, parameters or {}, assumed)
    try:
        declared = {each.logical: each for each in queues(document)}
        document.places = {**places(document, declared.values(), address), **(known or {})}
        functions = {each.name: each for each in _functions(document, path.parent)}
        _check_sources(functions, declared)
        return Template(
            functions=functions,
            routes=tuple(sorted(_routes(document.resources), key=attrgetter("rank"))),
            queues=declared,
            cors=cors(document),
            throttle=throttle(document),
            tables=tuple(tables(document)),
            buckets=tuple(buckets(document)),
            databases=tuple(databases(document)),
            left_out=tuple(left_out(document)),
        )
    except FAULTS as error:
        raise no_template(path, error) from error


def _functions(document: Document, root: Path) -> Iterator[Function]:
    for name, resource in document.resources.items():
        if resource["Type"] == FUNCTION:
            with part(name):
                yield _function(document, name, resource, root)


def _function(document: Document, name: str, resource: Mapping[str, Any], root: Path) -> Function:
    properties = {**document.globals.get("Function", {}), **resource["Properties"]}
    module, _, handler = properties.get("Handler", "app.handler").rpartition(".")
    events = properties.get("Events", {})
    return Function(
        name=name,
        file=root / properties["CodeUri"] / f"{module}.py",
        handler=handler,
        timeout_seconds=int(document.resolve(properties.get("Timeout", TIMEOUT_SECONDS))),
        schedules=tuple(_schedules(document, events)),
        sources=tuple(_sources(document, events)),
        memory_mb=int(document.resolve(properties.get("MemorySize", MEMORY_MB))),
        environment=variables(document, resource["Properties"]),
        concurrency=_concurrency(document, properties),
    )


def _concurrency(document: Document, properties: Mapping[str, Any]) -> int | None:
    name = "ReservedConcurrentExecutions"
    found = document.resolve({each: properties[each] for each in properties if each == name})
    return int(found[name]) if name in found else None


def _schedules(document: Document, events: Mapping[str, Any]) -> Iterator[Schedule]:
    for name, event in events.items():
        if event["Type"] not in SCHEDULED:
            continue
        with part(f"its event {name}"):
            found = _schedule(document, name, event)
        if found is not None:
            yield found


def _schedule(document: Document, name: str, event: Mapping[str, Any]) -> Schedule | None:
    """Return a schedule, None for one that is turned off."""
    properties = event["Properties"]
    given = document.resolve({name: properties[name] for name in properties.keys() & TIMED})
    if given.get("State", "ENABLED") != "ENABLED" or given.get("Enabled", True) is not True:
        return None
    return Schedule(
        name=name,
        expression=expression(
            str(given.get("ScheduleExpression", given.get("Schedule"))),
            zone=given.get("ScheduleExpressionTimezone"),
        ),
        by=SCHEDULED[event["Type"]],
        input=json.loads(given["Input"]) if "Input" in given else None,
    )


def _sources(document: Document, events: Mapping[str, Any]) -> Iterator[Source]:
    for name, event in events.items():
        if event["Type"] != "SQS":
            continue
        with part(f"its event {name}"):
            given = event["Properties"]
            if document.resolve(given.get("Enabled", True)) is not True:
                continue
            yield Source(
                name=name,
                queue=named(given["Queue"]),
                batch_size=min(BATCH_MAX, int(document.resolve(given.get("BatchSize", BATCH_MAX)))),
                reports_failures="ReportBatchItemFailures"
                in given.get("FunctionResponseTypes", []),
                at_once=int(document.resolve(given.get("ScalingConfig", {})).get(AT_ONCE, 1)),
            )


def _check_sources(functions: Mapping[str, Function], declared: Mapping[str, Queue]) -> None:
    """Refuse what AWS refuses to deploy. Raises InvalidValue."""
    for function in functions.values():
        for source in function.sources:
            queue = declared.get(source.queue)
            if queue is None:
                raise InvalidValue(
                    expected=f"{source.name} of {function.name} to name a queue of the template",
                    found=source.queue,
                )
            if queue.visibility_seconds < function.timeout_seconds:
                # Or a batch would come again while the function still has it in hand.
                raise InvalidValue(
                    expected=f"the visibility time-out of {queue.logical} to be at least the "
                    f"{function.timeout_seconds} s that {function.name} may take",
                    found=f"{queue.visibility_seconds} s",
                )


def _routes(resources: Mapping[str, Any]) -> Iterator[HttpRoute]:
    for name, resource in resources.items():
        if resource["Type"] == "AWS::ApiGatewayV2::Route":
            with part(name):
                properties = resource["Properties"]
                integration = named(properties["Target"])
                yield HttpRoute.of(
                    properties["RouteKey"],
                    named(resources[integration]["Properties"]["IntegrationUri"]),
                    authorization=_authorization(resources, properties),
                    scopes=tuple(cast("list[str]", properties.get("AuthorizationScopes", []))),
                )


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
