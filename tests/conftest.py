"""Shared by all tests: `--rule ID` runs only the tests that show a row of docs/conformance/."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rule", default=None, help="run only tests marked with this conformance rule")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--rule")
    if wanted is not None:
        items[:] = [item for item in items if wanted in _rules_of(item)]


def _rules_of(item: pytest.Item) -> set[str]:
    return {str(rule) for mark in item.iter_markers("rule") for rule in mark.args}
