"""`shell:` steps: a script with values that must never become a part of it."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place

HOSTILE = "a  'b' \"c\" $(touch pwned) `touch pwned`; touch pwned # ${HOME}\n*"
SECRET = "hunter2-of-the-script"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.rule("D24")
def test_a_value_reaches_a_script_as_it_is_and_is_never_run(place: Place) -> None:
    place.write(
        """
        inputs: {text: {type: string}}
        steps:
          - name: A
            shell: |
              printf '%s' "${inputs.text}" | tr a-c A-C
              printf '%s' "${inputs.text}" > kept.txt
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--input", f"text={HOSTILE}")
    assert (place.folder / "kept.txt").read_text() == HOSTILE
    assert not (place.folder / "pwned").exists()
    assert place.state()["steps"]["A"]["output"].startswith("A  'B' \"C\" $(touCh")


@pytest.mark.rule("D24")
def test_a_script_ends_at_the_first_failure_and_at_an_unset_variable(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Fails, shell: "echo one\\nfalse\\necho two", allow_failure: true}
          - {name: Unset, shell: 'echo "$NOT_SET_ANYWHERE"', allow_failure: true}
          - {name: After, shell: 'echo "${steps.Fails.exit_code} ${steps.Fails.output} ${PODIUM_STEP}"'}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    steps = place.state()["steps"]
    assert steps["Fails"]["output"] == "one\n"
    assert steps["Unset"]["exit_code"] != 0
    assert steps["After"]["output"] == "1 one After\n"


@pytest.mark.rule("D24", "D35", "D67")
def test_a_secret_in_a_script_is_in_no_argument_and_is_masked(place: Place) -> None:
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - name: A
            secrets: [TOKEN]
            shell: |
              echo "${env.TOKEN}"
              tr '\\\\0' '\\\\n' < /proc/$$/cmdline | rev
        """
    )
    checked = place.run("validate", "w.yaml")
    assert "E309" not in checked.stdout + checked.stderr, "it is not visible in ps"
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env={"TOKEN": SECRET})
    output = place.state()["steps"]["A"]["output"]
    assert output.startswith("***\n")
    assert SECRET[::-1] not in output


@pytest.mark.rule("D24", "D25")
def test_a_value_that_is_not_there_fails_the_step_before_the_script_starts(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Skipped, command: [echo, x], when: false}
          - {name: A, shell: 'touch ran; echo "${steps.Skipped.output}"'}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    assert place.state()["steps"]["A"]["exit_code"] == 125
    assert not (place.folder / "ran").exists()


@pytest.mark.rule("D24")
def test_a_reference_in_single_quotes_stays_text_and_a_warning_says_where(place: Place) -> None:
    place.write("context: {x: 1}\nsteps:\n  - name: A\n    shell: |\n      true\n      echo '${context.x}'\n")
    shown = place.run("validate", "w.yaml")
    printed = shown.stdout + shown.stderr
    assert "w.yaml:8:13: warning E311 the shell does not expand '${...}' in single quotes" in printed
    place.run("validate", "--strict", "w.yaml", code=65)
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    assert place.state()["steps"]["A"]["output"] == "${context.x}\n"


@pytest.mark.rule("D17", "D24")
@pytest.mark.parametrize(("size", "code"), [(128 * 1024 - len("_podium_1") - 2, 0), (128 * 1024, 125)])
def test_a_value_larger_than_a_variable_fails_the_step_before_it_starts(
    place: Place, size: int, code: int
) -> None:
    place.write(
        f"""
        steps:
          - {{name: Large, shell: "yes | tr -d '\\n' | head -c {size}", limits: {{max_output_size: 300000}}}}
          - {{name: A, shell: 'touch ran; echo "${{steps.Large.output}}" | wc -c', allow_failure: true}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    step = place.state()["steps"]["A"]
    assert step["exit_code"] == code
    assert (place.folder / "ran").exists() == (code == 0)
    if code:
        assert step["error"]["code"] == "VARIABLE_TOO_LARGE"
        assert "the value of ${steps.Large.output} has 131,072 bytes" in step["error"]["message"]
