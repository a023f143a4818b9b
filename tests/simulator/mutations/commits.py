"""Mutations of the store and the engine: conditions, tokens, and answers taken for what they are not."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

MEMORY = "authority/memory.py"
ENGINE = "authority/engine.py"
CONTRACT = "tests/contract/test_contract.py"

MUTATIONS = (
    Mutation(
        "head_unconditioned",
        "a condition dropped",
        "A commit happens although the head that it was decided on has changed.",
        (
            Edit(
                MEMORY,
                "if self._seen(action.key) != action.seen]",
                'if self._seen(action.key) != action.seen and action.key.sort != "head"]',
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "absence_unconditioned",
        "a guess not proved",
        "A commit does not depend on the guess that its keys are new.",
        (
            Edit(
                MEMORY,
                "if self._seen(action.key) != action.seen]",
                "if self._seen(action.key) != action.seen"
                ' and (action.seen or action.key.sort[:4] != "key/")]',
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "absence_unchecked",
        "a condition dropped",
        "A record that was only looked at does not condition the commit.",
        (
            Edit(
                "kernel/commit.py",
                "    actions += [Check(key, view.version(key)) for key in view.named"
                " if key not in view.written]\n",
                "",
            ),
        ),
        Suite(f"{CONTRACT}::test_memory_keeps_the_promise"),
    ),
    Mutation(
        "conflict_trusted",
        "a conflict trusted",
        "A failed condition is read as a lost race, without a look for the commit's own token.",
        (
            Edit(
                MEMORY,
                "            if not self._has_happened(commit):\n"
                "                raise RevisionConflict(*failed)\n"
                "            return\n",
                "            raise RevisionConflict(*failed)\n",
            ),
        ),
        Suite(f"{CONTRACT}::test_memory_keeps_the_promise"),
    ),
    Mutation(
        "any_token_is_mine",
        "a token comparison forgotten",
        "A record of the right revision is taken for this commit's, whoever wrote it.",
        (
            Edit(
                MEMORY,
                "self._seen(action.key) == action.version(commit.token)\n",
                "(self._seen(action.key) or (0,))[0] == action.revision\n",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "recreated_is_the_same",
        "a token comparison forgotten",
        "A record that was removed and made again passes for the one that was seen.",
        (
            Edit(
                MEMORY,
                "if self._seen(action.key) != action.seen]",
                "if (self._seen(action.key) or (0,))[0] != (action.seen or (0,))[0]]",
            ),
        ),
        Suite(f"{CONTRACT}::test_memory_keeps_the_promise"),
    ),
    Mutation(
        "lost_reply_is_failure",
        "a lost reply taken for failure",
        "A commit without an answer is told as one that did not happen.",
        (
            Edit(
                ENGINE,
                "                unsure |= isinstance(error, OutcomeUnknown)\n",
                "                if isinstance(error, OutcomeUnknown):\n"
                "                    raise StoreUnavailable(\n"
                "                        expected=error.expected, found=error.found\n"
                "                    ) from error\n",
            ),
        ),
        Simulated("storms"),
    ),
    Mutation(
        "answered_before_commit",
        "an answer before its commit",
        "A group is answered before what it wrote is committed.",
        (
            Edit(
                ENGINE,
                "            elif ready is not None:\n                await",
                "            elif ready is not None:\n"
                "                outcome.release()\n"
                "                await",
            ),
        ),
        Simulated(),
    ),
    Mutation(
        "answered_from_a_guess",
        "a guess not proved",
        "A decision on guesses that writes nothing is answered without a look.",
        (
            Edit(
                ENGINE,
                "            if outcome.view.is_guess and (ready is None or ready[1].unplaced):\n",
                "            if outcome.view.is_guess and ready is not None and ready[1].unplaced:\n",
            ),
        ),
        Suite("tests/authority/test_recent.py"),
    ),
    Mutation(
        "part_taken_for_the_whole",
        "a guess not proved",
        "What a running commit does not show yet is told to be lost, without a look as of one moment.",
        (
            Edit(
                "authority/group.py",
                "            view.is_snapshot or proven.issuperset(lacking.reads.peeks)\n",
                "            view.is_snapshot or lacking.reads.snapshot\n",
            ),
        ),
        Suite("tests/authority/test_seen_in_part.py"),
    ),
    Mutation(
        "chunks_lent",
        "a guess not proved",
        "The chunks of a commit that may have happened are pointed at by the next attempt.",
        (
            Edit(
                "authority/engine.py",
                "            if not member.unsure:  # what may have been pointed at may be gone with that\n",
                "            if True:\n",
            ),
        ),
        Simulated("bulk"),
    ),
    Mutation(
        "chunks_shared",
        "a condition dropped",
        "Two records with one body point at the same chunks.",
        (
            Edit(
                "authority/bodies.py",
                "            place = (action.key, body)\n",
                "            alike = (each for each in pointers if each[1] == body)\n"
                "            place = next(alike, (action.key, body))\n",
            ),
        ),
        Simulated("bulk"),
    ),
    Mutation(
        "emptied_is_damage",
        "a state kept too long",
        "A body whose chunks were emptied while it was read is told to be damaged, without another look.",
        (
            Edit(
                "authority/bodies.py",
                "        if chunk.partition in emptied:\n",
                "        if chunk.partition:\n",
            ),
        ),
        Simulated("bulk"),
    ),
    Mutation(
        "emptied_before",
        "steps swapped",
        "The chunks of a body are emptied before the commit that supersedes it.",
        (
            Edit(
                "authority/engine.py",
                "            await self._sent(ready.commit, group)\n        except RevisionConflict",
                "            if chunks := bodies.superseded(commit, outcome.view):\n"
                "                await bodies.empty(chunks, self._store.commit, self._new_token)\n"
                "            await self._sent(ready.commit, group)\n        except RevisionConflict",
            ),
        ),
        Simulated("bulk"),
    ),
    Mutation(
        "contents_in_part_are_damage",
        "a conflict trusted",
        "A document whose record shows before its content, or behind it, is told to be damaged at once.",
        (
            Edit(
                "kernel/documents/content.py",
                "        raise SeenInPart((document_key(store, document.id), *contents), lost)\n",
                "        raise lost\n",
            ),
        ),
        Suite("tests/runtime/documents/test_documents_in_part.py"),
    ),
)
