"""What an error of the DynamoDB driver means for a commit or a load."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from perdure.kernel.errors import Invalid, NotFound, NotPermitted, PerdureError, StoreUnavailable
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
    """Nothing happened, and asking again changes nothing."""


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    error: PerdureError
    """What to raise when there is no more to be done."""


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
_REFUSALS: Final[dict[str, tuple[type[PerdureError], str]]] = {
    "ResourceNotFoundException": (NotFound, "a table"),
    "AccessDeniedException": (NotPermitted, "permission to use the table"),
    "UnrecognizedClientException": (NotPermitted, "credentials that AWS knows"),
    "InvalidSignatureException": (NotPermitted, "credentials that AWS accepts"),
    "ExpiredTokenException": (NotPermitted, "credentials that have not expired"),
    "ValidationException": (Invalid, "a request that DynamoDB accepts"),
    "ValidationError": (Invalid, "a request that DynamoDB accepts"),
}
_MESSAGE_CHARACTERS_MAX: Final = 300
_NOT_SENT: Final = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
)


def ruling(error: ClientError | BotoCoreError, token: Token | None = None) -> Ruling:
    """Judge ``error``, an answer to the commit ``token`` or to a load."""
    if isinstance(error, ClientError):
        return _answered(error, token)
    if isinstance(error, boto.ParamValidationError):
        refused = Invalid(expected="a request that boto3 accepts", found=str(error))
        return Ruling(Verdict.REFUSED, refused)
    lost = StoreUnavailable(expected="an answer from DynamoDB", found=str(error))
    if isinstance(error, _NOT_SENT):
        return Ruling(Verdict.AGAIN, lost)
    return Ruling(Verdict.UNKNOWN, lost)


def _answered(error: ClientError, token: Token | None) -> Ruling:
    response: Any = error.response
    code = response["Error"].get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    found = f"{code}: {response['Error'].get('Message', '')[:_MESSAGE_CHARACTERS_MAX]}"
    failed = StoreUnavailable(expected="DynamoDB to do what it is asked", found=found)
    if code == "TransactionCanceledException":
        return _canceled(response.get("CancellationReasons", []), token, found)
    if code == "ConditionalCheckFailedException":
        return Ruling(_raced(response.get("Item"), token), failed)
    if code in _REFUSALS:
        kind, expected = _REFUSALS[code]
        return Ruling(Verdict.REFUSED, kind(expected=expected, found=found))
    otherwise = Verdict.UNKNOWN if status >= 500 else Verdict.REFUSED
    return Ruling(_VERDICTS.get(code, otherwise), failed)


def _canceled(reasons: list[Any], token: Token | None, found: str) -> Ruling:
    """Judge a cancelled transaction by all its reasons: the code of each action counts."""
    codes = {reason.get("Code", "None") for reason in reasons} - {"None"}
    failed = StoreUnavailable(expected="a transaction that is not cancelled", found=found)
    raced = {
        _raced(reason.get("Item"), token)
        for reason in reasons
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    if raced:
        verdict = Verdict.COMMITTED if Verdict.COMMITTED in raced else Verdict.CONFLICT
        return Ruling(verdict, failed)
    refusals = [_REFUSALS[code] for code in sorted(codes) if code in _REFUSALS]
    if refusals:
        kind, expected = refusals[0]
        return Ruling(Verdict.REFUSED, kind(expected=expected, found=found))
    if not codes:
        return Ruling(Verdict.UNKNOWN, failed)
    busy = all(_VERDICTS.get(code) is Verdict.AGAIN for code in codes)
    return Ruling(Verdict.AGAIN if busy else Verdict.REFUSED, failed)


def _raced(old: Any, token: Token | None) -> Verdict:
    """Judge a failed condition: it proves no loss if the item carries this commit's token."""
    mine = old is not None and token is not None and old.get("tok") == {"S": token}
    return Verdict.COMMITTED if mine else Verdict.CONFLICT
