"""Generated requests for every route of the OpenAPI document: no failure of the server, and no undocumented answer.

`PODIUM_SCHEMATHESIS=1000` makes that many requests for each route, which takes half an hour.
"""

import contextlib
import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from podium.access.roles import Role
from podium.server.openapi import document
from tests.server.site import WAITS, Answer, Site

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import requests
    import schemathesis

EXAMPLES: Final = int(os.environ.get("PODIUM_SCHEMATHESIS", "5"))
MODES: Final = {
    "valid": schemathesis.GenerationMode.POSITIVE,
    "invalid": schemathesis.GenerationMode.NEGATIVE,
}
OPERATIONS: Final = [
    (path, method)
    for path, methods in document()["paths"].items()
    for method in methods
    if path != "/healthz"
]


@pytest.fixture(scope="module")
def ids(site: Site) -> dict[str, str]:
    """Of things that are there: otherwise almost every answer would be that nothing was found."""
    done, waits = site.start(), site.start(WAITS)
    site.finish(done)
    site.finish(waits, "RUNNING")
    plan = site.publish()
    known = {"run_id": done, "other_id": waits, "plan_id": "flow", "version": plan["planVersion"]}
    token = site.token("acme", *Role)
    return known | {"step": "Greet", "attempt": "1", "stream": "out", "token": token}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_documented(
    site: Site, ids: dict[str, str], path: str, method: str, mode: str
) -> None:
    found = schemathesis.openapi.from_dict(document())[path][method.upper()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strategy = found.as_strategy(generation_mode=MODES[mode])
        with _nothing_invalid(mode, has_parameters="{" in path):
            _asked(strategy, lambda case: _check(site, ids, path, method, case))()


def _nothing_invalid(mode: str, *, has_parameters: bool) -> contextlib.AbstractContextManager[None]:
    """There is nothing invalid about a route without parameters, nor about one that takes any bytes."""
    if mode != "invalid":
        return contextlib.nullcontext()
    if has_parameters:
        return contextlib.suppress(Unsatisfiable)
    return contextlib.suppress(schemathesis.errors.SchemathesisError, Unsatisfiable)


def _asked(strategy: Any, check: Callable[[Any], None]) -> Callable[[], None]:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        check(case)

    return ask


def _check(site: Site, ids: dict[str, str], path: str, method: str, case: Any) -> None:
    if random.random() < 0.7:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = ids.get(name, case.path_parameters[name])
    sent = requests.Request(**_without_transport(case.as_transport_kwargs(base_url="http://site"))).prepare()
    address = urlsplit(sent.url or "")
    target = address.path + (f"?{address.query}" if address.query else "")
    body: Any = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    headers = {name: str(value) for name, value in sent.headers.items() if name.lower() != "authorization"}
    answer = site.ask(method.upper(), target, token=ids["token"], body=body, headers=headers)
    _check_documented(document()["paths"][path][method], answer, f"{method} {target} {body!r}")


def _without_transport(kwargs: dict[str, Any]) -> dict[str, Any]:
    names = ("method", "url", "params", "headers", "cookies", "json", "data", "files")
    return {name: kwargs[name] for name in names if name in kwargs}


def _check_documented(operation: dict[str, Any], answer: Answer, asked: str) -> None:
    assert answer.status < 500, (asked, answer)
    if answer.status == 405 or (answer.status == 404 and answer.json["code"] == "PATH_NOT_FOUND"):
        return  # what was put into the path makes it another one
    if answer.status == 400 and answer.code == "INVALID_ID":
        return  # refused before it is known whose path it is
    documented = operation["responses"].get(str(answer.status))
    assert documented is not None, (asked, answer, list(operation["responses"]))
    kind = answer.headers.get("content-type", "").partition(";")[0]
    content = documented.get("content", {})
    if not content:
        assert answer.body == b"", (asked, answer)
        return
    assert kind in content or kind in _VARIANTS, (asked, answer, list(content))
    if kind.endswith("json") and kind in content:
        schema = {**content[kind]["schema"], "components": document()["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json)


# Chosen by a parameter (`format`): the document names the usual one.
_VARIANTS: Final = {"text/plain", "text/markdown", "text/html"}


@pytest.mark.timeout(60)
def test_a_stream_that_is_generated_by_chance_ends(site: Site, ids: dict[str, str]) -> None:
    answer = site.get(f"/stream?run={ids['run_id']}", token=ids["token"])
    assert answer.status == 200
    assert answer.body
    _check_documented(document()["paths"]["/api/v1/stream"]["get"], answer, "a stream")


def test_every_route_is_generated_for() -> None:
    assert len(OPERATIONS) > 30
    assert list(_duplicates(OPERATIONS)) == []


def _duplicates(found: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (one for one in found if found.count(one) > 1)
