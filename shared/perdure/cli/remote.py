"""Remote: the HTTP interface of a deployment, or of the emulator."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import click
import httpx

from perdure.cli.client import Answered, Query, patiently
from perdure.kernel.errors import Unauthenticated

CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 60.0
"""Twice what API Gateway gives an integration."""


class Remote:
    """Asks over HTTP."""

    rows_per_page = 20_000

    def __init__(self, url: str, *, token: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f"--url must be http://… or https://…, not {url!r}")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise click.UsageError("--token must be what `perdure token` or an issuer gave")
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {} if key is None else {"idempotency-key": key}
        reply = patiently(
            lambda: self._sent(method, path, params=given, json=body, headers=headers),
            lambda answered: answered.headers.get("retry-after"),
        )
        return _decided(reply)

    def close(self) -> None:
        self._http.close()

    def _sent(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **parts)
        except httpx.TransportError as error:
            detail = f"Expected an answer from {self._url}; found {str(error).lower()}."
            raise Answered({"code": "unavailable", "detail": detail}) from error


def _decided(reply: httpx.Response) -> Any:
    try:
        answer = reply.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        detail = f"Expected a JSON object; found HTTP {reply.status_code} without one."
        raise Answered({"code": "unreadable_answer", "detail": detail})
    if reply.status_code == HTTPStatus.UNAUTHORIZED and "code" not in answer:
        why = reply.headers.get("www-authenticate", "")
        detail = f"Expected a good token (--token or PERDURE_TOKEN); found none that is. {why}"
        answer = {"code": Unauthenticated.code, "detail": detail.strip()}
    if reply.is_error:
        # API Gateway itself answers {"message": …}, without a code.
        answer.setdefault("code", "refused_by_the_gateway")
        answer.setdefault("detail", str(answer.get("message", reply.reason_phrase)))
        raise Answered(answer, status=reply.status_code)
    return answer
