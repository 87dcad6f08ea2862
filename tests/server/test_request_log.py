"""One line in the log for each request: what was asked and how it ended, and nothing that the caller wrote."""

import asyncio
import json
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from podium.log.ids import RunId
from podium.operations.log_watching import LogHub, LogTopic, LogWatcher
from podium.operations.run_watching import RunHub, RunWatcher
from podium.ports.log_fields import log_fields, logging_about
from podium.ports.logs import LogName
from podium.server.serving import stream_service
from podium.server.stream_service import StreamService
from podium.server.streams import Stream
from tests.logged import logged
from tests.server.site import FLOW, Site
from tests.server.test_up import Up, until

SECRET = "hunter2-secret"


def test_a_request_is_one_line_with_its_route_its_id_and_the_tenant(site: Site) -> None:
    run_id = site.start(FLOW, "acme")
    with logged() as log:
        answer = site.get(f"/runs/{run_id}")
    (line,) = log.of("request")
    assert line.pop("ms") >= 0
    del line["time"]
    assert line == {
        "level": "info",
        "event": "request",
        "logger": "podium.server.access",
        "request": answer.headers["x-request-id"],
        "method": "GET",
        "route": "/api/v1/runs/{run_id}",
        "status": 200,
        "tenant": "acme",
        "run": run_id,
    }


def test_the_request_that_starts_a_run_names_it_and_no_other_name_is_taken_from_a_caller(site: Site) -> None:
    plan = site.publish(FLOW)
    with logged() as log:
        started = site.post("/runs", {"plan": plan["sha256"]})
        site.get(f"/runs/{SECRET}")
    assert started.status == 201
    first, second = log.of("request")
    assert first["run"] == started.json["runId"]
    assert (second["status"], "run" in second) == (404, False)


@pytest.mark.parametrize("role", ["admin", None])
def test_nothing_that_the_caller_wrote_is_in_the_line(site: Site, role: str | None) -> None:
    headers = {"x-request-id": SECRET, "user-agent": SECRET, "cookie": SECRET}

    def ask(method: str, path: str, json: object = None) -> None:
        site.ask(method, path, json=json, headers=headers, role=role)

    with logged() as log:
        ask("GET", f"/api/v1/runs/{SECRET}?text={SECRET}")
        ask("POST", "/api/v1/plans", json={"workflow": SECRET})
        ask("GET", f"/{SECRET}%0Aforged%1b[31m")
        ask("PWN", "/api/v1/runs")
    assert len(log.of("request")) == 4
    assert not [
        line for line in (*log.json, *log.text) if SECRET in line or "forged" in line or "PWN" in line
    ]
    assert [line["route"] for line in log.of("request")][2:] == ["other", "other"]
    tenants = [line.get("tenant") for line in log.of("request")]
    assert tenants == (["acme"] * 4 if role is not None else [None] * 4)


def test_every_line_of_a_request_has_its_id_and_tenant(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("podium.server.view_routes.show_run", broken)
    with logged() as log:
        answer = site.get("/runs/anything")
    (line,) = [line for line in log.lines if "ZeroDivisionError" in line.get("exception", "")]
    assert line["request"] == answer.json["requestId"] == log.of("request")[0]["request"]
    assert line["tenant"] == "acme"


def test_what_serves_all_clients_is_not_about_the_request_of_the_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers of streams live as long as the process."""
    seen: list[dict[str, str]] = []

    async def look(reader: object) -> None:
        seen.append(dict(log_fields()))
        if isinstance(reader, RunHub):
            reader._has_started.set()

    monkeypatch.setattr(RunHub, "_read_for_ever", look)
    monkeypatch.setattr(LogHub, "_look_for_ever", look)
    monkeypatch.setattr(StreamService, "_check_for_ever", look)
    watcher = RunWatcher({}, None)
    logs = LogWatcher({LogTopic(RunId("r"), LogName("A", 1, "out"), "r/A/1/out"): 0}, watcher)

    async def scenario() -> None:
        streams = stream_service(site.parts)
        with logging_about(request="r"):
            await streams.add(cast("Stream", Mock(watcher=watcher, logs=logs)))
        await asyncio.sleep(0)

    site.run(asyncio.wait_for(scenario(), 60))
    assert seen == [{}, {}, {}]


def test_podium_up_logs_json_and_the_id_that_the_answer_has(tmp_path: Path) -> None:
    up = Up(tmp_path, "--metrics", "0")
    try:
        assert up.ask("GET", "/healthz", token=None) == (200, b"ok")
        status, problem = up.ask("GET", "/api/v1/runs/missing")
        assert status == 404
        until(lambda: up.output().count('"event": "request"') >= 2 or None, up.output)
        until(lambda: "metrics at " in up.output() or None, up.output)
        # What is for people is on standard output.
        written = [one for one in up.output().splitlines() if not one.startswith(("ready: ", "log in "))]
        lines = [json.loads(line) for line in written]
        shown = [line for line in lines if line.get("request") == problem["requestId"]]
        assert [(one["status"], one["tenant"]) for one in shown if one["event"] == "request"] == [
            (404, "default")
        ]
        assert up.token not in up.output()
    finally:
        assert up.stop() == 0


def test_format_and_level_are_options_of_podium_up(tmp_path: Path) -> None:
    up = Up(tmp_path, "--no-worker", "--log-format", "text")
    try:
        assert up.ask("GET", "/healthz", token=None)[0] == 200
        line = until(lambda: next((x for x in up.output().splitlines() if "/healthz" in x), None), up.output)
        assert " info request request=" in line
        assert " method=GET route=/healthz status=200 ms=" in line
    finally:
        assert up.stop() == 0
