"""What a commit makes of the head and of a document: as `dataclasses.replace` would, sooner."""

from __future__ import annotations

from perdure.kernel.documents.records import Document, StoreHead
from perdure.kernel.ids import Seq


def head_after(head: StoreHead, seq: Seq, digest: str, next_id: int, schema: int) -> StoreHead:
    """Return the head that a commit leads to."""
    return StoreHead(
        partition=head.partition,
        lineage=head.lineage,
        seq=seq,
        digest=digest,
        next_id=next_id,
        epoch=head.epoch,
        schema=schema,
        held=head.held,
        log_from=head.log_from,
        diverged=head.diverged,
        follows=head.follows,
        importing=head.importing,
    )


def with_content(
    document: Document, *, version: int, base: Seq, last: Seq, deltas: int
) -> Document:
    """Return a document as its next content leaves it. Its key, which stays, need not be made again."""
    found = object.__new__(Document)
    object.__setattr__(found, "partition", document.partition)
    found.__dict__.update(
        document.__dict__,
        version=version,
        revision=document.revision + 1,
        base=base,
        last=last,
        deltas=deltas,
    )
    return found
