"""Mutations of writers: the fence, the publication, and the state that a tick goes on from."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

FENCE = "kernel/fence.py"
PUBLISH = "kernel/publish.py"
TICK = "runtime/tick.py"

MUTATIONS = (
    Mutation(
        "fence_taken_early",
        "a fence taken too early",
        "A fence is taken while the lease of its holder runs.",
        (Edit(FENCE, "        if fence.is_held(now):\n", "        if now < 0:\n"),),
        Simulated("races"),
    ),
    Mutation(
        "epoch_stays",
        "an epoch not checked",
        "Whoever takes a fence over goes on under the epoch of the one before.",
        (Edit(FENCE, "epoch = Epoch(fence.epoch + 1)", "epoch = Epoch(max(fence.epoch, 1))"),),
        Simulated(),
    ),
    Mutation(
        "epoch_unchecked",
        "an epoch not checked",
        "A publish does not ask whether its epoch is the one on the head.",
        (Edit(FENCE, "    if head.fence.epoch != epoch:\n", "    if head.fence.epoch < epoch:\n"),),
        Simulated("races"),
    ),
    Mutation(
        "deaths_uncounted",
        "attempts not counted",
        "Taking over from a dead writer does not count its death.",
        (
            Edit(
                FENCE,
                "drain=_after_death(head) if fence.holder is not None else head.drain,",
                "drain=head.drain,",
            ),
        ),
        Simulated("deaths"),
    ),
    Mutation(
        "any_publication_is_mine",
        "a token comparison forgotten",
        "A tick that another has published is taken for this attempt's own.",
        (
            Edit(
                PUBLISH, "        if known.token != self.token:\n", "        if not known.token:\n"
            ),
        ),
        Simulated("races"),
    ),
    Mutation(
        "segment_not_awaited",
        "steps swapped",
        "A tick is published before its segments are put.",
        (
            Edit(
                "lake/segment.py",
                "        await objects.put(name, data)\n",
                "        asyncio.get_running_loop().create_task(objects.put(name, data))\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "token_kept_for_another_drain",
        "a token used twice",
        "A tick that is computed again from another drain keeps its publication token.",
        (
            Edit(
                TICK,
                "                token = self._means.new_token()\n",
                "",
            ),
        ),
        Simulated("crowd"),
    ),
    Mutation(
        "stale_warmth",
        "a state kept too long",
        "A writer goes on from its own last state although another has published since.",
        (
            Edit(
                "runtime/rebuild.py",
                "return is_ours and (self.tick, self.digest) =="
                " (head.published, head.manifest_digest)",
                "return is_ours or self.tick <= head.published",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "publication_asked_under_another_token",
        "a lost reply taken for failure",
        "A publish without an answer is made again under another token.",
        (
            Edit(
                TICK,
                "            except DrainStale:\n",
                "            except (DrainStale, OutcomeUnknown):\n",
            ),
        ),
        Suite("tests/runtime/test_tick.py"),
    ),
    Mutation(
        "checkpoint_from_before",
        "a state kept too long",
        "A checkpoint holds the state before its tick.",
        (
            Edit(
                TICK,
                "return await self._stored(checkpoint(state), token, is_checkpoint=True)",
                "return await self._stored(checkpoint(self._warm.state), token, is_checkpoint=True)",
            ),
        ),
        Simulated(),
    ),
)
