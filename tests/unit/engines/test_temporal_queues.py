"""Where the work of a run on Temporal goes: attempts to its files, decisions to its store, both to their rules."""

import pytest

from podium.engines.temporal.names import Queues, workflow_type
from podium.machine import RULES_VERSION

_POSTGRES = "postgresql://db/podium"


@pytest.mark.rule("EN19")
def test_attempts_go_to_the_host_that_has_the_files_and_decisions_to_any() -> None:
    here, there = (Queues.at("q", _POSTGRES, host, shared=False) for host in ("here", "there"))
    assert here.attempts != there.attempts
    assert here.decisions == there.decisions
    assert (here.host, there.host) == ("here", "there")


@pytest.mark.rule("EN19")
def test_with_shared_runs_any_worker_carries_out_attempts() -> None:
    here, there = (Queues.at("q", _POSTGRES, host, shared=True) for host in ("here", "there"))
    assert here == there
    assert here.host == ""


@pytest.mark.rule("EN19")
def test_a_file_is_a_store_of_one_host() -> None:
    one, other = (Queues.at("q", store, "here", shared=True) for store in ("/a/podium.db", "/b/podium.db"))
    assert one.decisions == one.attempts
    assert one.decisions != other.decisions
    assert one.decisions != Queues.at("q", "/a/podium.db", "there", shared=True).decisions


@pytest.mark.rule("EN19")
def test_a_worker_serves_exactly_the_queues_that_runs_are_sent_to() -> None:
    queues = Queues.at("q", _POSTGRES, "here", shared=False)
    assert sorted(queues.served) == sorted({queues.decisions, queues.attempts})
    shared = Queues.at("q", _POSTGRES, "here", shared=True)
    assert shared.served == (shared.decisions,)


@pytest.mark.rule("EN14")
@pytest.mark.parametrize("store", [_POSTGRES, "/a/podium.db"])
@pytest.mark.parametrize("shared", [True, False])
def test_queues_and_workflow_types_carry_the_version_of_the_rules(store: str, shared: bool) -> None:
    rules = f".r{RULES_VERSION}"
    assert workflow_type().endswith(rules)
    assert all(f"q{rules}" in queue for queue in Queues.at("q", store, "here", shared=shared).served)
