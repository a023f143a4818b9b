"""Servers that are measured, each in a process of its own: ours, the floor, and peers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.bench.apps import STILL
from tests.bench.peers.install import from_npm
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("shared", "emulator", ".")),
}
PERDURE = (sys.executable, "-m", "perdure.cli.main")
START_SECONDS = 60.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
PORT = re.compile(r'"port":\s*(\d+)')
KEY = "b{number}"

WORKERD = "workerd@1.20261117.1"
RESTATE = ("@restatedev/restate-server@1.7.12", "@restatedev/restate-sdk@1.17.2")
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Server:
    """Where commands are admitted, and how requests say so."""

    name: str
    port: int
    path: str = "/v1/worlds/{world}/commands"
    headers: Mapping[str, str] = field(default_factory=lambda: {"idempotency-key": KEY})
    admin_port: int = 0


@asynccontextmanager
async def ours(root: Path, worlds: Sequence[str]) -> AsyncIterator[Server]:
    """Serve a storage by the emulator, with worlds in it."""
    command = (*PERDURE, "dev", "--root", str(root), "--port", "0", "--app", STILL)
    async with started(command, until=ADDRESS, log=root.with_suffix(".log")) as port:
        token = await _token(root)
        headers = {"authorization": f"Bearer {token}"}
        address = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False) as http:
            for world in worlds:
                made = await http.post("/v1/worlds", json={"name": world, "world_id": world})
                made.raise_for_status()
        yield Server("perdure", port, headers={**headers, "idempotency-key": KEY})


@asynccontextmanager
async def bare(directory: Path) -> AsyncIterator[Server]:
    """Serve the floor."""
    command = (sys.executable, "-m", "tests.bench.bare_server", str(directory / "bare.db"))
    async with started(command, until=ADDRESS, log=directory / "bare.log") as port:
        yield Server("bare", port)


@asynccontextmanager
async def workerd(directory: Path) -> AsyncIterator[Server]:
    """Serve a Durable Object with SQLite on the local disk, an object a world. Raises Missing."""
    home = await from_npm("workerd", WORKERD)
    binary = next(home.glob("node_modules/@cloudflare/workerd-*/bin/workerd"))
    place = directory / "workerd"
    (place / "objects").mkdir(parents=True)
    for name in ("workerd.capnp", "workerd.js"):
        (place / name).write_text((PEERS / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = (str(binary), "serve", "workerd.capnp", "--control-fd=1")
    async with started(command, until=PORT, log=place / "log", at=place) as port:
        yield Server("workerd", port)


@asynccontextmanager
async def restate(directory: Path) -> AsyncIterator[Server]:
    """Serve one Restate node and a virtual object of its SDK, a key a world. Raises Missing."""
    home = await from_npm("restate", *RESTATE)
    binary = next(home.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    place = directory / "restate"
    place.mkdir()
    # Beside its packages, where Node looks for them.
    service = home / "service.mjs"
    service.write_text((PEERS / "restate.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    async with contextlib.AsyncExitStack() as stack:
        served = started(("node", str(service)), until=PORT, log=place / "service.log")
        port = await stack.enter_async_context(served)
        ingress, admin, node = free_ports(3)
        config = place / "restate.toml"
        config.write_text(
            f'disable-telemetry = true\nbase-dir = "{place}/data"\nbind-address = "127.0.0.1:{node}"\n'
            f'[ingress]\nbind-address = "127.0.0.1:{ingress}"\n'
            f'[admin]\nbind-address = "127.0.0.1:{admin}"\n',
            encoding="utf-8",
        )
        command = (str(binary), "--config-file", str(config), "--no-logo")
        await stack.enter_async_context(started(command, until=None, log=place / "server.log"))
        await _registered(admin, port)
        headers = {"idempotency-key": KEY}
        yield Server("restate", ingress, "/world/{world}/apply/send", headers, admin)


@asynccontextmanager
async def started(
    command: Sequence[str], *, until: re.Pattern[str] | None, log: Path, at: Path = ROOT
) -> AsyncIterator[int]:
    """Run a command until the block ends, and give the port that it prints. Raises RuntimeError."""
    with log.open("wb") as told:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=at,
            env=ENVIRONMENT,
            stdout=told if until is None else asyncio.subprocess.PIPE,
            stderr=told,
        )
        reading: asyncio.Task[bytes] | None = None
        try:
            port = 0
            if until is not None:
                assert process.stdout is not None
                port = await _announced(process.stdout, until, log)
                # A full pipe would halt the server.
                reading = asyncio.create_task(process.stdout.read())
            yield port
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), 10)
                except TimeoutError:
                    process.kill()
                    await process.wait()
            if reading is not None:
                await reading


async def _announced(output: asyncio.StreamReader, until: re.Pattern[str], log: Path) -> int:
    async with asyncio.timeout(START_SECONDS):
        async for line in output:
            found = until.search(line.decode(errors="replace"))
            if found is not None:
                return int(found.group(1))
    raise RuntimeError(f"Expected a server to say its port; found {_last_of(log)}.")


def _last_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-500:] or "nothing"


async def _token(root: Path) -> str:
    command = (*PERDURE, "token", "--role", "admin", "--ttl", "1d", "--root", str(root), "--json")
    process = await asyncio.create_subprocess_exec(
        *command, env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    token: str = json.loads(told)["token"]
    return token


async def _registered(admin: int, port: int) -> None:
    """Tell Restate where its service is, as soon as it listens."""
    body: dict[str, Any] = {"uri": f"http://127.0.0.1:{port}", "use_http_11": False}
    async with httpx.AsyncClient(trust_env=False, timeout=START_SECONDS) as http:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    told = await http.post(f"http://127.0.0.1:{admin}/deployments", json=body)
                    if told.is_success:
                        return
                await asyncio.sleep(0.2)
