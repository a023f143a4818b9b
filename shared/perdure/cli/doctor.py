"""`perdure doctor`: what is wrong with an installation, and what to do, one line each."""

from __future__ import annotations

import dataclasses
import os
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Final

import click

from perdure.api.checkup import Check, Finding, failed, run_checks
from perdure.api.checkup_settings import (
    application_check,
    settings_check,
    storage_key_check,
    variables_check,
)
from perdure.api.settings import APP, APP_DEFAULT, STORAGE, TABLE, Settings, local, place, settings
from perdure.cli import show
from perdure.cli.client import Place, placed
from perdure.cli.doctor_versions import versions_check
from perdure.cli.lazy import loaded
from perdure.kernel.errors import PerdureError

REFUSED: Final = 1
UNAVAILABLE: Final = 3

CHECKS: Final = (
    "variables",
    "versions",
    "settings",
    "storage-key",
    "application",
    "directory",
    "disk",
    "directory-write",
    "catalog",
    "credentials",
    "clock",
    "table",
    "table-write",
    "bucket",
    "bucket-write",
    "queue",
    "dead-letters",
    "tables",
    "floor",
    "address",
    "address-clock",
    "token",
    "worlds",
)
"""Every check there is, in the order in which they are told."""

_SECRETS: Final = ("SECRET", "TOKEN", "PASSWORD")
"""What the name of a variable has in it whose value nobody may see."""


@click.command()
@click.option(
    "--storage", help="URI of a storage, as in PERDURE_STORAGE; what that says by itself."
)
@click.option("--table", envvar=TABLE, help="DynamoDB table of --storage.")
@click.option("--write", is_flag=True, help="Try writes too, and take away what was written.")
@placed
def doctor(
    place: Place, *, storage: str | None, table: str | None, write: bool, as_json: bool
) -> None:
    """Check an installation, and say what to do.

    A storage by --root, --storage or PERDURE_STORAGE, a deployment by --url, or both. Nothing is
    changed. Exit codes: 0 nothing failed, 1 something did, 3 only what may pass by itself.
    """
    _check_usage(place, storage)
    environment = dict(os.environ)
    chosen = _chosen(place, storage, table)
    checks = sorted(
        _checks(place, chosen, environment, write=write), key=lambda each: CHECKS.index(each.name)
    )
    found = run_checks(checks, secrets=_secrets(place, environment))
    if as_json:
        show.as_json({"findings": [dataclasses.asdict(each) for each in found]})
    else:
        for each in found:
            click.echo(_line(each))
    wrong = failed(found)
    if wrong:
        sys.exit(UNAVAILABLE if all(each.may_pass for each in wrong) else REFUSED)


def _check_usage(place: Place, storage: str | None) -> None:
    if place.root is not None and storage is not None:
        raise click.UsageError("one of --root and --storage is enough")
    if not (place.root or storage or place.url or os.environ.get(STORAGE)):
        raise click.UsageError(f"one of --root, --storage, --url and {STORAGE} is needed")
    if place.url is not None and not place.url.startswith(("http://", "https://")):
        raise click.UsageError("--url must be http://… or https://…")


def _chosen(where: Place, storage: str | None, table: str | None) -> Settings | PerdureError | None:
    """Return the settings of the storage to look at, or what is wrong with them."""
    try:
        if where.root is not None:
            return local(where.root, app=where.app)
        if storage is not None:
            chosen = place(storage, table=table)
        elif where.url is None:
            chosen = settings()
        else:
            return None
    except PerdureError as error:
        return error
    return chosen if where.app is None else dataclasses.replace(chosen, app=where.app)


def _checks(
    where: Place,
    chosen: Settings | PerdureError | None,
    environment: Mapping[str, str],
    *,
    write: bool,
) -> Iterator[Check]:
    yield variables_check(environment)
    yield versions_check()
    if chosen is not None:
        yield settings_check(chosen)
        app = where.app or environment.get(APP) or APP_DEFAULT
        yield application_check(app)
    if isinstance(chosen, Settings):
        yield storage_key_check(chosen)
        yield from _storage_checks(chosen, write=write)
    if where.url is not None:
        of_address = loaded("perdure.cli.doctor_address:address_checks")
        yield from of_address(where.url, where.token, with_worlds=chosen is None)


def _storage_checks(chosen: Settings, *, write: bool) -> Iterator[Check]:
    """Yield the checks of a storage. By name: nobody else waits for AWS or Arrow."""
    authority = "catalog" if chosen.backend == "sqlite" else "table"
    if chosen.backend == "sqlite":
        yield from loaded("perdure.api.checkup_local:local_checks")(chosen, write=write)
    if not chosen.is_local:
        of_cloud = loaded("perdure.api.wiring_checkup_aws:cloud_checks")
        yield from of_cloud(chosen, write=write)
    needed = (authority,) if chosen.is_local else (authority, "bucket")
    yield loaded("perdure.api.checkup_tables:tables_check")(chosen, after=needed)
    yield from loaded("perdure.api.checkup_worlds:storage_checks")(chosen, after=(authority,))


def _secrets(where: Place, environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if any(part in name.upper() for part in _SECRETS):
            yield value.strip()
    if where.token is not None:
        yield where.token
    for address in (where.url, *environment.values()):
        if address is not None and "://" in address and "@" in address:
            yield _userinfo(address)
            yield _userinfo(address).partition(":")[2]


def _userinfo(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc.rpartition("@")[0]


def _line(finding: Finding) -> str:
    what_to_do = f" → {finding.remedy}" if finding.remedy else ""
    return f"{finding.level:<4}  {finding.check:<15}  {finding.found}{what_to_do}"
