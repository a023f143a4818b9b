"""The kill matrix: every step of a day, a death before it, after it, and an answer lost."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.proof.account import Account, account, differences, wrong
from tests.proof.day import ACTS, Told, app
from tests.proof.ground import alive
from tests.support.steps import Died, Steps, When

from perdure.kernel.errors import Unavailable

LEASE_MS = 600_000
"""What is waited for after a death: the longest lease of all, that of a mover."""

WHENS: tuple[When, ...] = ("before", "after", "lost")
ANSWERED = frozenset({"commit", "put", "commit table", "create table"})
"""Steps whose answer can be lost, and matters."""

MOVE = "move"


@dataclass(frozen=True)
class Death:
    """One process that ended, or heard nothing, and what came of it."""

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
    answers: dict[str, Any]
    after: Account


Dying = Callable[[Any, Scene, int, When], None]


def rehearsed(ground: Any, directory: Path, last: str) -> Iterator[Scene]:
    """Play the day undisturbed, act by act up to ``last``, and keep where each began.

    Deaths are compared with it, so it must be right by itself.
    """
    told = Told()
    for act in upto(last):
        before = ground.copy(directory / f"before {act}")
        steps = Steps()
        asyncio.run(lived(ground, (act,), told, steps))
        after = asyncio.run(_seen(ground, act))
        assert wrong(after) == [], f"nobody died in {act}"
        yield Scene(act, before, steps.kinds, {**told.answers}, after)


def upto(last: str) -> list[str]:
    """Return the acts from the first to ``last``."""
    names = list(ACTS)
    return names[: names.index(last) + 1]


def begun(scene: Scene, root: Path) -> Any:
    """Return a ground on which the day has come to an act."""
    ground = scene.before.copy(root)
    if ground.is_bare:
        asyncio.run(lived(ground, upto(scene.act)[:-1], Told(), Steps()))
    return ground


async def lived(ground: Any, acts: Sequence[str], told: Told, steps: Steps) -> None:
    """Lead one life: play these acts, as far as it goes."""
    if MOVE in acts:
        told.elsewhere = partial(alive, ground.elsewhere(), app, steps)
    async with alive(ground, app, steps) as storage:
        for act in acts:
            await ACTS[act](storage, told)


async def _seen(ground: Any, act: str) -> Account:
    async with alive(ground, app) as storage:
        found = await account(storage)
    if act == MOVE:
        async with alive(ground.elsewhere(), app) as storage:
            moved = await account(storage)
        found |= {f"moved: {what}": told for what, told in moved.items()}
    return found


def resumed(ground: Any, scene: Scene) -> tuple[str, ...]:
    """Let another process make every call of the day again, and tell what differs at its end.

    Of a storage that moves nothing more is asked than to move.
    """
    ground.clock.advance(LEASE_MS)
    told = Told({**scene.answers} if scene.act == MOVE else {})
    acts = [MOVE] if scene.act == MOVE else upto(scene.act)
    asyncio.run(lived(ground, acts, told, Steps()))
    return (
        *differences(scene.answers, told.answers),
        *differences(scene.after, asyncio.run(_seen(ground, scene.act))),
    )


def died(ground: Any, scene: Scene, number: int, when: When) -> None:
    """Play an act in a process that dies at one step, or hears nothing of it."""
    steps = Steps(number, when=when)
    told = Told()
    try:
        asyncio.run(lived(ground, (scene.act,), told, steps))
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


def played(  # what a matrix is made of
    ground: Any,
    directory: Path,
    *,
    acts: Sequence[str] = tuple(ACTS),
    whens: Sequence[When] = WHENS,
    dying: Dying = died,
    say: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Kill a process at every step of ``acts``, and compare each end with the undisturbed one."""
    matrix = Matrix()
    for scene in rehearsed(ground, directory, acts[-1]):
        if scene.act not in acts:
            continue
        matrix.steps[scene.act] = Counter(scene.kinds)
        for number, kind, when in chosen(scene, whens):
            say(f"{scene.act}: {when} step {number} of {len(scene.kinds)}, a {kind}")
            place = directory / "killed"
            place.mkdir()
            again = begun(scene, place / "ground")
            dying(again, scene, number, when)
            differs = resumed(again, scene)
            matrix.deaths.append(Death(scene.act, kind, number, when, differs))
            shutil.rmtree(place)
    return matrix
