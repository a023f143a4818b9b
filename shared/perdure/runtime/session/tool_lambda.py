"""Lambda functions as tools: one Invoke that waits for the answer, and what each reply proves.

The function is given ``{"call_key", "name", "args"}``. Invokes that do not wait are not offered:
Lambda accepts them, repeats them by itself, and says nothing of their outcome.

The client is given, and must not repeat anything itself: of boto3 that is
``Config(retries={"total_max_attempts": 1})``, which leaves urllib3 no repetition either. Of
botocore's errors only those of resolving and connecting prove that nothing was sent. Its
``SSLError`` does not: urllib3 raises it for handshakes and for broken reads alike. Nor does its
``ProxyConnectionError``: urllib3 raises that also when a proxy dies with the request in its hands.

Python's HTTP client takes headers that break off for all of them: what is missing may be the
header that says that the function failed. So an answer counts only if its body is not empty and
came to the end that its headers named, for then they were whole. Nor does botocore look whether
the body of an error is whole; but status and error code, if both are there, are the refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Invalid, code_of
from perdure.kernel.shown import text_of
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    NotSent,
    OutcomeNotKnown,
    ToolSpec,
)
from perdure.runtime.session.threads import in_thread
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX, answered, failed, too_large
from perdure.runtime.session.toolbox import checked_spec

BEFORE_SENDING: Final = frozenset(
    {
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "EndpointProviderError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "NoRegionError",
        "ParamValidationError",
        "PartialCredentialsError",
        "UnknownEndpointError",
    }
)
"""Classes of botocore's errors that come before a byte of the request has left, by name."""

REFUSED_UNSENT: Final[Mapping[str, str]] = {
    "TooManyRequestsException": "throttled",
    "ThrottlingException": "throttled",
    "AccessDeniedException": "access_denied",
    "ExpiredTokenException": "unauthenticated",
    "IncompleteSignatureException": "unauthenticated",
    "InvalidSignatureException": "unauthenticated",
    "MissingAuthenticationTokenException": "unauthenticated",
    "UnrecognizedClientException": "unauthenticated",
    "InvalidParameterValueException": "request_refused",
    "InvalidRequestContentException": "request_refused",
    "RecursiveInvocationException": "request_refused",
    "RequestTooLargeException": "request_refused",
    "ResourceNotFoundException": "request_refused",
    "SerializationException": "request_refused",
    "UnsupportedMediaTypeException": "request_refused",
    "ValidationException": "request_refused",
    "ResourceConflictException": "not_ready",
    "SnapStartNotReadyException": "not_ready",
}
"""Error codes of Lambda, under a status of 4xx, that say that no handler ran."""


class LambdaTool:
    """A tool that is a Lambda function."""

    def __init__(self, spec: ToolSpec, client: Any, function: str) -> None:
        """Describe a tool by a client that does not repeat, and a function's name or ARN.

        Raises Invalid.
        """
        retries = client.meta.config.retries or {}
        if retries.get("total_max_attempts") != 1:
            raise Invalid(expected="a client of one attempt at most", found=f"retries {retries}")
        self._client = client
        self._function = function
        self.spec = checked_spec(replace(spec, module=f"lambda:{function}"))

    async def call(self, request: CallRequest) -> CallOutcome:
        said = {"call_key": request.call_key, "name": request.name, "args": request.args}
        return await in_thread(partial(self._invoked, canonical(said)), name=self.spec.name)

    def _invoked(self, payload: bytes) -> CallOutcome:
        try:
            reply = self._client.invoke(
                FunctionName=self._function, InvocationType="RequestResponse", Payload=payload
            )
            return _outcome(reply, *_read(reply["Payload"]))
        except Exception as error:  # noqa: BLE001  # only what is known to prove something does
            return _failure(error)


def _read(payload: Any) -> tuple[bytes, int]:
    """Read a payload to its end, keep no more of it than a tool may answer, and count it."""
    kept, size = bytearray(), 0
    while piece := payload.read(65_536):
        size += len(piece)
        kept += piece[: OUTPUT_BYTES_MAX + 1 - len(kept)]
    return bytes(kept), size


def _outcome(reply: Mapping[str, Any], body: bytes, size: int) -> CallOutcome:
    headers = reply["ResponseMetadata"]["HTTPHeaders"]
    if reply["StatusCode"] != 200:
        return OutcomeNotKnown(f"http_{reply['StatusCode']}", "Lambda did not wait for an answer.")
    if not _is_whole(headers, size):
        return OutcomeNotKnown("answer_broken", "The answer may lack its end.")
    if size > OUTPUT_BYTES_MAX:
        return too_large(size)
    done = answered(body)
    if "FunctionError" not in reply:
        return done
    if done.is_error:
        return failed("function_error", str(reply["FunctionError"]))
    return Completed(done.output, is_error=True)


def _is_whole(headers: Mapping[str, str], size: int) -> bool:
    """Say whether a body that was read to its end is all there, and with it the headers."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return True
    return size > 0 and headers.get("content-length") == str(size)


def _failure(error: Exception) -> CallOutcome:
    """Return what an error of the client proves: nothing, unless it is known to."""
    name, detail = type(error).__name__, text_of(error)[:500]
    if type(error).__module__ == "botocore.exceptions" and name in BEFORE_SENDING:
        return NotSent(code_of(type(error)), detail)
    response = getattr(error, "response", None)
    if not isinstance(response, Mapping):
        return OutcomeNotKnown(code_of(type(error)), detail)
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if 400 <= status < 500 and code in REFUSED_UNSENT:
        return NotSent(REFUSED_UNSENT[code], detail)
    return OutcomeNotKnown(f"http_{status}", detail)
