"""The kill matrix: every step of a day, a death before it, after it, and an answer lost."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.proof.account import Account, account, differences
from tests.proof.day import ACTS, Told, app
from tests.proof.ground import alive
from tests.support.steps import Died, Steps, When

from perdure.kernel.errors import Unavailable

T = TypeVar("T")

LEASE_MS = 60_000
WHENS: tuple[When, ...] = ("before", "after", "lost")
ANSWERED = frozenset({"commit", "put", "commit table", "create table"})
"""Steps whose answer can be lost, and matters."""


@dataclass(frozen=True)
class Death:
    """One process that ended, and what came of it."""

    act: str
    kind: str
    number: int
    when: When
    differs: tuple[str, ...]
    """What was not as in the life that nobody disturbed."""


@dataclass
class Matrix:
    """What was found: steps by act and kind, and every death."""

    steps: dict[str, Counter[str]] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)

    @property
    def differing(self) -> list[Death]:
        return [each for each in self.deaths if each.differs]


@dataclass(frozen=True)
class Scene:
    """One act, where it begins, and where it ended when nobody died."""

    act: str
    before: Any
    kinds: Sequence[str]
    told: Told
    after: Account


def rehearsed(ground: Any, directory: Path, last: str) -> Iterator[Scene]:
    """Play the day undisturbed, act by act up to ``last``, and keep where each began."""
    told = Told()
    for act in upto(last):
        before = ground.copy(directory / f"before {act}")
        steps = Steps()
        asyncio.run(_lived(ground, (act,), told, steps))
        yield Scene(act, before, steps.kinds, Told({**told.answers}), asyncio.run(_seen(ground)))


def upto(last: str) -> list[str]:
    """Return the acts from the first to ``last``."""
    names = list(ACTS)
    return names[: names.index(last) + 1]


async def _lived(ground: Any, acts: Sequence[str], told: Told, steps: Steps) -> None:
    async with alive(ground, app, steps, lease_ms=LEASE_MS) as storage:
        for act in acts:
            await ACTS[act](storage, told)


async def _seen(ground: Any) -> Account:
    async with alive(ground, app) as storage:
        return await account(storage)


def resumed(ground: Any, scene: Scene) -> tuple[str, ...]:
    """Let another process make every call of the day again, and tell what differs at its end."""
    ground.clock.advance(LEASE_MS)
    told = Told()
    asyncio.run(_lived(ground, upto(scene.act), told, Steps()))
    return tuple(
        [
            *differences(scene.told.answers, told.answers),
            *differences(scene.after, asyncio.run(_seen(ground))),
        ]
    )


def died(ground: Any, scene: Scene, number: int, when: When) -> None:
    """Play an act in a process that dies at one step, or hears nothing of it."""
    steps = Steps(number, when=when)
    try:
        asyncio.run(_lived(ground, (scene.act,), Told(), steps))
    except Died:
        assert when != "lost"
    except Unavailable:
        assert when == "lost"
    else:
        assert when == "lost"
    assert steps.taken >= number, "the same calls take the same steps"


def chosen(scene: Scene, whens: Sequence[When]) -> Iterator[tuple[int, str, When]]:
    """Yield the deaths of an act: number and kind of the step, and when."""
    for number, kind in enumerate(scene.kinds, start=1):
        for when in whens:
            if when != "lost" or kind in ANSWERED:
                yield number, kind, when


def played(
    ground: Any,
    directory: Path,
    *,
    acts: Sequence[str] = tuple(ACTS),
    whens: Sequence[When] = WHENS,
    dying: Callable[[Any, Scene, int, When], None] = died,
    say: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Kill a process at every step of ``acts``, and compare each end with the undisturbed one."""
    matrix = Matrix()
    for scene in rehearsed(ground, directory, acts[-1]):
        matrix.steps[scene.act] = Counter(scene.kinds)
        if scene.act not in acts:
            continue
        for number, kind, when in chosen(scene, whens):
            say(f"{scene.act}: {when} step {number} of {len(scene.kinds)}, a {kind}")
            place = directory / "killed"
            again = scene.before.copy(place)
            dying(again, scene, number, when)
            differs = resumed(again, scene)
            matrix.deaths.append(Death(scene.act, kind, number, when, differs))
            shutil.rmtree(place)
    return matrix
