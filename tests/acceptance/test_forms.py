"""Forms of approvals: what a person fills in is checked on every way in, before anything is accepted."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

FORM = """
steps:
  - name: Ask
    approval:
      message: Publish?
      form:
        channel: {type: string, required: true, enum: [beta, stable]}
        count: {type: int}
        share: {type: number}
        loud: {type: bool}
        hosts: {type: list}
        labels: {type: map}
  - name: Publish
    command: [echo, "${steps.Ask.form.channel} ${steps.Ask.form.count:-none} ${steps.Ask.form.hosts[0]:-none}"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def asked(place: Place, text: str = FORM) -> "subprocess.Popen[str]":
    place.write(text)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: place.file("state.json").exists() and place.state()["status"] == "waiting")
    return process


def types_of(place: Place) -> list[str]:
    return [event["eventType"] for event in place.events()]


@pytest.mark.rule("D64")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (["channel=nightly"], ["'channel'", "'nightly'", "beta, stable"]),
        (["count=3"], ["'channel'", "beta, stable"]),
        (["channel=beta", "count=abc"], ["'count'", "'abc'", "int"]),
        (["channel=beta", "count=1.5"], ["'count'", "1.5", "int"]),
        (["channel=beta", "count=true"], ["'count'", "True", "int"]),
        (["channel=beta", "share=NaN"], ["'share'", "'NaN'", "number"]),
        (["channel=beta", "loud=yes"], ["'loud'", "'yes'", "bool"]),
        (["channel=beta", 'hosts={"a": 1}'], ["'hosts'", "list"]),
        (["channel=beta", "labels=[1]"], ["'labels'", "map"]),
        (["channel=beta", "chanel=x"], ["'chanel'", "channel, count"]),
    ],
)
def test_an_answer_that_does_not_fit_the_form_is_refused(
    place: Place, fields: list[str], named: list[str]
) -> None:
    process = asked(place)
    options = [word for field in fields for word in ("--field", field)]
    refused = place.run("approve", place.run_id, "Ask", *options, code=64).stderr
    assert refused.startswith("SIGNAL_INVALID_PAYLOAD: ")
    assert all(word in refused for word in named), refused
    assert "SignalAccepted" not in types_of(place)
    rejected = [event for event in place.events() if event["eventType"] == "SignalRejected"]
    assert [event["payload"]["code"] for event in rejected] == ["SIGNAL_INVALID_PAYLOAD"]
    place.run("approve", place.run_id, "--field", "channel=beta")
    assert ended(process)[0] == 0


@pytest.mark.rule("D64")
def test_answers_have_the_types_that_the_form_declares(place: Place) -> None:
    process = asked(place)
    fields = ["channel=stable", "count=3", 'hosts=["a", "b"]', "loud=true", "share=0.5", 'labels={"x": 1}']
    place.run("approve", place.run_id, *(word for field in fields for word in ("--field", field)))
    assert ended(process)[0] == 0
    assert place.state()["steps"]["Publish"]["output"] == "stable 3 a\n"
    (end,) = [e for e in place.events() if e["eventType"] == "StepCompleted" and e["stepId"] == "Ask"]
    assert end["payload"]["form"] == {
        "channel": "stable", "count": 3, "hosts": ["a", "b"], "loud": True, "share": 0.5, "labels": {"x": 1},
    }  # fmt: skip


@pytest.mark.rule("D64")
def test_an_approval_without_a_form_takes_no_fields(place: Place) -> None:
    process = asked(place, "steps:\n  - {name: Ask, approval: May it?}\n")
    refused = place.run("approve", place.run_id, "--field", "a=b", code=64).stderr
    assert "SIGNAL_INVALID_PAYLOAD" in refused
    place.run("approve", place.run_id)
    assert ended(process)[0] == 0


def test_allowed_values_of_a_form_are_of_its_type(place: Place) -> None:
    place.write(
        "steps:\n  - {name: A, approval: {message: May it?, form: {n: {type: int, enum: [1, two]}}}}\n"
    )
    told = place.run("validate", "w.yaml", code=65)
    assert "a value of 'n'" in told.stdout + told.stderr


REQUIRED = """
steps:
  - name: Ask now
    approval:
      message: Publish?
      form:
        who: {type: string, required: true}
        channel: {type: string, required: true, enum: [very new, stable]}
        count: {type: int, required: true}
        share: {type: number, required: true}
        loud: {type: bool, required: true}
        hosts: {type: list, required: true}
        labels: {type: map, required: true}
        note: {type: string}
"""


@pytest.mark.rule("D64")
@pytest.mark.parametrize("view", ["run", "why", "why --json"])
def test_the_approve_command_that_is_shown_for_a_form_works_as_printed(place: Place, view: str) -> None:
    process = asked(place, REQUIRED)
    if view == "run":
        assert process.stderr is not None
        shown = "".join(process.stderr.readline() for _ in range(3))
    else:
        shown = place.run(*view.split()[:1], place.run_id, *view.split()[1:]).stdout
    assert "with your values: channel (very new or stable), count (int), hosts (list)" in shown
    found = re.search(r"podium approve \S+ 'Ask now'(?: --field (?:'[^']+'|\S+))+", shown)
    assert found is not None, shown
    words = shlex.split(found[0])
    assert words.count("--field") == 7
    place.run(*words[1:])
    assert ended(process)[0] == 0
