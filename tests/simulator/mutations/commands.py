"""Mutations of what becomes of commands: admitted, cancelled, drained, settled, tried again."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

ADMIT = "kernel/admit.py"
PUBLISH = "kernel/publish.py"
DRAIN = "kernel/drain.py"
SETTLE = "kernel/settle.py"

MUTATIONS = (
    Mutation(
        "status_before_key",
        "a key looked at too late",
        "A batch sent again is told the world's status instead of its receipt.",
        (
            Edit(
                ADMIT,
                "        known = view.get(self._batch_key)\n        if known",
                "        self._open_head(view)\n"
                "        known = view.get(self._batch_key)\n        if known",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "digest_uncompared",
        "a digest not compared",
        "A batch id with other content is answered with the receipt of the first.",
        (Edit(ADMIT, "if known.digest != self.batch.digest:", "if False:"),),
        Simulated(),
    ),
    Mutation(
        "command_content_uncompared",
        "a digest not compared",
        "A command id with other content is answered with the receipt of the first.",
        (Edit(ADMIT, "if key.digest != content:", "if False:"),),
        Simulated("races"),
    ),
    Mutation(
        "admitted_while_closing",
        "a status not looked at",
        "Commands are admitted into a world that is closing or destroyed.",
        (
            Edit(
                ADMIT,
                "import UNREAD_MS, active_head, appended, woken",
                "import UNREAD_MS, appended, existing_head, woken",
            ),
            Edit(
                ADMIT, "head = active_head(view, self.ref)", "head = existing_head(view, self.ref)"
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "entity_id_reused",
        "an entity id reused",
        "An admission does not move the head past the entity ids that it gives.",
        (
            Edit(
                ADMIT,
                "next_entity_id=EntityId(head.next_entity_id + len(batch.spawning)),\n",
                "next_entity_id=head.next_entity_id,\n",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "page_forgotten",
        "a record not written",
        "An admission leaves its commands out of their pages.",
        (
            Edit(
                ADMIT,
                "return Decision(admitted, (after, entry, key, *pages, *own, *hints))",
                "return Decision(admitted, (after, entry, key, *own, *hints))",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "cancelled_stays_in_page",
        "a record not written",
        "A cancelled command stays in its page.",
        (
            Edit(
                "kernel/cancel.py",
                "(after, entry, mark, rest, *hints)",
                "(after, entry, mark, *hints)",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "cancel_all_without_key",
        "a record not written",
        "Cancelling all leaves no key: asked again, it cancels what was admitted since.",
        (
            Edit(
                "kernel/cancel.py",
                "(after, entry, key, *hints)",
                "(after, entry, *hints)",
            ),
        ),
        Simulated("crowd"),
    ),
    Mutation(
        "settled_out_of_page",
        "settled although its page no longer names it",
        "A publish settles a sequence that an entry of its page no longer names.",
        (Edit(PUBLISH, "        not ranges.covers(current, taken)\n        or ", "        "),),
        Simulated("races"),
    ),
    Mutation(
        "settled_without_page",
        "settled although its page no longer names it",
        "A publish settles the sequences of an entry that is gone from its page.",
        (
            Edit(
                PUBLISH, "            if gone is not None:\n", "            if gone is not gone:\n"
            ),
        ),
        Simulated("crowd"),
    ),
    Mutation(
        "settled_below_the_line",
        "settled although its page no longer names it",
        "A publish settles what was cancelled with all that was open.",
        (
            Edit(
                PUBLISH,
                "ranges.from_sequence(taken, head.cancelled_below) != taken\n",
                "False\n",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "settled_twice",
        "a record not written",
        "A publish leaves what it has settled in its pages.",
        (
            Edit(
                PUBLISH,
                "(after, manifest, entry, *pages, *again, *upkeep)",
                "(after, manifest, entry, *again, *upkeep)",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "retry_forgotten",
        "a record not written",
        "A publish takes a command that is to be tried again out of its page, and puts it in none.",
        (
            Edit(
                PUBLISH,
                "(after, manifest, entry, *pages, *again, *upkeep)",
                "(after, manifest, entry, *pages, *upkeep)",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "attempts_uncounted",
        "attempts not counted",
        "A retry does not count the attempt that failed.",
        (
            Edit(
                SETTLE,
                "attempts = command.attempts + cost\n",
                "attempts = max(1, command.attempts)\n",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "one_attempt_more",
        "attempts not counted",
        "A command is tried once more than it may.",
        (
            Edit(
                SETTLE,
                "if attempts >= command.command.max_attempts:",
                "if attempts > command.command.max_attempts:",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "horizon_ignored",
        "a drain that sees too much",
        "A drain takes sequences that the head it read did not know yet.",
        (
            Edit(
                DRAIN,
                "            if entry.world is not None or entry.seq <= head.seq\n",
                "",
            ),
        ),
        Simulated("races"),
    ),
    Mutation(
        "cut_ignored",
        "a drain that sees too much",
        "With pages left unread, a drain goes on behind the first of them.",
        (Edit(DRAIN, "spans = list(_before(spans, unread)) or spans", "spans = list(spans)"),),
        Suite("tests/kernel/test_drain.py"),
    ),
    Mutation(
        "log_unchecked",
        "a drain that sees too much",
        "A drain takes pages at their word, whatever the log names as due.",
        (
            Edit(
                DRAIN,
                "if lacking and not self._cancelled_since",
                "if False and not self._cancelled_since",
            ),
        ),
        Suite("tests/kernel/test_drain.py"),
    ),
    Mutation(
        "applied_by_sequence",
        "steps swapped",
        "Commands are applied as they were admitted, not by tick and priority.",
        (Edit(DRAIN, 'key=attrgetter("place"))', 'key=attrgetter("first"))'),),
        Simulated(),
    ),
)
