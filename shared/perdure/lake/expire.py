"""Expiry: old snapshots and the files only they name, removed before they slow every commit."""

from __future__ import annotations

import contextlib
from typing import Final

from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from perdure.lake.catalog import Guarded

SNAPSHOTS_MAX: Final = 60
"""Snapshots from which a table is trimmed. Source: a commit rewrites the metadata whole,
about 0.4 ms per snapshot held."""

SNAPSHOTS_KEPT: Final = 20
"""Snapshots a trim leaves: readers elsewhere may still be at one of the last."""


def expire(
    table: Table, *, above: int = SNAPSHOTS_MAX, kept: int = SNAPSHOTS_KEPT
) -> tuple[int, int]:
    """Drop a table's oldest snapshots once it holds more than ``above``; keep the last ones.

    Returns how many snapshots and files were removed. pyiceberg deletes no file itself;
    here go the manifest lists of what was dropped, and the manifests that no snapshot
    left names. Both are written under fresh names and named by snapshots only, and a
    later snapshot takes its manifests from the one before it: what none of those left
    names will never be named again. Data files of these tables are never dropped.
    Call it only while no intent is open, so that no chain of parents is cut under one.
    A table whose catalog keeps house is left alone.
    """
    if isinstance(table.catalog, Guarded) and table.catalog.keeps_house:
        return 0, 0
    snapshots = sorted(table.snapshots(), key=_age)
    if len(snapshots) <= above:
        return 0, 0
    protected = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old = [each for each in snapshots[:-kept] if each.snapshot_id not in protected]
    named = {each.snapshot_id: _files(table, each) for each in old}
    with contextlib.suppress(CommitStateUnknownException):  # the table itself is asked below
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()
    left = table.refresh().snapshots()
    still = {each.snapshot_id for each in left}
    dropped = [snapshot_id for snapshot_id in named if snapshot_id not in still]
    gone = {file for snapshot_id in dropped for file in named[snapshot_id]}
    gone -= {file for each in left for file in _files(table, each)}
    for file in gone:
        with contextlib.suppress(FileNotFoundError):  # another trim was here
            table.io.delete(file)
    return len(dropped), len(gone)


def _age(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _files(table: Table, snapshot: Snapshot) -> set[str]:
    """Return the manifest list of a snapshot and the manifests it names."""
    return {
        snapshot.manifest_list,
        *(manifest.manifest_path for manifest in snapshot.manifests(table.io)),
    }
