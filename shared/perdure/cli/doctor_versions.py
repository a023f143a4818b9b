"""The check of versions: what is installed, against what this version asks for."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from perdure.api.checkup import Check, Finding, fail, ok, warn
from perdure.api.checkup_local import sqlite_finding

NAME: Final = "perdure"
TOLD: Final = ("perdure", "boto3", "pyarrow", "pyiceberg")


def versions_check() -> Check:
    """Are Python, SQLite and what is installed as new, and as old, as they must be?"""
    return Check("versions", lambda: [*_versions()], "install perdure anew: scripts/setup runtime")


def _versions() -> Iterator[Finding]:
    try:
        python = importlib.metadata.metadata(NAME)["Requires-Python"]
    except importlib.metadata.PackageNotFoundError:
        yield warn("perdure is not installed, only found", "install it: scripts/setup runtime")
        return
    problems = [
        *python_findings(python, platform.python_version()),
        *package_findings(importlib.metadata.requires(NAME) or []),
    ]
    of_sqlite = sqlite_finding()
    problems += [] if of_sqlite is None else [of_sqlite]
    yield from problems
    if not problems:
        told = ", ".join(f"{name} {_installed(name)}" for name in TOLD)
        yield ok(
            f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {told}:"
            " all within their ranges"
        )


def python_findings(wanted: str, version: str) -> Iterator[Finding]:
    """Say whether a Python is one that this version asks for."""
    if not SpecifierSet(wanted).contains(version, prereleases=True):
        yield fail(f"Python {version}, not {wanted}", "make the environment with another Python")


def package_findings(requirements: Iterable[str]) -> Iterator[Finding]:
    """Say which packages are outside of their ranges, or not there."""
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        version = _installed(wanted.name)
        if version is None:
            yield fail(f"{wanted.name} is not installed", f"pip install '{text}'")
        elif not wanted.specifier.contains(version, prereleases=True):
            yield fail(f"{wanted.name} {version}, not {wanted.specifier}", f"pip install '{text}'")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
