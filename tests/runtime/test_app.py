"""Apps: what is registered, by whom, and what is imported when."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.kernel.component import Component
from perdure.kernel.errors import NotFound
from perdure.runtime.app import App, load_app


class Position(Component):
    x: float


def test_a_component_is_known_by_its_name_and_its_class_is_returned():
    app = App("harbour")

    returned = app.component(Position)

    assert returned is Position
    assert app.registry.named("Position") is Position


def test_a_component_named_by_a_processor_is_registered_with_it():
    app = App()

    app.processor(Position)(lambda rows, tick: rows)

    assert app.registry.named("Position") is Position


def test_names_that_differ_only_in_case_are_refused():
    class POSITION(Component):
        x: float

    app = App()
    app.component(Position)

    with pytest.raises(TypeError, match="differ not only in case"):
        app.component(POSITION)


def test_a_processor_goes_by_the_name_of_its_function_and_no_two_by_one_name():
    app = App()

    @app.processor(Position)
    def drift(rows, tick):
        return rows

    (processor,) = app.processors()
    assert (processor.name, processor.priority) == ("drift", 0)
    with pytest.raises(ValueError, match="one processor named 'drift'"):
        app.processor(Position)(drift)


def test_an_unknown_hook_is_refused():
    with pytest.raises(ValueError, match="PreTick, PostTick"):
        App().hook("preTick")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with an app, processors that only ticks need, and a module that is broken."""
    place = tmp_path / "harbour_for_test"
    place.mkdir()
    (place / "__init__.py").write_text(
        "from perdure.runtime.app import App\n"
        "app = App('harbour')\n"
        "app.include('harbour_for_test.motion')\n"
        "number = 5\n"
    )
    (place / "motion.py").write_text(
        "from harbour_for_test import app\n"
        "@app.processor(name='sail')\n"
        "def sail(rows, tick):\n"
        "    return rows\n"
    )
    (place / "broken.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield place
    for name in [name for name in sys.modules if name.startswith("harbour_for_test")]:
        del sys.modules[name]


def test_what_an_app_includes_is_imported_when_it_is_loaded_and_once(package):
    app = load_app("harbour_for_test:app")
    before = app.processors()

    app.load()
    app.load()

    assert before == ()
    assert [each.name for each in app.processors()] == ["sail"]


@pytest.mark.parametrize(
    "reference",
    [
        "harbour_for_test",
        "harbour_for_test:",
        ":app",
        "harbour_for_test:missing",
        "harbour_for_test:number",
        "harbour_for_test.missing:app",
        "no_such_package:app",
        "",
    ],
)
def test_a_reference_to_no_app_is_not_found(package, reference):
    with pytest.raises(NotFound):
        load_app(reference)


def test_an_error_inside_an_apps_module_is_not_hidden(package):
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        load_app("harbour_for_test.broken:app")


def test_registering_an_app_imports_no_arrow():
    code = (
        "import sys, perdure.runtime.app;"
        "print(sorted({'pyarrow', 'numpy', 'pyiceberg', 'boto3'} & set(sys.modules)))"
    )

    shown = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert shown.stdout.strip() == "[]"
