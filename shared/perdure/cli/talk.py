"""Looking on at a session: text as it comes where it runs here, whole messages from elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

import click

from perdure.cli.client import Client, session_path

LOOK_SECONDS: Final = 1.0
"""Between two looks at a session that goes on elsewhere."""


class Heard:
    """Prints what is told of a session, and remembers how its runs ended."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._is_open = False
        self.runs: list[dict[str, Any]] = []
        self.waiting: list[str] = []
        """Keys of calls that wait for a word."""

    def text(self, piece: str) -> None:
        """Print a piece of what the model says."""
        if not self._is_quiet and piece:
            click.echo(piece, nl=False)
            self._is_open = not piece.endswith("\n")

    def fact(self, kind: str, payload: Mapping[str, Any], *, is_spoken: bool) -> None:
        """Print what has happened; ``is_spoken`` if the text of messages was told before."""
        match kind:
            case "model_step_finished" if not is_spoken:
                self.text(payload["assistant_message"]["text"])
            case "tool_dispatch_intent":
                self._line(f"→ {payload['tool_name']}({_short(payload['args'])})")
            case "tool_result":
                mark = "✗" if payload["is_error"] else "←"
                self._line(f"{mark} {payload['outcome']}: {_short(payload['output'])}")
            case "tool_no_dispatch":
                self._line(f"✗ not made: {payload['reason']}")
            case "approval_requested":
                self.waiting.append(payload["call_key"])
                self._line(f"? {payload['tool_name']}({_short(payload['args'])}) waits for a word:")
                self._line(f"  perdure session approve SESSION {payload['call_key']}")
            case "run_finished":
                ended = {name: payload.get(name) for name in ("run_id", "reason", "code")}
                self.runs.append(ended)
                why = payload.get("code") or payload["reason"]
                self._line(f"run {payload['run_id']}: {why}")
            case _:
                pass

    def _line(self, text: str) -> None:
        if self._is_quiet:
            return
        if self._is_open:
            click.echo()
            self._is_open = False
        click.echo(text)


@runtime_checkable
class Drives(Protocol):
    """A client that goes on with sessions itself."""

    def drive(self, session: str, heard: Heard) -> str:
        """Go on with a session in this process, and return how it was left."""
        ...


def carried_on(client: Client, session: str, after: int, heard: Heard) -> str:
    """Go on with a session, or look on behind a frame until it rests; return how it was left."""
    if isinstance(client, Drives):
        return client.drive(session, heard)
    while True:
        info = client.ask("GET", session_path(session))
        after = _looked_on(client, session, after, heard)
        if info["run_state"] == "paused" or (info["run_state"] == "idle" and not info["queued"]):
            return str(info["run_state"])
        time.sleep(LOOK_SECONDS)


def _looked_on(client: Client, session: str, after: int, heard: Heard) -> int:
    while True:
        page = client.ask("GET", session_path(session, "transcript"), query={"after": after})
        for frame in page["frames"]:
            heard.fact(frame["type"], frame["payload"], is_spoken=False)
        after = page["next"]
        if not page["more"]:
            return after


def _short(value: Any) -> str:
    spelled = json.dumps(value, ensure_ascii=False)
    return spelled if len(spelled) <= 200 else f"{spelled[:199]}…"
