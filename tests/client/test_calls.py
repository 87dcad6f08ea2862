"""Every call of the clients is one of the OpenAPI document: its path, its parameters, its body and its answer."""

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from types import FunctionType, NoneType
from typing import Any, get_args

import msgspec
import pytest

from podium.client import AsyncClient, Client, calls, printed_calls, schedule_calls
from podium.client.call import Call
from podium.errors import InvalidId
from podium.server.openapi import document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES: dict[str, dict[str, Any]] = {
    "me": {},
    "validate": {"workflow": "x"},
    "publish": {"workflow": "x"},
    "plans": {"limit": 1, "cursor": "c"},
    "plan": {"plan_id": "p"},
    "approve_plan": {"plan_id": "p", "plan_sha256": "0"},
    "start": {
        "plan": "p@1",
        "inputs": {"a": 1},
        "idempotency_key": "k",
        "on_limit": "reject",
        "labels": {"a": "b"},
        "project": "p",
        "environment": "e",
        "pool": "default",
        "priority": 1,
        "concurrency_key": "c",
        "start_at": NOW,
    },
    "runs": {"filter": "f", "status": ["FAILED"], "plan": "p", "project": "p", "limit": 1, "cursor": "c"},
    "run": {"run_id": "r"},
    "inputs": {"run_id": "r"},
    "steps": {"run_id": "r", "after": "a", "limit": 1},
    "events": {"run_id": "r", "after": 1, "limit": 1},
    "why": {"run_id": "r"},
    "report": {"run_id": "r"},
    "logs": {"run_id": "r", "step": "Build"},
    "log": {"run_id": "r", "step": "Group/Build", "attempt": 2, "stream": "err", "after": 1},
    "artifacts": {"run_id": "r"},
    "artifact": {"run_id": "r", "name": "a/b.txt"},
    "resume": {"run_id": "r"},
    "rerun": {"run_id": "r", "idempotency_key": "k"},
    "remove": {"run_id": "r"},
    "signal": {
        "run_id": "r",
        "signal_type": "PAUSE",
        "payload": {"reason": "x"},
        "signal_id": "s",
        "fields": {"count": "3"},
    },
    "stream": {"run_id": "r", "after": 3, "last_event_id": "1.3"},
    "schedules": {"limit": 1, "cursor": "c"},
    "schedule": {"schedule_id": "s", "limit": 1},
    "add_schedule": {
        "schedule_id": "s",
        "plan": "p@1",
        "inputs": {},
        "cron": "* * * * *",
        "timezone": "UTC",
        "every": 60,
        "at": "2026-01-01T00:00:00Z",
        "overlap": "skip",
        "pool": "default",
        "jitter": 1,
        "catch_up": 60,
    },
    "pause_schedule": {"schedule_id": "s", "reason": "x"},
    "resume_schedule": {"schedule_id": "s"},
    "trigger_schedule": {"schedule_id": "s"},
    "remove_schedule": {"schedule_id": "s"},
}


# Those of the command line, which are not methods: their answers are plain JSON.
PRINTED: list[Call[Any]] = [
    printed_calls.run_list("f", status=["FAILED"], plan="p", project="p", limit=1, cursor="c"),
    printed_calls.run_ids(prefix="r", limit=1, cursor="c"),
    printed_calls.run_details("r", after="a", limit=1),
    printed_calls.why("r"),
    printed_calls.report_as("r", "md"),
    printed_calls.schedule_list(limit=1, cursor="c"),
    printed_calls.schedule_details("s", limit=1, times=3),
    printed_calls.put_schedule("s", {"plan": "p@1", "cron": "* * * * *"}, replaces=False),
    printed_calls.put_schedule("s", {"plan": "p@1", "cron": "* * * * *"}, replaces=True),
    printed_calls.change_schedule("s", "pause", {"reason": "x"}),
    printed_calls.change_schedule(
        "s", "backfill", {"from": "x", "to": "y", "concurrency": 1, "preview": True}
    ),
    printed_calls.remove_schedule("s"),
    printed_calls.audit(run="r", actor="a", outcome="rejected", since="7d", limit=1),
    printed_calls.audit_verification(),
]


def functions() -> dict[str, FunctionType]:
    found = {}
    for module in (calls, schedule_calls):
        for name, value in vars(module).items():
            is_own = inspect.isfunction(value) and value.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                found[name] = value
    return found


def call(name: str) -> Call[Any]:
    made = functions()[name](**SAMPLES[name])
    assert isinstance(made, Call)
    return made


def operation(made: Call[Any]) -> dict[str, Any]:
    found: dict[str, Any] = document()["paths"][f"/api/v1{made.path}"][made.method.lower()]
    return found


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Behind references and `oneOf: [..., null]`."""
    for one in [*schema.get("oneOf", ()), *schema.get("anyOf", ())]:
        if one.get("type") != "null":
            return resolved(one)
    if "$ref" in schema:
        return resolved(document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return schema


def test_every_call_has_a_sample_with_all_of_its_parameters() -> None:
    made = {name: set(inspect.signature(function).parameters) for name, function in functions().items()}
    assert made == {name: set(sample) for name, sample in SAMPLES.items()}


@pytest.mark.parametrize(
    "made", [*map(call, SAMPLES), *PRINTED], ids=lambda made: f"{made.method} {made.path}"
)
def test_the_server_has_the_path_and_takes_the_parameters(made: Call[Any]) -> None:
    known = {(one["in"], one["name"]): one for one in operation(made).get("parameters", ())}
    sent = {("path", one) for one in made.names} | {("query", one) for one in made.query}
    sent |= {("header", one) for one in made.headers if one != "Accept"}
    assert sent <= set(known)
    assert {one for one, found in known.items() if found.get("required")} <= sent


@pytest.mark.parametrize("name", [name for name in SAMPLES if "requestBody" in operation(call(name))])
def test_the_server_takes_the_body(name: str) -> None:
    made = call(name)
    schema = resolved(operation(made)["requestBody"]["content"]["application/json"]["schema"])
    assert made.body is not None
    assert set(made.body) <= set(schema["properties"])
    assert set(schema.get("required", ())) <= set(made.body)


@pytest.mark.parametrize(
    "made", [one for one in PRINTED if one.body is not None], ids=lambda made: f"{made.method} {made.path}"
)
def test_the_server_takes_the_body_of_a_command(made: Call[Any]) -> None:
    schema = resolved(operation(made)["requestBody"]["content"]["application/json"]["schema"])
    assert made.body is not None
    assert set(made.body) <= set(schema["properties"])
    assert set(schema.get("required", ())) <= set(made.body)


def test_calls_without_a_body_in_the_document_send_none() -> None:
    without = [name for name in SAMPLES if "requestBody" not in operation(call(name))]
    assert [name for name in without if call(name).body is not None] == []


# Their fields are checked against a real server: the document only says that they are objects.
_OBJECTS = ("why", "report")


@pytest.mark.parametrize(
    "name", [name for name in SAMPLES if call(name).answer not in (bytes, NoneType) and name not in _OBJECTS]
)
def test_the_server_answers_the_fields_that_are_read(name: str) -> None:
    made = call(name)
    successes = [found for status, found in operation(made)["responses"].items() if status.startswith("2")]
    for success in successes:
        schema = success["content"]["application/json"]["schema"]
        assert list(misfits(made.answer, schema, made.answer.__name__)) == []


def misfits(wanted: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """Fields that the server does not answer, or leaves out although they are needed."""
    found = resolved(schema)
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        for field in msgspec.structs.fields(wanted):
            place = f"{where}.{field.encode_name}"
            if field.encode_name not in found.get("properties", {}):
                yield f"{place}: not answered"
                continue
            if field.required and field.encode_name not in found.get("required", ()):
                yield f"{place}: may be left out"
            yield from misfits(field.type, found["properties"][field.encode_name], place)
        return
    inner = found.get("items") or found.get("additionalProperties")
    for one in get_args(wanted):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield from misfits(one, inner if isinstance(inner, dict) else found, where)


def test_a_field_that_the_server_does_not_answer_is_noticed() -> None:
    class Other(msgspec.Struct, rename="camel"):
        run_id: str
        not_there: str
        position: int

    schema = {"$ref": "#/components/schemas/SubmittedBody"}
    assert list(misfits(Other, schema, "x")) == ["x.notThere: not answered", "x.position: may be left out"]


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    assert methods(Client) == methods(AsyncClient)


def test_every_call_is_a_method_with_the_parameters_of_the_call() -> None:
    # `follow` takes the stream.
    for name, function in functions().items():
        if name != "stream":
            own = list(inspect.signature(function).parameters.values())
            assert methods(Client)[name] == [(one.name, one.kind, one.default) for one in own]


def methods(kind: type) -> dict[str, list[tuple[str, Any, Any]]]:
    found = {name: value for name, value in vars(kind).items() if inspect.isfunction(value)}
    return {
        name: [
            (one.name, one.kind, one.default)
            for one in inspect.signature(value).parameters.values()
            if one.name != "self"
        ]
        for name, value in found.items()
        if not name.startswith("_")
    }


@pytest.mark.parametrize("value", ["", ".", "..", "\ud800"])
def test_what_would_lead_to_another_address_is_refused(value: str) -> None:
    with pytest.raises(InvalidId):
        _ = calls.run(value).url


def test_parts_of_an_address_are_quoted() -> None:
    assert calls.artifact("r", "../a b?#%2F").url == "/api/v1/runs/r/artifacts/..%2Fa%20b%3F%23%252F"


@pytest.mark.parametrize("key", ["a b", "a\r\nX: y", "x" * 200])
def test_an_invalid_idempotency_key_is_refused_before_anything_is_sent(key: str) -> None:
    with pytest.raises(InvalidId):
        calls.start("p@1", idempotency_key=key)


def test_each_start_without_a_key_is_a_run_of_its_own() -> None:
    keys = {calls.start("p@1").headers["Idempotency-Key"] for _ in range(10)}
    assert len(keys) == 10


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        _ = calls.start("p@1", {"x": float("nan")}).content
