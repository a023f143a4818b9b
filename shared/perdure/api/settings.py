"""Settings: what the environment says, read here and nowhere else."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from perdure.api.operations import ROLES, Role
from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import StorageId, checked_id

Backend = Literal["sqlite", "dynamodb"]

STORAGE: Final = "PERDURE_STORAGE"
NAMESPACE: Final = "PERDURE_NAMESPACE"
TABLE: Final = "PERDURE_TABLE"
APP: Final = "PERDURE_APP"

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

NAMESPACE_DEFAULT: Final = "default"
APP_DEFAULT: Final = "airspace.app:app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where a storage lies and which application its worlds belong to."""

    uri: str
    namespace: str
    table: str | None = None
    app: str = APP_DEFAULT
    dynamodb_endpoint: str | None = None
    s3_endpoint: str | None = None
    glue_endpoint: str | None = None

    @property
    def backend(self) -> Backend:
        """Tell which authority serves the storage; the scheme of its URI says so."""
        return "sqlite" if self.uri.startswith("file:") else "dynamodb"

    @property
    def root(self) -> Path:
        """The directory of a local storage."""
        assert self.backend == "sqlite"
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(self.uri).path))

    @property
    def storage(self) -> StorageId:
        """The storage identity: where its authority is, namespace and backend.

        A local catalog file serves one storage, wherever its directory is moved to.
        """
        place = "file:" if self.backend == "sqlite" else self.uri
        return StorageId(f"{place}#{self.namespace}#{self.backend}")

    def environment(self) -> dict[str, str]:
        """Spell the settings as the variables that :func:`settings` reads."""
        spelled = {STORAGE: self.uri, NAMESPACE: self.namespace, APP: self.app}
        return spelled if self.table is None else {**spelled, TABLE: self.table}


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process.

    ``PERDURE_STORAGE`` is ``file:///directory`` or ``s3://bucket/prefix``; the latter needs
    ``PERDURE_TABLE``, a DynamoDB table. The AWS endpoint overrides are AWS's own variables.
    Raises: InvalidValue.
    """
    variables = os.environ if environment is None else environment
    uri = variables.get(STORAGE, "")
    table = variables.get(TABLE) or None
    scheme = urllib.parse.urlsplit(uri).scheme
    if scheme not in {"file", "s3"}:
        raise InvalidValue(
            expected=f"{STORAGE} to be file:///directory or s3://bucket/prefix", found=repr(uri)
        )
    if scheme == "s3" and table is None:
        raise InvalidValue(
            expected=f"{TABLE} to name a DynamoDB table for {uri}", found="no such variable"
        )
    everywhere = variables.get("AWS_ENDPOINT_URL") or None
    return Settings(
        uri=uri.rstrip("/"),
        namespace=checked_id(variables.get(NAMESPACE, NAMESPACE_DEFAULT), what=NAMESPACE),
        table=table,
        app=variables.get(APP, APP_DEFAULT),
        dynamodb_endpoint=variables.get("AWS_ENDPOINT_URL_DYNAMODB") or everywhere,
        s3_endpoint=variables.get("AWS_ENDPOINT_URL_S3") or everywhere,
        glue_endpoint=variables.get("AWS_ENDPOINT_URL_GLUE") or everywhere,
    )


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


def local(root: Path, *, app: str | None = None, namespace: str | None = None) -> Settings:
    """Return the settings of a storage in a local directory; the rest from the environment."""
    return Settings(
        uri=root.expanduser().resolve().as_uri(),
        namespace=namespace or os.environ.get(NAMESPACE, NAMESPACE_DEFAULT),
        app=app or os.environ.get(APP, APP_DEFAULT),
    )
