"""A test that failed beside others is run again alone; what fails then, or was more than load can explain, fails."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.second_try import MAX_FAILED, run_twice


class _Runs:
    """Answers with these codes, one for each run of pytest; the first run leaves the names of the failed tests."""

    def __init__(self, folder: Path, codes: Sequence[int], names: Sequence[str]) -> None:
        self.failed = folder / "failed"
        self.given: list[list[str]] = []
        self.said: list[str] = []
        self._codes = list(codes)
        self._names = names

    def __call__(self, arguments: Sequence[str]) -> int:
        self.given.append(list(arguments))
        self.failed.write_text("".join(f"{name}\n" for name in self._names), encoding="utf-8")
        return self._codes.pop(0)

    def result(self) -> int:
        return run_twice(["-n", "2", "tests"], self, self.failed, self.said.append)


def test_nothing_is_run_again_when_all_tests_pass(tmp_path: Path) -> None:
    runs = _Runs(tmp_path, [0], [])
    assert (runs.result(), len(runs.given), runs.said) == (0, 1, [])


def test_a_failed_test_that_passes_alone_is_named(tmp_path: Path) -> None:
    runs = _Runs(tmp_path, [1, 0], ["tests/test_a.py::test_slow"])
    assert runs.result() == 0
    assert runs.given[1][-1] == "tests/test_a.py::test_slow"
    assert "-n 0" in " ".join(runs.given[1])
    assert runs.said[-1] == "PASSED ONLY ON THE SECOND TRY: tests/test_a.py::test_slow"


def test_a_test_that_fails_twice_is_a_failure(tmp_path: Path) -> None:
    runs = _Runs(tmp_path, [1, 1], ["tests/test_a.py::test_wrong"])
    assert (runs.result(), len(runs.given)) == (1, 2)


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    runs = _Runs(tmp_path, [1], [f"tests/test_a.py::test_{number}" for number in range(MAX_FAILED + 1)])
    assert (runs.result(), len(runs.given)) == (1, 1)


@pytest.mark.parametrize("code", [2, 3, 4, 5, -9])
def test_a_run_that_did_not_reach_its_end_is_a_failure(tmp_path: Path, code: int) -> None:
    runs = _Runs(tmp_path, [code], ["tests/test_a.py::test_slow"])
    assert (runs.result(), len(runs.given)) == (code, 1)


def test_a_run_that_names_no_failed_test_is_a_failure(tmp_path: Path) -> None:
    runs = _Runs(tmp_path, [1], [])
    assert (runs.result(), len(runs.given)) == (1, 1)
