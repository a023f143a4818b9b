"""Checks of an address: does a deployment answer there, and what is a token good for?"""

from __future__ import annotations

import os
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import httpx
import jwt

from perdure.api.checkup import Check, Finding, fail, ok, warn
from perdure.api.checkup_clock import compared
from perdure.api.checkup_worlds import ASKED_MAX, Seen, judged
from perdure.api.operations import ROLES
from perdure.api.settings_access import ROLE_CLAIM
from perdure.authority import system
from perdure.cli.client import path_of

TIMES_OUT: Final = httpx.Timeout(3.0, connect=2.0)
"""A deployment answers in milliseconds, one that starts in two seconds."""

PAGE: Final = 1_000
TOKEN_SECONDS_FEW: Final = 300
WORLDS_SECONDS: Final = 10.0

REACH: Final = "see that `perdure dev` runs there, or that the address is the template's output Url"
GET_ONE: Final = "give --token or PERDURE_TOKEN a token: perdure token, or your issuer"

_DENIED: Final = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def address_checks(url: str, token: str | None, *, with_worlds: bool) -> list[Check]:
    """Return the checks of a deployment that is reached over HTTP."""
    asking = _Asking(url, token)
    checks = [
        _check("address", asking, _address, REACH),
        _check("address-clock", asking, _clock, REACH, "address"),
        _check("token", asking, _token, GET_ONE, "address"),
    ]
    if with_worlds:
        checks.append(_check("worlds", asking, _worlds, GET_ONE, "token"))
    return checks


class _Asking:
    """Where to ask, and as whom; each question on a connection of its own."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token

    @property
    def shown(self) -> str:
        """The address without what may be a password."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def get(self, path: str) -> httpx.Response:
        headers = {} if not self.token else {"authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=TIMES_OUT) as client:
            return client.get(path)


def _check(
    name: str,
    asking: _Asking,
    ask: Callable[[_Asking], Iterator[Finding]],
    remedy: str,
    *after: str,
) -> Check:
    def answered() -> Iterator[Finding]:
        try:
            yield from ask(asking)
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
            yield fail(f"{asking.shown} does not answer: {why}", REACH, may_pass=True)

    return Check(name, answered, remedy, after=after, seconds=WORLDS_SECONDS)


def _address(asking: _Asking) -> Iterator[Finding]:
    reply = asking.get("/healthz")
    if reply.status_code in _DENIED:
        yield ok(f"{asking.shown} answers, and asks for a good token")
    elif reply.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        found = f"{asking.shown} answers HTTP {reply.status_code}"
        yield fail(found, "see the log of the function api", may_pass=True)
    elif reply.status_code != HTTPStatus.OK or _json(reply) != {"status": "ok"}:
        yield fail(f"{asking.shown} is no deployment: HTTP {reply.status_code}", REACH)
    else:
        yield ok(f"{asking.shown} answers, and could open its storage")


def _json(reply: httpx.Response) -> Any:
    try:
        return reply.json()
    except ValueError:
        return None


def _clock(asking: _Asking) -> Iterator[Finding]:
    began = system.now()
    reply = asking.get("/healthz")
    date = reply.headers.get("date")
    yield compared(date, began_ms=began, ended_ms=system.now(), who=asking.shown)


def _token(asking: _Asking) -> Iterator[Finding]:
    if not asking.token:
        yield fail("none is given", GET_ONE)
        return
    try:
        claims = jwt.decode(asking.token, options={"verify_signature": False})
    except jwt.InvalidTokenError as error:
        yield fail(f"it is no JSON web token: {error}", GET_ONE)
        return
    reply = asking.get("/healthz")
    left = _seconds_left(claims)
    if left is not None and left <= 0:
        yield fail(f"it expired {-left} s ago", GET_ONE)
    elif reply.status_code in _DENIED:
        why = reply.headers.get("www-authenticate") or (_json(reply) or {}).get("detail", "")
        yield fail(f"HTTP {reply.status_code}: {why or 'no reason given'}", GET_ONE)
    elif left is not None and left < TOKEN_SECONDS_FEW:
        yield warn(f"{_who(claims)}; it expires in {left} s", GET_ONE)
    else:
        until = "never" if left is None else _moment(time.time() + left)
        yield ok(f"{_who(claims)}; it expires {until}")


def _seconds_left(claims: Mapping[str, Any]) -> int | None:
    expires = claims.get("exp")
    return round(expires - time.time()) if isinstance(expires, int | float) else None


def _who(claims: Mapping[str, Any]) -> str:
    role_claim = os.environ.get(ROLE_CLAIM) or "role"
    role = claims.get(role_claim)
    listed = role if isinstance(role, list) else [role]
    known = next((each for each in reversed(ROLES) if each in listed), None)
    said = f"role {known}" if known else f"no role of {', '.join(ROLES)} in {role_claim}"
    tenant = claims.get("tenant")
    return f"{said}, tenant {tenant}" if tenant is not None else f"{said}, no tenant"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")


def _worlds(asking: _Asking) -> Iterator[Finding]:
    found = _listed(asking)
    lags = {}
    for each in found[:ASKED_MAX]:
        one = asking.get(path_of(each["world_id"])).raise_for_status().json()
        lags[each["world_id"]] = max((reader["lag"] for reader in one["consumers"]), default=0)
    seen = Seen(worlds=found, lags=lags, due_at=None, asked=min(len(found), ASKED_MAX))
    yield from judged(seen, system.now())


def _listed(asking: _Asking) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    following = ""
    while True:
        query = urllib.parse.urlencode({"limit": PAGE, "show": "all"})
        page = asking.get(f"/v1/worlds?{query}{following}").raise_for_status().json()
        found += page["worlds"]
        if page.get("next") is None:
            return found
        following = f"&{urllib.parse.urlencode({'next': page['next']})}"
