"""Providers that other packages bring are used by the name of their entry point."""

import os
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

SHOUT = """
from podium.ports.provider import AgentOutcome, Answered
class Shout:
    name = "another name"
    needs_env = ()
    settings = ("model",)
    def prepare(self, request):
        return Answered(AgentOutcome(request.prompt.upper() + "!"), request.prompt)
    def observe(self, line): return None
    def interpret(self, request, result): raise AssertionError
class Fails(Shout):
    def prepare(self, request): raise KeyError
class Needs(Shout):
    from podium.ports.provider import Variable
    needs_env = (Variable("SHOUT_KEY", required=True),)
"""
ENTRIES = """[podium.providers]
shout = podium_shout:Shout
fails = podium_shout:Fails
needs = podium_shout:Needs
broken = podium_broken:Provider
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place with an installed distribution `podium-shout`."""
    site = tmp_path / "site"
    info = site / "podium_shout-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: podium-shout\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (site / "podium_shout.py").write_text(SHOUT)
    (site / "podium_broken.py").write_text("import no_such_library\n")
    place = Place(tmp_path)
    place.environment["PYTHONPATH"] = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    place.environment.pop("SHOUT_KEY", None)
    return place


@pytest.mark.rule("D53", "R094")
def test_an_installed_provider_answers_by_its_name(place: Place) -> None:
    place.write("steps: [{name: A, provider: shout, prompt: hello}]")
    place.run("validate", "--strict", "w.yaml")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    assert place.state()["steps"]["A"]["output"] == "HELLO!"


def test_it_can_be_the_default_of_a_workflow(place: Place) -> None:
    place.write("defaults: {provider: shout}\nsteps: [{name: A, prompt: hello}]")
    place.run("run", "w.yaml")


@pytest.mark.rule("D53")
def test_settings_that_it_does_not_have_are_ignored_with_a_warning_or_refused(place: Place) -> None:
    step = "name: A, provider: shout, prompt: hello, model: m, temperature: 1"
    place.write(f"steps: [{{{step}}}]")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    [ended] = [event for event in place.events() if event["eventType"] == "StepCompleted"]
    assert ended["payload"]["warnings"] == ["shout has no setting 'temperature'; it is ignored"]
    place.write(f"steps: [{{{step}, strict_provider: true}}]")
    said = place.run("run", "w.yaml", code=78).stderr
    assert said.startswith("PROVIDER_MISCONFIGURED: step 'A': shout has no setting 'temperature', and")


@pytest.mark.rule("D29")
def test_one_that_cannot_be_imported_names_its_package_and_the_reason(place: Place) -> None:
    place.write("steps: [{name: A, provider: broken, prompt: hello}]")
    place.run("validate", "w.yaml")
    said = place.run("run", "w.yaml", code=78).stderr
    assert said.startswith(
        "PROVIDER_NOT_AVAILABLE: step 'A': the provider 'broken' of the package 'podium-shout'"
    )
    assert "ModuleNotFoundError: No module named 'no_such_library'" in said
    assert "Traceback" not in said
    assert not place.runs.exists()


def test_a_variable_that_it_needs_is_checked_before_the_run(place: Place) -> None:
    place.write("steps: [{name: A, provider: needs, prompt: hello}]")
    said = place.run("run", "w.yaml", code=78).stderr
    assert said.startswith("PROVIDER_MISCONFIGURED: step 'A': needs needs the variable SHOUT_KEY")
    place.run("run", "w.yaml", env={"SHOUT_KEY": "123456"})


def test_one_that_raises_fails_its_step_with_a_reason(place: Place) -> None:
    place.write("steps: [{name: A, provider: fails, prompt: hello}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    error = place.state()["steps"]["A"]["error"]
    assert error["code"] == "PROVIDER_MISCONFIGURED"
    assert error["message"].endswith(
        "the provider 'fails' of the package 'podium-shout' failed: KeyError: key error"
    )


def test_an_unknown_name_is_refused_and_the_installed_ones_are_listed(place: Place) -> None:
    place.write("steps: [{name: A, provider: shuot, prompt: hello}]")
    said = place.run("validate", "w.yaml", code=65).stderr
    assert "E216 provider 'shuot' not found." in said
    assert "Did you mean 'shout'?" in said
    assert "broken, fails, needs, shout" in said
