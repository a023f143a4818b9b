"""Objects that outlive every process, and the way to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.simulator.faults import Faults
from tests.simulator.loop import SimulatedLoop
from tests.simulator.trace import Trace

from perdure.kernel.errors import Conflict, NotFound, OutcomeUnknown, StoreUnavailable

Bucket = dict[str, bytes]


@dataclass(eq=False, slots=True)
class SimulatedObjects:
    """An object store as one process has it: puts that arrive without an answer, or not at all."""

    who: str
    loop: SimulatedLoop
    bucket: Bucket
    faults: Faults
    trace: Trace
    puts: list[str] = field(default_factory=list)

    async def put(self, name: str, data: bytes | memoryview) -> None:
        answer: asyncio.Future[None] = self.loop.create_future()
        fault = self.faults.drawn(self.faults.weather.objects)
        self.trace.tell(self.who, "puts {} {}", name, fault)
        self.loop.outside(self.faults.hop(), self._arrive, name, bytes(data), fault, answer)
        await answer

    def _arrive(
        self, name: str, data: bytes, fault: str | None, answer: asyncio.Future[None]
    ) -> None:
        error: Exception | None = None
        if fault != "put failed" and self.bucket.setdefault(name, data) != data:
            error = Conflict(expected=f"the bytes of {name}", found="other bytes")
        if fault == "put without an answer":
            error = OutcomeUnknown(expected="an answer to a put", found="none")
        elif fault == "put failed":
            error = StoreUnavailable(expected="an answer to a put", found="a busy store")
        self.loop.outside(self.faults.hop(), _answered, answer, error)

    async def get(self, name: str) -> bytes:
        await asyncio.sleep(self.faults.hop())
        if self.faults.drawn(self.faults.weather.loads) is not None:
            raise StoreUnavailable(expected="an answer to a get", found="none")
        data = self.bucket.get(name)
        if data is None:
            raise NotFound(expected=f"an object {name}", found="none")
        return data

    async def delete(self, name: str) -> None:
        await asyncio.sleep(self.faults.hop())
        self.trace.tell(self.who, "deletes {}", name)
        self.bucket.pop(name, None)

    async def names(self, prefix: str) -> list[str]:
        return list(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        await asyncio.sleep(self.faults.hop())
        found = sorted(name for name in self.bucket if name.startswith(prefix))
        return {name: len(self.bucket[name]) for name in found}


def _answered(answer: asyncio.Future[None], error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
