"""What the demo says when it is done."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from airspace.client import Landed
from airspace.course import Course
from airspace.flights import real_day
from airspace.report import Bars, Outcome, table_of


def outcome(*, disagreeing: list[int]) -> Outcome:
    return Outcome(
        day=real_day(),
        course=Course(
            batches=13,
            commands=1_610,
            statuses={"applied": 1_591, "pending": 19},
            ticks=1_500,
            landed=Landed(134_974, 3),
            seconds={"admit": 0.5, "tick": 12.0, "land": 1.0, "ask again": 0.2},
        ),
        rows_read=134_974,
        peak="166 at 19:15 (tick 1,155)",
        disagreeing=disagreeing,
        data_files=3,
        read_seconds=1.1,
        total_seconds=15.0,
        picture=Path("/data/day.png"),
        root=Path("/data"),
    )


def printed(what: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(what)
    return console.file.getvalue()


def test_the_table_has_every_figure_and_every_unusable_row():
    text = printed(table_of(outcome(disagreeing=[])))

    for line in (
        "805 of 842 rows",
        "11 never_flown (no air time 7, no departure time 4)",
        "26 unknown_airport (SJU 20, BQN 3, STT 2, PSE 1)",
        "1,610 in 13 batches",
        "166 at 19:15",
        "134,974 in 3 files",
        "15.0 s (admit 0.5, tick 12.0, land 1.0, ask again 0.2, read 1.1)",
        "/data/day.png",
        "as in the file at all 1,500 ticks",
    ):
        assert line in text
    counted = [line.split()[1:] for line in text.splitlines() if line.startswith("  commands ")]
    assert counted[1:] == [["applied", "1,591"], ["rejected", "0"], ["pending", "19"]]


def test_counts_that_differ_from_the_file_are_said_aloud():
    text = printed(table_of(outcome(disagreeing=[480, 481])))

    assert "NOT as in the file at 2 of 1,500 ticks, the first is tick 480" in text


def test_every_stage_has_a_bar_from_its_beginning_on():
    console = Console(file=io.StringIO(), width=100, force_terminal=False)

    with Bars(console) as bars:
        bars("admit", 0, 1_610)
        bars("admit", 1_610, 1_610)
        bars("land", 7, None)

    shown = console.file.getvalue()
    assert "commands admitted" in shown
    assert "1610/1610" in shown
    assert "rows landed" in shown
    assert "ticks published" not in shown
