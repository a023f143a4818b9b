"""Choices: what of its application a world runs on, looked up only when it has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from perdure.kernel.capabilities import (
    UNKNOWN,
    Capabilities,
    CapabilityKind,
    Use,
)
from perdure.kernel.errors import UnknownHook
from perdure.kernel.ids import Partition
from perdure.kernel.places import WorldRef
from perdure.runtime.app import App, Hook, Moment, Processor
from perdure.runtime.compute import HookFailure
from perdure.runtime.configure import found_capabilities
from perdure.runtime.ports import Executes
from perdure.runtime.resources import Resources

KnownT = TypeVar("KnownT")

CHOICES_MAX: Final = 256
"""Worlds whose choice a process keeps between ticks."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What one tick runs on. ``lacking`` are hooks that the application no longer has."""

    processors: tuple[Processor, ...]
    hooks: tuple[Hook, ...]
    resources: Resources
    lacking: tuple[HookFailure, ...] = ()

    def told(self, moment: Moment) -> tuple[Hook, ...]:
        """Return the hooks of a moment."""
        return tuple(each for each in self.hooks if each.moment == moment)


def chosen(app: App, capabilities: Capabilities | None) -> Choice:
    """Find what a world uses in its application: all there is, where it never chose.

    Raises: UnknownProcessor, UnknownResource. A hook only advises: without it the tick goes on.
    """
    processors = {each.name: each for each in app.processors()}
    hooks = {each.name: each for each in app.hooks()}
    resources = app.resources
    if capabilities is None:
        return Choice(
            tuple(processors.values()), tuple(hooks.values()), resources.only(resources.names)
        )
    running = [
        found if use.priority is None else replace(found, priority=use.priority)
        for use, found in _used(app, "processor", capabilities, processors)
    ]
    shared = _used(app, "resource", capabilities, {name: name for name in resources.names})
    names = _hook_names(app, capabilities)
    return Choice(
        tuple(sorted(running, key=lambda each: (each.priority, each.name))),
        tuple(each for each in hooks.values() if each.name in names),
        resources.only(name for _, name in shared),
        tuple(_lacking(app, name) for name in sorted(names - hooks.keys())),
    )


def hooks_in_use(app: App, capabilities: Capabilities | None, moment: Moment) -> tuple[Hook, ...]:
    """Find the hooks of a moment that a world uses, whatever else of its choice is gone."""
    names = _hook_names(app, capabilities)
    return tuple(each for each in app.hooks(moment) if each.name in names)


def _hook_names(app: App, capabilities: Capabilities | None) -> set[str]:
    wanted = None if capabilities is None else capabilities.hooks
    return {each.name for each in app.hooks()} if wanted is None else {use.name for use in wanted}


class Choices:
    """The choices of the worlds that a process ticks, each kept while it is the present one."""

    def __init__(
        self, authority: Executes, app: App, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self._authority = authority
        self._app = app
        self._pause = pause
        self._held: OrderedDict[Partition, tuple[int, Choice]] = OrderedDict()

    async def of(self, ref: WorldRef, configured: int) -> Choice:
        """Return the choice of a world whose head counts so many changes.

        Raises: UnknownProcessor, UnknownResource; Unavailable kinds.
        """
        if configured == 0:
            return chosen(self._app, None)
        held = self._held.get(ref.partition)
        if held is None or held[0] != configured:
            found = await found_capabilities(self._authority, ref, pause=self._pause)
            held = (found.configured, chosen(self._app, found.capabilities))
            self._held[ref.partition] = held
            while len(self._held) > CHOICES_MAX:
                self._held.popitem(last=False)
        return held[1]


def _used(
    app: App, kind: CapabilityKind, capabilities: Capabilities, known: dict[str, KnownT]
) -> list[tuple[Use, KnownT]]:
    uses = capabilities.uses(kind)
    if uses is None:
        return [(Use(name), found) for name, found in known.items()]
    for use in uses:
        if use.name not in known:
            raise UNKNOWN[kind](
                expected=f"{kind} {use.name!r} of the world in application {app.name!r}",
                found=f"only {', '.join(sorted(known)) or 'none'}",
            )
    return [(use, known[use.name]) for use in uses]


def _lacking(app: App, name: str) -> HookFailure:
    return HookFailure(name, UnknownHook.code, f"Application {app.name!r} has it no longer.")
