"""Bad requests: each is refused with its place and what would be right, and nothing is stored."""

import asyncio
import gzip
import logging
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar import Litestar, get

from podium.access.roles import Role
from podium.server import app as application
from podium.server.declaring import require_declarations
from podium.server.layers import strict_path
from podium.server.openapi import document
from podium.server.serving import stream_service
from podium.testing.store_promises import hostile_text
from tests.server.site import FLOW, Answer, Site, call

JSON = {"content-type": "application/json"}
SIGNAL = {"signalId": "6f9619ff-8b86-4011-b42d-00c04fc964ff", "signalType": "CANCEL"}


@pytest.mark.parametrize(
    ("body", "status", "code", "location"),
    [
        (b"", 400, "REQUEST_INVALID", "$"),
        (b"{", 400, "REQUEST_INVALID", "$"),
        (b"[]", 400, "REQUEST_INVALID", "$"),
        (b"null", 400, "REQUEST_INVALID", "$"),
        (b'{"plan": 7}', 400, "REQUEST_INVALID", "$.plan"),
        (b'{"plan": "a@1", "unknown": 1}', 400, "REQUEST_INVALID", "$.unknown"),
        (b'{"inputs": {}}', 400, "REQUEST_INVALID", "$.plan"),
        (b'{"plan": "a@1", "plan": "b@1"}', 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "a@1", "inputs": {"a": 1, "a": 2}}', 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "a@1", "inputs": {"a": NaN}}', 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "a@1", "inputs": {"a": Infinity}}', 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "a@1", "inputs": {"a": 1e999}}', 400, "REQUEST_INVALID", "$.inputs[...]"),
        (b'{"plan": "a@1", "priority": "7"}', 400, "REQUEST_INVALID", "$.priority"),
        (b'{"plan": "a@1", "priority": 1001}', 400, "REQUEST_INVALID", "$.priority"),
        (b'{"plan": "a@1", "onLimit": "ignore"}', 400, "REQUEST_INVALID", "$.onLimit"),
        (b'{"plan": "a@1", "startAt": "tomorrow"}', 400, "REQUEST_INVALID", "$.startAt"),
        (
            b'{"plan": "a@1", "inputs": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
            400,
            "REQUEST_INVALID",
            "$",
        ),
        (b'{"plan": "a@1", "inputs": ' + b"[" * 100_000 + b"}", 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "\xff\xfe"}', 400, "REQUEST_INVALID", "$"),
        (b'{"plan": "' + b"x" * (1 << 20) + b'"}', 413, "REQUEST_TOO_LARGE", "$"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_body_that_means_nothing_or_two_things_is_refused(
    site: Site, body: bytes, status: int, code: str, location: str
) -> None:
    before = _listed(site)
    answer = site.post("/runs", body=body, headers=JSON, role="operator")
    assert (answer.status, answer.code, answer.json["location"]) == (status, code, location), answer
    assert answer.json["requestId"] == answer.headers["x-request-id"]
    assert _listed(site) == before


@pytest.mark.parametrize(
    ("path", "location", "valid"),
    [
        ("/runs?statuss=FAILED", "query.statuss", "parameters: cursor, details, filter, "),
        ("/runs?status=FAILED&Status=FAILED", "query.Status", "parameters: cursor, details, filter, "),
        ("/plans?%0Alimit=5", "query.\\nlimit", "parameters: cursor, limit"),
        ("/me?verbose", "query.verbose", "no parameters"),
        ("/readyz?=", "query.", "no parameters"),
        ("/runs?" + "x" * 500 + "=1", "query." + "x" * 57 + "...", "parameters: "),
    ],
    ids=lambda value: value[:40],
)
def test_a_query_parameter_that_is_not_known_is_refused(
    site: Site, path: str, location: str, valid: str
) -> None:
    answer = site.get(path)
    assert (answer.status, answer.code, answer.json["location"]) == (400, "REQUEST_INVALID", location), answer
    assert answer.json["valid"].startswith(valid), answer
    assert site.ask("GET", "/healthz?probe=1").status == 200


@pytest.mark.parametrize("name", ["limit", "filter", "cursor"])
def test_a_query_parameter_that_is_there_twice_is_refused(site: Site, name: str) -> None:
    answer = site.get(f"/runs?{name}=1&{name}=2")
    assert (answer.status, answer.json["location"], answer.json["valid"]) == (
        400,
        f"query.{name}",
        "one value",
    ), answer
    assert site.get("/runs?status=FAILED&status=COMPLETED").status == 200


def test_two_idempotency_keys_in_one_request_are_refused(site: Site) -> None:
    order, before = {"plan": site.publish()["sha256"]}, _listed(site)
    for keys in (("one", "two"), ("one", "one")):
        twice = dict(zip(("Idempotency-Key", "idempotency-key"), keys, strict=True))
        answer = site.post("/runs", order, role="operator", headers=twice)
        assert (answer.status, answer.json["location"]) == (400, "header Idempotency-Key"), answer
    assert _listed(site) == before


FIELDS = (
    "fields: plan, inputs, project, environment, pool, priority, concurrencyKey, labels, startAt, onLimit"
)
ID = "1-128 letters, digits or . _ : @ + -, starting with a letter or digit"
MOMENT = "a moment like 2026-01-01T09:00:00Z"


@pytest.mark.parametrize(
    ("fields", "location", "valid"),
    [
        ({"plan": 7}, "$.plan", "text"),
        ({"plan": "nothing"}, "$.plan", ""),
        ({"plan": "none@1"}, "$.plan", ""),
        ({"unknown": 1}, "$.unknown", FIELDS),
        ({"onLimit": "ignore"}, "$.onLimit", "delay, queue, reject"),
        ({"onLimit": "reject", "startAt": "2030-01-01T09:00:00Z"}, "$.onLimit", "queue, delay"),
        ({"priority": 1001}, "$.priority", "a whole number from -1000 to 1000"),
        ({"startAt": "tomorrow"}, "$.startAt", MOMENT),
        ({"startAt": "2030-01-01T09:00:00"}, "$.startAt", MOMENT),
        ({"pool": "a b"}, "$.pool", ID),
        ({"project": ""}, "$.project", ID),
        ({"concurrencyKey": "a/b"}, "$.concurrencyKey", ID),
        ({"labels": {"a b": "c"}}, "$.labels", ""),
        ({"labels": {"a": 1}}, "$.labels[...]", "text"),
        ({"inputs": []}, "$.inputs", "an object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_order_that_is_refused_is_told_where_and_what_would_be_right(
    site: Site, fields: dict[str, object], location: str, valid: str
) -> None:
    answer = site.post("/runs", {"plan": site.publish()["sha256"], **fields}, role="operator")
    assert 400 <= answer.status <= 404, answer
    assert (answer.json["location"], answer.json.get("valid", "")) == (location, valid), answer


@pytest.mark.parametrize(
    ("path", "location", "valid"),
    [
        ("/runs?limit=501", "query.limit", "a whole number from 1 to 500"),
        ("/runs?limit=x", "query.limit", "a whole number from 1 to 500"),
        ("/runs?cursor=x", "query.cursor", ""),
        ("/plans?cursor=x", "query.cursor", ""),
        ("/audit?cursor=x", "query.cursor", ""),
        ("/runs?filter=x", "query.filter", ""),
        ("/runs?status=x", "query.status", "a list of: "),
        ("/runs?details=maybe", "query.details", "true or false"),
        ("/runs/a%7Cb", "path.run_id", ID),
        ("/runs/a/compare/a%7Cb", "path.other_id", ID),
        ("/plans/flow/picture?format=png", "query.format", "ascii, dot, mermaid, svg"),
    ],
)
def test_a_parameter_that_is_refused_is_told_where_and_what_would_be_right(
    site: Site, path: str, location: str, valid: str
) -> None:
    answer = site.get(path)
    assert (answer.status, answer.json["location"]) == (400, location), answer
    assert answer.json.get("valid", "").startswith(valid), answer


def test_the_place_of_a_header_and_of_a_field_of_a_signal_is_told(site: Site) -> None:
    order, run_id = {"plan": site.publish()["sha256"]}, site.start()
    header = site.post("/runs", order, role="operator", headers={"idempotency-key": "a b"})
    assert (header.json["location"], header.json["valid"]) == ("header Idempotency-Key", ID)
    signal = site.post(f"/runs/{run_id}/signals", {**SIGNAL, "signalId": "x"}, role="operator")
    assert (signal.json["location"], signal.json["valid"]) == ("$.signalId", "a lower-case UUID of version 4")
    roles = site.post("/tokens", {"name": "bot", "roles": ["king"]}, role="owner")
    assert (roles.json["location"], roles.json["valid"].split(", ")[0]) == ("$.roles[0]", "admin")


SCHEDULE = {"id": "later", "plan": "HASH", "cron": "0 0 1 1 *"}
HOOK = {"name": "pushed", "plan": "HASH", "secret": "KEY"}
WEBHOOK = {"name": "told", "url": "https://chat.example.com/podium", "secret": "KEY"}
BACKFILL = {"from": "2025-01-01", "to": "2026-01-01"}


@pytest.mark.parametrize(
    ("path", "body", "location", "valid"),
    [
        ("/schedules", {**SCHEDULE, "id": "a|b"}, "$.id", ID),
        ("/schedules", {**SCHEDULE, "id": "a" * 100}, "$.id", "at most "),
        ("/schedules", {**SCHEDULE, "cron": "61 * * * *"}, "$.cron", "minute: 0-59"),
        ("/schedules", {**SCHEDULE, "cron": "* *"}, "$.cron", "five fields: minute, "),
        ("/schedules", {**SCHEDULE, "cron": "0 0 30 2 *"}, "$.cron", ""),
        ("/schedules", {**SCHEDULE, "timezone": "Berlin"}, "$.timezone", "UTC, or a name"),
        ("/schedules", {**SCHEDULE, "cron": None, "every": 0}, "$.every", "a whole number from 1 to "),
        ("/schedules", {**SCHEDULE, "cron": None, "at": "soon"}, "$.at", "like 2026-12-01"),
        ("/schedules", {**SCHEDULE, "jitter": -1}, "$.jitter", "a whole number from 0 to 86400"),
        ("/schedules", {**SCHEDULE, "catchUp": -1}, "$.catchUp", "a whole number from 0 to "),
        ("/schedules", {**SCHEDULE, "start": "2030-01-01", "end": "2029-01-01"}, "$.end", ""),
        ("/schedules", {**SCHEDULE, "inputs": {"who": "${schedule.tme}"}}, "$.inputs", "${schedule.time}"),
        ("/schedules/there/pause", {"reason": ""}, "$.reason", "1 to 500 characters"),
        ("/schedules/there/backfill", {**BACKFILL, "from": "x"}, "$.from", "like 2026-12-01"),
        ("/schedules/there/backfill", {**BACKFILL, "to": "3026-01-01"}, "$.to", "a moment in the past"),
        (
            "/schedules/there/backfill",
            {**BACKFILL, "concurrency": 0},
            "$.concurrency",
            "a whole number from 1",
        ),
        ("/hooks", {**HOOK, "name": "a|b"}, "$.name", ID),
        ("/hooks", {**HOOK, "secret": ""}, "$.secret", ""),
        ("/hooks", {**HOOK, "rate": 0}, "$.rate", "a whole number from 1 to 6000"),
        ("/hooks", {**HOOK, "schema": {"type": 7}}, "$.schema", "a JSON Schema"),
        ("/hooks", {**HOOK, "bodyInput": "none"}, "$.bodyInput", "inputs: who"),
        ("/webhooks", {**WEBHOOK, "name": "a|b"}, "$.name", ID),
        ("/webhooks", {**WEBHOOK, "url": "http://127.0.0.1/"}, "$.url", ""),
        ("/webhooks", {**WEBHOOK, "events": ["RunEnded"]}, "$.events", "RunQueued, "),
        ("/webhooks", {**WEBHOOK, "plans": ["a|b"]}, "$.plans", ID),
        ("/tokens", {"name": "a|b", "roles": ["viewer"]}, "$.name", ID),
        ("/tokens", {"name": "bot", "roles": ["viewer"], "projects": ["a|b"]}, "$.projects", ID),
        (
            "/tokens",
            {"name": "bot", "roles": ["viewer"], "expiresAt": "2020-01-01T00:00:00Z"},
            "$.expiresAt",
            "a moment in the future",
        ),
        ("/plans/flow/approve", {"planSha256": "x"}, "$.planSha256", ""),
        ("/runs/RUN/signals", {**SIGNAL, "signalType": "STOP"}, "$.signalType", "PAUSE, RESUME, "),
        ("/runs/RUN/signals", {**SIGNAL, "payload": {"why": "x"}}, "$.payload", ""),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_a_value_that_a_use_case_refuses_is_told_where_and_what_would_be_right(
    site: Site, path: str, body: dict[str, object], location: str, valid: str
) -> None:
    plan = site.publish()["sha256"]
    site.post("/schedules", {**SCHEDULE, "id": "there", "plan": plan}, role="engineer")
    body = {name: plan if value == "HASH" else value for name, value in body.items()}
    owner = site.token("acme", *Role)
    answer = site.post(path.replace("RUN", site.start()), body, token=owner)
    assert 400 <= answer.status <= 409, answer
    assert answer.json.get("location") == location, answer
    assert answer.json.get("valid", "").startswith(valid), answer


@pytest.mark.parametrize(
    ("body", "location", "valid"),
    [
        ({"scope": "planet", "limit": 1}, "$.scope", "tenant, project, plan, concurrency"),
        ({"scope": "plan", "limit": -1, "name": "a"}, "$.limit", "a number from 0 to "),
        ({"scope": "plan", "limit": 1}, "$.name", ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_with_a_limit_is_told(
    site: Site, body: dict[str, object], location: str, valid: str
) -> None:
    answer = site.ask("PUT", "/api/v1/limits", role="admin", json=body)
    assert (answer.status, answer.json.get("location")) == (400, location), answer
    assert answer.json.get("valid", "").startswith(valid), answer
    removed = site.ask("DELETE", "/api/v1/limits?kind=planet", role="admin")
    assert (removed.status, removed.json.get("location")) == (400, "query.kind"), removed


def _listed(site: Site) -> list[str]:
    return [one["runId"] for one in site.get("/runs").json["runs"]]


@pytest.mark.parametrize(
    "sent", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_body_that_a_form_of_another_page_could_send_is_refused(site: Site, sent: str) -> None:
    answer = site.post("/plans", body=b'{"workflow": ""}', headers={"content-type": sent}, role="author")
    assert (answer.status, answer.code) == (415, "MEDIA_TYPE_UNSUPPORTED")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "x" * 10_000, "a\x1b[2Jb"])
def test_a_body_that_is_compressed_is_refused(site: Site, encoding: str) -> None:
    headers = {**JSON, "content-encoding": encoding}
    answer = site.post("/plans", body=gzip.compress(b'{"workflow": ""}'), headers=headers, role="author")
    assert (answer.status, answer.code) == (415, "MEDIA_TYPE_UNSUPPORTED"), answer
    assert (answer.json["location"], answer.json["valid"]) == ("header Content-Encoding", "identity")
    assert len(answer.body) < 1000
    plain = {**JSON, "content-encoding": "identity"}
    answer = site.post("/plans", body=b'{"workflow": ""}', headers=plain, role="author")
    assert answer.code == "INVALID_WORKFLOW"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "%2e%2e",
        "%2E%2e%2Fetc",
        "a%00",
        "a|b",
        "a%7Cb",
        "a%2F..%2Fb",
        "a\\b",
        "a%5Cb",
        "%ff",
        "-a",
        "a%20b",
    ],
)
@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/events", "/plans/{}", "/plans/{}/versions/1"])
def test_an_id_that_is_none_is_refused_before_anything_is_looked_up(site: Site, path: str, name: str) -> None:
    answer = site.get(path.format(name))
    assert (answer.status, answer.code) == (400, "INVALID_ID"), answer
    assert site.get(path.format(name), role=None).status == 401


@pytest.mark.parametrize(
    "path",
    [
        *("/tokens/{}", "/schedules/{}", "/hooks/{}", "/webhooks/{}", "/runs/{}", "/workers/{}/drain"),
        *("/tenants/{}/close", "/schedules/{}/pause", "/runs/{}/signals", "/runs/{}/resume"),
    ],
)
@pytest.mark.parametrize("name", ["a|b", "a%7Cb", "a%2F..%2Fb", "a%00", "%2e%2e"])
def test_an_id_that_is_none_is_refused_before_anything_is_changed(site: Site, path: str, name: str) -> None:
    method = "DELETE" if path.endswith("{}") else "POST"
    role = "owner" if path.startswith(("/tokens", "/tenants", "/workers")) else "admin"
    body = {"signals": SIGNAL, "pause": {"reason": "no"}}.get(path.rpartition("/")[2])
    answer = site.ask(method, f"/api/v1{path.format(name)}", role=role, json=body)
    assert (answer.status, answer.code) == (400, "INVALID_ID"), answer


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/",
        "/api/v1//runs",
        "//api/v1/runs",
        "/api/v1/runs//events",
        "/healthz/",
        "/healthz/x",
        "/api/v1",
        "/api/v1/healthz",
        "/api/v1/runs;x",
        "/API/V1/RUNS",
        "/schema",
        "/schema/openapi.json",
        "/docs",
        "/",
    ],
)
def test_a_path_has_one_spelling(site: Site, path: str) -> None:
    answer = site.ask("GET", path)
    assert (answer.status, answer.code) == (404, "PATH_NOT_FOUND"), answer
    assert site.ask("GET", path, role=None).status == 401


@pytest.mark.parametrize(
    "path", ["/healthz/..", "/healthz/../api/v1/runs", "/healthz%2f..", "/%68ealthz/../api"]
)
def test_dots_lead_nowhere(site: Site, path: str) -> None:
    assert site.ask("GET", path).status in (400, 404)
    assert site.ask("GET", path, role=None).status == 401


PIECES = st.sampled_from(
    [
        *(
            "api",
            "v1",
            "runs",
            "plans",
            "healthz",
            "login",
            "openapi.json",
            "stream",
            "audit",
            "static",
            "schema",
        ),
        *(
            "..",
            ".",
            "",
            "%2e%2e",
            "%2f",
            "%00",
            ";",
            "healthz;",
            "%68ealthz",
            "HEALTHZ",
            "login%20",
            "\u2025",
            "a|b",
        ),
    ]
)
PUBLIC = {"/healthz", "/login", "/login/callback"}


# Many at the same time: each is answered after ten milliseconds, so that the time says nothing about the cause.
TOGETHER = 50


@settings(max_examples=10_000 // TOGETHER, deadline=None)
@given(
    paths=st.lists(
        st.lists(PIECES | st.text(max_size=8), max_size=6).map(lambda pieces: "/" + "/".join(pieces)),
        min_size=TOGETHER,
        max_size=TOGETHER,
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get", "X"]),
)
def test_without_a_token_every_generated_path_answers_401(site: Site, paths: list[str], method: str) -> None:
    asked = [one for one in paths if one.partition("?")[0] not in PUBLIC and "/deliveries" not in one]

    async def ask_all() -> list[int]:
        answers = await asyncio.gather(*(site.ask_async(method, path, role=None) for path in asked))
        return [answer.status for answer in answers]

    statuses = site.run(ask_all())
    assert {path for path, status in zip(asked, statuses, strict=True) if status != 401} == set()


@settings(max_examples=500)
@given(st.binary(max_size=40))
def test_a_path_is_split_before_it_is_decoded(raw: bytes) -> None:
    from podium.errors import PodiumError

    try:
        path = strict_path(b"/" + raw)
    except PodiumError:
        return
    assert path.count("/") == (b"/" + raw).partition(b"?")[0].count(b"/")
    assert not {"", ".", ".."} & set(path.split("/")[1:]) or path == "/"


@pytest.mark.parametrize("name", hostile_text.TEXTS)
def test_hostile_texts_in_every_text_field_are_answered_and_never_a_failure(site: Site, name: str) -> None:
    text, order, run_id = hostile_text.TEXTS[name], {"plan": site.publish(FLOW)["sha256"]}, site.start()
    uuid = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    fields = ("plan", "project", "environment", "pool", "concurrencyKey", "startAt", "onLimit")
    orders = [*({**order, field: text} for field in fields)]
    orders += [{**order, "inputs": {"who": text}}, {**order, "inputs": {text: "x"}}]
    signals = [
        {"signalId": text, "signalType": "PAUSE"},
        {"signalId": uuid, "signalType": text},
        {"signalId": uuid, "signalType": "PAUSE", "payload": {"reason": text}},
        {"signalId": uuid, "signalType": "PAUSE", "payload": {text: 1}},
    ]
    answers = [
        *(_post(site, "/runs", body) for body in orders),
        *(_post(site, f"/runs/{run_id}/signals", body) for body in signals),
        _post(site, "/plans/validate", {"workflow": text}, "author"),
        _post(site, "/plans", {"workflow": text}, "author"),
    ]
    assert [one for one in answers if one.status >= 500] == []
    assert all(one.status < 300 or one.code for one in answers)


def _post(site: Site, path: str, body: object, role: str = "operator") -> Answer:
    """Also texts that are not UTF-8: as escapes, which JSON allows."""
    import json

    return site.post(path, body=json.dumps(body).encode(), headers=JSON, role=role)


def test_an_application_with_a_handler_that_declares_no_role_does_not_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    @get("/open")
    async def forgotten() -> str:
        return "everything"

    monkeypatch.setattr(application, "OUTER_ROUTES", [*application.OUTER_ROUTES, forgotten])
    with pytest.raises(RuntimeError, match="GET /open declares no operation"):
        application.make_routes(site.parts, stream_service(site.parts))
    with pytest.raises(RuntimeError, match="declares no operation"):
        require_declarations(Litestar([forgotten], openapi_config=None))


def test_an_answer_has_an_etag_that_saves_the_second_one(site: Site) -> None:
    run_id = site.start()
    for path in (
        "/runs?project=none",
        f"/runs/{run_id}",
        f"/runs/{run_id}/events",
        "/plans",
        "/openapi.json",
    ):
        first = site.get(path)
        again = site.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b""), path
    changed = site.get(f"/runs/{run_id}").headers["etag"]
    site.signal(run_id, "CANCEL", "operator")
    assert site.get(f"/runs/{run_id}", headers={"if-none-match": changed}).status == 200


def test_what_never_changes_is_cached_for_ever_and_by_no_one_else(site: Site) -> None:
    plan = site.publish(FLOW)
    for path in (f"/plans/{plan['sha256']}/source", f"/plans/flow/versions/{plan['planVersion']}/picture"):
        assert site.get(path).headers["cache-control"] == "private, max-age=31536000, immutable"
    assert "immutable" not in site.get("/plans/flow/source").headers["cache-control"]


def test_a_defect_is_answered_without_its_details_which_are_in_the_log(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("the secret reason")

    monkeypatch.setattr("podium.server.view_routes.show_run", broken)
    with caplog.at_level(logging.ERROR):
        answer = site.get("/runs/anything")
    assert (answer.status, answer.code) == (500, "INTERNAL_ERROR")
    assert b"secret reason" not in answer.body
    assert answer.json["requestId"] in answer.json["detail"]
    assert "the secret reason" in caplog.text
    assert answer.json["requestId"] in caplog.text


def test_a_store_that_is_away_is_503_with_a_time_to_try_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from podium.errors import StoreUnavailable

    def away(*_arguments: object, **_options: object) -> None:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr("podium.server.view_routes.show_run", away)
    answer = site.get("/runs/anything")
    assert (answer.status, answer.code) == (503, "STORE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0


def test_a_store_that_cannot_say_whose_a_token_is_is_503_with_a_time_to_try_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from podium.errors import StoreUnavailable

    def away(*_arguments: object, **_options: object) -> None:
        raise StoreUnavailable("postgresql://podium:the-password@db/prod does not answer")

    monkeypatch.setattr("podium.server.authentication.grant_of_token", away)
    answer = site.get("/runs")
    assert (answer.status, answer.code) == (503, "STORE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0
    assert b"db/prod" not in answer.body


def test_a_store_that_refuses_this_version_is_503_because_a_newer_server_can_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from podium.errors import StoreVersion

    def refused(*_arguments: object, **_options: object) -> None:
        raise StoreVersion("the store has schema 99 and this Podium knows 21")

    monkeypatch.setattr("podium.server.view_routes.show_run", refused)
    answer = site.get("/runs/anything")
    assert (answer.status, answer.code) == (503, "STORE_VERSION")
    assert int(answer.headers["retry-after"]) > 0


def test_the_openapi_document_names_every_route_its_operation_and_its_errors(site: Site) -> None:
    paths = site.get("/openapi.json").json["paths"]
    assert paths == document()["paths"]
    start = paths["/api/v1/runs"]["post"]
    assert (start["x-operation"], start["x-cost"]) == ("run.start", "write")
    assert {"200", "201", "202", "400", "401", "403", "404", "409", "413", "415", "429", "503"} <= set(
        start["responses"]
    )
    assert "Idempotency-Key" in [one["name"] for one in start["parameters"]]


def test_many_keys_of_which_the_last_is_there_twice_are_refused_soon(site: Site) -> None:
    names = [*range(60_000), 59_999]
    body = b'{"plan": "x", "inputs": {' + b",".join(b'"%d":0' % name for name in names) + b"}}"
    since = time.monotonic()
    answer = site.ask(
        "POST",
        "/api/v1/runs",
        role="operator",
        body=body,
        headers={"content-type": "application/json"},
    )
    assert (answer.status, answer.code) == (400, "REQUEST_INVALID")
    # To compare each key with all others takes a minute.
    assert time.monotonic() - since < 10


def test_a_start_time_that_is_out_of_range_in_utc_is_refused(site: Site) -> None:
    plan = site.publish()
    for text in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        answer = site.post("/runs", {"plan": plan["sha256"], "startAt": text}, role="operator")
        assert (answer.status, answer.code) == (400, "INVALID_SUBMISSION"), answer


def test_a_path_with_needless_escapes_is_another_spelling_and_refused(site: Site) -> None:
    for path in ("/api/v1/%72uns", "/%61pi/v1/runs", "/api/v1/runs/a%2db", "/api/v1/runs/a%7Eb"):
        answer = site.ask("GET", path)
        assert (answer.status, answer.code) == (400, "INVALID_ID"), (path, answer)
    assert site.get("/runs/a%40b").code == "RUN_NOT_FOUND"


def test_others_are_answered_while_a_large_workflow_is_checked(site: Site) -> None:
    steps = "".join(f"  - {{name: s{number}, set: {{a: 1}}}}\n" for number in range(3000))
    large = f'version: "2.0"\nname: large\nsteps:\n{steps}'
    body = msgspec.json.encode({"workflow": large})
    headers = {
        "authorization": f"Bearer {site.tokens['acme', 'author']}",
        "content-type": "application/json",
    }

    async def order() -> list[str]:
        found: list[str] = []

        async def check() -> None:
            answer = await call(site.app, "POST", "/api/v1/plans/validate", headers, body)
            assert answer.json["valid"], answer
            found.append("checked")

        async def ask() -> None:
            await asyncio.sleep(0)
            await call(site.app, "GET", "/api/v1/me", headers)
            await call(site.app, "GET", "/api/v1/me", headers)
            found.append("answered")

        await asyncio.gather(check(), ask())
        return found

    assert site.run(order()) == ["answered", "checked"]
