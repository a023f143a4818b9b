"""Checks of the Iceberg catalog: it opens, and lists the tables of the storage."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from perdure.api.checkup import Check, Finding, ok, warn
from perdure.api.settings import Settings
from perdure.authority.sqlite_schema import translated
from perdure.kernel.errors import Corrupt, SchemaMismatch

LAKE: Final = "perdure.api.wiring_lake_storage"
ICEBERG: Final = "perdure.lake.iceberg"
"""Both by name: only who asks for tables waits for Arrow."""

TABLES_SECONDS: Final = 10.0
"""Arrow and pyiceberg are imported, too."""


def tables_check(chosen: Settings, *, after: tuple[str, ...]) -> Check:
    """Does the Iceberg catalog open, and which tables does it have?"""
    remedy = (
        "move the file away and restore it from a copy"
        if chosen.backend == "sqlite"
        else "see that the catalog exists, and that you may list the tables of its namespace"
    )
    return Check("tables", lambda: _tables(chosen), remedy, after=after, seconds=TABLES_SECONDS)


def _tables(chosen: Settings) -> Iterator[Finding]:
    if chosen.backend == "sqlite":
        file = _file(chosen)
        if not file.exists():
            yield ok(f"no catalog at {file} yet: the first landing makes it")
            return
        _check_intact(file)
    catalog = importlib.import_module(LAKE).opened_catalog(chosen)
    try:
        is_there = (chosen.namespace,) in {*catalog.list_namespaces()}
        names = importlib.import_module(ICEBERG).Lake(catalog, chosen.namespace).names()
    finally:
        catalog.close()
    if is_there or chosen.backend == "sqlite":
        yield ok(f"the Iceberg catalog lists {len(names)} tables in {chosen.namespace}")
    else:
        yield warn(
            f"the Iceberg catalog has no namespace {chosen.namespace}",
            "make it, or let somebody land who may make it: perdure land",
        )


def _file(chosen: Settings) -> Path:
    if chosen.is_local:
        return chosen.catalog.parent / "iceberg.db"
    return chosen.catalog.with_suffix(".iceberg.db")


def _check_intact(file: Path) -> None:
    """See that opening the catalog will make nothing. Raises Corrupt, SchemaMismatch."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            names = {name for (name,) in rows}
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise translated(error, file) from error
    if found != "ok":
        raise Corrupt(expected=f"an intact SQLite database at {file}", found=str(found))
    if "iceberg_tables" not in names:
        raise SchemaMismatch(
            expected=f"an Iceberg catalog at {file}", found="a database without its tables"
        )
