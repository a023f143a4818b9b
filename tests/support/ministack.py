"""A local stand-in for AWS: MiniStack in a virtual environment of its own, on loopback only."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.children import child
from tests.support.ports import free_port

REQUIREMENT = "ministack[full]==1.5.33"
MEMORY_BYTES_MAX = 6 * 2**30
START_SECONDS_MAX = 120
ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-ministack"

_fresh = itertools.count(10_000)


@contextlib.contextmanager
def ministack(log: Path, **variables: str) -> Iterator[str]:
    """Run a server for this process and yield its address; install it if that was not done."""
    program = _installed()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(log.parent),
        "TMPDIR": str(log.parent),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        **variables,
    }
    with (
        log.open("wb") as output,
        child(
            [program],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_in_child,  # no thread runs yet
        ) as server,
    ):
        try:
            _await_start(server, address, log)
            yield address
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(timeout=10)


def fresh_account() -> str:
    """Return an account that nobody of this process has had."""
    return account(next(_fresh))


def account(number: int = 0) -> str:
    """Return an account of this worker: 12 digits as access key keep its tables apart.

    Numbers below 10,000 are for those who share one, or name it in two places.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"{int(worker) + 1:03d}{number:09d}"


def _installed() -> Path:
    """Install MiniStack once, however many workers start together."""
    program = HOME / "bin" / "ministack"
    with (ROOT / ".venv-ministack.one-at-a-time").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not (HOME / "complete").exists():
            shutil.rmtree(HOME, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
            subprocess.run(_install(HOME / "bin" / "python"), check=True)
            (HOME / "complete").touch()
    return program


def _install(python: Path) -> list[str]:
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", str(python), REQUIREMENT]
    return [str(python), "-m", "pip", "install", "--quiet", REQUIREMENT]


def _in_child() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    if sys.platform == "linux":  # a killed test run must leave no server behind
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _await_start(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    last = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < last:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/_ministack/health", timeout=10):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"MiniStack did not start: {log.read_text()[-2_000:]}")
