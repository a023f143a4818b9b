"""The real clock and the real sources of tokens and chance; nothing else may touch them."""

import random
import secrets
import time

from perdure.kernel.ids import Instant, Token


def now() -> Instant:
    """Read the wall clock, in milliseconds."""
    return Instant(time.time_ns() // 1_000_000)


def seconds() -> float:
    """Read a clock that only goes on: to tell how long something took."""
    return time.perf_counter()


def new_token() -> Token:
    """Draw a token that nobody drew before."""
    return Token(secrets.token_hex(16))


def chance() -> float:
    """Draw a number in [0, 1) that spreads rivals apart; nothing durable depends on it."""
    return random.random()  # noqa: S311  # spreads pauses, keeps no secret
