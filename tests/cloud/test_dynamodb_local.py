"""A DynamoDB Local of whoever runs the tests: started as it should be, or said to be missing."""

from __future__ import annotations

import pytest
from tests.support.dynamodb_local import JAR, VARIABLE, command, given

pytestmark = pytest.mark.cloud


@pytest.mark.parametrize("named", [None, ""])
def test_without_one_there_is_none(monkeypatch, named):
    monkeypatch.delenv(VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(VARIABLE, named)

    assert given() is None


def test_a_jar_is_found_by_its_path_and_by_its_directory(monkeypatch, tmp_path):
    (tmp_path / JAR).touch()

    for named in (tmp_path, tmp_path / JAR):
        monkeypatch.setenv(VARIABLE, str(named))
        assert given() == (tmp_path / JAR).resolve()


def test_a_path_without_a_jar_is_an_error_and_not_a_skip(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    with pytest.raises(FileNotFoundError, match=JAR):
        given()


def test_it_tells_nobody_that_it_runs_and_keeps_accounts_apart(tmp_path):
    words = command(tmp_path / JAR, 8000)

    assert {"-disableTelemetry", "-inMemory"} <= {*words}
    assert "-sharedDb" not in words
