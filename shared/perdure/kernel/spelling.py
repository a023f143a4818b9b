"""Bodies of the records that every admission and every commit write, by hand: the same bytes, sooner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

from perdure.kernel.canonical import canonical

if TYPE_CHECKING:
    from perdure.kernel.documents.records import Document, StoreHead
    from perdure.kernel.places import PageName
    from perdure.kernel.records import BatchKey, Drain, Fence, Head

text: Final[Callable[[str], str]] = encode_basestring_ascii
"""Spells a text as `canonical` does, quotes and all."""


def head(record: Head) -> bytes:
    """Spell a head as `Record.body` does."""
    wake_at = "null" if record.wake_at is None else record.wake_at
    return (
        f'{{"cancelled_below":{record.cancelled_below},"checkpoint":{record.checkpoint}'
        f',"configured":{record.configured},"drain":{_part(record.drain)}'
        f',"fence":{_part(record.fence)},"last_page":{_page(record.last_page)}'
        f',"log_digest":{text(record.log_digest)}'
        f',"manifest_digest":{text(record.manifest_digest)}'
        f',"next_entity_id":{record.next_entity_id},"next_sequence":{record.next_sequence}'
        f',"open_commands":{record.open_commands},"published":{record.published}'
        f',"required":{record.required},"seq":{record.seq},"status":{text(record.status)}'
        f',"wake_at":{wake_at},"writer_mode":{text(record.writer_mode)}}}'
    ).encode("ascii")


def batch_key(record: BatchKey) -> bytes:
    """Spell the key of a batch as `Record.body` does."""
    groups = ",".join(
        f'{{"count":{each.count},"page":{_page(each.page)}'
        f',"priority":{each.priority},"tick":{each.tick}}}'
        for each in record.groups
    )
    return (
        f'{{"batch":{text(record.batch)},"digest":{text(record.digest)}'
        f',"first_entity_id":{record.first_entity_id},"first_sequence":{record.first_sequence}'
        f',"groups":[{groups}],"published":{record.published},"seq":{record.seq}}}'
    ).encode("ascii")


def store_head(record: StoreHead) -> bytes:
    """Spell the head of a document store that takes commits, as `Record.body` does."""
    held = ",".join(
        f'{{"epoch":{each.epoch},"holder":{text(each.holder)}'
        f',"owner":{text(each.owner)},"until":{each.until}}}'
        for each in record.held
    )
    owners = f'"held":[{held}],' if held else ""
    follows = '"follows":true,' if record.follows else ""
    log_from = "" if record.log_from == 1 else f'"log_from":{record.log_from},'
    return (
        f'{{"digest":{text(record.digest)},"epoch":{record.epoch},{follows}{owners}'
        f'"lineage":{text(record.lineage)},{log_from}"next_id":{record.next_id}'
        f',"schema":{record.schema},"seq":{record.seq}}}'
    ).encode("ascii")


def document(record: Document) -> bytes:
    """Spell the record of a document as `canonical` does its fields."""
    member = "null" if record.member is None else text(record.member)
    meta = "null" if record.meta is None else canonical(record.meta).decode("ascii")
    retired_at = "null" if record.retired_at is None else record.retired_at
    return (
        f'{{"base":{record.base},"created_at":{record.created_at},"deltas":{record.deltas}'
        f',"history":{text(record.history)},"id":{record.id},"kind":{text(record.kind)}'
        f',"last":{record.last},"member":{member},"meta":{meta}'
        f',"namespace":{text(record.namespace)},"owner":{text(record.owner)}'
        f',"retired_at":{retired_at},"revision":{record.revision},"version":{record.version}}}'
    ).encode("ascii")


def _page(name: PageName | None) -> str:
    if name is None:
        return "null"
    return f'{{"first":{name.first},"priority":{name.priority},"tick":{name.tick}}}'


@lru_cache(maxsize=1_024)  # an admission changes none of them
def _part(part: Fence | Drain) -> str:
    return canonical(asdict(part)).decode("ascii")
