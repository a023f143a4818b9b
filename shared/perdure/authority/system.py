"""The real clock and the real source of tokens; the only module that may touch either."""

import time
import uuid

from perdure.kernel.ids import Instant, Token


def now() -> Instant:
    """Read the wall clock, in milliseconds."""
    return Instant(time.time_ns() // 1_000_000)


def new_token() -> Token:
    """Draw a token that nobody drew before."""
    return Token(uuid.uuid4().hex)
