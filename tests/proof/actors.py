"""Eight processes on one storage: admitters, rival tickers, one who destroys, one who forks, a reader.

``python -m tests.proof.actors <root> <operations> <seed> [<address> <account>]`` lets each of
them do so many things at random, and leaves a history of each in ``<root>/history``. They are
forked by one process that has imported everything: what each does is worth more than its start.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.emulator.harbour import Position
from tests.proof.history import Recorder
from tests.proof.witness import LEASE_MS, Witness, opened

from perdure import Despawn, Spawn
from perdure.kernel.operations import Command

WORLDS = ("north", "south", "ending")
ENDING = "ending"
RACED = 4
"""Names that everybody would have for a world of its own, and ids for a name of its own."""

TRIES_MAX = 200
"""Of the end of a world, a tenth of a lease apart."""

LATEST = 4
"""Batches of which one is cancelled: of older ones little is open."""

SLEEPS = 0.06
"""How often a ticker sleeps until its lease has run out, and then goes on."""

AGAIN, OTHERWISE, CANCELS, CANCELS_ALL, OWN, FAILS = 0.15, 0.1, 0.25, 0.03, 0.3, 0.15
"""How often an admitter sends a batch again, sends other content under its id, cancels one
command or all, chooses an id itself, or asks for what cannot be done."""


class Actor:
    """One process at work."""

    def __init__(self, witness: Witness, number: int, operations: int, chance: random.Random):
        self.witness, self.chance = witness, chance
        self.number, self.operations = number, operations
        self.sent: list[tuple[str, str, list[Command]]] = []
        self.forks: list[str] = []

    async def work(self) -> None:
        """Race for worlds with everybody, then do what one of this number does."""
        for world in WORLDS:
            await self.witness.create(world, world)
        part = PARTS[self.number % len(PARTS)]
        for done in range(self.operations):
            if done < RACED:
                await self.witness.create(f"race-{done}-{self.number}", f"race {done}")
                await self.witness.create(f"raced-{done}", f"race {done} of {self.number}")
            await part(self, done)

    async def admit(self, done: int) -> None:
        """Admit, send again, cancel."""
        witness, chance = self.witness, self.chance
        lot = chance.random()
        if self.sent and lot < AGAIN:
            await witness.admit(*chance.choice(self.sent))
        elif self.sent and lot < AGAIN + OTHERWISE:
            world, batch, _ = chance.choice(self.sent)
            await witness.admit(world, batch, [self.command(f"{batch}-otherwise-{done}")])
        elif self.sent and lot < AGAIN + OTHERWISE + CANCELS:
            world, batch, commands = chance.choice(self.sent[-LATEST:])
            index = chance.randrange(len(commands))
            await witness.cancel(world, commands[index].command_id or f"{batch}.{index}")
        elif lot > 1 - CANCELS_ALL:
            await witness.cancel_all(self.some_world(), f"all-{self.number}-{done}")
        else:
            batch = f"b{self.number}-{done}"
            commands = [self.command(f"{batch}-{index}") for index in range(chance.randint(1, 4))]
            self.sent.append((world_of(done), batch, commands))
            await witness.admit(*self.sent[-1])

    def command(self, name: str) -> Command:
        """Make a ship of its own, or end one that may be there or not."""
        chance = self.chance
        own = f"own-{name}" if chance.random() < OWN else None
        later = chance.choice([None, None, chance.randint(0, 30)])
        if chance.random() < FAILS:
            return Despawn(entity_id=chance.randint(1, 60), tick=later, command_id=own)
        ship = Position(x=0.0, y=float(self.number * 10**6 + chance.randrange(10**6)))
        return Spawn(ship, tick=later, priority=chance.choice([None, -1, 1]), command_id=own)

    async def tick(self, done: int) -> None:
        """Publish a tick where a rival would, too; sleep over the own lease now and then."""
        world = self.some_world()
        grip = await self.witness.take(world)
        if grip is None:
            await asyncio.sleep(self.chance.random() / 50)
            return
        if self.chance.random() < SLEEPS:
            await asyncio.sleep(1.2 * LEASE_MS / 1_000)
        await self.witness.tick(world, grip)

    async def end(self, done: int) -> None:
        """End one world in the middle of everything, and look whether it is so."""
        if done == self.operations // 2:
            await self.end_for_good()
            await self.witness.admit(ENDING, "late", [self.command("late")])
        await self.witness.info(ENDING)
        await asyncio.sleep(self.chance.random() / 50)

    async def end_for_good(self) -> None:
        """Destroy the world, again if a rival was first too often. Raises RuntimeError."""
        for _ in range(TRIES_MAX):
            if await self.witness.destroy(ENDING) is not None:
                return
            await asyncio.sleep(LEASE_MS / 10_000)
        raise RuntimeError(f"{ENDING!r} could not be destroyed {TRIES_MAX} times")

    async def fork(self, done: int) -> None:
        """Fork worlds and forks of worlds, ask for the same again, and tick them."""
        chance, witness = self.chance, self.witness
        if done % 8 == 0:
            self.forks.append(f"fork-{self.number}-{done}")
            source = chance.choice([*WORLDS, *self.forks[:-1]]) if done else WORLDS[0]
            pending = chance.choice(["copy", "drop"])
            for _ in range(1 + (chance.random() < AGAIN)):
                await witness.fork(source, self.forks[-1], self.forks[-1], pending)
        else:
            world = chance.choice(self.forks)
            batch = f"f{done}"
            await witness.admit(world, batch, [self.command(batch)])
            grip = await witness.take(world)
            if grip is not None:
                await witness.tick(world, grip)

    async def read(self, done: int) -> None:
        """Ask what everybody else is changing."""
        witness, world = self.witness, self.some_world()
        info = await witness.info(world)
        admitter = self.chance.choice(ADMITTERS)
        for _ in range(3):
            number = self.chance.randint(0, done)
            await witness.status(world_of(number), f"b{admitter}-{number}.0")
        await witness.log(world, max(0, self.chance.randint(-20, 4 * done)))
        if info is not None and info.published_tick is not None:
            await witness.rows(world, self.chance.randint(0, info.published_tick))

    def some_world(self) -> str:
        return self.chance.choice(WORLDS)


def world_of(done: int) -> str:
    """Return the world that an admitter's batch of this number goes to."""
    return WORLDS[done % len(WORLDS)]


PARTS: tuple[Callable[[Actor, int], Awaitable[None]], ...] = (
    Actor.admit,
    Actor.tick,
    Actor.admit,
    Actor.read,
    Actor.tick,
    Actor.fork,
    Actor.admit,
    Actor.end,
)
PROCESSES = len(PARTS)
ADMITTERS = [number for number, part in enumerate(PARTS) if part is Actor.admit]


class Start:
    """Lets forked processes begin together, when all of them are ready or dead."""

    def __init__(self) -> None:
        self._ready, self._go = os.pipe(), os.pipe()

    def wait(self) -> None:
        """Say in a child that it is ready, and wait for the others."""
        os.close(self._go[1])
        os.close(self._ready[1])
        os.read(self._go[0], 1)

    def give(self) -> None:
        """Wait in the parent for all children, and let them go."""
        os.close(self._ready[1])
        os.read(self._ready[0], 1)
        os.close(self._go[1])


@dataclass(frozen=True)
class Task:
    """What each of the processes is told."""

    root: Path
    operations: int
    seed: str
    table: str | None


async def act(task: Task, number: int, start: Start) -> None:
    """Be one of the processes."""
    recorder = Recorder(task.root / "history" / f"p{number}", f"p{number}")
    async with opened(task.root, task.table) as storage:
        start.wait()
        chance = random.Random(f"{task.seed}-{number}")
        await Actor(Witness(storage, recorder), number, task.operations, chance).work()
    recorder.close()


def main(task: Task) -> int:
    """Fork the processes, and return how many of them failed."""
    (task.root / "history").mkdir(parents=True)
    start = Start()
    children = [_forked(task, number, start) for number in range(PROCESSES)]
    start.give()
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _forked(task: Task, number: int, start: Start) -> int:
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(act(task, number, start))
    except BaseException:  # noqa: BLE001  # the process ends here, whatever it was
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    place, operations, seed, *table = sys.argv[1:]
    sys.exit(main(Task(Path(place), int(operations), seed, " ".join(table) or None)))
