"""A process that moves a storage and kills itself on the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter

from perdure.api.settings import settings
from perdure.api.wiring_lake_migrate import migrated
from perdure.kernel.errors import Unavailable

ASK_AGAIN = 75
"""Exit code of a migration that could not go on for now. Source: EX_TEMPFAIL of sysexits.h."""


def main() -> None:
    """Move as the first argument says, up to one step of one stage."""
    source, destination, migration, last_stage, nth = json.loads(sys.argv[1])
    steps: Counter[str] = Counter()

    def die(stage: str, done: int, total: int | None) -> None:
        steps[stage] += 1
        if stage == last_stage and steps[stage] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        asyncio.run(migrated(settings(source), settings(destination), migration, die))
    except Unavailable as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        sys.exit(ASK_AGAIN)


if __name__ == "__main__":
    main()
