"""Access: whose tokens are good for a storage, and how much their bearers may ask for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from perdure.api.operations import ROLES, Role
from perdure.api.settings import NAMESPACE, NAMESPACE_DEFAULT
from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import checked_id

TENANT: Final = "PERDURE_TENANT"
ROLE_CLAIM: Final = "PERDURE_ROLE_CLAIM"
QUOTA: Final = "PERDURE_QUOTA_"
"""Followed by a role in capitals, or by WINDOW_MS."""

QUOTA_DEFAULT: Final[Mapping[Role, int]] = {
    "viewer": 0,
    "player": 20_000,
    "operator": 0,
    "admin": 0,
}
"""Units a window: two of the largest batches for a player. Whoever runs the worlds may, unless told
otherwise, ask for as much as they like: 0 is no quota."""

WINDOW_MS_DEFAULT: Final = 60_000
"""Shorter than the patience of the command line, so that it waits for the next window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whose tokens are good for a storage, and how much their bearers may ask for."""

    namespace: str
    tenant: str | None = None
    """Tokens must name it; without one, a token that names a tenant must name the namespace."""
    role_claim: str = "role"
    quotas: Mapping[Role, int] = field(default_factory=lambda: QUOTA_DEFAULT)
    """Units in each window of time, by role; 0 is no quota."""
    window_ms: int = WINDOW_MS_DEFAULT


def access(environment: Mapping[str, str] | None = None) -> Access:
    """Read who has access to the storage of this process. Raises InvalidValue."""
    variables = os.environ if environment is None else environment
    return Access(
        namespace=checked_id(variables.get(NAMESPACE, NAMESPACE_DEFAULT), what=NAMESPACE),
        tenant=variables.get(TENANT) or None,
        role_claim=variables.get(ROLE_CLAIM) or "role",
        quotas={
            role: _whole(variables, f"{QUOTA}{role.upper()}", QUOTA_DEFAULT[role]) for role in ROLES
        },
        window_ms=_whole(variables, f"{QUOTA}WINDOW_MS", WINDOW_MS_DEFAULT, least=1),
    )


def _whole(variables: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = variables.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= limits.TICK_MAX):
        raise InvalidValue(
            expected=f"{name} to be a whole number from {least} on", found=repr(text)
        )
    return int(text)
