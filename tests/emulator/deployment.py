"""A running emulator, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.support.children import child

from perdure_emulator.issuer import Issuer, issuer

ROOT = Path(__file__).parents[2]
APP = "tests.emulator.harbour:app"
COMMAND = (sys.executable, "-m", "perdure.cli.main", "dev", "--app", APP)
START_SECONDS = 120
ADDRESS = re.compile(r"perdure is listening on (http://127\.0\.0\.1:\d+)\n")


def environment() -> dict[str, str]:
    paths = (ROOT / "shared", ROOT / "emulator", ROOT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


@dataclass
class Deployment:
    """The process, and a client that talks to it."""

    process: subprocess.Popen[str]
    http: httpx.Client
    """Asks with the token of an admin."""
    root: Path

    def stop(self, signal: int) -> tuple[int, str, str]:
        """Send a signal and return the exit code and what was printed since it listened."""
        self.process.send_signal(signal)
        out, err = self.process.communicate(timeout=START_SECONDS)
        return self.process.returncode, out, err


def key_of(root: Path) -> Issuer:
    """The issuer of an emulator over ``root`` that runs, or has run."""
    return issuer(root / "default")


def bearer(root: Path, role: str, actor: str = "ann", **changed: Any) -> dict[str, str]:
    """The header that carries a good token."""
    given = {"tenant": "default", "now_seconds": int(time.time()), "seconds": 3_600, **changed}
    token = key_of(root).token(actor=actor, role=role, **given)
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def deployed(root: Path, *options: str, log: Path | None = None) -> Iterator[Deployment]:
    """Run an emulator on a free port; what fills more than a pipe on its way needs a log."""
    with (
        nullcontext(subprocess.PIPE) if log is None else log.open("w") as errors,
        child(
            [*COMMAND, "--root", root, "--port", "0", *options],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        found = ADDRESS.search(said)
        if found is None:
            process.kill()  # it may hang, and what it said is all it has said then
        assert found, said + (process.stderr.read() if log is None else log.read_text())
        with httpx.Client(
            base_url=found[1],
            headers=bearer(root, "admin"),
            timeout=START_SECONDS,
            trust_env=False,
        ) as http:
            yield Deployment(process, http, root)


def refused(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run an emulator that is not expected to start."""
    return subprocess.run(
        [*COMMAND, "--root", str(root), *options],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
