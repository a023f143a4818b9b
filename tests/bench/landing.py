"""Landing: published rows on their way into the Iceberg table."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.bench.bench import STORAGE, Bench, Storage, moving_app, opened
from tests.bench.figures import Figure, Watch, counted, in_turn

from perdure.authority import system
from perdure.kernel.ids import Holder
from perdure.kernel.places import WorldRef
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.land import Landed, Landing

ROUNDS_MAX = 3
"""Each round publishes a history of its own."""


async def measure(bench: Bench) -> list[Figure]:
    """Measure landing the ticks of one world, a world a round."""
    scale = bench.scale
    rounds = min(scale.rounds, ROUNDS_MAX)
    with bench.directory() as directory:
        async with opened(directory, moving_app()) as storage:
            refs = [await _published(bench, storage, f"w{n}") for n in range(rounds + 1)]
            bench.say(f"landing {scale.landed_ticks:,} ticks")
            with closing(open_local(directory)) as catalog:
                landing = Landing(
                    storage.authority, storage.objects, Lake(catalog, "bench"), STORAGE
                )
                landed: list[Landed] = []

                async def ours() -> float:
                    ref = refs[len(landed)]
                    with Watch() as watch:
                        done = await landing.land(
                            [ref.world],
                            holder=Holder(system.new_token()),
                            new_token=system.new_token,
                        )
                    landed.append(done)
                    return done.rows / watch.seconds

                async def floor() -> float:
                    return _bare(directory, refs[len(landed) - 1])

                measured, least = await in_turn(rounds, ours, floor)
    name = f"{scale.landed_ticks:,} ticks of {scale.landed_rows:,} rows"
    return [
        Figure(name, "rows/s", measured, least, "read the segments, one Parquet file with fsync"),
        Figure(f"{name}, files", "files", counted(landed[-1].files)),
    ]


async def _published(bench: Bench, storage: Storage, world: str) -> WorldRef:
    bench.say(f"publishing {bench.scale.landed_ticks:,} ticks to land")
    ticker = storage.ticker()
    ref = await storage.populated(world, bench.scale.landed_rows, ticker)
    grip = await ticker.take(ref)
    while grip.tick < bench.scale.landed_ticks:
        _, grip = await ticker.tick(ref, grip, keep=True)
    await ticker.release(ref, grip)
    return ref


def _bare(root: Path, ref: WorldRef) -> float:
    """Copy the segments of a world into one Parquet file, and return the rows a second."""
    target = root / "floor.parquet"
    with Watch() as watch:
        files = sorted((root / "objects" / "segment").glob(f"{_folder(ref)}/*/*.arrow"))
        rows = pa.concat_tables([_read(file) for file in files])
        with target.open("wb") as out:
            pq.write_table(rows, out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
    return rows.num_rows / watch.seconds


def _read(file: Path) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(file.read_bytes())).read_all()


def _folder(ref: WorldRef) -> str:
    return ref.partition.replace("/", ".")
