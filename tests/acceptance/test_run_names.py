"""Short ids of runs: how they are made, and how people name runs in commands."""

import json
import re
from pathlib import Path

import pytest

from podium.engines.run_ids import generated_ids
from tests.acceptance.podium import Place
from tests.acceptance.site_with_rules import Site

FLOW = 'version: "2.0"\nname: Nightly\nsteps: [{name: a, command: [echo, hello]}]\n'
# Those that only look at a run, or change nothing about one that has ended.
COMMANDS = (
    ("why",),
    ("logs",),
    ("report",),
    ("events",),
    ("export",),
    ("runs", "show"),
    ("cancel",),
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(FLOW)
    return made


def ids_of(place: Place) -> list[str]:
    """Newest first."""
    return [one["runId"] for one in json.loads(place.run("runs", "list", "--json").stdout)["runs"]]


@pytest.mark.rule("R071")
def test_a_generated_id_has_the_plan_and_a_few_digits(place: Place) -> None:
    for _ in range(2):
        place.run("run", "w.yaml", "-q")
    first, second = ids_of(place)
    assert re.fullmatch(r"nightly-[0-9a-f]{4,5}", first)
    assert re.fullmatch(r"nightly-[0-9a-f]{4,5}", second)
    assert first != second


@pytest.mark.rule("R071")
def test_an_id_that_is_taken_is_followed_by_a_longer_one() -> None:
    assert [len(run_id) for run_id in generated_ids("p")] == list(range(len("p-1234"), len("p-") + 33))


def test_a_plan_that_is_called_like_the_store_gives_no_run_its_name() -> None:
    assert next(generated_ids("podium.db")).startswith("run-")


def test_a_long_plan_id_does_not_make_a_long_run_id() -> None:
    assert len(next(generated_ids("x" * 128))) == 45


@pytest.mark.rule("R071")
def test_commands_take_the_start_of_an_id_and_last(place: Place) -> None:
    for run_id in ("one-1", "two-2"):
        place.run("run", "w.yaml", "-q", "--run-id", run_id)
    for command in COMMANDS:
        shown = place.run(*command, "on").stdout
        assert "one-1" in shown or "hello" in shown, command
        assert "two-2" not in shown
    assert "two-2" in place.run("why", "last").stdout
    assert "run nightly-" in place.run("rerun", "tw").stdout


def test_last_is_the_newest_run(place: Place) -> None:
    for run_id in ("b", "a"):
        place.run("run", "w.yaml", "-q", "--run-id", run_id)
    assert "run a waits" in place.run("why", "last").stdout


def test_signals_and_resume_take_the_start_of_an_id(place: Place) -> None:
    place.write("steps: [{name: Ask, approval: {message: sure?}}]", "ask.yaml")
    place.run("run", "ask.yaml", "-q", "--run-id", "asked-1", "--no-wait", code=5)
    place.run("approve", "ask", "Ask")
    assert "asked-1" in place.run("resume", "last").stdout


@pytest.mark.rule("R071")
def test_an_id_that_is_the_start_of_another_is_that_run(place: Place) -> None:
    for run_id in ("n", "n-1"):
        place.run("run", "w.yaml", "-q", "--run-id", run_id)
    assert "run n waits" in place.run("why", "n").stdout


@pytest.mark.rule("R071")
def test_an_ambiguous_start_is_refused_with_the_candidates(place: Place) -> None:
    for number in range(7):
        place.run("run", "w.yaml", "-q", "--run-id", f"n-{number}")
    refused = place.run("cancel", "n-", code=64).stderr
    assert refused == (
        "RUN_AMBIGUOUS: several runs start with 'n-': n-6, n-5, n-4, n-3, n-2 and more; type more of the id\n"
    )


def test_a_name_that_no_run_has_is_unknown_as_before(place: Place) -> None:
    place.run("run", "w.yaml", "-q", "--run-id", "r-1")
    for name in ("x", "r-11", "%", "r_1", "../r-1", ""):
        assert "RUN_NOT_FOUND" in place.run("why", name, code=64).stderr


def test_last_without_a_run_is_not_found(place: Place) -> None:
    place.run("store", "migrate", "--store", "empty.db")
    assert "RUN_NOT_FOUND" in place.run("why", "last", "--store", "empty.db", code=64).stderr


def test_last_is_no_name_for_a_run(place: Place) -> None:
    for options in ((), ("--pool", "p")):
        refused = place.run("run", "w.yaml", "--run-id", "last", *options, code=64).stderr
        assert "'last' is not a possible run id: commands use it for the newest run" in refused


@pytest.mark.parametrize("run_id", ["nightly-3f2a", "0b7e0f2e-93a4-4a1b-8c0f-6f3c1d2b4a5e"])
def test_a_list_of_runs_fits_80_columns(place: Place, run_id: str) -> None:
    flow = FLOW.replace("Nightly", "The nightly build of everything that there is, with all of its tests")
    place.write(flow, "long.yaml")
    place.run("run", "long.yaml", "-q", "--run-id", run_id)
    listed = place.run("runs", "list").stdout.splitlines()
    assert run_id in listed[1]
    assert "COMPLETED" in listed[1]
    assert all(len(line) <= 80 for line in listed)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    return Site.made(tmp_path, monkeypatch, capfd)


@pytest.mark.rule("G49")
def test_with_rules_names_find_only_runs_that_the_caller_may_see(site: Site) -> None:
    site.start("night-1", "flow.yaml")
    site.start("night-2", "flow.yaml", "other")
    assert site.podium("viewer", "why", "night", "--tenant", "acme") == 0
    assert "night-1" in site.output
    for name, tenant in (("night", "other"), ("last", "other"), ("night-2", "acme")):
        assert site.podium("viewer", "why", name, "--tenant", tenant) == 64
        assert "RUN_NOT_FOUND" in site.output
        assert "night-1" not in site.output


@pytest.mark.rule("G49")
def test_with_rules_generated_ids_cannot_be_guessed(site: Site) -> None:
    assert site.podium("operator", "run", "flow.yaml", "--tenant", "acme", "-q") == 0
    (started,) = site.audit()
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", started["runId"])


@pytest.mark.rule("G49")
def test_a_name_that_finds_nothing_is_recorded_like_any_unknown_run(site: Site) -> None:
    site.start("night-2", "flow.yaml", "other")
    before = len(site.audit())
    for name in ("night", "nothing"):
        assert site.podium("viewer", "why", name, "--tenant", "acme") == 64
    refused = site.audit()[before:]
    assert [one["runId"] for one in refused] == ["night", "nothing"]
    assert len({(one["operation"], one["outcome"], one.get("reason")) for one in refused}) == 1
