"""Mutations of sessions: intents, fences, rebases, hints, and what must lie before it is named."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import SessionPlays, Suite

SESSION = "kernel/session/"
RUNTIME = "runtime/session/"
RIVALS = "tests/runtime/session/test_rivals.py"


def _mutation(
    name: str, kind: str, breaks: str, file: str, old: str, new: str, proof: SessionPlays | Suite
) -> Mutation:
    return Mutation(name, kind, breaks, (Edit(file, old, new),), proof)


MUTATIONS = (
    _mutation(
        "session_append_unrebased",
        "a condition dropped",
        "An owner appends though others have written what it has not folded.",
        SESSION + "owner.py",
        "            return Decision(Behind(head.seq))\n",
        "            pass\n",
        SessionPlays(),
    ),
    _mutation(
        "session_indeterminate_sent_again",
        "a repetition allowed",
        "A call whose intent another process wrote is sent again, whatever it does.",
        RUNTIME + "calls.py",
        "        if not is_safe(work, call) or work.run.resumes >= limits.RESUMES_MAX:\n",
        "        if work.run.resumes >= limits.RESUMES_MAX:\n",
        SessionPlays(),
    ),
    _mutation(
        "session_large_steer_not_put",
        "an order turned round",
        "A large steer that has to wait names an object that nobody has put.",
        SESSION + "send.py",
        "        candidates = [self._started(self.config, scope), self._queued(scope)]\n",
        "        candidates = [self._started(self.config, scope)]\n",
        SessionPlays(),
    ),
    _mutation(
        "session_append_payload_not_put",
        "an order turned round",
        "An owner's large payload is named by a frame and put by nobody.",
        RUNTIME + "journal.py",
        "                await payloads.put(self.means.objects, self.ref, request.large())\n",
        "",
        SessionPlays(),
    ),
    _mutation(
        "session_queue_unhinted",
        "a hint forgotten",
        "A session whose approval is given is found by nobody.",
        SESSION + "control.py",
        "        if not waiting:\n            after, hints = nudged(view, self.ref, after, now)\n",
        "",
        SessionPlays(),
    ),
    _mutation(
        "session_rest_takes_all",
        "a condition dropped",
        "A hint is taken away though its session has work.",
        SESSION + "owner.py",
        "        if head.has_work and head.hint == self.hint:\n",
        "        if head.has_work and head.hint == self.hint and head.fence.is_held(now):\n",
        SessionPlays(),
    ),
    _mutation(
        "session_told_early",
        "an order turned round",
        "Facts are told before they are durable.",
        RUNTIME + "work.py",
        "            if await self.journal.append(whole, is_close_out=is_close_out):\n",
        "            self.told(Happened(self.journal.seq + 1, whole))\n"
        "            if await self.journal.append(whole, is_close_out=is_close_out):\n",
        SessionPlays(),
    ),
    _mutation(
        "session_natural_end_asked_again",
        "a state taken for another",
        "A run whose model is done gets another step.",
        RUNTIME + "runner.py",
        '            await work.barrier(lambda: (*end, work.finished("completed")))\n',
        "            await work.barrier(lambda: (*end, work.next_step()))\n",
        SessionPlays(),
    ),
    _mutation(
        "session_steer_between_call_and_result",
        "an order turned round",
        "A steer joins the prompt at once.",
        SESSION + "fold.py",
        "                self.steered.append(fact)\n",
        "                self.steered.append(fact)\n                self._join_steered()\n"
        "                self.messages += [self.messages.pop()] * 2\n",
        SessionPlays(),
    ),
    _mutation(
        "session_late_lease",
        "a fence forgotten",
        "An append that had landed gives its writer the lease of whoever came after.",
        RUNTIME + "journal.py",
        "        self.until = fence.until if is_held else Instant(0)\n",
        "        self.until = fence.until\n",
        Suite(f"{RIVALS} -k gives_its_writer_no_lease"),
    ),
    _mutation(
        "session_torn_entry_is_anothers",
        "a half taken for the whole",
        "An own append whose entry does not show yet is taken for somebody else's.",
        SESSION + "owner.py",
        "            if landed is None:  # it may be this very append, without an answer\n",
        "            if landed is None and not self.append:\n",
        Suite(f"{RIVALS} -k does_not_show_yet_is_not_taken"),
    ),
    _mutation(
        "session_repeats_without_lease",
        "a fence forgotten",
        "A call is made again after a pause though its process was overtaken meanwhile.",
        RUNTIME + "calls.py",
        "        if not self.work.holds():\n            return NotSent(",
        "        if self.work.holds() is None:\n            return NotSent(",
        Suite(f"{RIVALS} -k stood_still"),
    ),
    _mutation(
        "session_made_called_unmade",
        "an unknown taken for a no",
        "A call that another process may have made is said not to have been made.",
        RUNTIME + "calls.py",
        "    if call.intent is None or _never_left(work, call):\n",
        "    if call is not None:\n",
        Suite(f"{RIVALS} -k never_said_not_to_have_been_made"),
    ),
)
