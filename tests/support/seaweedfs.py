"""SeaweedFS: an object store that keeps what it has answered for, and that may be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from tests.support.children import child
from tests.support.ministack import ROOT
from tests.support.ports import free_ports

PROGRAM = ROOT / ".venv-seaweedfs" / "bin" / "weed"
START_SECONDS_MAX = 120
KEY, SECRET = "test", "testtest"
PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "s3.port.iceberg",
    "s3.port.lance",
    "admin.port",
    "admin.port.grpc",
)


class SeaweedFS:
    """A server on data of its own, on loopback only. It is started again after each kill."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._running = contextlib.ExitStack()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3.port']}"

    def client(self) -> Any:
        """Return a client of it, which tries once."""
        return boto3.client(
            "s3",
            "us-east-1",
            endpoint_url=self.address,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=5),
        )

    def start(self) -> None:
        """Start it and wait until it answers; install it if that was not done."""
        subprocess.run([ROOT / "scripts" / "setup", "seaweedfs"], check=True, capture_output=True)
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        words = [
            str(PROGRAM),
            "mini",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-admin.ui=false",
            "-webdav=false",
            *(f"-{name}={port}" for name, port in self._ports.items()),
        ]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        with self._log.open("ab") as output:
            begun = child(
                words,
                env=environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            server = self._running.enter_context(begun)
        self._await_start(server)

    def kill(self) -> None:
        """Kill it: no handler of its own runs, nothing is written down on the way."""
        self._running.close()

    def close(self) -> None:
        """End it: nobody starts it again."""
        self.kill()

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _await_start(self, server: subprocess.Popen[bytes]) -> None:
        client = self.client()
        last = time.monotonic() + START_SECONDS_MAX
        try:
            while time.monotonic() < last:
                if server.poll() is not None:
                    break
                try:
                    client.list_buckets()
                except (BotoCoreError, ClientError):
                    time.sleep(0.1)
                else:
                    return
        finally:
            client.close()
        raise AssertionError(f"SeaweedFS did not start: {self._log.read_text()[-2_000:]}")
