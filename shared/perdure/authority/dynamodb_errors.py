"""What an error of the DynamoDB driver means for a commit or a load."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from perdure.kernel.errors import StoreRefused, StoreUnavailable
from perdure.kernel.ids import Token


class Verdict(Enum):
    """What to do about an error."""

    COMMITTED = auto()
    """A condition failed because this very commit had happened: its token is there."""

    CONFLICT = auto()
    """A condition failed; a rival was first."""

    AGAIN = auto()
    """Nothing happened this time; the store is busy or out of reach."""

    UNDER_WAY = auto()
    """An earlier sending of this token has not come to its end."""

    READ_BACK = auto()
    """The token is known with other parameters: only the records can tell."""

    UNKNOWN = auto()
    """It may have happened."""

    REFUSED = auto()
    """Nothing happened this time, and asking again changes nothing."""


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    error: StoreUnavailable
    """What to raise when there is no more to be done."""

    failed: tuple[int, ...] = ()
    """Places in the transaction of the actions whose conditions failed, if that was told."""


_VERDICTS: Final = {
    "TransactionConflictException": Verdict.AGAIN,
    "TransactionConflict": Verdict.AGAIN,
    "ReplicatedWriteConflictException": Verdict.AGAIN,
    "ProvisionedThroughputExceededException": Verdict.AGAIN,
    "ProvisionedThroughputExceeded": Verdict.AGAIN,
    "ThrottlingException": Verdict.AGAIN,
    "ThrottlingError": Verdict.AGAIN,
    "Throttling": Verdict.AGAIN,
    "RequestLimitExceeded": Verdict.AGAIN,
    "RequestThrottled": Verdict.AGAIN,
    "TransactionInProgressException": Verdict.UNDER_WAY,
    "IdempotentParameterMismatchException": Verdict.READ_BACK,
}
_REFUSALS: Final = {
    "ResourceNotFoundException": "a table",
    "AccessDeniedException": "permission to use the table",
    "UnrecognizedClientException": "credentials that AWS knows",
    "InvalidSignatureException": "credentials that AWS accepts",
    "ExpiredTokenException": "credentials that have not expired",
    "ValidationException": "a request that DynamoDB accepts",
    "ValidationError": "a request that DynamoDB accepts",
}
"""What was expected where DynamoDB refuses: of this process, never of who asked it."""

_MESSAGE_CHARACTERS_MAX: Final = 300
_NOT_SENT: Final = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
)


def ruling(error: ClientError | BotoCoreError, token: Token | None = None) -> Ruling:
    """Judge ``error``, an answer to the commit ``token`` or to a load."""
    if isinstance(error, ClientError):
        return _answered(error, token)
    if isinstance(error, boto.ParamValidationError):
        return _refused("a request that boto3 accepts", str(error))
    lost = StoreUnavailable(expected="an answer from DynamoDB", found=str(error))
    if isinstance(error, _NOT_SENT):
        return Ruling(Verdict.AGAIN, lost)
    return Ruling(Verdict.UNKNOWN, lost)


def _answered(error: ClientError, token: Token | None) -> Ruling:
    response: Any = error.response
    code = response["Error"].get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    found = f"{code}: {response['Error'].get('Message', '')[:_MESSAGE_CHARACTERS_MAX]}"
    expected = "DynamoDB to do what it is asked"
    failed = StoreUnavailable(expected=expected, found=found)
    if code == "TransactionCanceledException":
        return _canceled(response.get("CancellationReasons", []), token, found)
    if code == "ConditionalCheckFailedException":
        return Ruling(_raced(response.get("Item"), token), failed)
    if code in _VERDICTS:
        return Ruling(_VERDICTS[code], failed)
    if status >= 500:
        return Ruling(Verdict.UNKNOWN, failed)
    return _refused(_REFUSALS.get(code, expected), found)


def _refused(expected: str, found: str) -> Ruling:
    return Ruling(Verdict.REFUSED, StoreRefused(expected=expected, found=found))


def _canceled(reasons: list[Any], token: Token | None, found: str) -> Ruling:
    """Judge a cancelled transaction by all its reasons: the code of each action counts."""
    codes = {reason.get("Code", "None") for reason in reasons} - {"None"}
    expected = "a transaction that is not cancelled"
    failed = StoreUnavailable(expected=expected, found=found)
    raced = {
        place: _raced(reason.get("Item"), token)
        for place, reason in enumerate(reasons)
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    if Verdict.COMMITTED in raced.values():
        return Ruling(Verdict.COMMITTED, failed)
    if raced:
        return Ruling(Verdict.CONFLICT, failed, tuple(raced))
    refusals = [_REFUSALS[code] for code in sorted(codes) if code in _REFUSALS]
    if refusals:
        return _refused(refusals[0], found)
    if not codes:
        return Ruling(Verdict.UNKNOWN, failed)
    if all(_VERDICTS.get(code) is Verdict.AGAIN for code in codes):
        return Ruling(Verdict.AGAIN, failed)
    return _refused(expected, found)


def _raced(old: Any, token: Token | None) -> Verdict:
    """Judge a failed condition: it proves no loss if the item carries this commit's token."""
    mine = old is not None and token is not None and old.get("tok") == {"S": token}
    return Verdict.COMMITTED if mine else Verdict.CONFLICT
