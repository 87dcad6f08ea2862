"""`defaults`: what steps have unless they say otherwise."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.loading import plan_bytes
from podium.plan.plan import Agent, Call, Command, Http, Python, Set
from tests.unit.workflows.reading import body, errors, plan, step, workflow

DEFAULTS = """
defaults:
  env_policy: minimal
  workdir: src
  limits: {max_cpu: 5}
  model: small
  access: read
  env: {A: "1", B: "2"}
"""


def test_a_command_has_them_all_but_those_of_agents() -> None:
    work = body(Command, f"{DEFAULTS}\nsteps: [{{name: A, command: [x]}}]").work
    assert (work.env_policy, work.workdir) == ("minimal", "src")
    assert work.limits is not None
    assert work.limits.max_cpu == 5


def test_a_script_has_them_like_a_command() -> None:
    assert body(Command, f"{DEFAULTS}\nsteps: [{{name: A, shell: x}}]").work.workdir == "src"


def test_an_agent_has_them_all() -> None:
    agent = body(Agent, f"{DEFAULTS}\nsteps: [{{name: A, provider: echo, prompt: x}}]")
    assert (agent.model, agent.access, agent.work.workdir, agent.work.env_policy) == (
        "small",
        "read",
        "src",
        "minimal",
    )


def test_a_step_gets_only_keys_that_it_may_have() -> None:
    http = body(Http, f"{DEFAULTS}\nsteps: [{{name: A, http: {{url: 'https://x.example/'}}}}]")
    assert http.work.limits is not None
    assert (http.work.workdir, http.work.env_policy) == (None, "inherit")
    assert body(Python, f"{DEFAULTS}\nsteps: [{{name: A, python: 'm:f'}}]").work.workdir == "src"
    assert body(Set, f"{DEFAULTS}\nsteps: [{{name: A, set: {{x: 1}}}}]") == Set({"x": 1})


def test_the_step_wins_key_by_key() -> None:
    own = "workdir: ., env_policy: inherit, limits: {max_memory: 1G}"
    text = f"{DEFAULTS}\nsteps: [{{name: A, command: [x], {own}}}]"
    work = body(Command, text).work
    assert (work.workdir, work.env_policy) == (".", "inherit")
    assert work.limits is not None
    assert (work.limits.max_cpu, work.limits.max_memory) == (None, 10**9)


def test_variables_are_merged() -> None:
    text = f"{DEFAULTS}\nenv: {{B: '3'}}\nsteps: [{{name: A, command: [x], env: {{C: '4'}}}}]"
    found = workflow(text)
    assert found.env == {"A": "1", "B": "3"}
    assert body(Command, text).work.env == {"C": "4"}


def test_a_default_is_filled_in_where_the_step_is() -> None:
    text = """
        defaults: {workdir: "${item}"}
        steps:
          - name: L
            for_each: {items: [a], steps: [{name: A, command: [x]}]}
    """
    assert body(Command, text).work.workdir == Template((Reference(("item",)),))


def test_it_holds_inside_loops_and_in_finally_and_not_in_called_files() -> None:
    text = """
        defaults: {workdir: src}
        steps:
          - {name: G, steps: [{name: A, command: [x]}]}
          - {name: C, call: c.yaml}
        finally: [{name: F, command: [x]}]
    """
    files = {"c.yaml": 'version: "2.0"\nname: C\nsteps: [{name: X, command: [x]}]\n'}
    assert body(Command, text, files=files).work.workdir == "src"
    assert body(Command, text, "F", files=files).work.workdir == "src"
    call = step(text, "C", files=files).body
    assert isinstance(call, Call)
    (called,) = call.workflow.block.steps
    assert isinstance(called.body, Command)
    assert called.body.work.workdir is None


def test_the_plan_is_that_of_a_file_with_the_keys_written_out() -> None:
    short = "defaults: {workdir: src}\nsteps: [{name: A, command: [x]}]"
    long = "steps: [{name: A, command: [x], workdir: src}]"
    assert plan_bytes(plan(short)) == plan_bytes(plan(long))


def test_a_mistake_in_a_default_is_reported_once_however_many_steps_have_it() -> None:
    steps = ", ".join(f"{{name: S{number}, command: [x]}}" for number in range(150))
    assert errors(f"defaults: {{workdir: '${{contxt.x}}'}}\nsteps: [{steps}, {{name: Z}}]") == [
        ("E208", 1),
        ("E406", 2),
    ]


@pytest.mark.parametrize("key", ["capture: json", "when: true", "name: x", "secrets: [A]"])
def test_other_keys_of_steps_have_no_default(key: str) -> None:
    assert [code for code, _ in errors(f"defaults: {{{key}}}\nsteps: [{{name: A, command: [x]}}]")] == [
        "E402"
    ]


def test_a_container_is_for_commands_and_scripts() -> None:
    text = """
        defaults: {container: {image: alpine}}
        steps:
          - {name: A, command: [x]}
          - {name: B, python: "m:f"}
          - {name: C, command: [x], container: {image: debian}}
    """
    assert body(Command, text).container is not None
    own = body(Command, text, "C").container
    assert own is not None
    assert own.image == "debian"
    assert body(Python, text, "B").work.workdir is None


def test_a_step_that_says_where_it_runs_takes_no_other_place_from_the_defaults() -> None:
    text = """
        defaults: {container: {image: alpine}, env_policy: minimal, workdir: src}
        steps:
          - {name: A, command: [x], ssh: {host: h}}
          - {name: B, command: [x]}
    """
    over_ssh, inside = body(Command, text), body(Command, text, "B")
    assert (over_ssh.container, over_ssh.work.env_policy, over_ssh.work.workdir) == (None, "inherit", "src")
    assert (inside.container is not None, inside.work.env_policy) == (True, "inherit")


def test_the_defaults_have_one_place() -> None:
    text = "defaults: {container: {image: a}, ssh: {host: h}}\nsteps: [{name: A, prompt: x, provider: echo}]"
    assert errors(text) == [("E407", 1)]
