"""Shared by all tests: `--rule ID` runs only the tests that show a row of docs/conformance/."""

import pytest

from tests.conformance import RULES_OF_PROMISES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rule", default=None, help="run only tests marked with this conformance rule")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--rule")
    if wanted is not None:
        items[:] = [item for item in items if wanted in _rules_of(item)]


def _rules_of(item: pytest.Item) -> set[str]:
    marked = {str(rule) for mark in item.iter_markers("rule") for rule in mark.args}
    if "promises" in item.path.parts:
        marked.update(RULES_OF_PROMISES.get(_name(item).removeprefix("test_"), ()))
    return marked


def _name(item: pytest.Item) -> str:
    return item.name.partition("[")[0]
