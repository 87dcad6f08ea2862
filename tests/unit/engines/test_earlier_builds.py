"""What an earlier build wrote into the history of an execution on Temporal."""

import msgspec
import pytest

from podium.engines.temporal.earlier_builds import machine_of
from podium.machine.checkpoint import CheckpointMismatch
from tests.unit.machine.building import plan, task
from tests.unit.machine.hosting import Host

NOW = "2026-11-16T08:20:10.048143Z"
NOT_STARTED = {
    "rules": 3, "plan": "", "seq": 1, "now": NOW, "env": {}, "run": {}, "records": [], "visits": 0, "cycle": 0,
    "opening": 1, "terminal": False, "inconsistent": False, "early": False, "cancels": 0, "breath": [0, None],
    "hold": [[], None, 0.0, "", 0.0], "recalled": [0, None, ""], "verdict": None, "tree": None, "agenda": [],
    "spending": [[["", None, [0, 0], [[0, 0], 0, None], False]], [], [], False, []], "aside": [], "line": [],
}  # fmt: skip


def test_a_run_that_had_not_started_continues() -> None:
    machine = machine_of(plan(task("a")), msgspec.json.encode(NOT_STARTED))
    assert (machine.last_seq, machine.now, machine.root) == (1, NOW, None)


@pytest.mark.parametrize(
    "change",
    [
        {"tree": [-1, "", 1]},
        {"hold": [["manual"], NOW, 0.0, NOW, 0.0]},
        {"early": True},
        {"records": [["RunPaused", None, 1, {}]]},
        {"changes": [["a", ["s1"], {"env": {}}, None]]},
    ],
)
def test_one_of_which_more_is_known_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match="replay the log"):
        machine_of(plan(task("a")), msgspec.json.encode({**NOT_STARTED, **change}))


def test_a_machine_of_this_build_is_restored() -> None:
    host = Host(plan(task("a"))).start()
    assert machine_of(host.plan, host.machine.checkpoint()).outstanding() == host.machine.outstanding()
