"""Where the work of a run on Temporal goes: attempts to its files, decisions to its store, both to their rules."""

from pathlib import Path

import pytest

from podium.engines.shared_runs import mark_of
from podium.engines.temporal.names import Queues, workflow_type
from podium.machine import RULES_VERSION


@pytest.mark.rule("EN19")
def test_attempts_go_to_the_host_that_has_the_files_and_decisions_to_any() -> None:
    here, there = Queues.of_host("q", "here"), Queues.of_host("q", "there")
    assert here.attempts != there.attempts
    assert here.decisions == there.decisions
    assert (here.host, there.host) == ("here", "there")


@pytest.mark.rule("EN19")
def test_with_shared_runs_every_worker_that_sees_the_folder_carries_out_attempts(tmp_path: Path) -> None:
    one, same = (Queues.of_shared_runs("q", mark_of(tmp_path / "runs")) for _ in range(2))
    assert one == same
    assert one.host == ""
    other = Queues.of_shared_runs("q", mark_of(tmp_path / "other"))
    assert one.attempts != other.attempts
    # A host that has another folder under the same path does not see these files.
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert Queues.of_shared_runs("q", mark_of(tmp_path / "runs")).attempts != one.attempts
    assert Queues.of_host("q", "here").attempts != one.attempts


@pytest.mark.rule("EN19")
def test_a_file_is_a_store_of_one_host() -> None:
    one, other = (Queues.beside_store("q", "here", Path(store)) for store in ("/a/podium.db", "/b/podium.db"))
    assert one.decisions == one.attempts
    assert one.decisions != other.decisions
    assert one.decisions != Queues.beside_store("q", "there", Path("/a/podium.db")).decisions


@pytest.mark.rule("EN19")
def test_a_worker_serves_exactly_the_queues_that_runs_are_sent_to() -> None:
    queues = Queues.of_host("q", "here")
    assert sorted(queues.served) == sorted({queues.decisions, queues.attempts})
    alone = Queues.beside_store("q", "here", Path("/a/podium.db"))
    assert alone.served == (alone.decisions,)


@pytest.mark.rule("EN14")
@pytest.mark.parametrize(
    "queues",
    [Queues.of_host("q", "h"), Queues.of_shared_runs("q", "m"), Queues.beside_store("q", "h", Path("/a"))],
)
def test_queues_and_workflow_types_carry_the_version_of_the_rules(queues: Queues) -> None:
    rules = f".r{RULES_VERSION}"
    assert workflow_type().endswith(rules)
    assert all(f"q{rules}" in queue for queue in queues.served)
