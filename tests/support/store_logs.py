"""Logs of document stores for tests, as long as they are needed, without the commits."""

from __future__ import annotations

from dataclasses import replace

from tests.support.documents import LINEAGE, NOW, REF

from perdure.kernel.documents.commit import logged
from perdure.kernel.documents.records import Logged, StoreHead
from perdure.kernel.documents.step import Step
from perdure.kernel.ids import Seq, Token
from perdure.kernel.view import View


def chain(count: int, *, log_from: int = 1) -> tuple[StoreHead, list[Logged]]:
    """Return the head after ``count`` commits, and the entries that its log still has."""
    head = StoreHead(partition=REF.partition, lineage=LINEAGE)
    entries = []
    for _ in range(count):
        head, entry = logged(head, Step(View({}), head, head.next_id), Token("t"), NOW)
        entries.append(entry)
    return replace(head, log_from=Seq(log_from)), entries[log_from - 1 :]
