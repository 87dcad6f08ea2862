"""`podium token`: tokens are made, listed and removed, and shown once."""

import json
import re
from pathlib import Path

import pytest

from podium.cli.app import run
from tests.acceptance.site_with_rules import Site

FORM = re.compile(r"podium_([0-9a-f]{16})_[0-9a-f]{64}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


def test_a_token_is_shown_once_and_kept_as_its_sha256(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", "add", "ci-bot", "--role", "operator", "--role", "author", "--expires", "90d"]) == 0
    text = capfd.readouterr().out.strip()
    found = FORM.fullmatch(text)
    assert found is not None
    assert run(["token", "list"]) == 0
    shown = capfd.readouterr().out
    assert found[1] in shown
    assert "author, operator" in shown
    assert text not in shown
    secret = text.rpartition("_")[2].encode()
    for file in folder.rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes()


def test_a_removed_token_is_not_listed_and_cannot_be_removed_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    run(["token", "add", "ann", "--role", "viewer", "--project", "p", "--json"])
    made = json.loads(capfd.readouterr().out)
    assert (made["name"], made["roles"], made["projects"]) == ("ann", ["viewer"], ["p"])
    assert "sha256" not in made
    assert run(["token", "rm", made["tokenId"], "--tenant", "acme"]) == 64
    assert run(["token", "rm", made["tokenId"]]) == 0
    assert run(["token", "rm", made["tokenId"]]) == 64
    assert "TOKEN_NOT_FOUND: " in capfd.readouterr().err
    assert run(["token", "list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b", "--role", "viewer"], "INVALID_ID: the name of a token 'a b' is not a valid id"),
        (["ann", "--role", "king"], "'king' is not one of"),
        (["ann"], "Missing option '--role'"),
        (["ann", "--role", "viewer", "--expires", "soon"], "--expires 'soon' is not a time"),
        (["ann", "--role", "viewer", "--expires", "2020-01-01"], "TOKEN_INVALID: the token would expire at"),
        (["ann", "--role", "viewer", "--project", "a/b"], "INVALID_ID: project_id"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", "add", *arguments]) == 64
    assert message in capfd.readouterr().err


def test_tokens_that_are_made_and_removed_are_in_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, monkeypatch, capfd)
    assert site.podium("boss", "token", "add", "ci", "--role", "viewer", "--tenant", "acme", "--json") == 0
    token_id = json.loads(site.output)["tokenId"]
    assert site.podium("boss", "token", "rm", token_id, "--tenant", "acme") == 0
    records = [(one["operation"], one["subject"]) for one in site.audit("acme")]
    assert records == [
        ("token.add", f"token {token_id} of ci: viewer"),
        ("token.remove", f"token {token_id}"),
    ]
