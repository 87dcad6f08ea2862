"""A run over all faults can be continued: what was noticed is in a file."""

from pathlib import Path

from tests.planted.registry import FAULTS
from tests.planted.results import Results
from tests.planted.running import Outcome


def test_only_what_was_noticed_is_left_out_of_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    noticed, survived, better_now = FAULTS[:3]
    results = Results(path)
    results.add(noticed, Outcome(True, "FAILED test_a"))
    for fault in (survived, better_now):
        results.add(fault, Outcome(False, "3 passed"))
    Results(path).add(better_now, Outcome(True, "FAILED test_b"))
    assert Results(path).noticed == {noticed.title, better_now.title}


def test_without_a_file_nothing_is_kept() -> None:
    results = Results(None)
    results.add(FAULTS[0], Outcome(True, "FAILED test_a"))
    assert results.noticed == set()
