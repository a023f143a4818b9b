"""The cold verifier: a process that is told where a storage is, and says what it finds there."""

from __future__ import annotations

import asyncio
import json
import sys

from perdure.api.settings import settings
from perdure.api.wiring_lake_migrate import looked_at


def main() -> None:
    """Print, as JSON, what the storage of the settings in the first argument holds."""
    chosen = settings(json.loads(sys.argv[1]))
    print(json.dumps(asyncio.run(looked_at(chosen, resume=True))))  # noqa: T201  # its one answer


if __name__ == "__main__":
    main()
