"""Queues with a clock of their own, and a server in a thread for clients that speak HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import uvicorn
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from perdure_emulator.declared import Queue, Template
from perdure_emulator.gateway import Gateway
from perdure_emulator.issuer import Issuer
from perdure_emulator.queues import Queues
from perdure_emulator.sqs import Sqs

ISSUER = Issuer(generate_private_key(public_exponent=65_537, key_size=2_048))

TICKS = Queue(
    logical="Ticks",
    name="ticks.fifo",
    is_fifo=True,
    visibility_seconds=60,
    dead_letters="TicksDead",
    received_max=3,
)
DEAD = Queue(logical="TicksDead", name="ticks-dead.fifo", is_fifo=True)
MAIL = Queue(
    logical="Mail",
    name="mail",
    visibility_seconds=60,
    dead_letters="MailDead",
    received_max=2,
)
MAIL_DEAD = Queue(logical="MailDead", name="mail-dead")


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def pass_seconds(self, seconds: float) -> None:
        self.ms += int(seconds * 1_000)


def new_queues(time: Time, *declared: Queue) -> tuple[Queues, list[str]]:
    """Queues that start empty, and the bodies of what dies in them."""
    dead: list[str] = []
    every = declared or (TICKS, DEAD, MAIL, MAIL_DEAD)
    return (
        Queues(every, now_ms=time.now_ms, died=lambda _, message: dead.append(message.body)),
        dead,
    )


@contextmanager
def served(app: Callable[[str], Any]) -> Iterator[str]:
    """Serve what ``app`` makes for an address on a free port, and yield that address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(app(address), lifespan="off", log_level="warning", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def queues_over_http(queues: Queues) -> Iterator[Any]:
    """Yield a boto3 client of the queues."""
    with served(lambda address: Gateway(Template({}, ()), {}, ISSUER, Sqs(queues, address))) as url:
        client = sqs_client(url)
        try:
            yield client
        finally:
            client.close()


def sqs_client(url: str, key: str = "local") -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=key,
        config=Config(retries={"total_max_attempts": 1}),
    )
