"""What a stage does in front of its routes: pages of other sites, and how many requests it lets in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from perdure_emulator.declared import Cors, Throttle

WILDCARD: Final = "*"


class Pages:
    """Answers for CORS as API Gateway does: it asks no function, and overrules what one says."""

    def __init__(self, cors: Cors | None) -> None:
        self._cors = cors

    def lets(self, origin: str) -> bool:
        """Tell whether a page is named by itself; a wildcard opens nothing on this machine."""
        return self._cors is not None and origin in self._cors.origins

    def preflight(self, method: str, headers: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the answer to a browser that asks before it asks, None for any other request."""
        is_one = method == "OPTIONS" and "origin" in headers
        if self._cors is None or not is_one or "access-control-request-method" not in headers:
            return None
        allowed = self._allowed(headers)
        if allowed:
            named = {
                "access-control-allow-methods": ",".join(self._cors.methods),
                "access-control-allow-headers": ",".join(self._cors.headers),
                "access-control-max-age": self._cors.max_age_seconds,
            }
            allowed |= {name: str(each) for name, each in named.items() if each not in {"", None}}
        return {"statusCode": 204, "headers": allowed, "body": ""}

    def told(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Return a reply with what the browser of a page wants to know."""
        if self._cors is None:
            return dict(reply)
        kept = {
            name: each
            for name, each in reply.get("headers", {}).items()
            if not name.lower().startswith("access-control-")
        }
        allowed = self._allowed(headers)
        if allowed and self._cors.exposed:
            allowed["access-control-expose-headers"] = ",".join(self._cors.exposed)
        return {**reply, "headers": kept | allowed}

    def _allowed(self, headers: Mapping[str, str]) -> dict[str, str]:
        origin = headers.get("origin")
        if self._cors is None or origin is None:
            return {}
        if origin in self._cors.origins:
            found = {"access-control-allow-origin": origin, "vary": "origin"}
        elif WILDCARD in self._cors.origins:
            found = {"access-control-allow-origin": WILDCARD}
        else:
            return {}
        if self._cors.with_credentials:
            found["access-control-allow-credentials"] = "true"
        return found


class Bucket:
    """Lets in ``burst`` requests at once and ``rate`` a second after that."""

    def __init__(
        self, throttle: Throttle | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._throttle = throttle
        self._monotonic = monotonic
        self._tokens = 0.0 if throttle is None else float(throttle.burst)
        self._at = monotonic()

    def refused(self) -> dict[str, Any] | None:
        """Return what API Gateway answers to one request too many, None if it may pass."""
        if self._throttle is None:
            return None
        now = self._monotonic()
        gained = (now - self._at) * self._throttle.rate
        self._tokens, self._at = min(float(self._throttle.burst), self._tokens + gained), now
        if self._tokens < 1:
            body = json.dumps({"message": "Too Many Requests"})
            headers = {"content-type": "application/json"}
            return {"statusCode": 429, "headers": headers, "body": body}
        self._tokens -= 1
        return None
