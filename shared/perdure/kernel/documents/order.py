"""In which order the writes of one commit are applied, whatever order they were staged in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perdure.kernel.documents.commit_keys import KeyCommit
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)

_ORDERED: Final = (ChangeDocument, CreateDocument, CopyDocument, RetireDocument, KeyCommit)
"""Writes that are not applied as they were staged."""


def in_order(staged: Sequence[StagedWrite]) -> list[StagedWrite]:
    """Return writes in the order they are applied.

    Rows as they were staged; then documents that were there, content before retirement: that frees
    the addresses which creations take, each with its own retirement behind it; at last the id under
    which the commit was asked for.
    """
    if len(staged) == 1 or not any(isinstance(each, _ORDERED) for each in staged):
        return list(staged)
    rows: list[StagedWrite] = []
    changes: list[StagedWrite] = []
    retirements: list[RetireDocument] = []
    creations: list[StagedWrite] = []
    keys: list[StagedWrite] = []
    created = {each.id for each in staged if isinstance(each, CreateDocument | CopyDocument)}
    fresh = [each for each in staged if isinstance(each, RetireDocument) and each.id in created]
    for each in staged:
        match each:
            case ChangeDocument() if each.id not in created:
                changes.append(each)
            case RetireDocument():
                if each.id not in created:
                    retirements.append(each)
            case ChangeDocument():
                creations.append(each)
            case CreateDocument() | CopyDocument():
                creations.append(each)
                creations += [ended for ended in fresh if ended.id == each.id]
            case KeyCommit():
                keys.append(each)
            case _:
                rows.append(each)
    return [*rows, *changes, *retirements, *creations, *keys]
