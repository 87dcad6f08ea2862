"""What a plan needs of the machine, looked at before its run."""

from pathlib import Path

import pytest

from podium.language.workflow import read_workflow
from podium.providers.directory import ProviderDirectory
from podium.runtime.preflight import Readiness, Surroundings, check_needs


def needs(tmp_path: Path, steps: str, head: str = "", **secrets: str) -> Readiness:
    reading = read_workflow(f'version: "2.0"\nname: w\n{head}\nsteps: [{steps}]'.encode(), "w.yaml")
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    around = Surroundings(tmp_path, {"PATH": str(tmp_path), **secrets}, secrets, ProviderDirectory)
    return check_needs(reading.plan, around)


def codes(readiness: Readiness) -> list[str]:
    return [problem.code for problem in readiness.problems]


@pytest.mark.rule("D29")
def test_the_program_of_a_provider_has_to_be_on_path(tmp_path: Path) -> None:
    step = "{name: A, provider: claude, prompt: hi}"
    assert codes(needs(tmp_path, step)) == ["PROVIDER_NOT_INSTALLED"]
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    assert codes(needs(tmp_path, step)) == []


@pytest.mark.rule("D29", "D17")
def test_a_program_that_a_step_could_install_is_only_warned_about(tmp_path: Path) -> None:
    found = needs(tmp_path, "{name: A, command: [no-such-program]}")
    assert (found.problems, len(found.warnings)) == ((), 1)


@pytest.mark.rule("D33")
@pytest.mark.parametrize(("value", "found"), [("", ["SECRET_NOT_FOUND"]), ("a-secret-value", [])])
def test_a_secret_that_a_step_names_has_to_be_there(tmp_path: Path, value: str, found: list[str]) -> None:
    step = "{name: A, command: ['true'], secrets: [TOKEN]}"
    assert codes(needs(tmp_path, step, "secrets: [TOKEN]", TOKEN=value)) == found


@pytest.mark.rule("D35")
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("12345", ["SECRET_TOO_SHORT"]),
        ("123456", []),
        (" 12345\n", ["SECRET_TOO_SHORT"]),
        ("       ", ["SECRET_TOO_SHORT"]),
    ],
)
def test_a_secret_has_at_least_six_characters(tmp_path: Path, value: str, found: list[str]) -> None:
    step = "{name: A, command: ['true'], secrets: [TOKEN]}"
    assert codes(needs(tmp_path, step, "secrets: [TOKEN]", TOKEN=value)) == found
