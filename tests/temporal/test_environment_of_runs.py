"""Steps on Temporal get the environment of their worker. What a client would lose, it refuses."""

from tests.temporal.site import Site

VARIABLE = """
version: "2.0"
name: w
env_allow: [COLOUR]
steps: [{name: A, command: [echo, "it is ${env.COLOUR:-missing}"]}]
"""
SECRET = """
version: "2.0"
name: w
secrets: [TOKEN_OF_W]
steps: [{name: A, secrets: [TOKEN_OF_W], shell: 'test -n "$TOKEN_OF_W"'}]
"""


def test_variables_of_a_client_are_refused_because_its_steps_would_not_get_them(site: Site) -> None:
    file, variables = site.workspace / "w.yaml", site.workspace / "w.env"
    file.write_text(VARIABLE)
    variables.write_text("COLOUR=red\n")
    for command in (["run", str(file), "--run-id", "r"], ["resume", "r"], ["rerun", "r"]):
        refused = site.podium(*command, *site.options, "--env-file", str(variables), code=64)
        assert "podium worker --env-file" in refused.stderr
    assert site.events_of("r") == []


def test_variables_of_a_worker_reach_the_steps(site: Site) -> None:
    variables = site.workspace / "w.env"
    variables.write_text("COLOUR=red\n")
    site.start_worker("--env-file", str(variables))
    assert site.begin(VARIABLE, "red").wait() == 0
    shown = site.podium("logs", "red", "--store", site.store, "--runs", str(site.runs)).stdout
    assert "it is red" in shown


def test_a_run_whose_worker_lacks_a_secret_fails_with_its_name_before_any_step(site: Site) -> None:
    site.start_worker()
    site.environment["TOKEN_OF_W"] = "a-value-of-the-client"
    process = site.begin(SECRET, "r")
    assert process.wait() == 1
    assert "TOKEN_OF_W" in process.output
    assert "StepStarted A" not in site.events_of("r")
