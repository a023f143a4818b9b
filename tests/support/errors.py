"""Kinds of errors, those of Perdure alone: other tests may have made some of their own."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.kernel.errors import PerdureError, kinds_of


def kinds(family: type[PerdureError]) -> Iterator[type[PerdureError]]:
    """Return all that are of a family of errors, and come with Perdure."""
    return (kind for kind in kinds_of(family) if kind.__module__.startswith("perdure."))
