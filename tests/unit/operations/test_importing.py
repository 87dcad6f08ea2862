"""Files of other tools become workflows that are valid; what has no counterpart is listed."""

import pytest

from podium.operations.importing.github import from_github
from podium.operations.importing.makefile import from_makefile
from podium.operations.importing.translation import NOT_DONE, NotTranslatable, Translation
from podium.operations.workflows import require_workflow

MAKEFILE = """
CC = gcc
.PHONY: all clean
all: test pack
build: src.c
\t@mkdir -p out
\tcd out && $(CC) --version
test: build
\t-echo testing $@ after $< in $$PWD
pack: build
\techo pack $^
\techo $(shell date)
%.o: %.c
\t$(CC) -c $<
clean:
\trm -rf out
"""
CI = b"""
name: CI
on: [push]
env: {LEVEL: debug, REF: "${{ github.ref }}"}
jobs:
  build:
    runs-on: ubuntu-latest
    strategy: {matrix: {python: ["3.11", 3.12]}}
    steps:
      - uses: actions/checkout@v4
      - {name: "Install: all", run: "echo ${{ matrix.python }}", timeout-minutes: 5}
  deploy:
    needs: build
    steps:
      - {name: Deploy, run: 'echo "${{ secrets.TOKEN }}"', continue-on-error: true, working-directory: web}
      - {name: Only main, if: "github.ref == 'refs/heads/main'", run: echo main}
      - {name: Ref, run: "echo ${{ github.ref }}"}
"""


def checked(made: Translation) -> Translation:
    assert require_workflow(made.text().encode(), "made.yaml").plan is not None
    return made


def test_the_first_target_of_a_makefile_and_what_it_needs_become_steps() -> None:
    made = checked(from_makefile(MAKEFILE, "Makefile"))
    assert made.workflow["env"] == {"CC": "gcc"}
    assert made.workflow["steps"] == [
        {"name": "build", "shell": "mkdir -p out\n(cd out && ${CC} --version)\n"},
        {"name": "test", "depends_on": ["build"], "shell": "echo testing test after build in $PWD || true"},
    ]


def test_what_make_does_otherwise_is_listed() -> None:
    left = "\n".join(from_makefile(MAKEFILE, "Makefile").left_out)
    assert "the rule for %.o" in left
    assert "$(shell date)" in left
    assert "targets that 'all' does not need: clean" in left


def test_jobs_become_groups_with_dependencies_and_a_matrix() -> None:
    made = checked(from_github(CI, "ci"))
    assert made.workflow == {
        "version": "2.0",
        "name": "CI",
        "secrets": ["TOKEN"],
        "env": {"LEVEL": "debug"},
        "steps": [
            {
                "name": "build",
                "matrix": {"python": ["3.11", "3.12"]},
                "steps": [{"name": "Install all", "shell": "echo ${matrix.python}", "timeout": "5m"}],
            },
            {
                "name": "deploy",
                "depends_on": ["build"],
                "steps": [
                    {
                        "name": "Deploy",
                        "shell": 'echo "${env.TOKEN}"',
                        "secrets": ["TOKEN"],
                        "workdir": "web",
                        "allow_failure": True,
                    }
                ],
            },
        ],
    }


def test_a_step_with_a_condition_an_action_or_an_unknown_expression_is_left_out_and_listed() -> None:
    left = "\n".join(from_github(CI, "ci").left_out)
    for part in (
        "actions/checkout@v4",
        "Only main): it has a condition",
        "${{ github.ref }}",
        "'on' of the workflow",
    ):
        assert part in left


def test_jobs_without_dependencies_run_in_parallel() -> None:
    jobs = b"jobs: {a: {steps: [{run: x}]}, b: {steps: [{run: y}]}}"
    assert list(checked(from_github(jobs, "ci")).workflow["steps"][0]) == ["name", "parallel"]


def test_what_others_need_and_cannot_be_translated_is_a_step_that_fails() -> None:
    text = "all: deploy\nbuild: gen\n\techo $(shell date)\ngen:\n\techo gen\ndeploy: build\n\techo deploy\n"
    made = checked(from_makefile(text, "Makefile"))
    build, gen, deploy = made.workflow["steps"]
    assert (build["name"], build["shell"], build["depends_on"]) == ("build", NOT_DONE, ["gen"])
    assert "depends_on" not in gen
    assert deploy["depends_on"] == ["build"]
    assert "step 'build' fails until you write its commands: other steps need it" in made.left_out
    jobs = b"jobs: {build: {steps: [{uses: x}]}, deploy: {needs: build, steps: [{run: y}]}}"
    made = checked(from_github(jobs, "ci"))
    build, deploy = made.workflow["steps"]
    assert build == {"name": "build", "shell": NOT_DONE}
    assert deploy["depends_on"] == ["build"]
    assert "step 'build' fails until you write its commands: other steps need it" in made.left_out


@pytest.mark.parametrize("content", [b"steps: []", b"[]", b"jobs: {a: {steps: [{uses: x}]}}", b"\xff"])
def test_a_file_without_anything_to_translate_is_refused(content: bytes) -> None:
    with pytest.raises(NotTranslatable):
        from_github(content, "ci")
    with pytest.raises(NotTranslatable):
        from_makefile("# nothing\n", "Makefile")
