"""`perdure dev`: the whole deployment on one loopback port, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import click
import uvicorn

from perdure.api.settings import Settings, local
from perdure.api.wiring import catalog_path, made
from perdure.kernel.errors import InvalidValue, StoreUnavailable
from perdure.runtime.app import load_app
from perdure_emulator import schedule, sources, template
from perdure_emulator.gateway import Gateway
from perdure_emulator.issuer import AUDIENCE, NAME, Issuer, issuer
from perdure_emulator.processes import InProcesses, check_storage
from perdure_emulator.queue_local import LocalQueues
from perdure_emulator.sandboxes import Runs, placed
from perdure_emulator.sources import Waiting
from perdure_emulator.variables import effective, install

ELSEWHERE: Final = "perdure_emulator.elsewhere_aws"
"""Imported by name, and only for `--aws`: boto3 takes as long as everything else together."""

SPEED_MAX: Final = 100_000.0
"""A minute of schedules in less than a millisecond."""

HOST: Final = "127.0.0.1"

GRACE_SECONDS: Final = 5
"""What requests get to finish after Ctrl-C; a long poll is not waited for any longer."""

CLOSE_SECONDS: Final = 10
"""What functions get after that to come to an end; a thread cannot be killed."""

STDERR: Final = 2

INTERRUPTED: Final = 130
"""Exit code of an end that waited for nothing. Source: what shells report for Ctrl-C."""


@click.command()
@click.option(
    "--root",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the storage; made if the one above it exists.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8337,
    show_default=True,
    help="0 takes a free one.",
)
@click.option("--app", help="Application, as module:attribute.")
@click.option(
    "--speed",
    default=1.0,
    show_default=True,
    help="Minutes of schedules in one. Functions keep the real time.",
)
@click.option(
    "--at",
    "starts_at",
    metavar="TIME",
    help="When the clock of schedules starts, as 2026-12-01T06:00:00Z; now by default. "
    "Functions keep the real time.",
)
@click.option(
    "--aws",
    "aws_url",
    metavar="URL",
    help="Use the DynamoDB, S3, SQS and Glue at this address; what the template declares of them "
    "is made there if that is this machine.",
)
@click.option(
    "--parameter",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the template; may be given several times.",
)
@click.option(
    "--throttle", is_flag=True, help="Refuse what the template's API would refuse as too much."
)
@click.option(
    "--template",
    "template_path",
    type=click.Path(path_type=Path),
    help="The deployment to run; the project's own by default.",
)
@click.option(
    "--isolate",
    is_flag=True,
    help="Run functions in processes of their own, as Lambda does.",
)
def dev(  # noqa: PLR0913, PLR0917  # one for each option
    root: Path,
    port: int,
    app: str | None,
    speed: float,
    starts_at: str | None,
    aws_url: str | None,
    given: tuple[str, ...],
    template_path: Path | None,
    *,
    throttle: bool,
    isolate: bool,
) -> None:
    """Run every function on loopback, without any cloud."""
    if not 0 < speed <= SPEED_MAX:  # not a number is neither
        raise click.BadParameter(f"must be above 0, {SPEED_MAX:.0f} at most", param_hint="--speed")
    install()
    clock = partial(schedule.Clock, _moment(starts_at), speed)
    chosen = local(root, app=app)
    load_app(chosen.app)
    path = template_path or found_template()
    reading = partial(template.read, path, parameters=_parameters(given), assumed=_assumed(chosen))
    reading()  # or nothing is made
    trusted = issuer(catalog_path(made(chosen)).parent)
    with _bound(port) as listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        if aws_url is None:
            deployment, waiting = _here(reading, address, chosen)
        else:
            deployment, waiting = _elsewhere(reading, aws_url)
        if not throttle:
            deployment = dataclasses.replace(deployment, throttle=None)
        for line in deployment.left_out:
            click.echo(f"perdure: {line}", err=True)
        # The server takes the first signal; one before it runs, or a second, ends at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _end("interrupted"))
        # uvloop where it is installed: a third less time for each request.
        with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
            click.echo(f"for a token: perdure token --role operator --root {root}")
            place: Callable[[template.Function], Runs] = InProcesses if isolate else placed
            if isolate and aws_url is None:
                runner.run(check_storage(chosen))
            runner.run(serve(deployment, listening, trusted, place, clock=clock, waiting=waiting))
            if isolate and aws_url is None:
                # Killed processes closed nothing: whoever closes last makes one file of it again.
                runner.run(check_storage(chosen))
    click.echo("perdure has stopped; everything acknowledged is on disk")


async def serve(  # what a deployment is made of
    deployment: template.Template,
    listening: socket.socket,
    trusted: Issuer,
    place: Callable[[template.Function], Runs],
    *,
    clock: Callable[[], schedule.Clock],
    waiting: Waiting,
) -> None:
    """Serve a deployment until a signal comes, then finish what was asked and close.

    ``clock`` makes the clock of schedules, once they begin.
    """
    sandboxes = {name: place(each) for name, each in deployment.functions.items()}
    gateway = Gateway(deployment, sandboxes, trusted, waiting.sqs)
    config = uvicorn.Config(
        gateway,
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    calls: list[asyncio.Task[None]] = []

    async def settle() -> None:
        gateway.stop()
        for call in calls:
            call.cancel()
        for call in calls:
            with contextlib.suppress(asyncio.CancelledError):
                await call

    address = f"http://{HOST}:{listening.getsockname()[1]}"
    try:
        for sandbox in sandboxes.values():
            await sandbox.open()
        calls.append(asyncio.create_task(schedule.run(sandboxes.values(), clock())))
        calls.extend(map(asyncio.create_task, _polls(sandboxes.values(), waiting)))
        await _Server(config, address, settle).serve([listening])
    finally:
        await settle()
        await _close(sandboxes.values())


def _polls(sandboxes: Iterable[Runs], waiting: Waiting) -> Iterator[Coroutine[Any, Any, None]]:
    for sandbox in sandboxes:
        for source in sandbox.function.sources:
            for _ in range(min(source.at_once, sandbox.batches)):
                yield sources.poll(sandbox, source, waiting.polled(source.queue))


def _parameters(given: Iterable[str]) -> dict[str, str]:
    """Return what is said for parameters of the template."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter("must be NAME=VALUE", param_hint="--parameter")
        found[name] = value
    return found


def _assumed(chosen: Settings) -> dict[str, str]:
    """Return what the emulator says for parameters that a template may have."""
    return {
        "App": chosen.app,
        "Namespace": chosen.namespace,
        "Issuer": NAME,
        "Audience": AUDIENCE,
    }


def _here(
    reading: Callable[..., template.Template], address: str, chosen: Settings
) -> tuple[template.Template, Waiting]:
    """Return the deployment over a local storage, and its queues."""
    found = reading(address=address)
    queues = LocalQueues(found.queues, address)
    return _with(found, chosen.environment() | queues.environment()), queues


def _elsewhere(
    reading: Callable[..., template.Template], url: str
) -> tuple[template.Template, Waiting]:
    """Return the deployment over the services at an address, and its queues there."""
    elsewhere = importlib.import_module(ELSEWHERE).Elsewhere(url)
    known = elsewhere.made(reading())
    found = reading(known=known)
    return _with(found, elsewhere.environment()), elsewhere


def _with(found: template.Template, given: Mapping[str, str]) -> template.Template:
    functions = {
        name: dataclasses.replace(each, environment=effective(each.environment, given))
        for name, each in found.functions.items()
    }
    return dataclasses.replace(found, functions=functions)


def _moment(given: str | None) -> datetime:
    """Return when the clock of schedules starts."""
    if given is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(
            "must be a time such as 2026-12-01T06:00:00Z", param_hint="--at"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def found_template() -> Path:
    """Return the project's template: here, above here, or beside the emulator's sources."""
    places = [Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents]
    for place in places:
        if (place / "template.yaml").is_file():
            return place / "template.yaml"
    raise InvalidValue(expected="a template.yaml here or above; --template names one", found="none")


async def _close(sandboxes: Iterable[Runs]) -> None:
    until = asyncio.get_running_loop().time() + CLOSE_SECONDS
    for sandbox in sandboxes:
        try:
            async with asyncio.timeout_at(until):
                await sandbox.close()
        except TimeoutError:
            _end(f"stopped without {sandbox.function.name}, which does not come to an end")


def _end(why: str) -> NoReturn:
    """End the process for good. Nothing is lost: a commit is on disk, or it is none."""
    # Not print: a signal may have come in the midst of it.
    os.write(STDERR, f"perdure: {why}; everything acknowledged is on disk\n".encode())
    os._exit(INTERRUPTED)


class _Server(uvicorn.Server):
    """Says where it listens as soon as it does, and stops at the first signal."""

    def __init__(
        self, config: uvicorn.Config, address: str, settle: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._address = address
        self._settle = settle

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        click.echo(f"perdure is listening on {self._address}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The queues are behind this server: they outlive what the functions have in hand of them.
        await self._settle()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not kept, as uvicorn does to raise it again: the first is done with.
        if self.should_exit:
            _end("interrupted")
        self.should_exit = True


def _bound(port: int) -> socket.socket:
    # The protocol is named, or asyncio leaves Nagle's algorithm on: 40 ms more for each answer.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Only a port that nobody listens on; one whose last connections linger is free.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise StoreUnavailable(
            expected=f"port {port} of {HOST} to be free", found=(error.strerror or "").lower()
        ) from error
    return listening
