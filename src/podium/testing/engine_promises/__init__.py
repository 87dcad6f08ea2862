"""What every engine promises: the same workflow has the same history, whichever engine runs it.

    class TestMyEngine(EnginePromises):
        @pytest.fixture
        def engine(self) -> EngineUnderTest: ...

The suite runs every workflow of `corpus.yaml` on the local engine and on this one, with real programs, and compares
their canonical histories (`histories.py`). An engine is accepted when it passes.
"""

from podium.testing.engine_promises.engine import EngineUnderTest, log_of, take_part, wait_for_end
from podium.testing.engine_promises.histories import CanonicalHistory, canonical, differences_between
from podium.testing.engine_promises.local import LocalRuns
from podium.testing.engine_promises.nesting import problems_of
from podium.testing.engine_promises.promises import EnginePromises, compare, plan_of
from podium.testing.engine_promises.scenarios import NAMES, Scenario, ScriptedSignal, scenarios

__all__ = [
    "NAMES",
    "CanonicalHistory",
    "EnginePromises",
    "EngineUnderTest",
    "LocalRuns",
    "Scenario",
    "ScriptedSignal",
    "canonical",
    "compare",
    "differences_between",
    "log_of",
    "plan_of",
    "problems_of",
    "scenarios",
    "take_part",
    "wait_for_end",
]
