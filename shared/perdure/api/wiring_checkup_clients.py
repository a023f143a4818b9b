"""Clients of AWS for checks: quick to give up, and with words for what they are answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoRegionError,
)
from botocore.exceptions import (
    ConnectionError as NotConnected,
)

from perdure.api.checkup import Check, Finding, fail, skip
from perdure.api.settings import Settings

SHORT: Final = Config(
    retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=2, read_timeout=3
)
"""A few seconds, and no second try: whoever waits wants to know what is wrong."""

MESSAGE_CHARACTERS_MAX: Final = 200

CREDENTIALS: Final = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, right"
REGION: Final = "set AWS_DEFAULT_REGION, or region in the profile"
RENEW: Final = "get new credentials: aws sso login, or export fresh ones"
PERMIT: Final = "give this caller the permission that the message names"
REACH: Final = "see that the network, the region and AWS_ENDPOINT_URL* lead there"
UNASKED: Final = "it takes --write to try a write; what is written is taken away again"

_REMEDIES: Final[Mapping[str, str]] = {
    "ExpiredToken": RENEW,
    "ExpiredTokenException": RENEW,
    "RequestExpired": RENEW,
    "InvalidClientTokenId": CREDENTIALS,
    "UnrecognizedClientException": CREDENTIALS,
    "InvalidAccessKeyId": CREDENTIALS,
    "SignatureDoesNotMatch": CREDENTIALS,
    "InvalidSignatureException": CREDENTIALS,
    "RequestTimeTooSkewed": "set this machine's clock right (NTP)",
    "AccessDenied": PERMIT,
    "AccessDeniedException": PERMIT,
    "403": PERMIT,
}

DENIED: Final = {"AccessDenied", "AccessDeniedException", "403", "UnauthorizedOperation"}

Ask = Callable[[], Iterator[Finding]]


class Clients:
    """Clients of one session, made one at a time: making them is not for many threads."""

    def __init__(self, chosen: Settings) -> None:
        self._one_at_a_time = threading.Lock()
        self._session = boto3.Session()
        self._endpoints = {
            "dynamodb": chosen.dynamodb_endpoint,
            "s3": chosen.s3_endpoint,
            "glue": chosen.glue_endpoint,
        }

    @property
    def region(self) -> str | None:
        return self._session.region_name

    def credentials(self) -> Any:
        with self._one_at_a_time:
            return self._session.get_credentials()

    def of(self, service: str) -> Any:
        with self._one_at_a_time:
            client: Any = self._session.client(  # type: ignore[call-overload]  # by its name
                service, endpoint_url=self._endpoints.get(service), config=SHORT
            )
        return client


def asked(name: str, ask: Ask, remedy: str, *after: str) -> Check:
    """Return a check that tells an answer of AWS from none."""

    def answered() -> Iterator[Finding]:
        try:
            yield from ask()
        except (ClientError, BotoCoreError) as error:
            yield trouble(error, remedy)

    return Check(name, answered, remedy, after=after)


def written(of: str, ask: Ask, *, write: bool) -> Check:
    name = f"{of}-write"
    if not write:
        return Check(name, lambda: [skip(UNASKED)], PERMIT)
    return asked(name, ask, "let this caller write, or ask with credentials of an operator", of)


def trouble(error: Exception, remedy: str) -> Finding:
    """Return what an error of botocore means for a check."""
    if isinstance(error, ClientError):
        code, message = code_of(error), error.response.get("Error", {}).get("Message", "")
        found = f"{error.operation_name}: {code}: {message}"
        unsure = status_of(error) >= 500
        return fail(found[:MESSAGE_CHARACTERS_MAX], _REMEDIES.get(code, remedy), may_pass=unsure)
    found = f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS_MAX]
    if isinstance(error, HTTPClientError | NotConnected):
        return fail(f"no answer: {found}", REACH, may_pass=True)
    if isinstance(error, NoRegionError):
        return fail(found, REGION)
    return fail(found, CREDENTIALS if "Credential" in found else remedy)


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
