"""Fixtures of the review: those of the command line."""

from __future__ import annotations

from tests.cli.conftest import harbour, local, perdure, root

__all__ = ["harbour", "local", "perdure", "root"]
