"""The same workflow has the same plan, byte for byte: on any machine, in any process, however it is written."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podium.language.reader import read_yaml
from podium.language.tree import plain
from podium.language.workflow import read_workflow
from podium.plan.loading import plan_bytes, read_plan, walk
from podium.plan.plan import Plan
from tests.unit.workflows.documents import Document, as_yaml, shuffled, workflows

EXAMPLES: Final = sorted((Path(__file__).parent / "spec").glob("*.yaml"))

bounded = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def compiled(content: bytes, name: str = "w.yaml") -> Plan:
    reading = read_workflow(content, name)
    assert reading.plan is not None, "\n".join(map(str, reading.diagnostics))
    return reading.plan


def as_document(path: Path) -> Document:
    root = read_yaml(path.read_bytes(), path.name).root
    assert root is not None
    return plain(root)


@pytest.mark.rule("D63")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_two_loads_give_the_same_bytes_whatever_the_file_is_called(path: Path) -> None:
    content = path.read_bytes()
    assert plan_bytes(compiled(content)) == plan_bytes(compiled(content, "/elsewhere/other.yaml"))


@pytest.mark.rule("D63")
def test_another_process_in_another_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    path = EXAMPLES[0]
    other = tmp_path / "copy.yml"
    other.write_bytes(path.read_bytes())
    here = plan_bytes(compiled(path.read_bytes()))
    for seed in ("0", "1", "4711"):
        printed = subprocess.run(
            [sys.executable, "-m", "podium", "plan", "--json", other.name],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        assert printed == here


@pytest.mark.rule("D63", "G28")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_order_of_keys_changes_nothing(path: Path) -> None:
    document = as_document(path)
    written = plan_bytes(compiled(path.read_bytes()))
    for seed in range(10):
        assert plan_bytes(compiled(as_yaml(shuffled(document, Random(seed))))) == written


@pytest.mark.rule("D63")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_order_of_steps_changes_the_plan(path: Path) -> None:
    document = as_document(path)
    turned = {**document, "steps": document["steps"][::-1]}
    one, other = compiled(as_yaml(document)), read_workflow(as_yaml(turned), "w.yaml").plan
    assert other is None or other.metadata.plan_version != one.metadata.plan_version


@pytest.mark.rule("D63")
@bounded
@given(workflows(), st.randoms(use_true_random=False))
def test_any_workflow_compiles_to_the_same_bytes_in_any_order_of_its_keys(
    document: Document, random: Random
) -> None:
    assert plan_bytes(compiled(as_yaml(document))) == plan_bytes(
        compiled(as_yaml(shuffled(document, random)))
    )


@pytest.mark.rule("D63")
@bounded
@given(workflows())
def test_any_plan_comes_back_from_json_as_it_was(document: Document) -> None:
    reading = read_workflow(as_yaml(document), "w.yaml")
    assert reading.plan is not None, "\n".join(map(str, reading.diagnostics))
    written = plan_bytes(reading.plan)
    assert read_plan(written) == reading.plan
    assert plan_bytes(read_plan(written)) == written
    # Every step has a path of its own, and that path a place in the file.
    paths = [path for path, _ in walk(reading.plan.workflow)]
    assert len(paths) == len(set(paths))
    assert set(paths) == set(reading.places)


@pytest.mark.rule("ES14", "D33", "R021", "R072")
def test_a_plan_holds_names_of_secrets_and_nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "a-value-that-nobody-may-see")
    monkeypatch.setenv("OPENAI_API_KEY", "another-such-value")
    monkeypatch.chdir(tmp_path)
    path = next(path for path in EXAMPLES if "GITHUB_TOKEN" in path.read_text())
    written = plan_bytes(compiled(path.read_bytes(), str(path))).decode()
    assert "GITHUB_TOKEN" in written
    machine = [
        str(tmp_path),
        str(path.parent),
        path.name,
        socket.gethostname(),
        str(Path.home()),
        sys.executable,
    ]
    for secret in ["a-value-that-nobody-may-see", "another-such-value", *machine]:
        assert secret not in written


@pytest.mark.rule("D63")
def test_a_default_that_is_written_down_changes_nothing() -> None:
    head = 'version: "2.0"\nname: W\n'
    short = head + "steps:\n  - {name: A, parallel: [{name: B, command: [b]}]}\n"
    long = head + (
        "max_parallel: 16\nmax_transitions: 1000\npriority: 0\n"
        "steps:\n  - name: A\n    allow_failure: false\n    max_workers: 10\n    join: {wait_for: all, rest: cancel}\n"
        "    parallel:\n      - {name: B, id: B, command: [b], capture: text, timeout: 300, env: {}, secrets: [],"
        " idempotent: true, on_doubt: ask, keep_children: false, env_policy: inherit}\n"
    )
    assert plan_bytes(compiled(short.encode())) == plan_bytes(compiled(long.encode()))
