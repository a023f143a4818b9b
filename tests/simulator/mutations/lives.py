"""Mutations of lives: creating, forking, ending, and who must have read what."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

DESTROY = "kernel/destroy.py"
SOURCE = "kernel/fork_source.py"
FORK = "kernel/fork.py"

MUTATIONS = (
    Mutation(
        "published_after_the_end",
        "a status not looked at",
        "Closing neither ends the epoch nor is its status looked at: a tick is published after it.",
        (
            Edit(
                DESTROY,
                "epoch = head.fence.epoch if is_mine else Epoch(head.fence.epoch + 1)",
                "epoch = head.fence.epoch",
            ),
            Edit(
                "kernel/fence.py",
                "    head = active_head(view, ref)\n    if head.fence.epoch != epoch:",
                "    head = glimpsed_head(view, ref)\n    if head.fence.epoch != epoch:",
            ),
            Edit(
                "kernel/fence.py",
                "from perdure.kernel.wake import active_head\n",
                "from perdure.kernel.wake import active_head, glimpsed_head\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "hooks_told_of_in_advance",
        "steps swapped",
        "That the hooks were told is written down before they are.",
        (
            Edit(
                "runtime/close.py",
                "        failures = await tell(hooks, ending)\n",
                "        await execute(MarkTold(ref, close.epoch))\n"
                "        failures = await tell(hooks, ending)\n",
            ),
        ),
        Suite("tests/runtime/test_destroy.py"),
    ),
    Mutation(
        "fork_forgets_open_commands",
        "a fork that takes over too little",
        "A fork begins without the commands that were open in its source.",
        (
            Edit(
                SOURCE,
                'for page in seen.pages if pending == "copy" else ():',
                "for page in ():",
            ),
            Edit(
                SOURCE,
                'if pending == "copy" and found != seen.head.open_commands:',
                "if found < 0:",
            ),
        ),
        Simulated("deaths"),
    ),
    Mutation(
        "fork_revives_cancelled",
        "a fork that takes over too much",
        "A fork has the commands that had been cancelled with all that was open.",
        (
            Edit(
                SOURCE,
                "alive = ranges.from_sequence(every, seen.head.cancelled_below)",
                "alive = every",
            ),
            Edit(
                SOURCE,
                'if pending == "copy" and found != seen.head.open_commands:',
                "if found < 0:",
            ),
            Edit(
                FORK,
                "cancelled_below=source.next_sequence if dropped else source.cancelled_below,",
                "",
            ),
        ),
        Simulated("deaths"),
    ),
    Mutation(
        "fork_reuses_entity_ids",
        "an entity id reused",
        "A fork gives entity ids from 1 again.",
        (Edit(FORK, "            next_entity_id=source.next_entity_id,\n", ""),),
        Simulated(),
    ),
    Mutation(
        "consumers_not_waited_for",
        "a status not looked at",
        "A tick is published although a required consumer has not read the one before.",
        (Edit("kernel/publish.py", "        check_consumers(view, self.ref, head)\n", ""),),
        Suite("tests/kernel/test_consumers.py"),
    ),
    Mutation(
        "time_served_twice",
        "a token comparison forgotten",
        "A tick serves a time of its schedule whatever the schedule waits for.",
        (
            Edit(
                "kernel/publish.py",
                "if schedule is None or schedule.next_at != self.serves:",
                "if schedule is None:",
            ),
        ),
        Suite("tests/kernel/test_schedule.py"),
    ),
)
