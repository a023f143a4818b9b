"""Answers of tools: what came back, as the journal and a model can take it."""

from __future__ import annotations

from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import PerdureError, code_of
from perdure.kernel.session.answers import told_error
from perdure.kernel.shown import text_of
from perdure.runtime.session.ports import Completed

OUTPUT_BYTES_MAX: Final = 1_048_576
"""Canonical bytes of a tool's output: 1 MiB, of which a model can read a part at best."""

DETAIL_CHARACTERS_MAX: Final = 2_000
"""Characters of an error's text."""

OUTPUT_INVALID: Final = "tool_output_invalid"
OUTPUT_TOO_LARGE: Final = "tool_output_too_large"


def failed(code: str, detail: str) -> Completed:
    """Return the answer of a tool that says it failed, or whose answer is of no use."""
    return Completed(told_error(code[:64], detail[:DETAIL_CHARACTERS_MAX]), is_error=True)


def threw(error: Exception) -> Completed:
    """Return the answer of a handler that raised something: its code, or its class, and its text."""
    code = error.code if isinstance(error, PerdureError) else code_of(type(error))
    return failed(code, text_of(error))


def too_large(size: int) -> Completed:
    """Return the answer of a tool that said more than is kept."""
    return failed(
        OUTPUT_TOO_LARGE,
        f"Expected an answer of at most {OUTPUT_BYTES_MAX} bytes; found {size}. The call was made.",
    )


def answered(spelled: bytes, *, is_error: bool = False) -> Completed:
    """Return the answer that a tool spelled as JSON, or what is wrong with it."""
    if len(spelled) > OUTPUT_BYTES_MAX:
        return too_large(len(spelled))
    try:
        output: Any = strict(spelled)
        size = len(canonical(output))
    except (TypeError, ValueError, RecursionError) as error:
        return invalid(text_of(error))
    return too_large(size) if size > OUTPUT_BYTES_MAX else Completed(output, is_error)


def invalid(detail: str) -> Completed:
    """Return the answer of a tool that said something else than JSON."""
    return failed(OUTPUT_INVALID, f"Expected JSON; found something else: {detail[:500]}.")
