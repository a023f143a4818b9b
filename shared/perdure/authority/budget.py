"""What a store can hold, checked before any store sees a load or a commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from perdure.kernel import limits
from perdure.kernel.commit import Commit, Put
from perdure.kernel.errors import TooLarge
from perdure.kernel.view import Key, Reads

_SHORT: Final = limits.SORT_BYTES_MAX // 4
"""Characters that are within every limit, whatever their spelling in bytes."""


def check_reads(reads: Reads) -> None:
    """Refuse a snapshot of more records than the narrowest store reads at once."""
    if reads.snapshot:
        count = len({*reads.keys, *reads.peeks})
        if count > limits.LOAD_KEYS_MAX:
            raise TooLarge(
                expected=f"a snapshot of at most {limits.LOAD_KEYS_MAX} records", found=str(count)
            )
    _check_keys((*reads.keys, *reads.peeks))


def check_commit(commit: Commit) -> None:
    """Refuse a commit that the narrowest store could not take."""
    if len(commit.actions) > limits.COMMIT_ACTIONS_MAX:
        raise TooLarge(
            expected=f"a commit of at most {limits.COMMIT_ACTIONS_MAX} records",
            found=str(len(commit.actions)),
        )
    _check_keys(action.key for action in commit.actions)
    total = 0
    for action in commit.actions:
        size = _key_bytes(action.key) + limits.ITEM_BYTES
        if isinstance(action, Put):
            size += len(action.body)
        if size > limits.RECORD_BYTES_MAX:
            raise TooLarge(
                expected=f"a record of at most {limits.RECORD_BYTES_MAX} bytes",
                found=f"{size} bytes at {action.key.partition} {action.key.sort}",
            )
        total += size
    if total > limits.COMMIT_BYTES_MAX:
        raise TooLarge(
            expected=f"a commit of at most {limits.COMMIT_BYTES_MAX} bytes", found=str(total)
        )


def _key_bytes(key: Key[Any]) -> int:
    partition, sort = key
    if partition.isascii() and sort.isascii():
        return len(partition) + len(sort)
    return len(partition.encode()) + len(sort.encode())


def _check_keys(keys: Iterable[Key[Any]]) -> None:
    for key in keys:
        partition, sort = key
        if not (0 < len(partition) <= _SHORT and 0 < len(sort) <= _SHORT):
            _check_part(key, partition, limits.PARTITION_BYTES_MAX)
            _check_part(key, sort, limits.SORT_BYTES_MAX)


def _check_part(key: Key[Any], part: str, bytes_max: int) -> None:
    size = len(part.encode())
    if not 1 <= size <= bytes_max:
        raise TooLarge(
            expected=f"a key part of 1 to {bytes_max} bytes",
            found=f"{size} bytes in {key.partition[:40]!r} {key.sort[:40]!r}",
        )
