"""A small soak: nothing is lost, nothing is refused, and what is counted does not grow."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.proof.soak import main, soaked
from tests.proof.soak_report import (
    BEGIN,
    END,
    MEGABYTE,
    Moment,
    Soaked,
    TooShort,
    spelled,
    write_docs,
)

pytestmark = pytest.mark.proof

AT = datetime(2013, 1, 1, tzinfo=UTC)
FLAT = [
    Moment(
        seconds=float(number),
        ticks=10 * number,
        rss_bytes=200 * MEGABYTE,
        descriptors=50,
        threads=30,
        objects=1_000,
        syncs=90 * number,
        files=7 * number,
        segments=10,
        lake_bytes=10 * number,
        sqlite_bytes=100 * number,
        records=110 * number,
    )
    for number in range(1, 13)
]
SOUND = Soaked(FLAT, {"tick": [0.001 * each for each in range(1, 101)]}, 5, (), (), 20)


def test_what_was_acknowledged_is_settled_and_landed_and_nothing_is_left_open(tmp_path):
    found = soaked(tmp_path, rounds=12, lanes=1)

    assert (found.unexpected, found.lost) == ([], [])
    assert found.commands > 600
    first, *_, last = found.moments
    ticks = last.ticks - first.ticks
    assert ticks == 8
    # Admissions, their resending, a cancellation, a tick with its fence, landing and trim.
    assert last.syncs - first.syncs <= 16 * ticks
    assert last.files - first.files <= 4 * ticks
    assert last.segments <= last.ticks, "one a tick at most, until the first checkpoint"
    assert last.descriptors <= first.descriptors + 20


@pytest.mark.slow
def test_nothing_grows_in_minutes(tmp_path):
    assert main(["--minutes", "2", "--root", str(tmp_path)]) == 0


def test_a_sound_run_has_no_faults():
    assert SOUND.faults() == []


@pytest.mark.parametrize(
    "name", ["rss_bytes", "descriptors", "threads", "segments", "files", "syncs", "records"]
)
def test_whatever_grows_is_told(name):
    growing = [
        replace(each, **{name: getattr(each, name) + 10 ** (7 if "bytes" in name else 1) * n**2})
        for n, each in enumerate(FLAT)
    ]

    (fault,) = replace(SOUND, moments=growing).faults()

    assert name in fault


@pytest.mark.parametrize(
    ("megabytes", "seconds", "faults"),
    [
        (5, 1, []),  # a short run may be filling what is reused
        (5, 60, ["rss_bytes grew from", "rss_bytes grew by 5,000,000 a minute"]),
        (2, 60, ["rss_bytes grew by 2,000,000 a minute"]),
        (1, 60, []),
    ],
)
def test_memory_that_grows_evenly_is_told_of_a_long_run(megabytes, seconds, faults):
    growing = [
        replace(
            each, seconds=seconds * each.seconds, rss_bytes=(200 + megabytes * number) * MEGABYTE
        )
        for number, each in enumerate(FLAT)
    ]

    found = replace(SOUND, moments=growing).faults()

    assert len(found) == len(faults)
    assert all(told.startswith(begins) for told, begins in zip(found, faults, strict=True)), found


def test_a_run_that_is_too_short_to_show_growth_is_refused():
    with pytest.raises(TooShort, match="at least 3 looks at the server; found 2"):
        replace(SOUND, moments=FLAT[:2])


def test_whatever_is_lost_or_refused_is_told():
    found = replace(SOUND, unexpected=("tick: 500",), lost=("world-1 b.0: pending, not applied",))

    assert found.faults() == ["tick: 500", "world-1 b.0: pending, not applied"]


def test_report_is_json_and_a_page_with_what_stood_around_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n", encoding="utf-8")

    for _ in range(2):
        write_docs(page, SOUND, "A machine.", command="it", at=AT)
    values = json.loads(json.dumps(spelled(SOUND, {"cpus": 2}, command="it", at=AT)))

    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert text.count("| tick | 100 | 51.0 | 91.0 | 100.0 | 100.0 |") == 1
    assert values["latency_ms"]["tick"]["p99 ms"] == pytest.approx(100.0)
    assert len(values["moments"]) == len(FLAT)
