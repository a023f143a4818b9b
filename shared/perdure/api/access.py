"""Access: the claims of a token become a principal, which may ask for some things only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from perdure.api.operations import LEAST_ROLE, ROLES, Role
from perdure.api.settings_access import Access
from perdure.kernel.caller import LOCAL, Allowance, Caller
from perdure.kernel.errors import InvalidId, NotPermitted, Unauthenticated
from perdure.kernel.ids import checked_id
from perdure.kernel.shown import shown

COST: Final[Mapping[str, int]] = {
    "run_ticks": 10,
    "land": 10,
    "trim": 10,
    "fork_world": 100,
    "create_world": 50,
    "create_store": 50,
    "create_session": 10,
    "start_job": 10,
    "retry_job": 10,
    "declare_table": 10,
    "commit_to_store": 10,
    "send_to_session": 10,
    "steer_run": 10,
}
"""Units of the quota that one call costs where it is not 1; a batch costs 1 for each command."""

_RANK: Final[Mapping[str, int]] = {role: rank for rank, role in enumerate(ROLES)}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, as what, and how much of it."""

    role: Role
    by: Caller = LOCAL

    def check(self, operation: str) -> None:
        """Let the role ask for an operation of the table. Raises NotPermitted."""
        least = LEAST_ROLE[operation]
        if _RANK[self.role] < _RANK[least]:
            raise NotPermitted(expected=f"at least role {least} for {operation}", found=self.role)


TRUSTED: Final = Principal("admin")
"""Whoever runs the functions' routes in a process of their own, with the storage in hand."""


def principal(event: Mapping[str, Any], access: Access, operation: str) -> Principal:
    """Return who sent an event, as API Gateway's authorizer says, if they may ask for this.

    Raises: Unauthenticated, NotPermitted.
    """
    authorizer = event["requestContext"].get("authorizer") or {}
    token, signature = authorizer.get("jwt"), authorizer.get("iam")
    if token is not None:
        asks = _of_token(token.get("claims") or {}, access, operation)
    elif signature is not None:
        asks = Principal("admin", Caller(_actor(signature.get("userId")), "gateway"))
    else:
        raise Unauthenticated(expected="a token that API Gateway has checked", found="none")
    asks.check(operation)
    return asks


def _of_token(claims: Mapping[str, str], access: Access, operation: str) -> Principal:
    actor = _actor(claims.get("sub"))
    role = _role(claims.get(access.role_claim))
    if role is None:
        raise NotPermitted(
            expected=f"a claim {access.role_claim!r} that is or lists one of {', '.join(ROLES)}",
            found=shown(claims.get(access.role_claim)),
        )
    _check_tenant(claims.get("tenant"), access)
    units = access.quotas[role]
    allowance = Allowance(units, access.window_ms, COST.get(operation, 1)) if units else None
    return Principal(role, Caller(actor, "gateway", allowance))


def _actor(subject: str | None) -> str:
    if subject is None:
        raise Unauthenticated(expected="a token with a claim 'sub'", found="none")
    try:
        return checked_id(subject, what="a claim 'sub'")
    except InvalidId as error:
        raise Unauthenticated(expected=error.expected, found=error.found) from error


def _role(claim: str | None) -> Role | None:
    """Return the role that a claim is, or the highest it lists: "[a b]" is a list."""
    if claim is None:
        return None
    is_list = claim.startswith("[") and claim.endswith("]")
    named = claim[1:-1].split(" ") if is_list else [claim]
    return next((role for role in reversed(ROLES) if role in named), None)


def _check_tenant(claim: str | None, access: Access) -> None:
    """Keep tokens of other tenants out. Raises NotPermitted."""
    if claim is None and access.tenant is None:
        return
    wanted = access.namespace if access.tenant is None else access.tenant
    if claim != wanted:
        raise NotPermitted(expected=f"a token for tenant {wanted!r}", found=shown(claim))
