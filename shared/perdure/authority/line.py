"""Lines: who waits in this process for one stream, and who of them is decided together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from perdure.authority.bodies import Placed
from perdure.authority.group import Asked
from perdure.authority.recent import Recent

GROUP_REQUESTS_MAX: Final = 256
"""Requests decided on one view: more would make the first wait for the last."""


@dataclass(slots=True, eq=False)
class Line:
    """Requests to one stream that wait in this process."""

    recent: Recent
    waiting: deque[Asked] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    def next_group(self) -> list[Asked]:
        """Take what can be decided together: one request alone, or all up to the next such."""
        group: list[Asked] = []
        while self.waiting and len(group) < GROUP_REQUESTS_MAX:
            following = self.waiting[0]
            if following.alone and group:
                break
            self.waiting.popleft()
            if following.answer.done():  # its caller has gone
                continue
            group.append(following)
            if following.alone:
                break
        return group

    def put_back(self, members: Sequence[Asked]) -> None:
        self.waiting.extendleft(reversed(members))

    def lend_no_more(self, placed: Placed) -> None:
        """Keep chunks that a commit is about to point at from all who wait.

        Who was decided together with it, and is not any more, may write the very same: once this
        commit has happened its chunks may be emptied by whoever comes after it.
        """
        for member in self.waiting:
            member.placed = {
                each: where for each, where in member.placed.items() if each not in placed
            }
