"""Ports: what the runtime asks of the floor below, in a form that a test can stand in for."""

from __future__ import annotations

from typing import Protocol, TypeVar

from perdure.kernel.view import Request

T = TypeVar("T")


class Executes(Protocol):
    """An authority: decides requests durably."""

    async def execute(self, request: Request[T]) -> T: ...
