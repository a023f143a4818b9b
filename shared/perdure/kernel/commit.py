"""Commits: the conditions that follow from a view, derived and never written by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Version, View


@dataclass(frozen=True, slots=True)
class Put:
    """Write ``body`` if the record is still as ``seen`` (None: still absent)."""

    key: Key[Any]
    seen: Version | None
    body: bytes

    @property
    def revision(self) -> int:
        """The revision this put gives its record."""
        return 1 if self.seen is None else self.seen.revision + 1

    def version(self, token: Token) -> Version:
        """The version the record has once ``token`` has happened."""
        return Version(self.revision, token)


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the record if it is still as ``seen``."""

    key: Key[Any]
    seen: Version


@dataclass(frozen=True, slots=True)
class Check:
    """Hold the commit to the record being still as ``seen`` (None: still absent)."""

    key: Key[Any]
    seen: Version | None


Action = Put | Remove | Check


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic step of a store: all of ``actions`` if every one still holds, else none.

    Invariants: at least one action is a Put, so the token can be found again; no two
    actions name one key.
    """

    token: Token
    actions: tuple[Action, ...]


def derived(view: View, token: Token) -> Commit:
    """Derive the commit of what was written on ``view``.

    A record written is conditioned on the version seen, or on absence if it was never
    looked for; a record only named is checked.
    """
    actions: list[Action] = []
    for key, record in view.written.items():
        seen = view.version(key)
        if record is not None:
            assert seen is None or not record.immutable, f"{key} is written once"
            actions.append(Put(key, seen, record.body()))
        elif seen is not None:
            actions.append(Remove(key, seen))
        elif key in view.named:
            actions.append(Check(key, None))
    actions += [Check(key, view.version(key)) for key in view.named if key not in view.written]
    assert any(isinstance(action, Put) for action in actions), "a commit leaves its token"
    return Commit(token, tuple(actions))
