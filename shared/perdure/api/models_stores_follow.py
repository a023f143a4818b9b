"""The words of following a document store in the HTTP interface."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perdure.api.models import WAIT_SECONDS_MAX, Query


class Follow(Query):
    owner: str
    namespace: str
    kind: str
    key: str | None = None
    after: str | None = None
    """The id of an event to go on behind; the header `Last-Event-ID` goes before it."""
    wait: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX, allow_inf_nan=False)] = 0
    """Seconds to wait for an event when there is none."""
