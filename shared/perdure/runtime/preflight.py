"""Preflight: everything that could keep a process from a world is found before it takes the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.kernel.component import Registry
from perdure.kernel.errors import DriftedComponent, UnknownComponent
from perdure.kernel.ids import Holder
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.kernel.resume import check_resumable
from perdure.lake.state import WorldState
from perdure.runtime.choice import Choices
from perdure.runtime.plan import lineage_parts
from perdure.runtime.rebuild import Warm, rebuild

if TYPE_CHECKING:
    from perdure.runtime.tick import Means


async def preflight(means: Means, choices: Choices, holder: Holder, ref: WorldRef) -> Warm:
    """Return the state of a world that ``holder`` may go on with under the application.

    Raises: NotFound; what :func:`check_resumable` raises, before any row is read;
    CorruptLineage, Corrupt; UnknownProcessor and UnknownResource for what the world has chosen; UnknownComponent and
    DriftedComponent for what living entities have.
    """
    found = await means.authority.execute(FindWorld(ref))
    check_resumable(found, app=means.app.name, holder=holder)
    await lineage_parts(means.authority, found)
    await choices.of(ref, found.head.configured)
    warm = await rebuild(means.authority, means.objects, ref, found.world, found.head)
    check_components(warm.state, means.app.registry)
    return warm


def check_components(state: WorldState, registry: Registry) -> None:
    """Refuse living entities whose components no class of the application is, exactly.

    Raises: UnknownComponent where no class has the name, DriftedComponent where one of that
    name has another schema: it is never guessed. An archetype without entities needs no class.
    """
    classes = {(each.component.name, each.component.fingerprint) for each in registry}
    names = {name for name, _ in classes}
    for archetype in state.ordered:
        for name, fingerprint in archetype.shape.fingerprints.items():
            if (name, fingerprint) in classes or not len(archetype):
                continue
            kind = DriftedComponent if name in names else UnknownComponent
            raise kind(
                expected=f"a class {name} of fingerprint {fingerprint[:12]}…, as"
                f" {len(archetype)} living entities have it",
                found="one of another schema" if name in names else "none of that name",
            )
