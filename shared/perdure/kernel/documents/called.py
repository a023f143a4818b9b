"""What a document may be called by: its address, its id, and what its owner keeps with it."""

from __future__ import annotations

from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.content import check_levels
from perdure.kernel.documents.places import Address
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import DocumentId
from perdure.kernel.shown import shown

META_BYTES_MAX: Final = 4_096
NAME_BYTES_MAX: Final = 1_024
"""Bytes of each part of an address, spelled in JSON."""


def check_named(address: Address, id: DocumentId | None, meta: Any) -> None:
    """Refuse what a document is called by, if no store can keep it. Raises TooLarge, InvalidValue."""
    check_address(address)
    if id is not None:
        check_id(id)
    check_meta(meta)


def check_meta(meta: Any) -> None:
    """Refuse what a document's record has no room for. Raises TooLarge, InvalidValue."""
    try:
        spelled = canonical(meta)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            expected="meta of JSON that a store can hold", found=type(error).__name__
        ) from error
    if len(spelled) > META_BYTES_MAX:
        raise TooLarge(expected=f"meta of at most {META_BYTES_MAX} bytes", found=f"{len(spelled)}")
    check_levels("meta", spelled, meta)


def check_address(address: Address) -> None:
    """Refuse names that no store can keep. Raises TooLarge, InvalidValue."""
    key = () if address.key is None else (address.key,)
    for name in (address.owner, address.namespace, address.kind, *key):
        if not isinstance(name, str):
            raise InvalidValue(expected="an address of texts", found=shown(name))
        if len(canonical(name)) > NAME_BYTES_MAX:
            raise TooLarge(
                expected=f"parts of an address of at most {NAME_BYTES_MAX} bytes, spelled in JSON",
                found=f"{len(canonical(name))}",
            )


def is_id(id: object) -> bool:
    """Say whether a store may give that as an id."""
    return type(id) is int and 1 <= id <= places.SAFE_INTEGER_MAX


def check_id(id: int) -> None:
    """Refuse an id that no store gives. Raises InvalidValue."""
    if not is_id(id):
        raise InvalidValue(expected=f"an id of 1 to {places.SAFE_INTEGER_MAX}", found=shown(id))
