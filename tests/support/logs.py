"""Worlds with real logs on one store on paper, projected into a real audit table."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.paper import Paper
from tests.support.worldly import World, due

from perdure.kernel.ids import Holder, StorageId, Token, WorldId
from perdure.kernel.landing import AUDIT
from perdure.kernel.places import WorldRef
from perdure.kernel.upkeep import consumer_key
from perdure.lake import audit
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.history import History, HistoryAsked, HistoryPage
from perdure.runtime.project import Projected, Projection

STORAGE = StorageId("storage")


class PaperAuthority:
    """Executes on paper, at once."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    async def execute(self, request: Any) -> Any:
        return self.paper.ask(request)


class Logs:
    """A directory with an audit table, and the paper that worlds are on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paper = Paper()
        self.authority = PaperAuthority(self.paper)
        self.catalog = open_local(root)
        self.lake = Lake(self.catalog, "main")
        self._tokens = count(1)

    def world(self, name: str = "w") -> World:
        return World(self.paper, WorldRef(STORAGE, WorldId(name)), name=name)

    def project(self, *worlds: str, **options: Any) -> Projected:
        """Project the worlds' logs, in another's name and through other parts if given."""
        projection = Projection(
            options.pop("authority", self.authority), options.pop("lake", self.lake), STORAGE
        )
        return asyncio.run(
            projection.project(
                [WorldId(each) for each in worlds or ("w",)],
                holder=Holder(options.pop("holder", f"holder-{next(self._tokens)}")),
                new_token=lambda: Token(f"batch-{next(self._tokens)}"),
                **options,
            )
        )

    def lake_rows(self) -> list[dict[str, Any]]:
        """Return every row of the audit table, as they lie in it."""
        table = Lake(self.catalog, "main").opened_as(audit.AUDIT)
        return [] if table is None else table.scan().to_arrow().to_pylist()

    def rows(self) -> list[dict[str, Any]]:
        """Return every row of the audit table, in the order of (world, seq, index)."""
        return sorted(self.lake_rows(), key=lambda row: (row["world_id"], row["seq"], row["index"]))

    def told(self, world: str = "w") -> list[tuple[int, str, str | None]]:
        """Return (seq, kind, command) of a world's events."""
        rows = [row for row in self.rows() if row["world_id"] == world]
        return [(row["seq"], row["kind"], row["command_id"]) for row in rows]

    def mark(self, world: str = "w") -> Any:
        """Return the record of the audit's watermark, or None."""
        return self.paper.held(consumer_key(WorldRef(STORAGE, WorldId(world)).partition, AUDIT))

    def through(self, world: str = "w") -> int:
        """Return the watermark of the audit."""
        mark = self.mark(world)
        return 0 if mark is None else mark.seq

    def history(self, world: str = "w", **asked: Any) -> HistoryPage:
        history = History(
            asked.pop("authority", self.authority), asked.pop("lake", self.lake), STORAGE
        )
        return asyncio.run(history.read(world, HistoryAsked(**asked)))

    def close(self) -> None:
        self.catalog.close()


def a_story(logs: Logs, name: str = "w") -> World:
    """A world in which everything happens that an event can tell of but its end."""
    world = logs.world(name)
    world.admit(*[due(tick) for tick in (None, None, None, 5, 6, 7)], batch="b")
    world.tick(reject=[2], fail={3: 1})
    world.cancel("b.3")
    world.tick()
    world.cancel_all("all of it")
    world.ticks(5)
    world.admit(due(None), batch="c", principal="ann", origin="http")
    world.tick()
    return world


STORY = [
    (1, "created", None),
    *((2, "queued", f"b.{n}") for n in range(6)),
    (3, "applied", "b.0"),
    (3, "rejected", "b.1"),
    (3, "retryable", "b.2"),
    (4, "cancelled", "b.3"),
    (5, "applied", "b.2"),
    (6, "cancelled_all", None),
    (11, "cancelled", "b.4"),
    (12, "queued", "c.0"),
    (13, "cancelled", "b.5"),
    (13, "applied", "c.0"),
]
"""(seq, kind, command) of what :func:`a_story` tells."""
