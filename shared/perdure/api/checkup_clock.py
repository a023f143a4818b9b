"""The check of a clock: how far this machine's is from that of whoever answers."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from perdure.api.checkup import Finding, fail, ok, skip, warn

SKEW_MS_WARN: Final = 5_000
SKEW_MS_FAIL: Final = 60_000
"""Source: the lease of a writer in the cloud. A clock so wrong takes a fence that is held."""

SECOND_MS: Final = 1_000
"""What the header Date is cut to."""

REMEDY: Final = "let this machine's clock follow a time server (NTP): leases are read by it"


def compared(date: str | None, *, began_ms: int, ended_ms: int, who: str) -> Finding:
    """Compare the header Date of an answer with when it was asked for and came."""
    try:
        told_ms = round(parsedate_to_datetime(date or "").timestamp() * 1_000)
    except (TypeError, ValueError, OverflowError):
        return skip(f"{who} answers without a readable header Date")
    # The second that the header names lies somewhere in the time of the request, at best.
    if ended_ms < told_ms:
        skew_ms, way = told_ms - ended_ms, "behind"
    elif began_ms > told_ms + SECOND_MS:
        skew_ms, way = began_ms - told_ms - SECOND_MS, "ahead of"
    else:
        return ok(f"this machine's clock agrees with {who}, to the second")
    found = f"this machine's clock is {skew_ms / 1_000:.0f} s {way} {who}"
    if skew_ms > SKEW_MS_FAIL:
        return fail(found, REMEDY)
    return warn(found, REMEDY) if skew_ms > SKEW_MS_WARN else ok(found)
