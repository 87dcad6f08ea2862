"""The five example workflows of the specification, carried out."""

from pathlib import Path

import pytest

from podium.machine.commands import CancelTask, RunTask
from tests.unit.machine.hosting import Answer, Host

SPEC = Path(__file__).parents[1] / "workflows" / "spec"


def example(name: str) -> str:
    return (SPEC / f"{name}.yaml").read_text()


@pytest.mark.rule("R095")
def test_feature_development_fixes_its_tests_and_deploys() -> None:
    host = Host(example("feature_development"), {"Run Tests": [1, 1, 0]})
    host.env = {"CI"}
    host.run()
    assert (host.ended, host.exit_code) == ("Completed", 0)
    assert host.ran() == [
        "Analyze Requirements",
        "Generate Implementation",
        "Run Tests",
        "Run Tests",
        "Debug Tests",
        "Run Tests",
        "Deploy",
    ]


@pytest.mark.rule("R095")
def test_feature_development_does_not_deploy_outside_of_ci() -> None:
    host = Host(example("feature_development")).run()
    assert (host.ended, host.exit_code) == ("Completed", 0)
    assert host.events()[-1] == "Deploy#1 Skipped"


@pytest.mark.rule("R096")
def test_parallel_analysis_waits_for_all_three() -> None:
    host = Host(example("parallel_analysis")).start()
    branches = host.ran()
    assert len(branches) == 3
    for path in branches:
        assert host.ran() == branches
        assert not any(isinstance(one, CancelTask) for one in host.commands)
        host.end(path)
    assert host.ran() == [*branches, "Synthesize Results"]
    host.end("Synthesize Results")
    assert (host.ended, host.exit_code) == ("Completed", 0)


@pytest.mark.rule("R097")
def test_service_deployment_goes_on_with_a_majority_and_polls_until_both_are_healthy() -> None:
    def answer(task: RunTask) -> Answer:
        if task.path == "Deploy Services[1]/Build Image":
            return 1
        return int(task.step.step_id.startswith("check_") and "[3]" not in task.path)

    host = Host(example("service_deployment"), answer).run()
    assert (host.ended, host.exit_code) == ("Completed", 0)
    assert host.last("Deploy Services", "StepCompleted")["summary"]["success_count"] == 3
    assert host.last("Health Check Loop", "StepCompleted")["summary"]["count"] == 4


@pytest.mark.rule("R097")
@pytest.mark.parametrize("broken", [2, 4])
def test_service_deployment_fails_without_a_majority(broken: int) -> None:
    failing = {f"Deploy Services[{number}]/Build Image": 1 for number in range(broken)}
    host = Host(example("service_deployment"), failing).run()
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 1, "error")
    assert host.payload(-1)["error"]["message"] == "Deployment failed for majority of services"


@pytest.mark.rule("R097")
def test_service_deployment_gives_up_polling() -> None:
    host = Host(example("service_deployment"), {"check_auth": 1}).run()
    assert host.payload(-1)["error"]["message"] == "Health checks timed out"


@pytest.mark.rule("R098")
@pytest.mark.parametrize(
    ("answers", "code", "last"),
    [
        ({"Lint Code": [1, 0]}, 0, "Package"),
        ({"Lint Code": 1, "Auto Fix Lint": 1}, 1, "Auto Fix Lint"),
        ({"Run Tests": 1}, 1, "Analyze Test Failures"),
        ({"Package": 1}, 1, "Package"),
    ],
)
def test_build_pipeline_follows_only_what_is_written(
    answers: dict[str, object], code: int, last: str
) -> None:
    host = Host(example("build_pipeline"), answers).run()
    assert host.exit_code == code
    assert host.ran()[-1] == last
    assert host.ran()[0] == "_start"


@pytest.mark.rule("R099")
def test_data_processing_reads_the_summary_of_its_loop() -> None:
    host = Host(example("data_processing_pipeline"), {"Process Batches[1]/Load": 1}).run()
    assert host.exit_code == 4  # a failed item fails the loop, and its `on` names only success
    host = Host(example("data_processing_pipeline")).run()
    report = next(c for c in host.commands if isinstance(c, RunTask) and c.path == "Generate Report")
    assert report.values == {
        ("steps", "Process Batches", "summary", "count"): 3,
        ("steps", "Process Batches", "summary", "success_rate"): 1,
    }
