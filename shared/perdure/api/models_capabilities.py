"""The words of what a world uses: processors, hooks and resources, by name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perdure.api.models import Body, Reply
from perdure.kernel import limits


class AddProcessor(Body):
    """How a processor is to run. Without a priority it has the one its application gave it."""

    priority: Annotated[int, Field(ge=-limits.PRIORITY_MAX, le=limits.PRIORITY_MAX)] | None = None


class Processor(Reply):
    name: str
    priority: int | None
    """Smaller ones run first, equal ones by name."""
    components: list[str]
    registered: bool
    """False if the application no longer has it: then the world's ticks are refused."""


class Processors(Reply):
    processors: list[Processor]


class Hook(Reply):
    name: str
    moment: str | None
    registered: bool
    """False if the application no longer has it: then each tick reports that it failed."""


class Hooks(Reply):
    hooks: list[Hook]


class Resource(Reply):
    name: str
    registered: bool
    """False if the application no longer has it: then the world's ticks are refused."""


class Resources(Reply):
    resources: list[Resource]
