"""Settings: what the environment says, read here and nowhere else."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import StorageId, checked_id

Backend = Literal["sqlite", "dynamodb"]

STORAGE: Final = "PERDURE_STORAGE"
NAMESPACE: Final = "PERDURE_NAMESPACE"
TABLE: Final = "PERDURE_TABLE"
APP: Final = "PERDURE_APP"
ENDPOINT: Final = "AWS_ENDPOINT_URL"

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
        spelled = {
            STORAGE: self.uri,
            NAMESPACE: self.namespace,
            APP: self.app,
            TABLE: self.table,
            f"{ENDPOINT}_DYNAMODB": self.dynamodb_endpoint,
            f"{ENDPOINT}_S3": self.s3_endpoint,
            f"{ENDPOINT}_GLUE": self.glue_endpoint,
        }
        return {name: value for name, value in spelled.items() if value is not None}


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
    everywhere = variables.get(ENDPOINT) or None
    return Settings(
        uri=uri.rstrip("/"),
        namespace=checked_id(variables.get(NAMESPACE, NAMESPACE_DEFAULT), what=NAMESPACE),
        table=table,
        app=variables.get(APP, APP_DEFAULT),
        dynamodb_endpoint=variables.get(f"{ENDPOINT}_DYNAMODB") or everywhere,
        s3_endpoint=variables.get(f"{ENDPOINT}_S3") or everywhere,
        glue_endpoint=variables.get(f"{ENDPOINT}_GLUE") or everywhere,
    )


def local(root: Path, *, app: str | None = None, namespace: str | None = None) -> Settings:
    """Return the settings of a storage in a local directory; the rest from the environment."""
    return Settings(
        uri=root.expanduser().resolve().as_uri(),
        namespace=namespace or os.environ.get(NAMESPACE, NAMESPACE_DEFAULT),
        app=app or os.environ.get(APP, APP_DEFAULT),
    )


def place(where: str, *, table: str | None = None, namespace: str | None = None) -> Settings:
    """Return the settings of a storage named by a directory or a URI; the rest from the environment.

    Raises: InvalidValue, InvalidId.
    """
    if "://" not in where:
        return local(Path(where), namespace=namespace)
    said = {} if namespace is None else {NAMESPACE: namespace}
    return settings({**os.environ, STORAGE: where, TABLE: table or "", **said})
