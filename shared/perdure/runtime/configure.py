"""Configuring: what a world uses of its application, listed and changed by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.capabilities import (
    Capabilities,
    CapabilityKind,
    Configure,
    FindCapabilities,
    FoundCapabilities,
    Use,
    checked_app,
)
from perdure.kernel.ids import Holder
from perdure.kernel.places import WorldRef
from perdure.runtime.app import App, Moment
from perdure.runtime.ports import Executes
from perdure.runtime.steady import steadily

FIND_TRIES: Final = 8
"""Times a reading that met a running change is taken again."""


@dataclass(frozen=True, slots=True)
class InUse:
    """Something that a world uses.

    ``registered`` is False for what the application no longer has. Processors have a priority
    and components, hooks a moment, if they are registered.
    """

    name: str
    registered: bool
    priority: int | None = None
    components: tuple[str, ...] = ()
    moment: Moment | None = None


async def found_capabilities(
    authority: Executes, ref: WorldRef, *, pause: Callable[[float], Awaitable[None]]
) -> FoundCapabilities:
    """Read what a world uses, again beside a running change. Raises NotFound, Contended."""
    return await steadily(authority, FindCapabilities(ref), tries=FIND_TRIES, pause=pause)


class Configuring:
    """Lists and changes what worlds use, for an application whose modules are loaded."""

    def __init__(
        self,
        authority: Executes,
        app: App,
        *,
        holder: Holder | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Use ``holder``, if there is one, to change private worlds that it holds."""
        self._holder = holder
        self._authority = authority
        self._app = app
        self._pause = pause

    async def listed(self, kind: CapabilityKind, ref: WorldRef) -> tuple[InUse, ...]:
        """List what a world uses: processors in the order in which they run, others by name.

        Raises: NotFound, WrongApp.
        """
        found = await found_capabilities(self._authority, ref, pause=self._pause)
        checked_app(found.world, ref, self._app.name)
        return self._spelled(kind, found.capabilities)

    async def add(
        self,
        kind: CapabilityKind,
        ref: WorldRef,
        name: str,
        *,
        priority: int | None = None,
        by: Caller = LOCAL,
    ) -> tuple[InUse, ...]:
        """Let a world use something from the next tick on; return all it uses then.

        Raises: UnknownProcessor, UnknownHook, UnknownResource, WrongApp, Invalid kinds, and
        what closes a world.
        """
        return await self._configured(kind, ref, "add", Use(name, priority), by)

    async def remove(
        self, kind: CapabilityKind, ref: WorldRef, name: str, *, by: Caller = LOCAL
    ) -> tuple[InUse, ...]:
        """Let a world use something no longer; return all it uses then.

        Removing what is not used changes nothing. Raises as :meth:`add` does.
        """
        return await self._configured(kind, ref, "remove", Use(name), by)

    async def _configured(
        self,
        kind: CapabilityKind,
        ref: WorldRef,
        action: Literal["add", "remove"],
        use: Use,
        by: Caller,
    ) -> tuple[InUse, ...]:
        request = Configure(
            ref=ref,
            kind=kind,
            action=action,
            name=use.name,
            app=self._app.name,
            known=self._known(kind),
            priority=use.priority,
            holder=self._holder,
            by=by,
        )
        return self._spelled(kind, await self._authority.execute(request.checked()))

    def _known(self, kind: CapabilityKind) -> tuple[str, ...]:
        match kind:
            case "processor":
                return tuple(each.name for each in self._app.processors())
            case "hook":
                return tuple(each.name for each in self._app.hooks())
            case "resource":
                return self._app.resources.names

    def _spelled(
        self, kind: CapabilityKind, capabilities: Capabilities | None
    ) -> tuple[InUse, ...]:
        uses = None if capabilities is None else capabilities.uses(kind)
        if uses is None:
            uses = tuple(map(Use, self._known(kind)))
        found = [self._one(kind, use) for use in uses]
        return tuple(sorted(found, key=lambda each: (each.priority or 0, each.name)))

    def _one(self, kind: CapabilityKind, use: Use) -> InUse:
        if use.name not in self._known(kind):
            return InUse(use.name, registered=False, priority=use.priority)
        if kind == "processor":
            processor = next(each for each in self._app.processors() if each.name == use.name)
            return InUse(
                use.name,
                registered=True,
                priority=processor.priority if use.priority is None else use.priority,
                components=tuple(each.name for each in processor.components),
            )
        hook = next((each for each in self._app.hooks() if each.name == use.name), None)
        moment = hook.moment if kind == "hook" and hook is not None else None
        return InUse(use.name, registered=True, moment=moment)
