"""The authorizer: what API Gateway does before a function is called, and how it says no."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jwt

from perdure_emulator.declared import IAM, OPEN
from perdure_emulator.issuer import Issuer, as_delivered

BEARER: Final = "bearer "

TOKENS_MAX: Final = 1_000
"""Good tokens that are remembered: to check a signature takes longer than all else here."""


class Denied(Exception):
    """A request that reaches no function; ``reply`` is what API Gateway answers."""

    def __init__(self, status: int, message: str, challenge: str | None = None) -> None:
        super().__init__(message)
        headers = {"content-type": "application/json"}
        if challenge is not None:
            headers["www-authenticate"] = challenge
        self.reply: dict[str, Any] = {
            "statusCode": status,
            "headers": headers,
            "body": json.dumps({"message": message}),
        }


class Authorizer:
    """Checks the tokens of one issuer. A signature that was good stays good: it is checked once."""

    def __init__(self, issuer: Issuer, *, now: Callable[[], float] = time.time) -> None:
        self._issuer = issuer
        self._now = now
        self._known: dict[str, Mapping[str, Any]] = {}

    def authorized(
        self, authorization: str, headers: Mapping[str, str], scopes: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Return what a route's authorizer found out, None for an open route. Raises Denied."""
        if authorization == OPEN:
            return None
        if authorization == IAM:
            # Signatures are AWS's to check: without it, such a route is open to nobody.
            raise Denied(403, "Forbidden")
        given = headers.get("authorization", "").strip()
        if not given:
            raise Denied(401, "Unauthorized", "Bearer")
        token = given[len(BEARER) :].strip() if given.lower().startswith(BEARER) else given
        try:
            claims = self._claims(token)
        except jwt.InvalidTokenError as error:
            raise Denied(401, "Unauthorized", _challenge(error)) from error
        if scopes and not {*scopes} & _scopes(claims):
            raise Denied(403, "Forbidden")
        return {"jwt": {"claims": as_delivered(claims), "scopes": None}}

    def _claims(self, token: str) -> Mapping[str, Any]:
        known = self._known.get(token)
        if known is None:
            known = self._issuer.claims(token)
            if len(self._known) >= TOKENS_MAX:
                self._known.clear()
            self._known[token] = known
        elif int(known["exp"]) <= self._now():
            raise jwt.ExpiredSignatureError
        return known


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    given = claims.get("scope", claims.get("scp", ""))
    return set(given if isinstance(given, list) else str(given).split())


def _challenge(error: jwt.InvalidTokenError) -> str:
    why = "the token has expired" if isinstance(error, jwt.ExpiredSignatureError) else "not good"
    return f'Bearer scope="" error="invalid_token" error_description="{why}"'
