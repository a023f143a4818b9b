"""Bodies on their way to a store and back: raw, deflated, or a pointer to chunks.

The first byte of a packed body says which. A pointer is put in place of a packed body
that is too large for a record; the chunks lie in a partition of their own.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel import limits
from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition
from perdure.kernel.record import Record
from perdure.kernel.view import Key

RAW: Final = b"\x00"
DEFLATED: Final = b"\x01"
POINTER: Final = b"\x02"

_LEVEL_INLINE: Final = 6
_LEVEL_LARGE: Final = 1
"""Large bodies are whole batches: there the time to deflate outweighs a tenth of the bytes."""

_BARE: Final = -15
"""Window bits of a deflate stream without header and checksum: stores check their own bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Record):
    """Part of a packed body: exact bytes, never packed again and never decoded."""

    immutable = True


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the chunks of a packed body lie, and what they make together."""

    name: str
    length: int
    sha256: str

    @staticmethod
    def to(packed: bytes, name: str) -> Pointer:
        return Pointer(name, len(packed), hashlib.sha256(packed).hexdigest())

    @property
    def keys(self) -> list[Key[Chunk]]:
        """The chunks in their order."""
        partition = Partition(f"body/{self.name}")
        count = -(-self.length // limits.BODY_CHUNK_BYTES)
        return [Key(partition, f"{index:04d}", Chunk) for index in range(count)]

    def joined(self, chunks: list[bytes]) -> bytes:
        """Return the packed body that ``chunks`` are. Raises Corrupt."""
        packed = b"".join(chunks)
        found = hashlib.sha256(packed).hexdigest()
        if found != self.sha256:
            raise Corrupt(
                expected=f"chunks of body {self.name} with digest {self.sha256}",
                found=f"{len(packed)} bytes with digest {found}",
            )
        return packed

    def spelled(self) -> bytes:
        return POINTER + canonical([self.name, self.length, self.sha256])


def packed(body: bytes) -> bytes:
    """Return ``body`` with its tag, deflated if it is long and that makes it shorter."""
    if len(body) > limits.DEFLATE_ABOVE_BYTES:
        large = len(body) > limits.BODY_INLINE_BYTES_MAX
        deflated = zlib.compress(body, _LEVEL_LARGE if large else _LEVEL_INLINE, _BARE)
        if len(deflated) < len(body):
            return DEFLATED + deflated
    return RAW + body


def chunks(packed: bytes) -> list[bytes]:
    """Cut a packed body into pieces that fit a record."""
    size = limits.BODY_CHUNK_BYTES
    return [packed[start : start + size] for start in range(0, len(packed), size)]


def unpacked(packed: bytes) -> bytes | Pointer:
    """Undo :func:`packed`, or return where the packed body lies. Raises Corrupt."""
    tag, rest = packed[:1], packed[1:]
    if tag == RAW:
        return rest
    try:
        if tag == DEFLATED:
            return _inflated(rest)
        if tag == POINTER:
            return _pointer(*strict(rest))
    except (zlib.error, ValueError, TypeError) as error:
        raise Corrupt(expected="a packed body", found=str(error)) from error
    raise Corrupt(expected="a body tagged raw, deflated or pointer", found=f"tag {tag!r}")


def _inflated(rest: bytes) -> bytes:
    """Inflate one whole stream, and no more than a body can have been. Raises ValueError, zlib.error."""
    stream = zlib.decompressobj(_BARE)
    body = stream.decompress(rest, limits.BODY_BYTES_MAX)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"a stream that does not end with its bytes, after {len(body)} inflated")
    return body


def _pointer(name: Any, length: Any, sha256: Any) -> Pointer:
    if not (isinstance(name, str) and isinstance(sha256, str) and type(length) is int):
        raise TypeError("a pointer of other types")
    if not 0 < length <= limits.BODY_PACKED_BYTES_MAX:
        raise ValueError(f"a pointer to {length} bytes")
    return Pointer(name, length, sha256)
