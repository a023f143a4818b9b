"""Checks of what is said to a process: its variables, its storage, its application."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from perdure.api import settings as said
from perdure.api import settings_access as asked
from perdure.api import settings_models as models
from perdure.api.checkup import Check, Finding, fail, ok, warn
from perdure.api.operations import ROLES
from perdure.api.settings import Settings
from perdure.api.settings_observing import LEVEL_DEFAULT, LEVELS_KNOWN, unknown_level
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import short_hash
from perdure.runtime.app import load_app

BEARER: Final = "PERDURE_TOKEN"
TICKS: Final = said.TICKS
TABLES: Final = "PERDURE_TABLES"
ENDPOINT: Final = said.ENDPOINT

KNOWN: Final = frozenset(
    {
        said.STORAGE,
        said.NAMESPACE,
        said.TABLE,
        said.TRIM,
        said.LEASE,
        said.SESSIONS,
        said.JOBS,
        models.KEY,
        models.URL,
        said.APP,
        said.CATALOGS,
        asked.TENANT,
        asked.ROLE_CLAIM,
        *(f"{asked.QUOTA}{role.upper()}" for role in ROLES),
        f"{asked.QUOTA}WINDOW_MS",
        BEARER,
        TICKS,
        TABLES,
    }
)
"""Every PERDURE_ variable that anything reads."""

SERVICES: Final = ("DYNAMODB", "S3", "GLUE", "SQS", "S3TABLES", "STS", "CLOUDWATCH")
KNOWN_TO_AWS: Final = frozenset(
    {
        ENDPOINT,
        *(f"{ENDPOINT}_{service}" for service in SERVICES),
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CA_BUNDLE",
    }
)
"""Variables of AWS that decide where this project asks, and as whom."""

SIMILAR: Final = 0.84
"""From here on a name is a slip of a known one; AWS has many names that are none of ours."""

APPLICATION_SECONDS: Final = 30.0
"""Its modules are imported, and whatever they import: Arrow alone may take seconds."""

_URL: Final = re.compile(r"https?://[^/\s]+(/\S*)?")
_TABLE_BUCKET: Final = re.compile(r"arn:[\w\-]+:s3tables:[\w\-]+:\d{12}:bucket/[\w.\-]+")


def variables_check(environment: Mapping[str, str]) -> Check:
    """Are the variables spelled right, and can their values be read?"""

    def ask() -> Iterator[Finding]:
        found = [*_misspelled(environment), *_unreadable(environment)]
        yield from found
        if not found:
            count = sum(name in KNOWN | KNOWN_TO_AWS for name in environment)
            yield ok(f"{count} PERDURE_ and AWS variables are set, all known and readable")

    return Check("variables", ask, "unset what no other program needs")


def _misspelled(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(environment):
        family = KNOWN if name.startswith("PERDURE_") else KNOWN_TO_AWS
        if name in family or not name.startswith(("PERDURE_", "AWS_")):
            continue
        meant = difflib.get_close_matches(name, sorted(family), n=1, cutoff=SIMILAR)
        if meant and not environment.get(meant[0]):
            yield warn(f"{name} is set, which nothing reads", f"rename it to {meant[0]}")
        elif family is KNOWN:
            yield warn(f"{name} is set, which nothing reads", "unset it, or see how it is spelled")


def _unreadable(environment: Mapping[str, str]) -> Iterator[Finding]:
    try:
        asked.access(environment)
    except PerdureError as error:
        yield fail(f"expected {error.expected}, found {error.found}", "set it right, or unset it")
    level = unknown_level(environment)
    if level is not None:
        yield fail(
            f"{level} is no level of a log: functions tell from {LEVEL_DEFAULT} on",
            f"set it to {', '.join(sorted(LEVELS_KNOWN))}, or unset it",
        )
    queue, tables = environment.get(TICKS, ""), environment.get(TABLES, "")
    if queue and not _URL.fullmatch(queue):
        yield fail(f"{TICKS} is no URL of a queue", "set it to the QueueUrl of the queue Ticks")
    if tables not in {"", "glue"} and not _TABLE_BUCKET.fullmatch(tables):
        yield fail(
            f"{TABLES} is neither glue nor the ARN of an S3 table bucket",
            "unset it for Glue, or set it to arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME",
        )
    for name in sorted(name for name in environment if name.startswith(ENDPOINT)):
        if environment[name] and not _URL.fullmatch(environment[name]):
            yield fail(f"{name} is no URL", "set it to http://HOST:PORT, or unset it for AWS")


def settings_check(chosen: Settings | PerdureError) -> Check:
    """Do the options and variables name a storage? ``chosen`` may be why they do not."""

    def ask() -> Iterator[Finding]:
        if isinstance(chosen, PerdureError):
            raise chosen
        table = "" if chosen.table is None else f", table {chosen.table}"
        yield ok(f"storage {chosen.uri}, namespace {chosen.namespace}{table}")

    return Check("settings", ask, "name a storage by --root, --storage or PERDURE_STORAGE")


def storage_key_check(chosen: Settings) -> Check:
    """Which key do the partitions of the storage begin with?"""

    def ask() -> Iterator[Finding]:
        key = storage_key(chosen)
        if chosen.backend == "sqlite":
            # Of a directory it does not even follow from where that is.
            yield ok(f"{key}; the template's parameter StorageKey is that of a storage in a table")
        else:
            yield ok(f"{key} is the template's parameter StorageKey")

    return Check("storage-key", ask, "name a storage")


def storage_key(chosen: Settings) -> str:
    """Return the 22 characters that are the second part of every partition of a storage."""
    return short_hash(chosen.storage)


def application_check(reference: str) -> Check:
    """Does the application load, with every component that its processors name?"""

    def ask() -> Iterator[Finding]:
        app = load_app(reference)
        app.load()
        names = sorted({model.component.name for model in app.registry})
        if not names:
            yield warn(f"{reference} has no component", "register classes with @app.component")
            return
        for name in names:
            app.registry.named(name)
        processors = len(app.processors())
        yield ok(f"{reference}: {len(names)} components, {processors} processors")

    remedy = "set PERDURE_APP or --app to module:attribute, and see that the module can be imported"
    return Check("application", ask, remedy, seconds=APPLICATION_SECONDS)
