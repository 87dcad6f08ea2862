"""Shared by all tests: `--rule ID` runs only the tests that show a row of docs/conformance/; the shared servers."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from services import conductor, consul, kafka, postgres, temporal
from tests.conformance import RULES_OF_PROMISES
from tests.servers import MISSING, need

# On a busy machine everything is slow, also what makes examples.
settings.register_profile(
    "any load",
    parent=settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any load")


def _ignore_hangups_only_here() -> None:
    """Programs inherit an ignored signal (`nohup`), but no handler: those that tests start see hangups."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


_ignore_hangups_only_here()

# The first test waits for the server: for one that starts slowly, or for one that has to be built.
_SLOW = frozenset({"shared_conductor", "shared_consul", "consul_program"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rule", default=None, help="run only tests marked with this conformance rule")
    parser.addoption("--failed-to", type=Path, help="write the names of the tests that fail to this file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _SLOW.intersection(getattr(item, "fixturenames", ())) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120, func_only=True))
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    _list_missing_services(terminalreporter)
    failed_to = config.getoption("--failed-to")
    if failed_to is not None:
        stats = terminalreporter.stats
        names = {report.nodeid for outcome in ("failed", "error") for report in stats.get(outcome, [])}
        failed_to.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def _list_missing_services(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    missing = sorted({reason for reason in reasons if reason.startswith(MISSING)})
    if missing:
        terminalreporter.section("services that are missing here")
        for reason in missing:
            tests = reasons.count(reason)
            terminalreporter.write_line(f"{reason.removeprefix(MISSING)} ({tests} tests skipped)")


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


@pytest.fixture(scope="session")
def shared_temporal(run_folder: Path) -> Iterator[temporal.TemporalServer]:
    """One server per test run, whatever the number of workers. Tests take a namespace each, and never stop it."""
    server = need(lambda: temporal.share(run_folder))
    yield server
    server.stop(wait=False)


@pytest.fixture(scope="session")
def shared_conductor(run_folder: Path) -> Iterator[conductor.ConductorServer]:
    """One server per test run, whatever the number of workers. Tests take names of their own, and never stop it."""
    server = need(lambda: conductor.share(run_folder))
    yield server
    server.stop(wait=False)


@pytest.fixture(scope="session")
def shared_kafka(run_folder: Path) -> Iterator[kafka.KafkaServer]:
    """One broker per test run, whatever the number of workers. Tests take topics of their own, and never stop it."""
    server = need(lambda: kafka.share(run_folder))
    yield server
    server.stop(wait=False)


@pytest.fixture(scope="session")
def shared_consul(run_folder: Path) -> Iterator[consul.ConsulServer]:
    """One server per test run, whatever the number of workers. Tests take nodes of their own, and never stop it."""
    server = need(lambda: consul.share(run_folder))
    yield server
    server.stop(wait=False)


@pytest.fixture(scope="session")
def consul_program() -> None:
    """For tests that start servers of their own: it is built before their time counts."""
    need(consul.find)
