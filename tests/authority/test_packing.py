"""Bodies packed to exact bytes."""

from __future__ import annotations

import hashlib

import pytest

from perdure.authority import bodies, packing
from perdure.authority.testing.records import note
from perdure.kernel import limits
from perdure.kernel.commit import Commit, Put
from perdure.kernel.errors import Corrupt, TooLarge
from perdure.kernel.ids import Token


@pytest.mark.parametrize(
    ("body", "tag"),
    [
        (b"", packing.RAW),
        (b"{}", packing.RAW),
        (b"a" * limits.DEFLATE_ABOVE_BYTES, packing.RAW),
        (b"a" * (limits.DEFLATE_ABOVE_BYTES + 1), packing.DEFLATED),
        (b"a" * 1_000_000, packing.DEFLATED),
        (b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(40)), packing.RAW),
    ],
    ids=["empty", "short", "at the bound", "above the bound", "large", "noise stays raw"],
)
def test_a_packed_body_comes_back(body: bytes, tag: bytes) -> None:
    packed = packing.packed(body)

    assert packed[:1] == tag
    assert packing.unpacked(packed) == body
    assert len(packed) <= len(body) + 1


@pytest.mark.parametrize("length", [0, 1, 1_023, 1_024, 1_025, 3_000])
def test_a_commit_packs_a_body_as_it_is_packed_by_itself(length: int) -> None:
    body = b"a" * length

    ready = bodies.packed(Commit(Token("t"), (Put(note("a"), None, body),)), {}, lambda: Token("n"))

    assert ready.commit.actions == (Put(note("a"), None, packing.packed(body)),)
    assert not ready.unplaced


def test_a_pointer_comes_back() -> None:
    pointer = packing.Pointer.to(b"x" * 800_000, "name")

    assert packing.unpacked(pointer.spelled()) == pointer
    assert [key.sort for key in pointer.keys] == ["0000", "0001", "0002"]


def test_chunks_in_another_order_are_corrupt() -> None:
    packed = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(30_000))
    first, second, third = packing.chunks(packed)
    pointer = packing.Pointer.to(packed, "name")

    assert pointer.joined([first, second, third]) == packed
    with pytest.raises(Corrupt):
        pointer.joined([second, first, third])


def test_a_body_beyond_all_chunks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_PACKED_BYTES_MAX", 70_000)
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(3_000))
    commit = Commit(Token("t"), (Put(note("a"), None, noise),))

    with pytest.raises(TooLarge):
        bodies.packed(commit, {}, lambda: Token("name"))
