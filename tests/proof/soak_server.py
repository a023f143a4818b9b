"""The emulator as the soak runs it: it trims what is young, and says how it is when asked.

``python -m tests.proof.soak_server STATE --root DIR …``: the rest is for ``perdure dev``. At each
SIGUSR1 it collects garbage and writes to STATE what it holds.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perdure.authority.sqlite import SqliteStore
from perdure.cli.main import main
from perdure.runtime import trim

GRACE_MS_MIN = 1_000
"""Instead of a quarter of an hour: no reader of a soak takes as long as this."""


def held() -> dict[str, Any]:
    """Return what this process holds now, and what it has done."""
    stores = [each for each in gc.get_objects() if isinstance(each, SqliteStore)]
    return {
        "rss_bytes": _resident_bytes(),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": sum(1 for _ in Path("/proc/self/task").iterdir()),
        "objects": len(gc.get_objects()),
        "syncs": sum(store.syncs for store in stores),
    }


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def serve(state: Path, arguments: list[str]) -> None:
    """Run the emulator, and answer signals until it ends."""

    def tell(*_: Any) -> None:
        gc.collect()
        draft = state.with_suffix(".draft")
        draft.write_text(json.dumps(held()), encoding="utf-8")
        draft.replace(state)

    signal.signal(signal.SIGUSR1, tell)
    trim.GRACE_MS_MIN = GRACE_MS_MIN
    sys.argv = ["perdure", "dev", *arguments]
    main()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
