"""Plans are published and run by reference, from the command line."""

import json
import shlex
from hashlib import sha256
from pathlib import Path

import pytest

from podium.plan.canonical import canonical_json
from tests.acceptance.podium import Place
from tests.unit.plan_sources.servers import Answer, plan_server

WORKFLOW = """
inputs:
  word: {type: string, default: hello}
steps:
  - {name: Say, command: [echo, "${inputs.word}"], output_file: said.txt}
  - {name: Ask, approval: ok?}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(WORKFLOW)
    (tmp_path / "plans").mkdir()
    configure(place, "file_root: plans")
    return place


def configure(place: Place, *lines: str) -> None:
    config = place.folder / "config.yaml"
    config.write_text("plans:\n" + "".join(f"  {line}\n" for line in lines))
    place.environment["PODIUM_CONFIG"] = str(config)


def root_uri(place: Place) -> str:
    return f"file://{place.folder}/plans"


def published(place: Place, uri: str) -> dict[str, object]:
    ref: dict[str, object] = json.loads(place.run("publish", "w.yaml", "--to", uri, "--json").stdout)
    (place.folder / "ref.json").write_text(json.dumps(ref))
    return ref


def no_run(place: Place) -> bool:
    return not place.runs.exists() or not any(path.is_dir() for path in place.runs.iterdir())


@pytest.mark.rule("G19", "G28")
def test_a_published_plan_is_run_by_its_reference(place: Place) -> None:
    ref = published(place, f"{root_uri(place)}/w.json")
    written = (place.folder / "plans" / "w.json").read_bytes()
    assert place.run("plan", "w.yaml", "--json").stdout.encode() == written
    assert ref["sha256"] == sha256(written).hexdigest()
    (place.folder / "w.yaml").unlink()
    place.run(
        "run", "--plan", "ref.json", "--run-id", place.run_id, "--input", "word=hi", "--no-wait", code=5
    )
    assert place.file("artifacts/said.txt").read_text() == "hi\n"
    assert place.file("plan.json").read_bytes() == written
    assert json.loads(place.file("run.json").read_text())["planRef"] == ref
    # From now on the run does not need the place.
    (place.folder / "plans" / "w.json").unlink()
    assert "step 'Ask' waits for a person" in place.run("why", place.run_id).stdout
    place.run("approve", place.run_id)
    place.run("resume", place.run_id, "-q")
    again = json.loads(
        place.run("rerun", place.run_id, "--from", "Ask", "--no-wait", "--json", code=5).stdout.splitlines()[
            0
        ]
    )
    rerun = place.runs / again["runId"] / "run.json"
    assert json.loads(rerun.read_text())["planRef"] == ref


def test_a_hash_is_enough_for_a_person_and_a_dry_run_runs_nothing(place: Place) -> None:
    shown = place.run("publish", "w.yaml", "--to", f"{root_uri(place)}/").stdout
    assert "published plan test " in shown
    command = shlex.split(shown.strip().splitlines()[-1])
    assert command[:3] == ["podium", "run", "--plan"]
    assert "Dry run: nothing was run." in place.run(*command[1:], "--dry-run").stdout
    assert no_run(place)
    place.run(*command[1:], "--no-wait", "-q", code=5)
    again = place.run("publish", "w.yaml", "--to", f"{root_uri(place)}/").stdout
    assert "is published there already; nothing was changed" in again


@pytest.mark.rule("PR05")
def test_another_plan_is_not_overwritten(place: Place) -> None:
    uri = f"{root_uri(place)}/w.json"
    published(place, uri)
    before = (place.folder / "plans" / "w.json").read_bytes()
    place.write(WORKFLOW.replace("hello", "other"))
    refused = place.run("publish", "w.yaml", "--to", uri, code=64).stderr
    assert refused.startswith("PLAN_EXISTS: another plan was published at ")
    assert (place.folder / "plans" / "w.json").read_bytes() == before


@pytest.mark.rule("PR04", "G19")
def test_a_plan_that_was_changed_is_not_run_and_both_hashes_are_shown(place: Place) -> None:
    ref = published(place, f"{root_uri(place)}/w.json")
    file = place.folder / "plans" / "w.json"
    file.write_bytes(file.read_bytes().replace(b"echo", b"evil"))
    refused = place.run("run", "--plan", "ref.json", code=65).stderr
    assert refused.startswith("PLAN_INTEGRITY_VALIDATION_FAILED")
    assert str(ref["sha256"]) in refused
    assert sha256(file.read_bytes()).hexdigest() in refused
    assert no_run(place)


@pytest.mark.rule("PR04", "G30", "G29")
def test_each_reason_to_refuse_a_plan_has_its_code_and_leaves_no_run(place: Place) -> None:
    published(place, f"{root_uri(place)}/w.json")
    original = json.loads((place.folder / "ref.json").read_text())
    for code, exit_code, fields in (
        ("PLAN_REF_MISMATCH", 65, {"planId": "other"}),
        ("PLAN_REF_MISMATCH", 65, {"planVersion": "9"}),
        ("PLAN_SCHEMA_VERSION_UNKNOWN", 65, {"schemaVersion": "v9.0"}),
        ("PLAN_REF_EXPIRED", 65, {"expiresAt": "2020-01-01T00:00:00.000000Z"}),
        ("INVALID_PLAN_REF", 64, {"sha256": "abc"}),
        ("INVALID_PLAN_REF", 64, {"uri": ""}),
        ("PLAN_URI_NOT_ALLOWED", 77, {"uri": "http://169.254.169.254/latest"}),
        ("PLAN_URI_NOT_ALLOWED", 77, {"uri": "file:///etc/passwd"}),
        ("PLAN_URI_NOT_ALLOWED", 77, {"uri": "http://0x7f000001/w.json"}),
        ("PLAN_NOT_FOUND", 64, {"uri": f"{root_uri(place)}/none.json"}),
    ):
        (place.folder / "ref.json").write_text(json.dumps({**original, **fields}))
        refused = place.run("run", "--plan", "ref.json", code=exit_code).stderr
        assert refused.startswith(f"{code}: "), refused
    assert no_run(place)


@pytest.mark.rule("PR04")
@pytest.mark.parametrize(
    ("old", "new", "code", "exit_code"),
    [
        (b'"kind":"command"', b'"kind":"magic"', "INVALID_STEP_SCHEMA", 65),
        (b'"workflow":{', b'"workflow":{"a":1,', "INVALID_PLAN_SCHEMA", 65),
        (b'"schemaVersion":"v1.2"', b'"schemaVersion":"v1.7"', "PLAN_SCHEMA_VERSION_UNKNOWN", 65),
        (b'["approval"', b'["approval","teleport"', "CAPABILITY_UNKNOWN", 78),
        (b'"planId":"test"', b'"planId":"test","targetAdapter":"temporal"', "CAPABILITY_NOT_SUPPORTED", 78),
    ],
)
def test_a_tampered_plan_with_the_right_hash_is_refused(
    place: Place, old: bytes, new: bytes, code: str, exit_code: int
) -> None:
    published(place, f"{root_uri(place)}/w.json")
    file = place.folder / "plans" / "w.json"
    content = file.read_bytes()
    assert old in content
    content = canonical_json(json.loads(content.replace(old, new, 1)))
    file.write_bytes(content)
    given = f"{root_uri(place)}/w.json#sha256={sha256(content).hexdigest()}"
    refused = place.run("run", "--plan", given, code=exit_code).stderr
    assert refused.startswith(f"{code}: "), refused
    assert no_run(place)


def test_what_is_not_a_reference_is_explained(place: Place) -> None:
    for given in (
        "https://plans.example.com/w.json",
        f"{root_uri(place)}/w.json#sha256=12",
        "https://a#sha256=",
    ):
        refused = place.run("run", "--plan", given, code=64).stderr
        assert refused.startswith("INVALID_PLAN_REF: ")
        assert "URI#sha256=HASH" in refused
    (place.folder / "bad.json").write_bytes(b'{"uri": "\xff"}')
    assert place.run("run", "--plan", "bad.json", code=64).stderr.startswith("INVALID_PLAN_REF: ")
    assert "cannot read" in place.run("run", "--plan", "none.json", code=64).stderr
    assert "Missing argument 'FILE'" in place.run("run", code=64).stderr
    assert "FILE and --plan" in place.run("run", "w.yaml", "--plan", "ref.json", code=64).stderr
    place.write("steps: [{name: A}]", "bad.yaml")
    assert "E" in place.run("publish", "bad.yaml", "--to", f"{root_uri(place)}/b.json", code=65).stderr


@pytest.mark.rule("PR01", "PR02")
def test_on_a_laptop_a_plan_is_published_to_and_run_from_a_server_of_this_machine(place: Place) -> None:
    with plan_server() as server:
        uri = f"http://127.0.0.1:{server.port}/releases/w.json"
        configure(place, f'allow: ["http://127.0.0.1:{server.port}/releases"]')
        refused = place.run("publish", "w.yaml", "--to", uri, code=77).stderr
        assert "PLAN_URI_NOT_ALLOWED" in refused
        assert "plans.allow_loopback: true" in refused
        assert server.asked == []
        configure(place, f'allow: ["http://127.0.0.1:{server.port}/releases"]', "allow_loopback: true")
        published(place, uri)
        place.run("run", "--plan", "ref.json", "--run-id", place.run_id, "--no-wait", "-q", code=5)
        server.answers["/releases/w.json"] = Answer(200, b"{}")
        assert "PLAN_INTEGRITY_VALIDATION_FAILED" in place.run("run", "--plan", "ref.json", code=65).stderr
        server.redirect("/releases/w.json", "/secret/w.json")
        assert "PLAN_URI_NOT_ALLOWED" in place.run("run", "--plan", "ref.json", code=77).stderr
        assert server.asked[-1].path == "/releases/w.json"
    refused = place.run("run", "--plan", "ref.json", code=69).stderr
    assert refused.startswith("PLAN_UNAVAILABLE: ")


def test_a_wrong_setting_is_refused_with_its_place(place: Place) -> None:
    config = place.folder / "config.yaml"
    config.write_text(
        "plans:\n  allow:\n    - https://plans.example.com\n    - ftp://plans.example.com\n    - 7\n  alow: []\n"
        "  file_root: [a]\n  allow_loopback: maybe\n"
    )
    refused = place.run("run", "w.yaml", code=78).stderr
    assert refused.startswith("CONFIG_INVALID: ")
    for line in (
        "config.yaml:4:7: `plans.allow` has 'ftp://plans.example.com': the scheme 'ftp' is never used",
        "config.yaml:5:7: `plans.allow` has the number 7; write a place, like https://",
        "config.yaml:6:3: 'plans.alow' is not a setting. Did you mean 'allow'?",
        "config.yaml:7:3: `plans.file_root` is a list; write the path of a folder",
        "config.yaml:8:3: `plans.allow_loopback` is the text 'maybe'; write true or false",
    ):
        assert line in refused, refused
    config.write_text("plans: yes please\n")
    assert "`plans` is the text" in place.run("run", "w.yaml", code=78).stderr
    config.write_text("plans: {allow: https://plans.example.com}\n")
    assert "write a list of places" in place.run("run", "w.yaml", code=78).stderr
