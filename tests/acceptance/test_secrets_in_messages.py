"""Messages that quote what a step was given: the secret in it is masked, however it is quoted or cut."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.tasks.engine import run

# With characters that Python escapes when it quotes a text.
TOKEN = "tok-é\\en'and\"more"
PIECES = ("tok-", "en'and", "and\\'more", "more")


def messages_of(tmp_path: Path, step: dict[str, Any], **secrets: str) -> str:
    """Everything that the run has written about a step that fails."""
    step = {"name": "A", "secrets": list(secrets), **step}
    ended = run(tmp_path, step, secrets=secrets, context={"ftp": "ftp"})
    assert ended.exit_code == 1
    texts = [(ended.directory / name).read_text() for name in ("state.json", "logs/workflow.jsonl")]
    return "\n".join([ended.error("A")[2], *texts, *(event.payload.decode() for event in ended.events)])


@pytest.mark.rule("D35")
def test_a_secret_in_the_name_of_a_program_that_is_missing_is_masked(tmp_path: Path) -> None:
    told = messages_of(tmp_path, {"command": ["/bin/no-${env.TOKEN}"]}, TOKEN=TOKEN)
    assert "/bin/no-***" in told
    assert [piece for piece in PIECES if piece in told] == []


@pytest.mark.rule("D35")
@pytest.mark.parametrize(
    "url", ["http://[::${env.TOKEN}", "http://127.0.0.1:${env.TOKEN}/", "${context.ftp}://h/${env.TOKEN}"]
)
def test_of_a_secret_in_an_address_that_is_refused_no_piece_is_shown(tmp_path: Path, url: str) -> None:
    told = messages_of(tmp_path, {"http": {"url": url}}, TOKEN="toke/n-pieces:of-it")
    assert [piece for piece in ("toke", "n-pieces", "of-it") if piece in told] == []


@pytest.mark.rule("D35")
@pytest.mark.parametrize("scheme", ["http", "${context.ftp}"])
def test_of_a_secret_where_a_long_address_is_cut_no_piece_is_shown(tmp_path: Path, scheme: str) -> None:
    before = 260 if scheme == "http" else 160
    url = f"{scheme}://127.0.0.1:1/{'x' * before}/${{env.TOKEN}}"
    told = messages_of(tmp_path, {"http": {"url": url}}, TOKEN="a-token-of-forty-characters-that-is-cut-")
    assert "a-token" not in told
