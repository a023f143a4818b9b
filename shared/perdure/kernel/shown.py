"""Values and errors of others, spelled for a message: never too long, never a failure."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN_CHARACTERS_MAX = 80
"""Characters of a value from outside in a message."""


def shown(value: object) -> str:
    """Spell a value from outside for a message, however large or deep it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int too long, a nest too deep
        text = f"{type(value).__name__} too large to print"
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 1]}…"


def path_shown(parts: Iterable[int | str]) -> str:
    """Spell where in a request a value lies, with names from outside cut and escaped."""
    return ".".join(
        part if isinstance(part, str) and part.isidentifier() and len(part) <= 80 else shown(part)
        for part in parts
    )


def text_of(error: BaseException) -> str:
    """Spell an error of somebody else's for a message: never empty, always printable.

    Its text may be no Unicode, or fail as well: whoever raised it is not to be trusted.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # it has failed once already; its name must do
        text = ""
    return text.encode(errors="backslashreplace").decode() or type(error).__name__
