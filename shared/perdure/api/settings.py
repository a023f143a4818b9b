"""Settings: what the environment says, read here and nowhere else."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from perdure.api.durations import milliseconds
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import StorageId, checked_id
from perdure.kernel.limits import LEASE_MS_MAX

LEASE_MS_MIN: Final = 100
"""Shorter leases end while their holder waits for a disk: worlds would change hands all the time."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")

Backend = Literal["sqlite", "dynamodb"]

STORAGE: Final = "PERDURE_STORAGE"
NAMESPACE: Final = "PERDURE_NAMESPACE"
TABLE: Final = "PERDURE_TABLE"
TRIM: Final = "PERDURE_TRIM"
LEASE: Final = "PERDURE_LEASE"
APP: Final = "PERDURE_APP"
TICKS: Final = "PERDURE_TICKS"
SESSIONS: Final = "PERDURE_SESSIONS"
JOBS: Final = "PERDURE_JOBS"
CATALOGS: Final = "PERDURE_CATALOG_DIR"
TABLES: Final = "PERDURE_TABLES"
ENDPOINT: Final = "AWS_ENDPOINT_URL"

NAMESPACE_DEFAULT: Final = "default"
FINGERPRINT_DIGITS: Final = 24
"""Digits of the fingerprint that name a catalog file."""

APP_DEFAULT: Final = "airspace.app:app"

GLUE: Final = "glue"
"""The Iceberg catalog of a storage in the cloud that names none."""

_TABLE_BUCKET: Final = re.compile(
    r"arn:aws[\w-]*:s3tables:[a-z0-9-]+:\d{12}:bucket/[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"
)
_TABLE_BUCKET_NAMESPACE: Final = re.compile(r"(?!aws)[a-z0-9]([a-z0-9_]{0,253}[a-z0-9])?")
"""What a namespace of tables may be called. Source: S3 Tables, naming rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where a storage lies and which application its worlds belong to."""

    uri: str
    namespace: str
    table: str | None = None
    app: str = APP_DEFAULT
    trim_ms: int | None = None
    """Age from which the schedule that lands lets go of what has landed; None for never."""

    lease_ms: int | None = None
    """How long others leave alone what a writer holds that was killed; None for what suits the
    backend. In a deployment it may end before a function does: then its writer is overtaken."""

    ticks: str | None = None
    """URL of the queue of worlds that are due."""

    sessions: str | None = None
    """URL of the queue of sessions that have something to do."""

    jobs: str | None = None
    """URL of the queue of jobs that are due."""

    dynamodb_endpoint: str | None = None
    s3_endpoint: str | None = None
    glue_endpoint: str | None = None
    s3tables_endpoint: str | None = None
    sqs_endpoint: str | None = None
    tables: str = GLUE
    """The Iceberg catalog in the cloud: ``glue``, or the ARN of an S3 table bucket."""

    catalogs: str | None = None
    """Directory of the authorities that this machine is of remote data."""

    @property
    def backend(self) -> Backend:
        """Tell which authority serves the storage: a table if one is named, else a local file."""
        return "sqlite" if self.table is None else "dynamodb"

    @property
    def is_local(self) -> bool:
        """Say whether objects and tables are files of this machine, too."""
        return self.uri.startswith("file:")

    @property
    def is_in_table_bucket(self) -> bool:
        """Say whether the tables are in an S3 table bucket."""
        return self.tables != GLUE

    @property
    def root(self) -> Path:
        """The directory of a local storage."""
        assert self.is_local
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(self.uri).path))

    @property
    def storage(self) -> StorageId:
        """The storage identity: where its authority is, namespace and backend.

        A local catalog file serves one storage, wherever its directory is moved to. A table
        bucket is part of it: what has landed in another catalog would be looked for in vain.
        """
        place = "file:" if self.is_local else self.uri
        found = f"{place}#{self.namespace}#{self.backend}"
        return StorageId(f"{found}#{self.tables}" if self.is_in_table_bucket else found)

    @property
    def fingerprint(self) -> str:
        """The digest of the storage identity; credentials are no part of it."""
        identity = {"uri": self.uri, "namespace": self.namespace, "backend": self.backend}
        if self.is_in_table_bucket:
            identity["tables"] = self.tables
        return digest("perdure.catalog.v1", canonical(identity))

    @property
    def catalog(self) -> Path:
        """The SQLite file of a local authority.

        Beside the data; where these are remote, in ``catalogs`` and named by the fingerprint.
        """
        assert self.backend == "sqlite"
        if self.is_local:
            return self.root / self.namespace / f".perdure-catalog-{self.backend}.db"
        home = Path(self.catalogs or "~/.perdure/catalogs").expanduser()
        return home / f"{self.fingerprint[:FINGERPRINT_DIGITS]}.db"

    def environment(self) -> dict[str, str]:
        """Spell the settings as the variables that :func:`settings` reads."""
        spelled = {
            STORAGE: self.uri,
            NAMESPACE: self.namespace,
            APP: self.app,
            TABLE: self.table,
            CATALOGS: self.catalogs,
            f"{ENDPOINT}_DYNAMODB": self.dynamodb_endpoint,
            f"{ENDPOINT}_S3": self.s3_endpoint,
            f"{ENDPOINT}_GLUE": self.glue_endpoint,
            f"{ENDPOINT}_S3TABLES": self.s3tables_endpoint,
            TABLES: self.tables if self.is_in_table_bucket else None,
            TICKS: self.ticks,
            SESSIONS: self.sessions,
            JOBS: self.jobs,
            LEASE: None if self.lease_ms is None else f"{self.lease_ms}ms",
            f"{ENDPOINT}_SQS": self.sqs_endpoint,
        }
        return {name: value for name, value in spelled.items() if value is not None}


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process.

    ``PERDURE_STORAGE`` is ``file:///directory`` or ``s3://bucket/prefix``. ``PERDURE_TABLE`` names
    the DynamoDB table that is the authority of the latter; without it, a file of this machine in
    ``PERDURE_CATALOG_DIR`` is. ``PERDURE_TABLES`` is the ARN of the S3 table bucket for the Iceberg
    tables of a bucket; without it they are in the Glue catalog, or in a file beside a local
    authority. ``PERDURE_TICKS`` is the queue of worlds that are due,
    ``PERDURE_SESSIONS`` that of sessions, ``PERDURE_JOBS`` that of jobs, ``PERDURE_LEASE`` how
    long the next writer waits for one that was killed. The AWS endpoint overrides are AWS's own
    variables.
    Raises: InvalidValue, InvalidId.
    """
    variables = os.environ if environment is None else environment
    uri = _normal(variables.get(STORAGE, ""))
    is_local = uri.startswith("file:")
    everywhere = variables.get(ENDPOINT) or None
    namespace = checked_id(variables.get(NAMESPACE, NAMESPACE_DEFAULT), what=NAMESPACE)
    return Settings(
        uri=uri,
        namespace=namespace,
        table=None if is_local else variables.get(TABLE) or None,
        app=variables.get(APP, APP_DEFAULT),
        trim_ms=milliseconds(variables[TRIM]) if variables.get(TRIM) else None,
        lease_ms=_lease_ms(variables),
        dynamodb_endpoint=variables.get(f"{ENDPOINT}_DYNAMODB") or everywhere,
        s3_endpoint=variables.get(f"{ENDPOINT}_S3") or everywhere,
        glue_endpoint=variables.get(f"{ENDPOINT}_GLUE") or everywhere,
        s3tables_endpoint=variables.get(f"{ENDPOINT}_S3TABLES") or everywhere,
        tables=GLUE if is_local else _tables(variables.get(TABLES) or GLUE, namespace),
        ticks=variables.get(TICKS) or None,
        sessions=variables.get(SESSIONS) or None,
        jobs=variables.get(JOBS) or None,
        sqs_endpoint=variables.get(f"{ENDPOINT}_SQS") or everywhere,
        catalogs=variables.get(CATALOGS) or None,
    )


def _lease_ms(variables: Mapping[str, str]) -> int | None:
    """Read how long a lease is. Raises InvalidValue."""
    given = variables.get(LEASE)
    if not given:
        return None
    found = milliseconds(given)
    if not LEASE_MS_MIN <= found <= LEASE_MS_MAX:
        raise InvalidValue(
            expected=f"{LEASE} from {LEASE_MS_MIN}ms to {LEASE_MS_MAX // 60_000}m", found=given
        )
    return found


def _tables(named: str, namespace: str) -> str:
    """Return the catalog that is named. Raises InvalidValue if it cannot hold ``namespace``."""
    if named == GLUE:
        return named
    if not _TABLE_BUCKET.fullmatch(named):
        raise InvalidValue(
            expected=f"{TABLES} to be {GLUE} or the ARN of an S3 table bucket", found=repr(named)
        )
    if not _TABLE_BUCKET_NAMESPACE.fullmatch(namespace):
        raise InvalidValue(
            expected=f"{NAMESPACE} of lower-case letters, digits and underscores, not at either"
            " end and not beginning with aws, as S3 Tables asks of a namespace",
            found=repr(namespace),
        )
    return named


def _normal(uri: str) -> str:
    """Return the one spelling of a storage's URI. Raises InvalidValue."""
    parts = urllib.parse.urlsplit(uri)
    is_bare = not (parts.query or parts.fragment) and "@" not in parts.netloc
    expected = f"{STORAGE} to be file:///directory or s3://bucket/prefix"
    if is_bare and parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(urllib.parse.unquote(parts.path) or "/").resolve().as_uri()
    if is_bare and parts.scheme == "s3" and parts.netloc:
        path = "/".join(part for part in parts.path.split("/") if part)
        return f"s3://{parts.netloc}/{path}".rstrip("/")
    # What might be a password is not repeated.
    found = repr(uri) if is_bare else "one with credentials, a query or a fragment"
    raise InvalidValue(expected=expected, found=found)


def local(root: Path, *, app: str | None = None, namespace: str | None = None) -> Settings:
    """Return the settings of a storage in a local directory; the rest from the environment.

    Raises: InvalidId for a namespace that is no plain name; InvalidValue for a lease.
    """
    chosen = os.environ.get(NAMESPACE, NAMESPACE_DEFAULT) if namespace is None else namespace
    return Settings(
        uri=root.expanduser().resolve().as_uri(),
        namespace=checked_id(chosen, what=NAMESPACE),
        app=app or os.environ.get(APP, APP_DEFAULT),
        lease_ms=_lease_ms(os.environ),
    )


def place(where: str, *, table: str | None = None, namespace: str | None = None) -> Settings:
    """Return the settings of a storage named by a directory or a URI; the rest from the environment.

    Raises: InvalidValue, InvalidId.
    """
    if not _SCHEME.match(where):
        return local(Path(where), namespace=namespace)
    said = {} if namespace is None else {NAMESPACE: namespace}
    return settings({**os.environ, STORAGE: where, TABLE: table or "", **said})
