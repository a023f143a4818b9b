"""DBOS on SQLite, in its own environment: messages sent to a workflow, and received by it."""

from __future__ import annotations

import itertools
import json
import logging
import os
import sqlite3
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dbos import DBOS, SendMessage, SetWorkflowID

TOPIC = "commands"
NEVER = "never"
PATIENCE_SECONDS = 600.0
THREADS = 32
DATABASE = "dbos.sqlite"
NUMBERS = itertools.count()


@DBOS.workflow()
def world(expected: int) -> int:
    """Receive so many commands. What they do to a state is left out, to the peer's favour."""
    for _ in range(expected):
        if DBOS.recv(TOPIC, timeout_seconds=PATIENCE_SECONDS) is None:
            raise TimeoutError
    return expected


@DBOS.workflow()
def asleep() -> None:
    """Be there to be sent to, and receive nothing."""
    DBOS.recv(NEVER, timeout_seconds=PATIENCE_SECONDS)


def send(to: str, message: object) -> None:
    DBOS.send(to, message, TOPIC, idempotency_key=f"b{next(NUMBERS)}")


def sent(request: dict) -> float:
    """Return the messages a second of one thread, or of many."""
    count, threads, to = request["count"], request["threads"], started(asleep)
    began = time.perf_counter()
    if threads == 1:
        for _ in range(count):
            send(to, request["message"])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: send(to, request["message"]), range(count)))
    return count / (time.perf_counter() - began)


def sent_in_bulk(request: dict) -> float:
    """Return the messages a second, a hundred in each call."""
    count, size, to = request["count"], request["size"], started(asleep)
    began = time.perf_counter()
    for _ in range(count // size):
        DBOS.send_bulk(
            [
                SendMessage(
                    destination_id=to,
                    message=request["message"],
                    topic=TOPIC,
                    idempotency_key=f"b{next(NUMBERS)}",
                )
                for _ in range(size)
            ]
        )
    return count // size * size / (time.perf_counter() - began)


def settled(request: dict) -> float:
    """Return the messages a second from the first that is sent until the last is received."""
    count = request["count"]
    with SetWorkflowID(f"w{next(NUMBERS)}"):
        handle = DBOS.start_workflow(world, count)
    began = time.perf_counter()
    with ThreadPoolExecutor(request["threads"]) as pool:
        list(pool.map(lambda _: send(handle.workflow_id, request["message"]), range(count)))
    assert handle.get_result() == count
    return count / (time.perf_counter() - began)


def started(workflow: object) -> str:
    id = f"w{next(NUMBERS)}"
    with SetWorkflowID(id):
        DBOS.start_workflow(workflow)
    return id


def main() -> None:
    """Do what standard input asks: ``dbos_child.py DIRECTORY defaults|wal``."""
    place, mode = Path(sys.argv[1]), sys.argv[2]
    place.mkdir()
    config = {
        "name": "bench",
        "system_database_url": f"sqlite:///{place / DATABASE}",
        "log_level": "ERROR",
    }
    if mode == "wal":
        # Kept by the file. Every commit is still synced: SQLite's default is FULL.
        with sqlite3.connect(place / DATABASE) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        config["notification_listener_polling_interval_sec"] = 0.01
    DBOS(config=config)
    DBOS.launch()
    logging.disable(logging.CRITICAL)
    work = {"send": sent, "bulk": sent_in_bulk, "settle": settled}
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.write(json.dumps({"done": work[request["do"]](request)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 (printed, and the process ends)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)  # its threads would keep the process, and whoever reads would wait for them
