"""Amazon's DynamoDB Local, if whoever runs the tests has one: never fetched, never in CI.

Its licence asks for an AWS account and forbids passing it on, so it is theirs to get. It
listens on every interface of the machine, and nothing can tell it otherwise.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.children import child
from tests.support.ports import free_port

VARIABLE = "PERDURE_DYNAMODB_LOCAL"
ABSENT = f"{VARIABLE} is not set: the path of a DynamoDB Local of yours, its jar or the directory"
JAR = "DynamoDBLocal.jar"
START_SECONDS_MAX = 120


def given() -> Path | None:
    """Return the jar that the environment names. Raises FileNotFoundError if none is there."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    found = Path(named).expanduser()
    jar = found / JAR if found.is_dir() else found
    if not jar.is_file():
        raise FileNotFoundError(f"{VARIABLE} names {named}: expected {JAR} there, found none")
    return jar.resolve()


def command(jar: Path, port: int) -> list[str]:
    """Spell how it is started: in memory, an account apart from the other, telling nobody."""
    return [
        "java",
        f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}",
        "-jar",
        str(jar),
        "-inMemory",
        "-disableTelemetry",
        "-port",
        str(port),
    ]


@contextmanager
def dynamodb_local(jar: Path, log: Path) -> Iterator[str]:
    """Run it and yield its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with (
        log.open("wb") as output,
        child(
            command(jar, port),
            cwd=jar.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as server,  # it holds nothing that is worth an orderly end
    ):
        _await_start(server, address, log)
        yield address


def _await_start(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    last = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < last and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=10).close()
        except urllib.error.HTTPError as answer:  # it asks for a signature: it is there
            answer.close()
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"DynamoDB Local did not start: {log.read_text()[-2_000:]}")
