"""What steps see of the environment of the process that runs them, and what they must not find in it."""

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

PASSWORD = "hunter2-password"
SECRET = "s3cret-of-the-trusted-step"
DOCUMENTED = {
    "PODIUM_RUN_ID",
    "PODIUM_RUN_DIR",
    "PODIUM_ARTIFACTS",
    "PODIUM_STEP",
    "PODIUM_VISIT",
    "PODIUM_ATTEMPT",
    "PODIUM_OUTPUT",
}
OF_AGENTS = {"PODIUM_PROMPT_FILE", "PODIUM_ACCESS"}
LOOK = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ours(text: str) -> set[str]:
    return {name for name in json.loads(text) if name.startswith("PODIUM_")}


@pytest.mark.rule("D34")
def test_children_inherit_no_setting_of_podium(place: Place) -> None:
    (place.folder / "looking.py").write_text(
        "import os, subprocess, sys\n"
        "def own(): return dict(os.environ)\n"
        f"def below(): return subprocess.check_output([sys.executable, '-c', {LOOK!r}], text=True)\n"
    )
    place.write(
        f"""
        providers:
          looker: {{argv: [{sys.executable}, -c, "{LOOK}"]}}
        steps:
          - {{name: Command, command: [{sys.executable}, -c, "{LOOK}"]}}
          - {{name: Minimal, env_policy: minimal, command: [{sys.executable}, -c, "{LOOK}"]}}
          - {{name: Python, python: "looking:own"}}
          - {{name: Below, python: "looking:below"}}
          - {{name: Agent, provider: looker, prompt: look}}
        """
    )
    settings = {
        "PODIUM_STORE": str(place.runs / "podium.db"),
        "PODIUM_RUNS": str(place.runs),
        "PODIUM_LEASE": "20",
        "PODIUM_ANYTHING": "x",
        "PODIUM_PROMPT_FILE": "/of/an/outer/agent",
        "PODIUM_SESSION": "of-an-outer-agent",
    }
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env=settings)
    steps = place.state()["steps"]
    for name in ("Command", "Minimal", "Python", "Below"):
        assert ours(steps[name]["output"]) == DOCUMENTED, name
    seen = ours(steps["Agent"]["output"])
    assert DOCUMENTED <= seen <= DOCUMENTED | OF_AGENTS
    assert "/of/an/outer/agent" not in steps["Agent"]["output"]


AROUND = {
    "MY_TOKEN": "not-for-agents",
    "LC_TIME": "C",
    "https_proxy": "http://proxy:3128",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/etc/our-ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/our-ca.pem",
    "GIVEN": "to the provider",
}
NETWORK = {"https_proxy", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}


@pytest.mark.rule("D34")
def test_an_agent_sees_a_minimal_environment_unless_the_workflow_asks_for_more(place: Place) -> None:
    place.write(
        f"""
        providers:
          looker: {{argv: [{sys.executable}, -c, "{LOOK}"], needs_env: [GIVEN]}}
        steps:
          - {{name: Command, command: [{sys.executable}, -c, "{LOOK}"]}}
          - {{name: Minimal, env_policy: minimal, command: [{sys.executable}, -c, "{LOOK}"]}}
          - {{name: Agent, provider: looker, prompt: look}}
          - {{name: Named, provider: looker, prompt: look, env: {{OWN: x}}}}
          - {{name: All, provider: looker, prompt: look, env_policy: inherit}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env=AROUND)
    seen = {name: json.loads(step["output"]) for name, step in place.state()["steps"].items()}
    assert AROUND.keys() - {"GIVEN"} <= seen["Command"].keys()
    assert seen["Minimal"].keys() & AROUND.keys() == {"LC_TIME"}
    for name in ("Agent", "Named"):
        assert seen[name].keys() & AROUND.keys() == {"LC_TIME", "GIVEN", *NETWORK}, name
        assert {"PATH", "HOME"} <= seen[name].keys()
    assert seen["Named"]["OWN"] == "x"
    assert AROUND.keys() <= seen["All"].keys()


@pytest.mark.rule("D34")
def test_the_policy_of_a_workflow_is_also_that_of_its_agents(place: Place) -> None:
    place.write(
        f"""
        env_policy: inherit
        providers:
          looker: {{argv: [{sys.executable}, -c, "{LOOK}"]}}
        steps:
          - {{name: Agent, provider: looker, prompt: look}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env=AROUND)
    assert AROUND.keys() <= json.loads(place.state()["steps"]["Agent"]["output"]).keys()


def test_a_step_cannot_ask_for_a_setting_of_podium_by_name(place: Place) -> None:
    place.write(
        """
        env_allow: [PODIUM_STORE]
        steps:
          - {name: A, command: [echo, "${env.PODIUM_STORE:-hidden}"]}
        """
    )
    store = str(place.runs / "podium.db")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env={"PODIUM_STORE": store})
    assert place.state()["steps"]["A"]["output"] == "hidden\n"


PEEK = "tr '\\\\0' '\\\\n' < /proc/$PPID/environ | grep -E '^(TOKEN|PLAIN|ANTHROPIC_API_KEY|PODIUM_STORE)' | rev; :"


@pytest.mark.rule("D34")
def test_a_step_finds_nothing_in_the_environment_of_its_driver(place: Place) -> None:
    (place.folder / "looking.py").write_text(
        "import os\n"
        "def parents():\n"
        "    of = lambda pid: open(f'/proc/{pid}/environ', 'rb').read().decode()[::-1]\n"
        "    return of(os.getppid()) + of(os.getpid())\n"
    )
    place.write(
        f"""
        secrets: [TOKEN, FROM_FILE]
        steps:
          - {{name: Untrusted, command: [sh, -c, "{PEEK}"]}}
          - {{name: Trusted, secrets: [TOKEN, FROM_FILE], command: [sh, -c, 'test -n "$TOKEN$FROM_FILE"']}}
          - {{name: Worker, secrets: [TOKEN], python: "looking:parents"}}
        """
    )
    (place.folder / "vars.env").write_text(f"FROM_FILE=file-{SECRET}\n")
    given = {"TOKEN": SECRET, "PLAIN": "visible", "ANTHROPIC_API_KEY": "a-key"}
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--env-file", "vars.env", env=given)
    steps = place.state()["steps"]
    assert steps["Untrusted"]["output"] == ""
    assert SECRET[::-1] not in steps["Worker"]["output"]


def test_variables_stay_usable_after_the_environment_is_hidden(place: Place) -> None:
    place.write("steps:\n  - {name: A, command: [sh, -c, 'echo $PLAIN $TZ']}\n")
    done = place.run("run", "w.yaml", "--run-id", place.run_id, env={"PLAIN": "kept", "TZ": "UTC-3"})
    assert place.state()["steps"]["A"]["output"] == "kept UTC-3\n"
    assert "completed" in done.stdout


def test_credentials_in_the_arguments_of_the_driver_are_hidden_from_steps(place: Place) -> None:
    # The address is also a relative path: what matters is that it is an argument that holds a password.
    place.write(
        """
        inputs: {url: {type: string}}
        steps:
          - {name: A, command: [sh, -c, "tr '\\\\0' '\\\\n' < /proc/$PPID/cmdline"]}
        """
    )
    url = f"url=amqp://user:{PASSWORD}@broker/x"
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--input", url)
    shown = place.state()["steps"]["A"]["output"]
    assert "amqp://user:" in shown
    assert PASSWORD not in shown


@pytest.mark.parametrize(
    "command",
    [["why", "r1"], ["runs", "list"], ["store", "check"], ["run", "w.yaml"], ["resume", "r1"]],
)
@pytest.mark.parametrize(
    "address",
    [
        f"postgrsql://podium:{PASSWORD}@db/prod",
        f"postgresql://podium:x/{PASSWORD}@127.0.0.1:1/prod",
        f"postgresql://podium:x@{PASSWORD}@127.0.0.1:1/prod",
    ],
)
def test_messages_mask_the_password_of_a_store(place: Place, command: list[str], address: str) -> None:
    place.write("steps:\n  - {name: A, command: ['true']}\n")
    done = place.run(*command, env={"PODIUM_STORE": address}, code=64)
    assert PASSWORD not in done.stdout + done.stderr
    assert "UNKNOWN_STORE" in done.stderr
    assert "podium:***@" in done.stderr
