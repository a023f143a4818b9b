"""Whatever a log says, a replica applies it, or is diverged, and never breaks."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, NOW, means, opened
from tests.support.exporting import changed_somewhere
from tests.support.histories import Past
from tests.support.replicas import REPLICA, entries_of

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.replica import ApplyLogged
from perdure.kernel.errors import NewerWriter
from perdure.kernel.view import Missing, View
from perdure.runtime.documents.replica import apply_batch, create_replica
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores


async def outcome_of(replica: OpenStore, request: ApplyLogged) -> str:
    """Say what a commit would come to, without applying it. Raises what is no answer."""
    authority: Any = replica.means.authority
    view: View = await authority.view(request.reads())
    while True:
        try:
            applied = request.decide(view, NOW).reply
        except Missing as missing:
            view.merge(await authority.view(missing.reads))
        except NewerWriter:
            return "newer"
        else:
            return "applied" if applied.diverged is None else "diverged"


@pytest.mark.parametrize("seed", range(3))
async def test_a_changed_commit_is_applied_or_found_out(seed: int) -> None:
    draw = random.Random(seed)
    found: list[str] = []
    async with opened() as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(15)
        await past.migrate()
        await past.end()
        with_ = means(prefix="r")
        await create_replica(with_, REPLICA, LINEAGE)
        replica = await OpenStore.open(with_, REPLICA)

        for entry in await entries_of(source):
            for _ in range(4):
                writes: list[Any] = entry.told()
                changed_somewhere(writes, draw)
                changed = replace(entry, writes=canonical(writes))
                request = ApplyLogged(REPLICA, changed, is_sure=True)
                found.append(await outcome_of(replica, request))
            assert await outcome_of(replica, ApplyLogged(REPLICA, entry)) == "applied"
            await apply_batch(replica, [entry])

    assert found.count("diverged") > len(found) // 3
