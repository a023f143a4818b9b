"""Forks to another storage: the rows at one tick, copied to where no ancestor can be read."""

from __future__ import annotations

import asyncio

from perdure.kernel.create import WorldInfo
from perdure.kernel.errors import NotQuiescent
from perdure.kernel.fork import Birth, FindFork
from perdure.kernel.fork_source import Copy
from perdure.kernel.forked import FORKED_SEQ
from perdure.kernel.ids import NO_TICK, Epoch
from perdure.kernel.places import manifests_partition
from perdure.kernel.publish import RegisterSignature
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import Manifest, TableRows
from perdure.lake.changes import TableChanges, checkpoint
from perdure.lake.schema import signature_record
from perdure.lake.segment import Origin, stored_rows
from perdure.runtime.fork import Wish, copy_of
from perdure.runtime.rebuild import rebuild
from perdure.runtime.tick import Means


async def fork_elsewhere(source: Means, destination: Means, wish: Wish) -> WorldInfo:
    """Fork a world to another storage, or return the fork that was made there under this id.

    Until its one commit nothing of the fork can be seen; who dies before leaves rows that
    nothing names. Raises: what :func:`perdure.runtime.fork.fork` raises; NotQuiescent if the
    fork should take over open commands, since their log stays behind.
    """
    found = await source.authority.execute(FindWorld(wish.source))
    identity = wish.identity(found.world.kind)
    known = await destination.authority.execute(FindFork(identity, found.world.run, wish.at_tick))
    if known is not None:
        return known
    copy = await copy_of(
        source.authority, wish.source, "drop", wish.at_tick, pause=destination.pause
    )
    if wish.pending == "copy" and copy.head.open_commands:
        raise NotQuiescent(
            expected=f"no open command in world {wish.source.world!r}, or leave to drop them",
            found=f"{copy.head.open_commands} open",
        )
    first = await _manifest(source, destination, wish, copy)
    birth = Birth(
        identity,
        copy,
        wish.run,
        "drop",
        wish.every_ms,
        wish.missed,
        wish.by,
        is_elsewhere=True,
        first=first,
    )
    return await destination.authority.execute(birth)


async def _manifest(source: Means, destination: Means, wish: Wish, copy: Copy) -> Manifest | None:
    """Copy the rows at the published tick, and return the manifest that names them."""
    head = copy.head
    if head.published == NO_TICK:
        return None
    warm = await rebuild(source.authority, source.objects, wish.source, copy.world, head)
    origin = Origin(wish.child.world, wish.run, head.published, destination.new_token())
    whole = checkpoint(warm.state)
    for table in whole:
        signature = signature_record(wish.child.catalog, table.types)
        await destination.authority.execute(RegisterSignature(signature))
    tables = tuple(
        await asyncio.gather(*(_stored(destination, wish, origin, table) for table in whole))
    )
    return Manifest(
        partition=manifests_partition(wish.child.partition),
        tick=head.published,
        token=origin.token,
        epoch=Epoch(0),
        seq=FORKED_SEQ,
        drained_seq=FORKED_SEQ,
        at=destination.now(),
        previous=head.manifest_digest,
        tables=tables,
        checkpoint=tables,
        entities=warm.state.entities,
        next_in_tick_entity_id=warm.next_entity_id,
    )


async def _stored(destination: Means, wish: Wish, origin: Origin, table: TableChanges) -> TableRows:
    return await stored_rows(
        table.table,
        table.rows,
        world=wish.child.partition,
        origin=origin,
        objects=destination.objects,
    )
