"""Layouts: what a table is made as, and how it is known again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from perdure.kernel.ids import TableId


@dataclass(frozen=True, slots=True)
class Layout:
    """Name, columns and order of a table; ``check`` raises SchemaMismatch for another."""

    name: TableId
    schema: pa.Schema
    sorted_by: tuple[str, ...]
    check: Callable[[pa.Schema], None]
    properties: Mapping[str, str] = field(default_factory=dict)
