"""Imports: what a cold start waits for before it sees its first event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.figures import Budget, Figure, Sample

ROOT = Path(__file__).parents[2]
APP = "airspace.app"
BUDGET = Budget(0.3, of="figure")

_PROBE = """
import sys, time
started = time.perf_counter()
for module in sys.argv[1:]:
    __import__(module)
seconds = time.perf_counter() - started
heavy = [name for name in ("pyarrow", "boto3") if name in sys.modules]
import json
print(json.dumps([seconds, heavy]))
"""


async def measure(bench: Bench) -> list[Figure]:
    """Measure imports in new processes: of the admission path, and of each function."""
    bench.say("imports")
    figures = [_figure(bench, "admission path", [ROOT / "shared"], "perdure.api.wiring", BUDGET)]
    for file in sorted((ROOT / "functions").glob("*/app.py")):
        # As in the deployed zip: handler file and library side by side.
        paths = [file.parent, ROOT / "shared"]
        budget = BUDGET if file.parent.name == "api" else None
        figures.append(_figure(bench, f"function {file.parent.name}", paths, "app", budget))
    return figures


def _figure(
    bench: Bench, name: str, paths: list[Path], module: str, budget: Budget | None
) -> Figure:
    _imported(paths, module)  # once without counting: it writes the compiled files
    runs = [_imported(paths, module) for _ in range(bench.scale.imports)]
    heavy = runs[0][1]
    loads = f"loads {' and '.join(heavy)}" if heavy else "neither pyarrow nor boto3"
    seconds = Sample(tuple(seconds for seconds, _ in runs))
    return Figure(f"{name}, {loads}", "s", seconds, budget=budget)


def _imported(paths: list[Path], module: str) -> tuple[float, list[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    told = subprocess.run(
        [sys.executable, "-c", _PROBE, module, APP],
        env=environment,
        cwd=paths[0],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, heavy = json.loads(told.stdout.splitlines()[-1])
    return seconds, heavy
