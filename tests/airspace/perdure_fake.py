"""A Perdure that answers the demo's routes from memory and can lose its process at any request."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx

ROWS_A_LANDING = 50_000
TICKS_A_REQUEST = 17

Death = tuple[int, Literal["before", "after"]]


class PerdureFake:
    """What survives the process: worlds, batches by id, the published tick, the landed rows."""

    def __init__(self) -> None:
        self.worlds: dict[str, str] = {}
        self.batches: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        self.commands: list[dict[str, Any]] = []
        self.entities = 0
        self.published = -1
        self.landed = 0
        self.requests = 0
        self.refusals: list[httpx.Response] = []
        self.death: Death | None = None

    def client(self) -> httpx.Client:
        return httpx.Client(base_url="http://fake", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.death == (self.requests, "before"):
            raise httpx.ConnectError("gone", request=request)
        if self.refusals:
            return self.refusals.pop(0)
        answer = self.decided(request)
        if self.death == (self.requests, "after"):
            raise httpx.ReadError("gone", request=request)
        return answer

    def decided(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {}
        match request.method, request.url.path.removeprefix("/v1/").split("/"):
            case "POST", ["worlds"]:
                self.worlds[body["world_id"]] = body["name"]
                return httpx.Response(201, json=body)
            case "GET", ["worlds", _]:
                published = None if self.published < 0 else self.published
                return httpx.Response(200, json={"published_tick": published})
            case "POST", ["worlds", _, "commands"]:
                return self.admitted(request.headers["Idempotency-Key"], body["commands"])
            case "POST", ["worlds", _, "tick"]:
                self.published = min(self.published + TICKS_A_REQUEST, body["to_tick"])
                done = self.published == body["to_tick"]
                return httpx.Response(200, json={"published_tick": self.published, "done": done})
            case "POST", ["land"]:
                rows = min(ROWS_A_LANDING, 134_974 - self.landed)
                self.landed += rows
                return httpx.Response(200, json={"rows": rows, "files": int(rows > 0)})
            case _:
                return httpx.Response(404, json={"code": "not_found", "detail": str(request.url)})

    def admitted(self, batch_id: str, commands: list[dict[str, Any]]) -> httpx.Response:
        content = json.dumps(commands)
        if batch_id not in self.batches:
            self.batches[batch_id] = (content, [self.receipt(command) for command in commands])
        known, receipts = self.batches[batch_id]
        if known != content:
            return httpx.Response(409, json={"code": "conflict", "detail": f"{batch_id} differs"})
        answered = [
            {
                **{name: value for name, value in receipt.items() if name != "tick"},
                "command_id": f"{batch_id}.{index}",
                "status": "applied" if receipt["tick"] <= self.published else "pending",
            }
            for index, receipt in enumerate(receipts)
        ]
        return httpx.Response(202, json={"receipts": answered})

    def receipt(self, command: dict[str, Any]) -> dict[str, Any]:
        self.commands.append(command)
        receipt = {"sequence": len(self.commands), "tick": command["tick"]}
        if command["operation"] == "spawn":
            self.entities += 1
            receipt["entity_id"] = self.entities
        return receipt
