"""Functions apart: real processes, through AWS's own client of the Runtime API."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import textwrap
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.emulator.deployment import ROOT, environment
from tests.support.children import child

from perdure.kernel.errors import InvalidJson, InvalidValue, TooLarge
from perdure_emulator.declared import Function
from perdure_emulator.processes import GRACE_SECONDS, InProcesses
from perdure_emulator.runtime_api import PAYLOAD_BYTES_MAX, Died, FunctionFailed
from perdure_emulator.sandboxes import Throttled, TimedOut

pytestmark = pytest.mark.cloud

PATIENCE = 120.0


@asynccontextmanager
async def placed(directory, *, handler=None, folder="echo", **said):
    """A place for the handler of `echo.py`, or for one that is given as source."""
    (directory / folder).mkdir(exist_ok=True)
    file = directory / folder / "app.py"
    if handler is None:
        shutil.copy(ROOT / "tests" / "emulator" / "echo.py", file)
    else:
        file.write_text(textwrap.dedent(handler), encoding="utf-8")
    defaults = {"timeout_seconds": 120}
    function = Function(name="EchoFunction", file=file, handler="handler", **{**defaults, **said})
    place = InProcesses(function)
    try:
        yield place
    finally:
        await place.close()


async def ask(place, do, *, patience=PATIENCE, **event):
    return await place.invoke({"do": do, **event}, seconds_max=patience)


async def eventually(found):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        result = found()
        if result:
            return result
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {PATIENCE} s")


def written(path: Path) -> int | None:
    """The process id in a file, as soon as it is there."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text else None


def is_running(process: int) -> bool:
    """Whether a process is there and no mere entry of one that has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def test_handler_gets_event_and_context_and_its_reply_comes_back(tmp_path):
    text = "Zürich ☃ 𝄞 \u2028 \x00"

    async with placed(tmp_path) as place:
        told = await ask(place, "tell", text=text)
        again = await ask(place, "tell")

    assert told["text"] == text
    assert told["arn"] == "arn:aws:lambda:us-east-1:000000000000:function:EchoFunction"
    assert 60_000 < told["left_ms"] <= 120_000
    assert told["directory"] == str(tmp_path / "echo")
    assert told["request_id"] != again["request_id"]
    assert told["process"] == again["process"] != os.getpid()


async def test_events_at_once_have_processes_of_their_own(tmp_path):
    (tmp_path / "room").mkdir()
    event = {"room": str(tmp_path / "room"), "expected": 3}

    async with placed(tmp_path) as place:
        met = await asyncio.gather(*(ask(place, "meet", **event) for _ in range(3)))
        after = await ask(place, "tell")

    assert len({each["process"] for each in met}) == 3
    assert after["process"] in {each["process"] for each in met}


async def test_reserved_concurrency_is_kept_and_who_cannot_wait_is_told(tmp_path):
    gate, left = tmp_path / "gate", tmp_path / "left"

    async with placed(tmp_path, concurrency=1) as place:
        first = asyncio.create_task(ask(place, "wait", **{"for": str(gate), "leave": str(left)}))
        await asyncio.sleep(0)
        with pytest.raises(Throttled):
            await ask(place, "tell", patience=0.2)
        second = asyncio.create_task(ask(place, "tell"))
        gate.touch()
        processes = {(await first)["process"], (await second)["process"]}

    assert len(processes) == 1


async def test_function_that_takes_too_long_is_killed_with_what_it_started(tmp_path, capfd):
    mark, child = tmp_path / "mark", tmp_path / "child"

    async with placed(tmp_path, timeout_seconds=1) as place:
        with pytest.raises(TimedOut):
            await ask(place, "sleep_with_child", mark=str(mark), child=str(child))
        await eventually(lambda: not is_running(written(mark)))
        await eventually(lambda: not is_running(written(child)))
        after = await ask(place, "tell")

    assert after["process"] != written(mark)
    assert "perdure: EchoFunction took longer than 1 s: killed" in capfd.readouterr().err


async def test_function_goes_on_when_nobody_waits_for_it(tmp_path):
    gate, left = tmp_path / "gate", tmp_path / "left"
    mark = tmp_path / "mark"

    async with placed(tmp_path) as place:
        await ask(place, "tell")  # a process that has started takes an event at once
        event = {"for": str(gate), "leave": str(left), "mark": str(mark)}
        asked = asyncio.create_task(ask(place, "wait", patience=1.0, **event))
        await eventually(lambda: written(mark))
        with pytest.raises(TimedOut):
            await asked
        gate.touch()
        await eventually(left.exists)
        after = await ask(place, "tell")

    assert after["process"] == written(mark)


@pytest.mark.parametrize("end", ["die", "leave"])
async def test_process_that_ends_in_an_event_leaves_its_outcome_unknown(tmp_path, end):
    async with placed(tmp_path) as place:
        before = await ask(place, "tell")
        with pytest.raises(Died, match=f"process {before['process']} ") as died:
            await ask(place, end)
        after = await ask(place, "tell")

    assert died.value.has_begun
    assert after["process"] != before["process"]


async def test_death_is_noticed_and_takes_along_what_the_process_had_started(tmp_path):
    child = tmp_path / "child"

    async with placed(tmp_path) as place:
        with pytest.raises(Died):
            await ask(place, "die_with_child", child=str(child))

        await eventually(lambda: not is_running(written(child)))


async def test_process_killed_between_two_events_is_not_noticed_by_who_asks(tmp_path):
    async with placed(tmp_path) as place:
        before = await ask(place, "tell")
        os.kill(before["process"], signal.SIGKILL)
        await eventually(lambda: not is_running(before["process"]))

        after = await ask(place, "tell")

    assert after["process"] != before["process"]


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("def handler(", "Runtime.UserCodeSyntaxError"),
        ("import no_such_module", "Runtime.ImportModuleError"),
        ("other = 1", "Runtime.HandlerNotFound"),
        ("raise ValueError('a bad setting')", "ValueError"),
        ("import os; os._exit(3)", "ended with exit code 3"),
    ],
)
async def test_handler_that_does_not_load_is_told(tmp_path, handler, kind):
    async with placed(tmp_path, handler=handler, folder="api") as place:
        with pytest.raises((FunctionFailed, Died), match=kind):
            await place.invoke({}, seconds_max=PATIENCE)
        with pytest.raises(InvalidValue, match=kind):
            await place.open()


async def test_handler_file_that_is_missing_is_refused(tmp_path):
    async with placed(tmp_path) as place:
        place.function.file.unlink()

        with pytest.raises(InvalidValue, match="a handler file"):
            await place.open()


async def test_what_a_handler_raises_is_told_and_its_process_is_kept(tmp_path, capfd):
    async with placed(tmp_path) as place:
        before = await ask(place, "tell")
        with pytest.raises(FunctionFailed, match="ValueError: grün") as failed:
            await ask(place, "fail", text="grün")
        after = await ask(place, "tell")

    assert failed.value.kind == "ValueError"
    assert after["process"] == before["process"]
    assert "EchoFunction: [ERROR] ValueError: grün\n" in capfd.readouterr().err


async def test_reply_is_as_large_as_lambda_takes_and_no_larger(tmp_path):
    async with placed(tmp_path) as place:
        large = await ask(place, "fill", characters=3_000_000)
        with pytest.raises(FunctionFailed, match="more than") as failed:
            await ask(place, "fill", characters=3_200_000)
        after = await ask(place, "fill", characters=1)

    assert len(large["text"]) == 3_000_000
    assert failed.value.kind == "Function.ResponseSizeTooLarge"
    assert after == {"text": "é"}


async def test_reply_of_a_function_that_replies_nothing_is_none(tmp_path):
    async with placed(tmp_path) as place:
        assert await ask(place, "nothing") is None


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"do": b"tell"}, InvalidJson),
        ({"do": float("nan")}, InvalidJson),
        ({"do": "\ud800"}, InvalidJson),
        ({"do": "tell", "text": "x" * PAYLOAD_BYTES_MAX}, TooLarge),
    ],
    ids=["bytes", "nan", "surrogate", "large"],
)
async def test_event_that_lambda_does_not_take_is_refused(tmp_path, event, kind):
    async with placed(tmp_path) as place:
        with pytest.raises(kind):
            await place.invoke(event, seconds_max=PATIENCE)


async def test_function_sees_its_own_environment_and_nothing_of_the_callers(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    own = {"PERDURE_TRIM": "7d", "AWS_REGION": "eu-central-1"}

    async with placed(tmp_path, environment=own, memory_mb=512) as place:
        seen = await ask(place, "variables")

    assert "SECRET_OF_THE_CALLER" not in seen
    assert (seen["PERDURE_TRIM"], seen["AWS_REGION"]) == ("7d", "eu-central-1")
    assert seen["AWS_LAMBDA_FUNCTION_NAME"] == "EchoFunction"
    assert seen["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "512"
    assert seen["LAMBDA_TASK_ROOT"] == str(tmp_path / "echo")
    assert seen["_HANDLER"] == "app.handler"
    assert seen["_X_AMZN_TRACE_ID"].startswith("Root=1-")
    of_lambda = {name for name in seen if name.startswith(("AWS_", "_", "LAMBDA_", "PERDURE_"))}
    assert seen.keys() - of_lambda <= {
        *("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"),
        *("PYTHONPATH", "LANG", "LC_CTYPE", "TZ"),
    }


async def test_what_a_function_says_is_passed_on_after_its_name(tmp_path, capfd):
    async with placed(tmp_path) as place:
        await ask(place, "say", text="first\nsecond: grün\n" + "x" * 200_000)

    lines = capfd.readouterr().err.splitlines()
    assert lines[:2] == ["EchoFunction: first", "EchoFunction: second: grün"]
    assert all(line.startswith("EchoFunction: ") for line in lines)
    assert "".join(line.removeprefix("EchoFunction: ") for line in lines[2:]) == (
        "x" * 200_000 + "to the other stream"
    )


async def test_close_lets_an_event_end_and_leaves_no_process(tmp_path):
    gate, left, mark = (tmp_path / name for name in ("gate", "left", "mark"))

    async with placed(tmp_path) as place:
        event = {"for": str(gate), "leave": str(left), "mark": str(mark)}
        asked = asyncio.create_task(ask(place, "wait", **event))
        await eventually(lambda: written(mark))
        idle = await ask(place, "tell")
        closing = asyncio.create_task(place.close())
        await asyncio.sleep(0)
        gate.touch()
        await closing

    assert (await asked)["process"] == written(mark)
    assert not is_running(written(mark))
    assert not is_running(idle["process"])


@pytest.mark.slow
async def test_close_does_not_wait_for_a_function_that_has_no_end(tmp_path):
    mark = tmp_path / "mark"

    async with placed(tmp_path) as place:
        asked = asyncio.create_task(ask(place, "sleep", mark=str(mark)))
        process = await eventually(lambda: written(mark))
        began = time.monotonic()
        await place.close()
        took = time.monotonic() - began

    with pytest.raises(Died):
        await asked
    assert not is_running(process)
    assert GRACE_SECONDS <= took < GRACE_SECONDS + 60


EMULATOR = """
import asyncio, sys
from pathlib import Path
from perdure_emulator.processes import InProcesses
from perdure_emulator.declared import Function

async def story(file, mark):
    function = Function("EchoFunction", Path(file), "handler", 30)
    place = InProcesses(function)
    await place.invoke({"do": "sleep", "mark": mark}, seconds_max=30)

asyncio.run(story(*sys.argv[1:]))
"""


async def test_nobody_is_left_behind_by_an_emulator_that_is_killed(tmp_path):
    shutil.copy(ROOT / "tests" / "emulator" / "echo.py", tmp_path / "app.py")
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", EMULATOR, tmp_path / "app.py", mark]
    with child(command, env=environment()) as emulator:
        process = await eventually(lambda: written(mark))
        assert is_running(process)

        emulator.kill()

        await eventually(lambda: not is_running(process))
