"""What is asked over HTTP names the tenant: the server calls no method of the store that takes a run id alone."""

import ast
from pathlib import Path

import pytest

import podium
from podium.operations.rerunning import changed_request, rerun_request
from podium.operations.structure import replace_workflow

SERVER = Path(podium.__file__).parent / "server"
# `runs` takes a tenant; the id of the store is no one's.
ALLOWED = {"runs", "store_id"}


@pytest.mark.rule("G49")
def test_the_server_calls_only_those_methods_of_the_store_that_take_a_tenant() -> None:
    found = {
        node.attr
        for path in SERVER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "store"
    }
    assert found == ALLOWED


@pytest.mark.rule("G49")
@pytest.mark.parametrize("use_case", [rerun_request, changed_request, replace_workflow])
def test_use_cases_that_read_a_run_take_a_tenant(use_case: object) -> None:
    names = list(use_case.__annotations__)
    assert names[:3] == ["parts", "tenant_id", "run_id"]
