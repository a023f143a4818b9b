"""The project's own files, as the house tests walk them."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

LIBRARY = sorted(
    path for folder in ("shared", "emulator", "functions") for path in (ROOT / folder).rglob("*.py")
)
MODULES = sorted([*LIBRARY, *(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("functions/*.md")])


def name_of(path: Path) -> str:
    """Spell a path as test ids and messages show it."""
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    """Return the dotted name a library file is imported by."""
    inside = path.relative_to(ROOT)
    parts = inside.parts if inside.parts[0] == "functions" else inside.parts[1:]
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which the library is found and the venv's programs come first."""
    paths = (ROOT / "shared", ROOT / "emulator", ROOT)
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        **more,
    }


def words_of(identifier: str) -> list[str]:
    """Split ``CamelCase`` or ``snake_case`` into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def definitions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the names that a module coins (functions, classes, parameters, fields) by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.lineno
