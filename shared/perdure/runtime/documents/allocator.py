"""The allocator of an open store: every id it gives is given once by this handle."""

from __future__ import annotations

from perdure.kernel.documents import places
from perdure.kernel.documents.step import exhausted, raised


class Allocator:
    """Gives ids without asking the store; what is not committed may be given again after a death.

    It only rises. At SAFE_INTEGER_MAX it is exhausted, and stays so.
    """

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id

    def mint(self) -> int:
        """Give the next id. Raises IdsExhausted."""
        return self.set_aside(1)

    def set_aside(self, count: int) -> int:
        """Give the next ``count`` ids at once and return the first. Raises IdsExhausted."""
        first = self.next_id
        if first + count > places.SAFE_INTEGER_MAX:
            raise exhausted()
        self.next_id = first + count
        return first

    def take(self, id: int) -> None:
        """Never give an id that somebody has named, nor any below it."""
        self.next_id = raised(self.next_id, id)

    def follow(self, next_id: int) -> None:
        """Give none that the store has given."""
        self.next_id = max(self.next_id, min(next_id, places.SAFE_INTEGER_MAX))
