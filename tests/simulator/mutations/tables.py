"""Mutations of landing and projection: rows and events that must be in the tables once."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

APPEND = "runtime/append.py"
LANDING = "kernel/landing.py"

MUTATIONS = (
    Mutation(
        "landed_without_a_look",
        "landed without a look",
        "Rows are appended without looking whether they are in the table already.",
        (
            Edit(
                APPEND,
                "        seen = verdict(table, batch, parent)\n",
                "        seen = Verdict.NOT_LANDED\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "append_conflict_trusted",
        "a conflict trusted",
        "After an append that failed, rows are appended again without a look.",
        (
            Edit(
                APPEND,
                "        seen = verdict(table, batch, parent)\n",
                "        seen = Verdict.NOT_LANDED if failed else verdict(table, batch, parent)\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "looked_up_after_landing",
        "steps swapped",
        "Rows are appended first and looked for afterwards.",
        (
            Edit(
                APPEND,
                "        if seen is Verdict.LANDED:\n            return 0 if failed is None else 1\n",
                "        if seen is Verdict.LANDED and failed is not None:\n            return 1\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "watermark_before_rows",
        "steps swapped",
        "A landing moves its watermarks before its rows are in the tables.",
        (
            Edit(
                "runtime/land.py",
                "        for each in intent.tables:\n"
                "            files += await self._appended("
                "intent, each, signatures[each.table], stretches)\n"
                "        await self.landing.authority.execute(\n"
                "            FinishIntent(self.landing.storage, self.epoch, self.lease_ms, intent)\n"
                "        )\n",
                "        await self.landing.authority.execute(\n"
                "            FinishIntent(self.landing.storage, self.epoch, self.lease_ms, intent)\n"
                "        )\n"
                "        for each in intent.tables:\n"
                "            files += await self._appended("
                "intent, each, signatures[each.table], stretches)\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "acknowledged_before_projected",
        "steps swapped",
        "The projector moves its watermark before its events are in the table.",
        (
            Edit(
                "runtime/project.py",
                "        files = 0\n        for each in intent.tables:\n            if len(events)",
                "        files = 0\n"
                "        await self.projection.authority.execute(\n"
                "            FinishIntent(\n"
                "                self.projection.storage, self.epoch, self.lease_ms, intent, AUDIT\n"
                "            )\n"
                "        )\n"
                "        for each in intent.tables:\n            if len(events)",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "intent_forgotten",
        "landed without a look",
        "Whoever takes the landing fence over forgets what was begun, and begins anew.",
        (
            Edit(
                LANDING,
                "        intent = None if head.intent is None else "
                "_open_intent(view, self.stream, head.intent)\n",
                "        intent = None\n",
            ),
            Edit(
                LANDING,
                "        if head.intent is not None:\n            if _open_intent(",
                "        if head.intent == self.batch:\n            if _open_intent(",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "watermark_unchecked",
        "a token comparison forgotten",
        "An intent is opened and finished whatever its worlds' watermarks say.",
        (
            Edit(
                LANDING,
                "    if not reached + 1 == part.first <= part.last:\n",
                "    if part.first > part.last:\n",
            ),
        ),
        Suite("tests/kernel/test_landing.py"),
    ),
    Mutation(
        "tables_listed_before_the_tick",
        "steps swapped",
        "A query looks for tables first, and then for the tick to read.",
        (
            Edit(
                "runtime/read.py",
                "        covers = await coverings("
                "self.authority, self.storage, components, self.registry)\n",
                "",
            ),
            Edit(
                "runtime/read.py",
                "        state = await self._found(world)\n        wanted",
                "        covers = await coverings("
                "self.authority, self.storage, components, self.registry)\n"
                "        state = await self._found(world)\n        wanted",
            ),
        ),
        Suite("tests/runtime/test_read.py"),
    ),
)
