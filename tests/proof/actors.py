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
from pathlib import Path

from tests.emulator.harbour import Position
from tests.proof.history import Recorder
from tests.proof.witness import Witness, opened

from perdure import Despawn, Spawn
from perdure.kernel.operations import Command

WORLDS = ("north", "south", "ending")
ENDING = "ending"
RACED = 6
"""Names that everybody would have for a world of its own."""

AGAIN, CANCELS, CANCELS_ALL, OWN, FAILS = 0.2, 0.15, 0.03, 0.3, 0.15
"""How often an admitter sends a batch again, cancels one command or all, chooses an id itself,
or asks for what cannot be done."""


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
            await part(self, done)

    async def admit(self, done: int) -> None:
        """Admit, send again, cancel."""
        witness, chance = self.witness, self.chance
        lot = chance.random()
        if self.sent and lot < AGAIN:
            await witness.admit(*chance.choice(self.sent))
        elif self.sent and lot < AGAIN + CANCELS:
            world, batch, commands = chance.choice(self.sent)
            index = chance.randrange(len(commands))
            await witness.cancel(world, commands[index].command_id or f"{batch}.{index}")
        elif lot > 1 - CANCELS_ALL:
            await witness.cancel_all(self.some_world(), f"all-{self.number}-{done}")
        else:
            batch = f"b{self.number}-{done}"
            commands = [self.command(f"{batch}-{index}") for index in range(chance.randint(1, 4))]
            self.sent.append((self.some_world(), batch, commands))
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
        """Publish a tick where a rival would, too, and give way if it does."""
        if await self.witness.tick(self.some_world()) is None:
            await asyncio.sleep(self.chance.random() / 50)

    async def end(self, done: int) -> None:
        """End one world in the middle of everything, and look whether it is so."""
        if done == self.operations // 2:
            while await self.witness.destroy(ENDING) is None:
                """A rival was first too often: again."""
            await self.witness.admit(ENDING, "late", [self.command("late")])
        await self.witness.info(ENDING)
        await asyncio.sleep(self.chance.random() / 50)

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
            await witness.tick(world)

    async def read(self, done: int) -> None:
        """Ask what everybody else is changing."""
        witness, world = self.witness, self.some_world()
        info = await witness.info(world)
        admitter = self.chance.choice(ADMITTERS)
        for _ in range(3):
            await witness.status(world, f"b{admitter}-{self.chance.randint(0, done)}.0")
        await witness.log(world, max(0, self.chance.randint(-20, 4 * done)))
        if info is not None and info.published_tick is not None:
            await witness.rows(world, self.chance.randint(0, info.published_tick))

    def some_world(self) -> str:
        return self.chance.choice(WORLDS)


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


async def act(root: Path, number: int, operations: int, seed: str, table: str | None) -> None:
    """Be one of the processes."""
    recorder = Recorder(root / "history" / f"p{number}", f"p{number}")
    async with opened(root, table) as storage:
        chance = random.Random(f"{seed}-{number}")
        await Actor(Witness(storage, recorder), number, operations, chance).work()
    recorder.close()


def main(root: Path, operations: int, seed: str, table: str | None = None) -> int:
    """Fork the processes, and return how many of them failed."""
    (root / "history").mkdir(parents=True)
    children = [_forked(root, number, operations, seed, table) for number in range(PROCESSES)]
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _forked(root: Path, number: int, operations: int, seed: str, table: str | None) -> int:
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(act(root, number, operations, seed, table))
    except BaseException:  # noqa: BLE001  # the process ends here, whatever it was
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    place, operations, seed, *table = sys.argv[1:]
    sys.exit(main(Path(place), int(operations), seed, " ".join(table) or None))
