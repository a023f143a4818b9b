"""Cold reads: what a process can tell of a storage of which it knows nothing but where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.component import fingerprint
from perdure.kernel.documents.errors import StoreDiverged
from perdure.kernel.documents.moving import FindStoreHead
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.kernel.errors import Contended
from perdure.kernel.fence import ReleaseFence, TakeFence
from perdure.kernel.ids import Holder, TableId, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindSignatures
from perdure.lake.copying import rows_content
from perdure.lake.schema import component_columns
from perdure.runtime.documents.export import collected
from perdure.runtime.documents.export_files import NoSink
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.read import Reader
from perdure.runtime.worlds import LIST_MAX, Worlds

RESUME_LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Cold:
    """Looks at all worlds and document stores of a storage through its catalog alone."""

    worlds: Worlds
    reader: Reader
    means: StoreMeans

    async def seen(self, holder: Holder | None = None) -> dict[str, Any]:
        """Tell what there is, each by id: worlds as with :meth:`_worlds`, and document stores."""
        return {"worlds": await self._worlds(holder), "stores": await self._stores()}

    async def _stores(self) -> dict[str, Any]:
        """Discover all document stores but Perdure's own, and digest what each would export.

        There is no digest of one that takes so many commits that no moment of it can be read, nor
        of a diverged replica. Raises: whatever reading raises.
        """
        stores = DocumentStores(self.means, self.reader.storage)
        seen: dict[str, Any] = {}
        after: str | None = None
        while True:
            page, after = await stores.discover(after, LIST_MAX)
            for info in page:
                if not info.store_id.startswith(SYSTEM_PREFIX):
                    seen[info.store_id] = await self._store(stores.ref(info.store_id))
            if after is None:
                return seen

    async def _store(self, ref: DocumentStoreRef) -> dict[str, Any]:
        export: str | None = None
        try:
            async with collected(self.means, ref) as ready:
                head, export = ready.manifest, (await ready.write(NoSink())).sha256
                told = head.lineage, head.last_seq, head.epoch
        except (Contended, StoreDiverged):
            found = await self.means.authority.execute(FindStoreHead(ref))
            told = found.lineage, found.seq, found.epoch
        return {**dict(zip(("lineage", "seq", "epoch"), told, strict=True)), "export": export}

    async def _worlds(self, holder: Holder | None) -> dict[str, Any]:
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
