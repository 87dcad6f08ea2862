"""Every route x method x role x tenant, against a table that is written by hand.

The rows come from the application itself; a route without a row in the table makes the test fail. A route that changes
something is asked with a body that would work, so that only the role can be why it is refused.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from litestar.routes import HTTPRoute

from podium.access.roles import Role
from podium.server.app import make_routes
from podium.server.declaring import handlers_of
from podium.server.serving import authenticated_app, stream_service
from tests.server.listening_client import Listening
from tests.server.site import FLOW, PLENTY, WAITS, Site

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
ALL: Final = frozenset(role.value for role in Role)
OPERATORS: Final = frozenset({"operator", "engineer", "admin"})
ENGINEERS: Final = frozenset({"engineer", "admin"})
OWNERS: Final = frozenset({"owner"})


class Row(NamedTuple):
    """`roles`: those that may; `ok`: what they are answered; `missing`: the code if the object is not theirs."""

    roles: frozenset[str]
    ok: int = 200
    missing: str | None = None
    body: Any = None


SIGNAL: Final = {"signalId": "6f9619ff-8b86-4011-b42d-00c04fc964ff", "signalType": "CANCEL"}
TABLE: Final = {
    "POST /api/v1/plans/validate": Row(frozenset({"author"}), body={"workflow": FLOW}),
    "POST /api/v1/plans": Row(frozenset({"author"}), ok=201, body={"workflow": FLOW}),
    "GET /api/v1/plans": Row(ALL),
    "GET /api/v1/plans/{plan_id}": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/versions": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/versions/{version}": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/source": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/versions/{version}/source": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/picture": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "GET /api/v1/plans/{plan_id}/versions/{version}/picture": Row(ALL, missing="PLAN_NOT_PUBLISHED"),
    "POST /api/v1/plans/{plan_id}/approve": Row(
        frozenset({"approver"}), missing="PLAN_NOT_PUBLISHED", body={"planSha256": "HASH"}
    ),
    "POST /api/v1/plans/{plan_id}/versions/{version}/approve": Row(
        frozenset({"approver"}), missing="PLAN_NOT_PUBLISHED", body={"planSha256": "HASH"}
    ),
    "POST /api/v1/runs": Row(OPERATORS, ok=201, body={"plan": "HASH"}),
    "GET /api/v1/runs": Row(ALL),
    "GET /api/v1/runs/{run_id}": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/steps": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/boxes": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/spans": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/events": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/why": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/report": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/inputs": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/compare/{other_id}": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/export": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/logs": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/logs/search": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/logs/{step}/{attempt}/{stream}": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/artifacts": Row(ALL, missing="RUN_NOT_FOUND"),
    "GET /api/v1/runs/{run_id}/artifacts/{name}": Row(ALL, missing="RUN_NOT_FOUND"),
    "POST /api/v1/runs/{run_id}/signals": Row(OPERATORS, missing="RUN_NOT_FOUND", body=SIGNAL),
    "POST /api/v1/runs/{run_id}/resume": Row(OPERATORS, missing="RUN_NOT_FOUND"),
    "POST /api/v1/runs/{run_id}/rerun": Row(ENGINEERS, ok=201, missing="RUN_NOT_FOUND"),
    "DELETE /api/v1/runs/{run_id}": Row(frozenset({"admin"}), missing="RUN_NOT_FOUND"),
    "GET /api/v1/audit": Row(frozenset({"auditor", "admin"})),
    "GET /api/v1/audit/verify": Row(frozenset({"auditor", "admin"})),
    # Nothing is watched: a stream would not end (test_streams.py).
    "GET /api/v1/stream": Row(ALL, ok=400),
    "GET /api/v1/queue": Row(ALL),
    "GET /api/v1/workers": Row(ALL),
    "POST /api/v1/workers/{worker_id}/drain": Row(frozenset({"owner"}), missing="WORKER_NOT_FOUND"),
    "GET /api/v1/limits": Row(ALL),
    "PUT /api/v1/limits": Row(frozenset({"admin"}), body={"scope": "plan", "name": "none", "limit": 5}),
    "DELETE /api/v1/limits": Row(frozenset({"admin"}), ok=204),
    "GET /api/v1/schedules": Row(ALL),
    "POST /api/v1/schedules": Row(ENGINEERS, ok=201, body={"id": "NEW", "plan": "HASH", "cron": "0 0 1 1 *"}),
    "GET /api/v1/schedules/{schedule_id}": Row(ALL, missing="SCHEDULE_NOT_FOUND"),
    "PUT /api/v1/schedules/{schedule_id}": Row(
        ENGINEERS,
        missing="SCHEDULE_NOT_FOUND",
        body={"plan": "HASH", "cron": "0 0 1 1 *", "paused": "for tests"},
    ),
    "DELETE /api/v1/schedules/{schedule_id}": Row(ENGINEERS, ok=204, missing="SCHEDULE_NOT_FOUND"),
    "POST /api/v1/schedules/{schedule_id}/pause": Row(
        OPERATORS, missing="SCHEDULE_NOT_FOUND", body={"reason": "for tests"}
    ),
    "POST /api/v1/schedules/{schedule_id}/resume": Row(OPERATORS, missing="SCHEDULE_NOT_FOUND"),
    "POST /api/v1/schedules/{schedule_id}/trigger": Row(OPERATORS, ok=201, missing="SCHEDULE_NOT_FOUND"),
    "POST /api/v1/schedules/{schedule_id}/backfill": Row(
        ENGINEERS,
        missing="SCHEDULE_NOT_FOUND",
        body={"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    ),
    "GET /api/v1/schedules/{schedule_id}/preview": Row(ALL, missing="SCHEDULE_NOT_FOUND"),
    "GET /api/v1/hooks": Row(ALL),
    "POST /api/v1/hooks": Row(
        frozenset({"admin"}), ok=201, body={"name": "NEW", "plan": "HASH", "secret": "NO_SUCH_SECRET"}
    ),
    "DELETE /api/v1/hooks/{name}": Row(frozenset({"admin"}), ok=204, missing="HOOK_NOT_FOUND"),
    "GET /api/v1/webhooks": Row(ALL),
    "POST /api/v1/webhooks": Row(
        frozenset({"admin"}),
        ok=201,
        body={"name": "NEW", "url": "https://chat.example.com/podium", "secret": "NO_SUCH_SECRET"},
    ),
    "DELETE /api/v1/webhooks/{name}": Row(frozenset({"admin"}), ok=204, missing="WEBHOOK_NOT_FOUND"),
    "GET /api/v1/me": Row(ALL),
    "DELETE /api/v1/me/session": Row(ALL, ok=204),
    "GET /api/v1/tokens": Row(OWNERS),
    "POST /api/v1/tokens": Row(OWNERS, ok=201, body={"name": "bot", "roles": ["viewer"]}),
    "DELETE /api/v1/tokens/{token_id}": Row(OWNERS, ok=404, missing="TOKEN_NOT_FOUND"),
    "GET /api/v1/tenants": Row(OWNERS),
    # For owners of the tenant `default`; `tests/server/test_access_routes.py` shows both.
    "POST /api/v1/tenants": Row(OWNERS, ok=403, body={"tenantId": "fresh", "owner": "zoe"}),
    "POST /api/v1/tenants/{tenant_id}/close": Row(OWNERS, ok=403),
    "GET /api/v1/readyz": Row(ALL),
    "GET /api/v1/metrics": Row(ALL),
    "GET /api/v1/openapi.json": Row(ALL),
}
# Answered to everyone; what replaces a token there is tested beside it.
PUBLIC: Final = {
    *("GET /healthz", "GET /login", "POST /login", "GET /login/callback"),
    "POST /api/v1/hooks/{name}/deliveries",
}
# A stream does not end by itself: what it sends is tested beside it.
ENDLESS: Final = {"GET /api/v1/stream"}
# What is removed by the first role that may is not there for the next; and secrets and workers of hooks are not here.
GONE: Final = {
    "POST /api/v1/workers/{worker_id}/drain",
    "DELETE /api/v1/limits",
    "DELETE /api/v1/schedules/{schedule_id}",
    "DELETE /api/v1/hooks/{name}",
    "POST /api/v1/hooks",
    "DELETE /api/v1/webhooks/{name}",
    "POST /api/v1/webhooks",
    "PUT /api/v1/schedules/{schedule_id}",
    "POST /api/v1/schedules/{schedule_id}/pause",
    "POST /api/v1/schedules/{schedule_id}/resume",
    "POST /api/v1/schedules/{schedule_id}/trigger",
    "POST /api/v1/schedules/{schedule_id}/backfill",
    "GET /api/v1/schedules/{schedule_id}",
    "GET /api/v1/schedules/{schedule_id}/preview",
}
# Of a run that exists: what is not there is another code, and not a matter of roles.
NOT_THERE: Final = {
    "GET /api/v1/runs/{run_id}/logs/{step}/{attempt}/{stream}": 404,
    "GET /api/v1/runs/{run_id}/artifacts/{name}": 404,
    "DELETE /api/v1/runs/{run_id}": 409,
}


class Objects(NamedTuple):
    plan: Any
    run_id: str
    schedule_id: str


@pytest.fixture(scope="module")
def objects(site: Site) -> dict[str, Objects]:
    """One plan and one open run in each tenant. The plans differ: the same bytes would have the same hash."""
    found = {}
    for tenant in ("acme", "other"):
        plan = site.publish(WAITS.replace("waits", f"waits-of-{tenant}"), tenant)
        run_id = site.start(WAITS.replace("waits", f"waits-of-{tenant}"), tenant)
        body = {"id": f"schedule-of-{tenant}", "plan": plan["sha256"], "cron": "0 0 1 1 *"}
        assert site.post("/schedules", body, role="engineer", tenant=tenant).status == 201
        found[tenant] = Objects(plan, run_id, f"schedule-of-{tenant}")
    return found


def routes(site: Site) -> Iterator[tuple[str, str]]:
    app = make_routes(site.parts, stream_service(site.parts))
    for path, method, _ in handlers_of(app):
        yield method, path


def filled(method: str, path: str, objects: Objects) -> str:
    """With ids of these objects."""
    values = {
        "{plan_id}": objects.plan["planId"],
        "{version}": objects.plan["planVersion"],
        "{run_id}": objects.run_id,
        "{other_id}": objects.run_id,
        "{schedule_id}": objects.schedule_id,
        "{worker_id}": "no-such-worker",
        "{step}": "Ask",
        "{attempt}": "1",
        "{stream}": "out",
        "{name}": "report.txt",
        "{token_id}": "0123456789abcdef",
        "{tenant_id}": "other",
    }
    for name, value in values.items():
        path = path.replace(name, value)
    queries = {
        "GET /logs/search": "text=x",
        "GET /stream": f"run={objects.run_id}@0",
        "DELETE /limits": "kind=plan&name=none",
    }
    for place, query in queries.items():
        asked, end = place.split(" ")
        if method == asked and path.endswith(end):
            return f"{path}?{query}"
    return path


def sent(row: Row, plan: Any) -> Any:
    known = {"HASH": plan["sha256"], "NEW": f"new-{uuid4()}"}
    body = {name: known.get(str(value), value) for name, value in (row.body or {}).items()}
    return body or None


def test_every_route_has_a_row(site: Site) -> None:
    found = {f"{method} {path}" for method, path in routes(site)}
    assert found == TABLE.keys() | PUBLIC


@pytest.mark.parametrize("name", sorted(TABLE.keys() - ENDLESS))
def test_only_the_roles_of_the_table_may(site: Site, objects: dict[str, Objects], name: str) -> None:
    row, (method, path) = TABLE[name], name.split(" ")
    ours = objects["acme"]
    for role in sorted(ALL):
        body = sent(row, ours.plan)
        if body is not None and "signalId" in body:
            body = {**body, "signalId": str(uuid4()), "signalType": "PAUSE"}
        answer = site.ask(method, filled(method, path, ours), role=role, json=body)
        if role not in row.roles:
            assert (answer.status, answer.code) == (403, "AUTHZ_DENIED"), (name, role, answer)
            continue
        if name in GONE and answer.status in (400, 404):
            assert answer.code == row.missing or answer.code.endswith(("_NOT_FOUND", "_INVALID")), (
                name,
                role,
                answer,
            )
            continue
        allowed = {row.ok, 200, NOT_THERE.get(name, row.ok)}
        # An open run is not resumed or signalled without effect: that is not refused because of the role.
        assert answer.status in allowed | {409}, (name, role, answer)
        if answer.status == 409:
            assert name in NOT_THERE or name in GONE or "/runs/{run_id}/" in name, (name, role, answer)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_query_parameter_that_a_route_does_not_have_is_refused(
    site: Site, objects: dict[str, Objects], name: str
) -> None:
    method, path = name.split(" ")
    role = min(TABLE[name].roles)
    asked = filled(method, path, objects["acme"])
    more = "&" if "?" in asked else "?"
    answer = site.ask(method, f"{asked}{more}statuss=FAILED", role=role)
    assert (answer.status, answer.code) == (400, "REQUEST_INVALID"), answer
    assert answer.json["location"] == "query.statuss"
    known = {query.partition("=")[0] for query in asked.partition("?")[2].split("&") if query}
    valid = answer.json["valid"].removeprefix("parameters: ")
    assert known <= set(valid.split(", ")), answer


@pytest.mark.parametrize("topic", ["run={}@0", "log={}/Ask/1/out@0"])
@pytest.mark.parametrize("role", sorted(ALL))
def test_every_role_may_open_a_stream_of_its_own_tenant_and_of_no_other(
    site: Site, objects: dict[str, Objects], role: str, topic: str
) -> None:
    async def answered(run_id: str) -> tuple[int, bytes]:
        streams = stream_service(site.parts)
        app: Any = authenticated_app(site.parts, streams, limits=lambda: PLENTY)
        stream = Listening(app, f"/stream?{topic.format(run_id)}", site.tokens["acme", role])
        await stream.until(lambda: stream.frames or stream.is_complete)
        await streams.close()
        await stream.task
        return stream.status, stream.text

    assert site.run(answered(objects["acme"].run_id))[0] == 200
    nowhere = str(uuid4())
    theirs, missing = [site.run(answered(one)) for one in (objects["other"].run_id, nowhere)]
    assert theirs[0] == missing[0] == 404
    assert len(theirs[1]) - len(objects["other"].run_id) == len(missing[1]) - len(nowhere)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.missing])
def test_an_object_of_another_tenant_is_one_that_does_not_exist(
    site: Site, objects: dict[str, Objects], name: str
) -> None:
    row, (method, path) = TABLE[name], name.split(" ")
    theirs = objects["other"]
    nowhere = Objects(
        {"planId": "y" * len(theirs.plan["planId"]), "planVersion": theirs.plan["planVersion"]},
        str(uuid4()),
        "z" * len(theirs.schedule_id),
    )
    before = site.get(f"/runs/{theirs.run_id}", tenant="other").body
    for role in sorted(ALL):
        body = sent(row, theirs.plan if "{plan_id}" in path else objects["acme"].plan)
        found = site.ask(method, filled(method, path, theirs), role=role, json=body)
        missing = site.ask(method, filled(method, path, nowhere), role=role, json=body)
        expected = (404, row.missing) if role in row.roles else (403, "AUTHZ_DENIED")
        if "/signals" in path:
            expected = (404, row.missing)
        assert (found.status, found.code) == expected, (name, role, found)
        assert same_text(found, theirs) == same_text(missing, nowhere), (name, role)
        assert len(found.headers) == len(missing.headers)
    assert site.get(f"/runs/{theirs.run_id}", tenant="other").body == before


def same_text(answer: Any, objects: Objects) -> bytes:
    """Without what was asked for, and without the id of the request."""
    asked = (objects.run_id, objects.plan["planId"], objects.schedule_id, answer.json["requestId"])
    text: bytes = answer.body
    for name in asked:
        text = text.replace(name.encode(), b"ASKED")
    return text


@pytest.mark.parametrize("name", TABLE)
def test_without_a_valid_token_every_route_answers_the_same(
    site: Site, objects: dict[str, Objects], expired: str, name: str
) -> None:
    method, path = name.split(" ")
    path = filled(method, path, objects["acme"])
    valid = site.tokens["acme", "admin"]
    answers = [
        site.ask(method, path, role=None),
        site.ask(method, path, token="podium_" + "0" * 16 + "_" + "1" * 64),
        site.ask(method, path, token=expired),
        site.ask(method, path, token=valid[:-1]),
        site.ask(method, f"{path.partition('?')[0]}?token={valid}", role=None),
        site.ask(method, path, role=None, headers={"cookie": f"token={valid}"}),
    ]
    assert {(one.status, one.body) for one in answers} == {(401, answers[0].body)}, answers


@pytest.fixture(scope="module")
def expired(site: Site) -> str:
    return site.expired_token()


def test_methods_that_are_not_routed_are_refused_with_those_that_are(
    site: Site, objects: dict[str, Objects]
) -> None:
    app = make_routes(site.parts, stream_service(site.parts))
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        path, theirs = (filled("", route.path_format, objects[one]) for one in ("acme", "other"))
        routed = set(route.route_handler_map) - {"OPTIONS"}
        for method in METHODS:
            if method in routed:
                continue
            without = site.ask(method, path, role=None)
            assert without.status == (405 if path.startswith(("/healthz", "/login")) else 401), (
                method,
                path,
                without,
            )
            for role, whose in (*product(sorted(ALL), [path]), ("admin", theirs)):
                answer = site.ask(method, whose, role=role)
                assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED"), (method, role, answer)
                assert answer.headers["allow"] == ", ".join(sorted(routed))
