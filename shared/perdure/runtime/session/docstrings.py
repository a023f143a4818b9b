"""Docstrings: what they tell a model of a function and of its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

_SECTION: Final = re.compile(
    r"(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?|Attributes):\s*\Z"
)
_PARAMETER: Final = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)\Z")


@dataclass(frozen=True, slots=True)
class Told:
    """A docstring in parts."""

    text: str
    """What stands before the first section."""

    parameters: dict[str, str] = field(default_factory=dict)
    """What the section ``Args:`` says of each."""


def read(docstring: str) -> Told:
    """Read a docstring in Google's style, as ``inspect.getdoc`` gives it."""
    lines = docstring.splitlines()
    heads = [at for at, line in enumerate(lines) if _SECTION.match(line)]
    text = "\n".join(lines[: heads[0]] if heads else lines).strip()
    parameters: dict[str, str] = {}
    for start, end in pairwise([*heads, len(lines)]):
        if lines[start].startswith("Arg"):
            parameters |= _parameters(lines[start + 1 : end])
    return Told(text, parameters)


def _parameters(lines: list[str]) -> dict[str, str]:
    """Read entries that stand at the first one's indentation; deeper lines go on with them."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return {}
    margin = len(filled[0]) - len(filled[0].lstrip())
    found: dict[str, str] = {}
    name = None
    for line in filled:
        words, indentation = line.strip(), len(line) - len(line.lstrip())
        if indentation > margin and name is not None:
            found[name] = f"{found[name]} {words}".strip()
        elif indentation == margin and (entry := _PARAMETER.match(words)):
            name = entry[1]
            found[name] = entry[2]
        else:
            break
    return found
