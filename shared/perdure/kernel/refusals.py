"""Refusals of a store: telling what a deployment lacks from what passes by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from perdure.kernel.errors import (
    Corrupt,
    NewerSchema,
    SchemaMismatch,
    StoreRefused,
    StoreUnavailable,
    Unavailable,
)
from perdure.kernel.shown import text_of

NO_VERDICT: Final = (Unavailable, Corrupt, NewerSchema, SchemaMismatch)
"""What the store says, not a decision: it proves nothing about a commit that was sent before."""

BEHIND_MAX: Final = 8
"""Errors behind an error that are looked at."""

_CODES: Final = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "NoSuchBucket",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
}
"""Whoever asks, and however often: somebody has to mend it. Source: AWS, common errors; the
errors of S3 and SQS."""

_STATUSES: Final = {401, 403}
"""Of a REST catalog, which has no codes. AWS answers throttling with 403 as well."""


def unanswered(
    expected: str, error: BaseException, *, found: str | None = None
) -> StoreUnavailable:
    """Return what a driver's error means: no answer, or a refusal that no caller can mend."""
    found = next(iter(text_of(error).splitlines()), type(error).__name__)
    kind = StoreRefused if any(map(_refuses, behind(error))) else StoreUnavailable
    return kind(expected=expected, found=found)


def behind(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from."""
    cause: BaseException | None = error
    for _ in range(BEHIND_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _refuses(error: BaseException) -> bool:
    # By their shape: a driver is imported by those alone who use it.
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        said = response.get("Error")
        return isinstance(said, Mapping) and said.get("Code") in _CODES
    return getattr(response, "status_code", None) in _STATUSES
