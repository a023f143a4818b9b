"""A process that moves a storage and kills itself on the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter

from perdure.api.settings import settings
from perdure.api.wiring_migrate import migrated


def main() -> None:
    """Move as the first argument says, up to one step of one stage."""
    source, destination, migration, last_stage, nth = json.loads(sys.argv[1])
    steps: Counter[str] = Counter()

    def die(stage: str, done: int, total: int | None) -> None:
        steps[stage] += 1
        if stage == last_stage and steps[stage] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(migrated(settings(source), settings(destination), migration, die))


if __name__ == "__main__":
    main()
