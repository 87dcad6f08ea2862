"""Plans in buckets, against a server that speaks S3."""

import asyncio
import gzip
from collections.abc import Iterator
from uuid import uuid4

import obstore
import pytest
from obstore.store import S3Store

from podium.errors import PodiumError
from podium.plan.locations import PlanPlaces, PlanUriNotAllowed, allowed_place
from podium.plan_sources.places import PlacesOfPlans
from podium.ports.plan_source import PlanExists
from services import s3
from tests.servers import need

PLAN = b'{"plan":1}'


@pytest.fixture(scope="module")
def server() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("release-plans")
        yield server


@pytest.fixture
def source(server: s3.S3Server, monkeypatch: pytest.MonkeyPatch) -> PlacesOfPlans:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_access_key)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    places = PlanPlaces((allowed_place("s3://release-plans"), allowed_place("s3://missing-bucket")))
    return PlacesOfPlans(lambda: places, max_bytes=1000)


@pytest.fixture
def uri() -> str:
    return f"s3://release-plans/test/{uuid4().hex}.json"


@pytest.mark.rule("PR05")
def test_a_plan_is_published_once_and_never_overwritten(source: PlacesOfPlans, uri: str) -> None:
    assert asyncio.run(source.publish(uri, PLAN)) is True
    assert asyncio.run(source.fetch(uri)) == PLAN
    assert asyncio.run(source.publish(uri, PLAN)) is False
    with pytest.raises(PlanExists):
        asyncio.run(source.publish(uri, b"{}"))
    assert asyncio.run(source.fetch(uri)) == PLAN


@pytest.mark.rule("PR03")
def test_an_object_is_limited_and_decoded_like_any_other_answer(
    source: PlacesOfPlans, server: s3.S3Server, uri: str
) -> None:
    behind = S3Store("release-plans", client_options={"allow_http": True})
    key = uri.removeprefix("s3://release-plans/")
    obstore.put(behind, key, gzip.compress(PLAN), attributes={"Content-Encoding": "gzip"})
    assert asyncio.run(source.fetch(uri)) == PLAN
    for body, attributes in ((b"0" * 1001, {}), (gzip.compress(b"0" * 5000), {"Content-Encoding": "gzip"})):
        obstore.put(behind, key, body, attributes=attributes)
        with pytest.raises(PodiumError) as refused:
            asyncio.run(source.fetch(uri))
        assert refused.value.code == "PLAN_TOO_LARGE"


def test_what_is_not_there_is_named(source: PlacesOfPlans, uri: str) -> None:
    for where, code in ((uri, "PLAN_NOT_FOUND"), ("s3://missing-bucket/a.json", "PLAN_")):
        with pytest.raises(PodiumError) as refused:
            asyncio.run(source.fetch(where))
        assert refused.value.code.startswith(code)
    with pytest.raises(PlanUriNotAllowed):
        asyncio.run(source.fetch("s3://other-bucket/a.json"))


def test_a_store_that_does_not_answer_is_named(
    source: PlacesOfPlans, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(PodiumError, match="cannot be") as refused:
        asyncio.run(PlacesOfPlans(source._places, max_seconds=20).fetch(uri))
    assert refused.value.code == "PLAN_UNAVAILABLE"
