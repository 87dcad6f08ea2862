"""One line for each event, whatever is in it, with what it is about."""

import ast
import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.ports.log_fields import about, add_log_fields, log_fields, logging_about
from podium.telemetry.log_lines import JsonLines, TextLines, configure_logs
from tests.logged import logged

LOG = logging.getLogger("podium.test")
HOSTILE = 'a\nb\r\x1b[31m\x7f\x85\u2028\u202e\udcff" x=1'


@pytest.fixture
def unchanged_logs() -> Iterator[None]:
    root, podium = logging.getLogger(), logging.getLogger("podium")
    before = root.handlers[:], root.level, podium.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    podium.setLevel(before[2])


def test_a_line_has_time_level_event_and_what_the_task_works_on() -> None:
    with logged() as log, logging_about(run="r-1", tenant="acme"):
        LOG.warning("it %s", "waits", extra=about(step="Build/Test"))
    (line,) = log.lines
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "it waits",
        "logger": "podium.test",
        "run": "r-1",
        "tenant": "acme",
        "step": "Build/Test",
    }
    assert log.text[0].endswith("Z warning it waits run=r-1 tenant=acme step=Build/Test")


def test_no_text_of_users_ends_a_line_or_controls_a_terminal() -> None:
    with logged() as log:
        LOG.error("said %s", HOSTILE, extra=about(step=HOSTILE))
    for line in (*log.json, *log.text):
        assert line.encode("utf-8", "strict")
        assert len(line.splitlines()) == 1
        assert line.isprintable()
    (line_,) = log.lines
    assert line_["event"] == f"said {HOSTILE}"
    assert line_["step"] == HOSTILE
    # A value cannot pretend to be another field.
    assert " x=1" in log.text[0].partition('step="')[2]


def test_a_traceback_is_part_of_its_event_and_none_of_its_lines_looks_like_another() -> None:
    with logged() as log:
        try:
            raise ValueError("first\n2026-01-02T03:04:05.678Z info forged")
        except ValueError:
            LOG.exception("it failed")
    (line,) = log.lines
    assert line["exception"].startswith("Traceback (most recent call last)")
    assert "ValueError: first" in line["exception"]
    first, *rest = log.text[0].splitlines()
    assert first.endswith(" error it failed")
    assert all(one.startswith("    ") for one in rest)
    assert any("forged" in one for one in rest)


def test_credentials_of_addresses_are_masked_wherever_they_are() -> None:
    address = "postgresql://podium:hunter2@db/prod"
    with logged() as log:
        try:
            raise ValueError(address)
        except ValueError:
            LOG.exception("no answer from %s", address, extra=about(step=address))
    assert "hunter2" not in log.json[0] + log.text[0]
    assert log.lines[0]["event"] == "no answer from postgresql://podium:***@db/prod"


def test_tasks_take_over_the_fields_and_keep_their_own_to_themselves() -> None:
    async def attempt(step: str) -> None:
        add_log_fields(step=step)
        await asyncio.sleep(0)
        LOG.info("done")

    async def scenario() -> None:
        with logging_about(run="r-1"):
            add_log_fields(tenant="acme")
            await asyncio.gather(*(asyncio.create_task(attempt(step)) for step in "AB"))
            assert log_fields() == {"run": "r-1", "tenant": "acme"}
        assert log_fields() == {}

    with logged() as log:
        asyncio.run(scenario())
    about_ = [(line["run"], line["tenant"], line["step"]) for line in log.of("done")]
    assert about_ == [("r-1", "acme", "A"), ("r-1", "acme", "B")]


@pytest.mark.usefixtures("unchanged_logs")
def test_logs_are_configured_once_and_libraries_only_warn(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "error")
    configure_logs("json", "info")
    LOG.info("shown")
    LOG.debug("not shown")
    logging.getLogger("httpx").info("GET https://example.com/?token=hunter2")
    logging.getLogger("uvicorn.error").warning("shown, too")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["shown", "shown, too"]


@pytest.mark.usefixtures("unchanged_logs")
@pytest.mark.parametrize(("is_terminal", "formatter"), [(True, TextLines), (False, JsonLines)])
def test_a_terminal_gets_text_and_everything_else_json(
    is_terminal: bool, formatter: type[logging.Formatter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    configure_logs(None, "info")
    assert type(logging.getLogger().handlers[-1].formatter) is formatter


def test_every_line_that_names_a_run_in_its_text_has_it_as_a_field() -> None:
    """Otherwise a search for the run does not find it."""
    # There the task has the field.
    of_a_run = {"run_host.py"}
    calls = [
        (path, call)
        for path in (Path(__file__).parents[3] / "src").rglob("*.py")
        if path.name not in of_a_run
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if isinstance(call.func.value, ast.Name) and call.func.value.id in ("_LOG", "logger")
    ]
    naming = [(path, call) for path, call in calls if call.args and "run %s" in ast.unparse(call.args[0])]
    assert len(naming) > 10
    missing = [
        f"{path.name}:{call.lineno}"
        for path, call in naming
        if "extra" not in [keyword.arg for keyword in call.keywords]
    ]
    assert missing == []
