"""Modules that are imported when something in them is first asked for.

A function that starts cold waits for its imports, and most requests need few of them. A name of
such a module is written with the module before it, so whoever reads sees that it may come late;
type checkers and the floors see a plain import.
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._module), name)
        setattr(self, name, found)  # asked for once
        return found
