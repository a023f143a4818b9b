"""The rules that make the world protocol right, each of which can be left out to see what breaks."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace


def _rule(text: str) -> bool:
    return field(default=True, metadata={"text": text})


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules the actors obey; all of them, unless told otherwise."""

    horizon: bool = _rule("a drain ignores sequences >= next_sequence of the head it read first")
    cut: bool = _rule("with pages left unread, a drain stops before the name of the first of them")
    twice_check: bool = _rule("a drain that meets one sequence in two pages reads again")
    log_check: bool = _rule("a drain that misses what the log names as due reads again")
    log_from_drain: bool = _rule(
        "that log begins where the drain of the last manifest ended, not at the manifest"
    )
    page_check: bool = _rule("a publish finds all that it settles still in its page")
    below_check: bool = _rule("a publish settles nothing below cancelled_below")
    dead_pages: bool = _rule("a publish takes what is cancelled out of every page its drain read")
    epoch_check: bool = _rule("a publish finds its own epoch on the head")
    own_token: bool = _rule("a manifest under my publication token is my publication")
    key_first: bool = _rule("a key is looked at before a status")
    ids_in_digest: bool = _rule("the digest of a batch covers the command ids that were sent")
    cancel_key: bool = _rule("cancelling all leaves a key of its own")
    refusal_snapshot: bool = _rule("a reply that writes nothing is decided on one snapshot")
    tombstone: bool = _rule("retiring a world that is not there leaves a tombstone")
    fork_snapshot: bool = _rule("a fork reads the pages it copies and the head as one snapshot")
    fork_count: bool = _rule("a fork starts over unless it found as many as its head counts open")
    fork_entry: bool = _rule("the first log entry of a fork names the pages that were copied")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the name of every rule."""
        return tuple(rule.name for rule in fields(cls))

    @classmethod
    def text(cls, name: str) -> str:
        """Return what a rule says."""
        return next(str(rule.metadata["text"]) for rule in fields(cls) if rule.name == name)

    def without(self, *names: str) -> Rules:
        """Return these rules less some. Raises TypeError for a name that is no rule."""
        return replace(self, **dict.fromkeys(names, False))

    def missing(self) -> tuple[str, ...]:
        """Return the names of the rules left out."""
        return tuple(name for name in self.names() if not getattr(self, name))
