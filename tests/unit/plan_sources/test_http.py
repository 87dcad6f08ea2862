"""Plans on web servers: which address is connected to, where redirects lead, and how much is read."""

import asyncio
import gzip
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from podium.errors import PodiumError
from podium.plan.locations import PlanPlaces, PlanUriNotAllowed, allowed_place
from podium.plan_sources.places import PlacesOfPlans
from podium.ports.plan_source import PlanExists, PlanNotFound, PlanUnavailable
from tests.unit.plan_sources.servers import Answer, Names, Network, PlanServer, plan_server

PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"
# Over http: the server has no certificate.
PLACES = PlanPlaces(tuple(map(allowed_place, ("http://plans.example.com", "http://eu.example.com/mirror"))))
URI = "http://plans.example.com/a.json"
PLAN = b'{"plan":"' + b"x" * 1000 + b'"}'


@pytest.fixture
def server() -> Iterator[PlanServer]:
    with plan_server() as server:
        server.answers["/a.json"] = Answer(200, PLAN)
        yield server


@pytest.fixture
def names() -> Names:
    return Names(plans_example_com=[[PUBLIC]], eu_example_com=[[OTHER]])


def source(server: PlanServer, names: Names, **options: Any) -> tuple[PlacesOfPlans, Network]:
    network = Network(server.port)
    return PlacesOfPlans(lambda: PLACES, resolve=names.resolve, backend=network, **options), network


def fetched(server: PlanServer, names: Names, uri: str = URI, **options: Any) -> bytes:
    return asyncio.run(source(server, names, **options)[0].fetch(uri))


@pytest.mark.rule("PR02")
def test_the_address_that_was_checked_is_connected_to_under_the_name_of_the_host(
    server: PlanServer, names: Names
) -> None:
    plans, network = source(server, names)
    assert asyncio.run(plans.fetch(URI)) == PLAN
    assert names.asked == ["plans.example.com"]
    assert network.connected == [(PUBLIC, 80)]
    assert [asked.host for asked in server.asked] == ["plans.example.com"]


@pytest.mark.rule("PR02")
def test_a_name_server_that_answers_differently_a_moment_later_changes_nothing(server: PlanServer) -> None:
    names = Names(plans_example_com=[[PUBLIC], ["127.0.0.1"], ["169.254.169.254"]])
    plans, network = source(server, names)
    assert asyncio.run(plans.fetch(URI)) == PLAN
    assert names.asked == ["plans.example.com"]
    assert network.connected == [(PUBLIC, 80)]


@pytest.mark.rule("PR02")
@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:93.184.216.34"],
        [PUBLIC, "192.168.0.1"],
        ["fe80::1"],
    ],
)
def test_a_name_with_any_address_inside_the_network_is_not_connected_to(
    server: PlanServer, addresses: list[str]
) -> None:
    plans, network = source(server, Names(plans_example_com=[addresses]))
    with pytest.raises(PlanUriNotAllowed, match="its host has the address"):
        asyncio.run(plans.fetch(URI))
    assert network.connected == []


@pytest.mark.rule("PR01")
def test_nothing_is_looked_up_for_a_uri_that_is_refused(server: PlanServer, names: Names) -> None:
    plans, network = source(server, names)
    for uri in ("http://evil.example/a.json", "http://127.0.0.1/a.json", "ftp://plans.example.com/a.json"):
        for call in (plans.fetch(uri), plans.publish(uri, PLAN)):
            with pytest.raises(PlanUriNotAllowed):
                asyncio.run(call)
    assert (names.asked, network.connected, server.asked) == ([], [], [])


# --- redirects ------------------------------------------------------------------------------------

REFUSED = [
    "http://evil.example/a.json",
    "http://eu.example.com/other/a.json",
    "http://127.0.0.1/a.json",
    "http://localhost/a.json",
    "http://169.254.169.254/latest/meta-data",
    "http://2852039166/latest/meta-data",
    "http://[::1]/a.json",
    "http://[::ffff:169.254.169.254]/a.json",
    "//evil.example/a.json",
    "//127.0.0.1/a.json",
    "file:///etc/passwd",
    "ftp://plans.example.com/a.json",
    "gopher://plans.example.com/_x",
    "data:application/json,x",
    "http://user:secret@plans.example.com/a.json",
    "http://plans.example.com:8080/a.json",
    "https://plans.example.com/a.json",
    "http://plans.example.com./a.json",
    "/%2e%2e/a.json",
    "/a%0d%0ab",
    "/a/b\\c",
]


@pytest.mark.rule("PR02")
@pytest.mark.parametrize("to", REFUSED)
def test_a_redirect_is_checked_like_the_uri_itself(server: PlanServer, names: Names, to: str) -> None:
    server.redirect("/b.json", to)
    plans, network = source(server, names)
    with pytest.raises(PlanUriNotAllowed):
        asyncio.run(plans.fetch("http://plans.example.com/b.json"))
    assert len(network.connected) == 1
    assert [asked.path for asked in server.asked] == ["/b.json"]


@pytest.mark.rule("PR02")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_an_allowed_place_is_followed(server: PlanServer, names: Names, status: int) -> None:
    server.redirect("/b.json", "http://eu.example.com/mirror/c.json?signature=1", status)
    server.redirect("/mirror/c.json", "d.json", status)
    server.answers["/mirror/d.json"] = Answer(200, PLAN)
    plans, network = source(server, names)
    assert asyncio.run(plans.fetch("http://plans.example.com/b.json")) == PLAN
    assert network.connected == [(PUBLIC, 80), (OTHER, 80), (OTHER, 80)]
    assert server.asked[1].path == "/mirror/c.json?signature=1"


@pytest.mark.rule("PR02")
def test_a_redirect_to_the_same_host_is_resolved_and_checked_again(server: PlanServer) -> None:
    server.redirect("/b.json", "/a.json")
    plans, network = source(server, Names(plans_example_com=[[PUBLIC], ["127.0.0.1"]]))
    with pytest.raises(PlanUriNotAllowed, match=r"address 127\.0\.0\.1"):
        asyncio.run(plans.fetch("http://plans.example.com/b.json"))
    assert network.connected == [(PUBLIC, 80)]


@pytest.mark.rule("PR02")
def test_redirects_come_to_an_end(server: PlanServer, names: Names) -> None:
    server.redirect("/b.json", "/b.json")
    with pytest.raises(PlanUriNotAllowed, match="more than 5 redirects"):
        fetched(server, names, "http://plans.example.com/b.json")
    assert len(server.asked) == 6


# --- content --------------------------------------------------------------------------------------


@pytest.mark.rule("PR03", "G28")
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PLAN)),
        ("x-gzip", gzip.compress(PLAN)),
        ("GZIP", gzip.compress(PLAN)),
        ("deflate", zlib.compress(PLAN)),
        ("identity", PLAN),
        ("", PLAN),
    ],
    ids=["gzip", "x-gzip", "GZIP", "deflate", "identity", "none"],
)
def test_the_content_is_what_is_left_without_its_encoding(
    server: PlanServer, names: Names, encoding: str, body: bytes
) -> None:
    server.answers["/a.json"] = Answer(200, body, {"Content-Encoding": encoding})
    assert fetched(server, names) == PLAN


BOMB = gzip.compress(b"0" * 50_000_000)


@pytest.mark.rule("PR03")
@pytest.mark.parametrize(
    ("encoding", "body", "code"),
    [
        ("gzip", BOMB, "PLAN_TOO_LARGE"),
        ("deflate", zlib.compress(b"0" * 50_000_000), "PLAN_TOO_LARGE"),
        ("identity", b"0" * 200_001, "PLAN_TOO_LARGE"),
        ("gzip, gzip", gzip.compress(BOMB), "PLAN_UNAVAILABLE"),
        ("br", PLAN, "PLAN_UNAVAILABLE"),
        ("gzip", gzip.compress(PLAN)[:-5], "PLAN_UNAVAILABLE"),
        ("gzip", PLAN, "PLAN_UNAVAILABLE"),
        ("gzip", gzip.compress(PLAN) + b"more", "PLAN_UNAVAILABLE"),
        ("gzip", gzip.compress(PLAN) * 2, "PLAN_UNAVAILABLE"),
    ],
    ids=["bomb", "deflated bomb", "large", "packed twice", "unknown", "cut", "not packed", "a rest", "two members"],
)  # fmt: skip
def test_what_is_too_large_or_damaged_is_refused(
    server: PlanServer, names: Names, encoding: str, body: bytes, code: str
) -> None:
    server.answers["/a.json"] = Answer(200, body, {"Content-Encoding": encoding})
    with pytest.raises(PodiumError) as refused:
        fetched(server, names, max_bytes=200_000)
    assert refused.value.code == code, refused.value


@pytest.mark.rule("PR03")
def test_a_server_that_does_not_end_is_left_after_a_while(server: PlanServer, names: Names) -> None:
    ended = threading.Event()
    server.answers["/a.json"] = Answer(200, PLAN, {}, lambda: ended.wait(5))
    try:
        with pytest.raises(PlanUnavailable, match=r"within 0\.2 seconds"):
            fetched(server, names, max_seconds=0.2)
    finally:
        ended.set()


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (404, "PLAN_NOT_FOUND", None),
        (410, "PLAN_NOT_FOUND", None),
        (403, "PLAN_UNAVAILABLE", False),
        (204, "PLAN_UNAVAILABLE", False),
        (206, "PLAN_UNAVAILABLE", False),
        (304, "PLAN_UNAVAILABLE", False),
        (429, "PLAN_UNAVAILABLE", True),
        (500, "PLAN_UNAVAILABLE", True),
        (503, "PLAN_UNAVAILABLE", True),
    ],
)
def test_an_answer_that_is_not_a_file_is_named(
    server: PlanServer, names: Names, status: int, code: str, retryable: bool | None
) -> None:
    server.answers["/a.json"] = Answer(status)
    with pytest.raises(PodiumError) as refused:
        fetched(server, names)
    assert refused.value.code == code
    assert getattr(refused.value, "retryable", None) == retryable


def test_an_unknown_host_and_a_dead_server_are_named(server: PlanServer, names: Names) -> None:
    with pytest.raises(PlanUnavailable, match="is not known"):
        fetched(server, Names())
    plans = PlacesOfPlans(
        lambda: PlanPlaces((allowed_place(f"http://127.0.0.1:{_closed_port()}"),), allow_loopback=True)
    )
    with pytest.raises(PlanUnavailable, match="does not answer"):
        asyncio.run(plans.fetch(f"http://127.0.0.1:{_closed_port()}/a.json"))


_CLOSED: list[int] = []


def _closed_port() -> int:
    if not _CLOSED:
        with plan_server() as server:
            _CLOSED.append(server.port)
    return _CLOSED[0]


@pytest.mark.rule("PR01")
def test_on_a_laptop_a_server_on_loopback_can_be_used(
    server: PlanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{_closed_port()}")
    place = allowed_place(f"http://127.0.0.1:{server.port}")
    uri = f"http://127.0.0.1:{server.port}/a.json"
    assert asyncio.run(PlacesOfPlans(lambda: PlanPlaces((place,), allow_loopback=True)).fetch(uri)) == PLAN
    with pytest.raises(PlanUriNotAllowed, match="allow_loopback"):
        asyncio.run(PlacesOfPlans(lambda: PlanPlaces((place,))).fetch(uri))


# --- publishing -----------------------------------------------------------------------------------

NEW = "http://plans.example.com/new.json"


@pytest.mark.rule("PR05")
@pytest.mark.parametrize("heeds_conditions", [True, False])
def test_a_plan_is_published_once_and_never_overwritten(
    server: PlanServer, names: Names, heeds_conditions: bool
) -> None:
    server.heeds_conditions = heeds_conditions
    plans, _ = source(server, names)
    assert asyncio.run(plans.publish(NEW, PLAN)) is True
    assert asyncio.run(plans.publish(NEW, PLAN)) is False
    with pytest.raises(PlanExists, match="another plan was published at"):
        asyncio.run(plans.publish(NEW, b"{}"))
    assert asyncio.run(plans.fetch(NEW)) == PLAN
    put = next(asked for asked in server.asked if asked.method == "PUT")
    assert put.headers["If-None-Match"] == "*"


@pytest.mark.rule("PR05")
def test_of_two_who_publish_at_the_same_time_the_later_one_compares(server: PlanServer, names: Names) -> None:
    plans, network = source(server, names)
    first_look = network.connect_tcp

    async def then_another_publishes(*args: Any, **options: Any) -> Any:
        if network.connected:
            server.answers.setdefault("/new.json", Answer(200, b"{}"))
        return await first_look(*args, **options)

    network.connect_tcp = then_another_publishes  # type: ignore[method-assign]
    with pytest.raises(PlanExists):
        asyncio.run(plans.publish(NEW, PLAN))
    assert server.answers["/new.json"].body == b"{}"
    assert [asked.method for asked in server.asked] == ["GET", "PUT", "GET"]


def test_a_server_that_takes_no_plans_is_named(server: PlanServer, names: Names) -> None:
    server.answers["/new.json"] = Answer(500)
    with pytest.raises(PlanUnavailable, match="answered 500"):
        asyncio.run(source(server, names)[0].publish(NEW, PLAN))
    with pytest.raises(PlanNotFound):
        fetched(server, names, "http://plans.example.com/nothing.json")
