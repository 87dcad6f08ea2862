"""Views of one run: steps, picture, timeline, why, report, inputs, comparison, logs, artifacts, export."""

import pytest

from tests.server.site import FAILS, FLOW, WAITS, Site

LEAVES = """
version: "2.0"
name: leaves
steps:
  - name: Group
    steps:
      - name: Write
        shell: |
          echo first line
          echo needle in the second line
          echo oops >&2
        output_file: sub/report.txt
"""


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    run_id = site.start(FLOW)
    assert site.finish(run_id) == "COMPLETED"
    return run_id


def test_steps_are_listed_by_path_in_pages(site: Site, done: str) -> None:
    page = site.get(f"/runs/{done}/steps?limit=1").json
    assert [(one["stepId"], one["status"], one["attempts"]) for one in page["steps"]] == [
        ("Greet", "SUCCESS", 1)
    ]
    rest = site.get(f"/runs/{done}/steps?limit=1&after={page['next']}").json
    assert (rest["steps"], rest["next"]) == ([], None)


def test_boxes_are_the_picture_of_the_plan_with_the_progress_of_the_run(site: Site, done: str) -> None:
    found = site.get(f"/runs/{done}/boxes").json
    (box,) = [one for one in found["boxes"] if one.get("path") == "Greet"]
    assert box["counts"] == {"SUCCESS": 1}
    assert found["arrows"]


def test_spans_are_the_attempts_in_time(site: Site, done: str) -> None:
    (span,) = site.get(f"/runs/{done}/spans").json["spans"]
    assert (span["stepId"], span["attempt"], span["status"]) == ("Greet", 1, "SUCCESS")
    assert span["startedAt"] <= span["completedAt"]


def test_why_says_what_an_open_run_waits_for(site: Site) -> None:
    run_id = site.start(WAITS)
    queued = site.get(f"/runs/{run_id}/why").json
    assert [one["kind"] for one in queued["waitsFor"]] == ["start"]
    site.finish(run_id, "RUNNING")
    assert "approval" in [one["kind"] for one in site.get(f"/runs/{run_id}/why").json["waitsFor"]]


def test_a_report_comes_as_json_markdown_html_and_as_the_command_line_prints_it(
    site: Site, done: str
) -> None:
    assert site.get(f"/runs/{done}/report").json["status"] == "COMPLETED"
    markdown = site.get(f"/runs/{done}/report?format=md")
    assert markdown.headers["content-type"].startswith("text/markdown")
    assert markdown.body.startswith(b"# flow: completed")
    page = site.get(f"/runs/{done}/report?format=html")
    assert "sandbox" in page.headers["content-security-policy"]
    text = site.get(f"/runs/{done}/report", headers={"accept": "text/plain"})
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.body == markdown.body + b"\n"


def test_two_runs_are_compared(site: Site, done: str) -> None:
    other = site.start(FLOW, inputs={"who": "eve"})
    site.finish(other)
    differences = site.get(f"/runs/{done}/compare/{other}").json["differences"]
    assert differences == [{"subject": "input who", "left": None, "right": "eve"}]
    failed = site.start(FAILS)
    site.finish(failed)
    subjects = {one["subject"] for one in site.get(f"/runs/{done}/compare/{failed}").json["differences"]}
    assert subjects == {"plan", "status", "step Greet", "step Break"}


def test_an_export_can_be_imported_elsewhere(site: Site, done: str) -> None:
    answer = site.get(f"/runs/{done}/export")
    lines = answer.body.splitlines()
    assert answer.headers["content-type"].startswith("application/jsonl")
    assert len(lines) > site.get(f"/runs/{done}").json["runSeq"]
    assert b"podium-run-2" in lines[0]


def test_logs_and_artifacts_of_a_run_are_found_by_its_own_lists(site: Site) -> None:
    run_id = site.start(LEAVES)
    assert site.finish(run_id) == "COMPLETED"
    logs = site.get(f"/runs/{run_id}/logs").json["logs"]
    assert {(one["step"], one["attempt"], one["stream"]) for one in logs} >= {
        ("Group~Write", 1, "out"),
        ("Group~Write", 1, "err"),
    }
    log = site.get(f"/runs/{run_id}/logs/Group%2FWrite/1/out")
    assert log.body == b"first line\nneedle in the second line\n"
    assert (
        site.get(f"/runs/{run_id}/logs/Group%2FWrite/1/out?after=11").body == b"needle in the second line\n"
    )
    assert site.get(f"/runs/{run_id}/logs/Group%2FWrite/1/err").body == b"oops\n"
    (match,) = site.get(f"/runs/{run_id}/logs/search?text=needle").json["matches"]
    assert (match["line"], match["text"]) == (2, "needle in the second line")
    (artifact,) = site.get(f"/runs/{run_id}/artifacts").json["artifacts"]
    assert artifact["name"] == "sub/report.txt"
    content = site.get(f"/runs/{run_id}/artifacts/sub%2Freport.txt")
    assert content.body == b"first line\nneedle in the second line\n"
    assert content.headers["content-disposition"].startswith("attachment")
    assert content.headers["etag"] == f'"{artifact["sha256"]}"'
    assert site.get(f"/runs/{run_id}/logs/Group%2FWrite/2/out").code == "LOG_NOT_FOUND"
    assert site.get(f"/runs/{run_id}/logs/Other/1/out").code == "LOG_NOT_FOUND"
    assert site.get(f"/runs/{run_id}/artifacts/missing").code == "ARTIFACT_NOT_FOUND"
