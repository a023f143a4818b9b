"""Durable's Harness for tests: a model that says what a script has, and a store that may be severed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pi_durable import Harness, Model, create_registry, define_extension, define_tool
from pi_durable.context import BACKGROUND_CONTEXT
from pi_durable.providers.base import ProviderModels
from pi_durable.providers.stream import ProviderStream
from pi_durable.providers.usage import zero_usage

from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.view import Reads, View

CONTEXT = BACKGROUND_CONTEXT
MODEL = Model(provider="script", model_id="told", context_window=100_000, max_tokens=1_000)
AGENT = {"model": {"provider": "script", "modelId": "told"}, "extensions": ["weather"]}

Block = dict[str, Any]


def says(text: str) -> list[Block]:
    """Return what a model answers that is done."""
    return [{"type": "text", "text": text}]


def calls(tool: str, **arguments: Any) -> list[Block]:
    """Return what a model answers that wants a tool."""
    return [{"type": "toolCall", "id": f"call-{tool}", "name": tool, "arguments": arguments}]


class _Told(ProviderStream):
    async def _produce(self) -> None:
        self.emit("start")
        self.emit("done", reason=self.output["stopReason"], message=self.output)


class ScriptedModels(ProviderModels):
    """A provider of one model, which gives one answer of a script after another."""

    api = "script"

    def __init__(self, answers: Sequence[list[Block]]) -> None:
        super().__init__([MODEL])
        self.answers = list(answers)
        self.asked: list[list[Mapping[str, Any]]] = []
        """Messages of each request."""

    def stream_simple(
        self,
        model: Model,
        context: Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
    ) -> ProviderStream:
        self.asked.append(list(context["messages"]))
        content = self.answers.pop(0)
        wants = any(block["type"] == "toolCall" for block in content)
        return _Told(
            {
                "role": "assistant",
                "content": content,
                "api": self.api,
                "provider": model.provider,
                "model": model.model_id,
                "usage": zero_usage(),
                "stopReason": "toolUse" if wants else "stop",
                "timestamp": 1,
            }
        )

    stream = stream_simple


async def harness(
    storage: Any, models: ScriptedModels, look: Callable[..., Any], replay: str = "unsafe"
) -> Harness:
    """Open Durable's Harness with one tool, ``weather``."""
    registry = create_registry()
    tool = define_tool(
        name="weather",
        description="Say what the weather is.",
        parameters={"type": "object", "properties": {"place": {"type": "string"}}},
        execute=look,
        replay=replay,
    )
    registry.install(define_extension(name="weather", tools=[tool]))
    return await Harness.open(storage, {"models": models, "registry": registry}, CONTEXT)


def texts(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return who said what in the entries of a conversation, in their order; prompts are left out."""
    found = []
    for entry in entries:
        for message in entry.get("model") or ():
            if message["role"] == "system":
                continue
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            said = "".join(block.get("text", block.get("name", "")) for block in blocks)
            found.append((message["role"], said))
    return found


class SeverableStore:
    """A store that a process can be cut off from: what it asks then has no answer, ever."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._severed = False

    def sever(self) -> None:
        self._severed = True

    async def load(self, reads: Reads) -> View:
        await self._check()
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._check()
        await self._store.commit(commit)

    async def close(self) -> None:
        await self._store.close()

    async def _check(self) -> None:
        if self._severed:
            await asyncio.Event().wait()
