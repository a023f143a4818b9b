"""Payloads: what is too large for a journal lies in objects, named by what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Protocol

from perdure.kernel.canonical import strict
from perdure.kernel.errors import Corrupt, NotFound, PayloadMissing
from perdure.kernel.session.facts import Fact, fact_of
from perdure.kernel.session.frames import Frame, PayloadRef, Prepared
from perdure.kernel.session.journal import payload_name
from perdure.kernel.session.records import SessionRef


class Objects(Protocol):
    """What payloads need of an object store."""

    async def put(self, name: str, data: bytes) -> None: ...
    async def get(self, name: str) -> bytes: ...
    async def delete(self, name: str) -> None: ...


async def put(objects: Objects, ref: SessionRef, large: Iterable[Prepared]) -> None:
    """Make payloads durable before a frame names them. Raises StoreUnavailable, OutcomeUnknown."""
    for each in large:
        await objects.put(payload_name(ref, each.sha256), each.spelled)


async def payload_of(objects: Objects, ref: SessionRef, frame: Frame) -> Any:
    """Return what a frame says. Raises PayloadMissing, Corrupt, StoreUnavailable."""
    if frame.ref is None:
        return frame.payload
    where = f"of frame {frame.seq} of session {ref.session!r}"
    spelled = await _spelled(objects, ref, frame.ref, where)
    try:
        return strict(spelled)
    except ValueError as error:
        raise Corrupt(expected=f"a payload {where} that is JSON", found=str(error)) from error


async def fact_in(objects: Objects, ref: SessionRef, frame: Frame) -> Fact | None:
    """Return the fact of a frame, None for one that may be skipped.

    Raises: PayloadMissing, Corrupt, StoreUnavailable.
    """
    payload = await payload_of(objects, ref, frame)
    return fact_of(frame.type, payload, where=f"at frame {frame.seq} of session {ref.session!r}")


async def _spelled(objects: Objects, ref: SessionRef, wanted: PayloadRef, where: str) -> bytes:
    try:
        spelled = await objects.get(payload_name(ref, wanted.sha256))
    except NotFound as error:
        raise PayloadMissing(
            expected=f"the payload {where}, object {wanted.sha256[:12]}…", found="none"
        ) from error
    found = hashlib.sha256(spelled).hexdigest()
    if len(spelled) != wanted.bytes or found != wanted.sha256:
        raise Corrupt(
            expected=f"{wanted.bytes} bytes of digest {wanted.sha256[:12]}… as the payload {where}",
            found=f"{len(spelled)} bytes of {found[:12]}…",
        )
    return spelled
