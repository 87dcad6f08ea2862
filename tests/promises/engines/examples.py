"""The examples of the project that need no agent program, as scenarios for engines."""

import shutil
from pathlib import Path

import pytest

from podium.testing.engine_promises import EngineUnderTest, Scenario, ScriptedSignal, compare

_EXAMPLES = Path(__file__).parents[3] / "examples"
# Whoever asks for a step's elapsed time gets another answer every time.
_ELAPSED = ": ${loop.elapsed}s elapsed"
# Of two services at the same time, the one that fails may be so late that the majority of the others has stopped it.
_AT_THE_SAME_TIME = "max_workers: 2"
# What has to be in the environment of the process that carries out steps.
SECRETS = {"RELEASE_TOKEN": "sesame-open"}
NAMES = (
    "build_pipeline",
    "database_migration",
    "demo",
    "nightly_data",
    "poll_deployment",
    "release",
    "service_deployment",
)


class ExamplePromises:
    """Of an engine, with a fixture `engine`."""

    @pytest.mark.parametrize("name", NAMES)
    def test_an_example_has_the_history_that_it_has_on_the_local_engine(
        self, name: str, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable, value in SECRETS.items():
            monkeypatch.setenv(variable, value)
        compare(example(name), engine, tmp_path, workspace=make_workspace(tmp_path / "workspace"))


def example(name: str) -> Scenario:
    text = (_EXAMPLES / f"{name}.yaml").read_text().replace(_ELAPSED, "")
    if name == "service_deployment":
        assert _AT_THE_SAME_TIME in text
        text = text.replace(_AT_THE_SAME_TIME, "max_workers: 1")
    if name == "database_migration":
        approve = ScriptedSignal("RunQueued", "APPROVE", {"planSha256": "THE_PLAN"})
        return Scenario(name, text, (approve,))
    if name != "release":
        return Scenario(name, text)
    agree = ScriptedSignal("StepStarted Agree", "APPROVE", {"stepId": "Agree", "form": {"channel": "beta"}})
    return Scenario(name, text, (agree,), {"version": "1.4.0"})


def make_workspace(folder: Path) -> Path:
    """A copy of what the examples use, so that their files do not land in the project."""
    shutil.copytree(_EXAMPLES, folder / "examples")
    return folder
