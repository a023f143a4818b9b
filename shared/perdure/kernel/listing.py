"""Listing: which worlds are shown to whoever asks what there is."""

from __future__ import annotations

from typing import Final, Literal, get_args

from perdure.kernel.create import WorldInfo

Show = Literal["public", "live", "all"]
"""``live``: public worlds that go on. ``public``: also what was destroyed or has moved, for its
history stays readable. ``all``: also worlds that are closing, and private ones at work."""

SHOWS: Final[tuple[Show, ...]] = get_args(Show)


def is_shown(info: WorldInfo, show: Show) -> bool:
    """Say whether a world belongs in a list.

    A private world is listed once it is destroyed, as the evidence it then is, and never as
    live; one of a mode that this version does not know is not called live either.
    """
    if show == "all":
        return True
    if show == "live":
        return info.status in {"active", "moving"} and info.writer_mode == "resumable"
    if info.status in {"destroyed", "moved"}:
        return True
    return info.status != "closing" and info.writer_mode != "cleanup_only"
