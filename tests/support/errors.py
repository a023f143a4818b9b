"""Kinds of errors, those of Perdure alone: other tests may have made some of their own."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.kernel.errors import PerdureError


def kinds(family: type[PerdureError]) -> Iterator[type[PerdureError]]:
    """Yield all that are of a family of errors, and come with Perdure."""
    for kind in family.__subclasses__():
        if kind.__module__.startswith("perdure."):
            yield kind
            yield from kinds(kind)
