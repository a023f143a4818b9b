"""All mutations, by name."""

from __future__ import annotations

from typing import Final

from tests.simulator.mutations import commands, commits, lives, sessions, stores, tables, ticks
from tests.simulator.mutations.mutation import Mutation

MUTATIONS: Final[dict[str, Mutation]] = {
    each.name: each
    for held in (
        commits.MUTATIONS,
        stores.MUTATIONS,
        commands.MUTATIONS,
        ticks.MUTATIONS,
        lives.MUTATIONS,
        tables.MUTATIONS,
        sessions.MUTATIONS,
    )
    for each in held
}
