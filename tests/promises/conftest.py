"""Real servers for the promises: a missing one is a skip with its name on a laptop, and a failure under CI=true."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from services import postgres
from services.missing import ServiceMissing

_Server = TypeVar("_Server")
_MISSING = "missing service "


def need(start: Callable[[], _Server]) -> _Server:
    """Start a server, or skip whatever needs it."""
    try:
        return start()
    except ServiceMissing as missing:
        told = f"{_MISSING}{missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(told, pytrace=False)
        pytest.skip(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    missing = sorted({reason for reason in reasons if reason.startswith(_MISSING)})
    if missing:
        terminalreporter.section("services that are missing here")
        for reason in missing:
            tests = reasons.count(reason)
            terminalreporter.write_line(f"{reason.removeprefix(_MISSING)} ({tests} tests skipped)")


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder for all workers of a test run; pytest removes it when it is old."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "services"


@pytest.fixture(scope="session")
def shared_postgres(run_folder: Path) -> Iterator[postgres.PostgresServer]:
    """One server per test run, whatever the number of workers. Tests take a schema each, and never stop it."""
    server = need(lambda: postgres.share(run_folder, fsync=True))
    yield server
    server.stop(wait=False)
