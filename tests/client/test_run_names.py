"""How commands find the run that a name means, in a store that is too large for one page."""

import json

import pytest

from podium.cli.servers import run_on_server
from podium.client import Client
from podium.operations.run_names import AmbiguousRun
from tests.client.peer import Reply, peer

NONE = Reply(404, b'{"code": "RUN_NOT_FOUND", "detail": "no"}', {"Content-Type": "application/problem+json"})


def page(*run_ids: str, cursor: str | None = None) -> Reply:
    return Reply(body=json.dumps({"runs": [{"runId": one} for one in run_ids], "cursor": cursor}).encode())


def found(name: str, pages: list[Reply], exact: Reply = NONE) -> str:
    with peer({"/runs": pages, "/runs/flow-12": [exact]}) as server, Client(server.url, "t") as client:
        return run_on_server(client, name)


def test_an_old_run_is_found_on_a_later_page() -> None:
    assert found("flow-12", [page(cursor="a"), page("flow-12ab", cursor="b"), page()]) == "flow-12ab"
    assert found("last", [page(cursor="a"), page("newest")]) == "newest"


def test_runs_on_several_pages_are_ambiguous() -> None:
    with pytest.raises(AmbiguousRun, match="flow-12ab, flow-12cd"):
        found("flow-12", [page("flow-12ab", cursor="a"), page("flow-12cd")])


def test_a_whole_id_is_found_although_other_ids_start_with_it_and_pages_are_short() -> None:
    texts = "runId status planId planVersion planSha256 project environment runRequestId createdAt updatedAt"
    run = {**dict.fromkeys(texts.split(), "x"), "runSeq": 1}
    exact = Reply(body=json.dumps({"run": run, "summary": {}, "runSeq": 1}).encode())
    assert found("flow-12", [page("flow-12ab", cursor="a")], exact) == "flow-12"
    assert found("flow-12", [page("flow-12ab", "flow-12")]) == "flow-12"
