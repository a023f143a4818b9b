"""A handler that does what an event says; it needs neither Perdure nor Arrow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MEET_SECONDS = 100


def handler(event, context):
    """Do what `do` names."""
    if "mark" in event:
        Path(event["mark"]).write_text(str(os.getpid()), encoding="utf-8")
    return DEEDS[event["do"]](event, context)


def tell(event, context):
    return {
        "process": os.getpid(),
        "text": event.get("text"),
        "arn": context.invoked_function_arn,
        "request_id": context.aws_request_id,
        "left_ms": context.get_remaining_time_in_millis(),
        "directory": str(Path.cwd()),
    }


def variables(event, context):
    return dict(os.environ)


def meet(event, context):
    """Wait until as many are here as are expected."""
    room = Path(event["room"])
    (room / str(os.getpid())).touch()
    until = time.monotonic() + MEET_SECONDS
    while len(list(room.iterdir())) < event["expected"]:
        if time.monotonic() > until:
            raise TimeoutError("alone")
        time.sleep(0.01)
    return {"process": os.getpid()}


def wait(event, context):
    """Wait until a file is there, and leave another."""
    while not Path(event["for"]).exists():
        time.sleep(0.01)
    Path(event["leave"]).touch()
    return {"process": os.getpid()}


def sleep(event, context):
    time.sleep(10**6)


def sleep_with_child(event, context):
    child = subprocess.Popen(["sleep", "1000"])
    Path(event["child"]).write_text(str(child.pid), encoding="utf-8")
    time.sleep(10**6)


def fill(event, context):
    return {"text": "é" * event["characters"]}


def fail(event, context):
    raise ValueError(event["text"])


def die(event, context):
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_child(event, context):
    child = subprocess.Popen(["sleep", "1000"])
    Path(event["child"]).write_text(str(child.pid), encoding="utf-8")
    os.kill(os.getpid(), signal.SIGKILL)


def leave(event, context):
    sys.exit(7)


def say(event, context):
    sys.stdout.write(event["text"])
    sys.stderr.write("to the other stream\n")
    return {}


def nothing(event, context):
    return None


DEEDS = {
    each.__name__: each
    for each in (
        tell, variables, meet, wait, sleep, sleep_with_child,
        fill, fail, die, die_with_child, leave, say, nothing,
    )
}  # fmt: skip
