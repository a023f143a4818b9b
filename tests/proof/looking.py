"""The last look: when all processes have ended, everything is asked for once more, and checked.

``python -m tests.proof.looking <root> [<address> <account>]`` looks at what the actors left there.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.proof.checker import Checked, check
from tests.proof.history import Call, Recorder, read_history
from tests.proof.witness import Witness, opened, records_at_the_end


async def looked_at(root: Path, table: str | None = None) -> tuple[list[Call], Checked]:
    """Ask for everything once more, when all is quiet, and check what everybody was told."""
    last = root / "history" / "last"
    last.unlink(missing_ok=True)  # of a look before this one
    written = sorted((root / "history").iterdir())
    calls = read_history(written)
    recorder = Recorder(last, "last")
    async with opened(root, table) as storage:
        witness, records = Witness(storage, recorder), await records_at_the_end(storage)
        for world in records.worlds.values():
            name = world.record.world
            await witness.info(name)
            for tick in range(world.head.published + 1):
                await witness.rows(name, tick)
        for world, command in sorted(acknowledged(calls)):
            await witness.status(world, command)
    recorder.close()
    calls = read_history([*written, last])
    return calls, check(calls, records)


def acknowledged(calls: list[Call]) -> set[tuple[str, str]]:
    """Return (world, command) of everything that somebody was told is admitted."""
    return {
        (call.world, receipt[0])
        for call in calls
        if call.what == "admit" and call.is_answered
        for receipt in call.answer["receipts"]
    }


def main(root: Path, table: str | None) -> int:
    """Say what was found, and return how much of it is a fault."""
    calls, checked = asyncio.run(looked_at(root, table))
    processes = len({call.process for call in calls})
    print(  # noqa: T201
        f"{len(calls)} calls of {processes} processes, {checked.steps} of them placed in logs of"
        f" {checked.entries} entries: {len(checked.faults)} faults"
    )
    for fault in checked.faults:
        print(fault)  # noqa: T201
    return len(checked.faults)


if __name__ == "__main__":
    place, *table = sys.argv[1:]
    sys.exit(bool(main(Path(place), " ".join(table) or None)))
