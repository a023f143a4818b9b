"""Cold reads: what a process can tell of a storage of which it knows nothing but where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.component import fingerprint
from perdure.kernel.fence import ReleaseFence, TakeFence
from perdure.kernel.ids import Holder, TableId, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindSignatures
from perdure.lake.copying import rows_content
from perdure.lake.schema import component_columns
from perdure.runtime.read import Reader
from perdure.runtime.worlds import LIST_MAX, Worlds

RESUME_LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Cold:
    """Looks at every world of a storage through its catalog alone."""

    worlds: Worlds
    reader: Reader

    async def seen(self, holder: Holder | None = None) -> dict[str, Any]:
        """Discover all worlds, and digest the state of each at its published tick.

        With a ``holder`` every active world is resumed, too: its fence taken, and let go.
        Rows are by component, as ``Name@fingerprint``. Raises: whatever reading raises.
        """
        components = await self._components()
        seen: dict[str, Any] = {}
        after: str | None = None
        while True:
            page, after = await self.worlds.discover(after, LIST_MAX)
            for info in page:
                epoch: int = info.epoch
                if holder is not None and info.status == "active":
                    epoch = await self._resumed(info.world_id, holder)
                rows: dict[str, Any] = {}
                if info.published_tick is not None:
                    rows = {name: await self._state(info.world_id, name) for name in components}
                seen[info.world_id] = {"status": info.status, "epoch": epoch, "rows": rows}
            if after is None:
                return seen

    async def _resumed(self, world: WorldId, holder: Holder) -> int:
        ref = WorldRef(self.reader.storage, world)
        execute = self.reader.authority.execute
        grip = await execute(TakeFence(ref, holder, RESUME_LEASE_MS).checked())
        await execute(ReleaseFence(ref, grip.epoch))
        return grip.epoch

    async def _components(self) -> list[str]:
        found: set[str] = set()
        beyond: TableId | None = None
        while page := await self.reader.authority.execute(
            FindSignatures(self.reader.storage, beyond)
        ):
            for signature in page:
                for name in signature.components:
                    found.add(f"{name}@{fingerprint(component_columns(signature, name))}")
            beyond = page[-1].table
        return sorted(found)

    async def _state(self, world: WorldId, component: str) -> str:
        held = rows_content(await self.reader.query(world, [component]))
        return f"{held.rows} rows, {held.digest}"
