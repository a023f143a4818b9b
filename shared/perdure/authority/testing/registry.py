"""Named cases, and the little they need: an authority that is deterministic, and raises."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from perdure.authority.engine import Authority, Patience
from perdure.authority.store import Store
from perdure.kernel.ids import Instant, Token

E = TypeVar("E", bound=BaseException)

Opener = Callable[[], Awaitable[Store]]
"""Opens one more handle on the data of this case; the first finds them empty."""

Run = Callable[[Opener], Awaitable[None]]

NOON: Final = Instant(1_700_000_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """One promise. Its name is the promise, in words."""

    name: str
    run: Run
    races: bool


CASES: Final[list[Case]] = []


def promise(run: Run) -> Run:
    """Register a case whose steps come one after another."""
    CASES.append(Case(run.__name__, run, races=False))
    return run


def race(run: Run) -> Run:
    """Register a case with commits at the same time."""
    CASES.append(Case(run.__name__, run, races=True))
    return run


def tokens(name: str = "token") -> Callable[[], Token]:
    """Return a source of tokens that counts. Two sources with one name would collide."""
    numbers = itertools.count(1)
    return lambda: Token(f"{name}-{next(numbers)}")


def authority(store: Store, name: str = "token", *, tries_max: int = 12) -> Authority:
    """Return an authority that neither waits nor throws dice."""
    return Authority(
        store,
        lambda: NOON,
        tokens(name),
        chance=lambda: 0.5,
        pause=_yield,
        patience=Patience(tries_max=tries_max),
    )


async def raised(kind: type[E], outcome: Awaitable[object]) -> E:
    """Return the error of ``kind`` that ``outcome`` must end in."""
    try:
        found = await outcome
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, found {found!r}")


async def _yield(_seconds: float) -> None:
    await asyncio.sleep(0)
